import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// What a request says of itself.
public struct RequestOptions: Sendable {
    /// As any call. Its route is the request's origin where it is nil.
    public var call: CallOptions
    /// Makes the body anew for each attempt, for bodies that can be read once only (`httpBodyStream`).
    public var bodyStream: (@Sendable () -> InputStream)?
    /// Do repeats carry `Retry-Attempt: n`?
    public var retryHeader: Bool
    /// Gives a request without one an `Idempotency-Key`, the same for all its attempts, so that it may be repeated.
    public var idempotencyKey: Bool

    public init(
        _ call: CallOptions = CallOptions(), bodyStream: (@Sendable () -> InputStream)? = nil, retryHeader: Bool = true,
        idempotencyKey: Bool = false
    ) {
        self.call = call
        self.bodyStream = bodyStream
        self.retryHeader = retryHeader
        self.idempotencyKey = idempotencyKey
    }
}

/// A request under a policy: what of it can be repeated, and what is sent on each attempt.
struct Plan: Sendable {
    let request: URLRequest
    let options: RequestOptions
    /// A key of our making.
    let key: String?
    let flags: UInt64
    let call: CallOptions

    init(_ request: URLRequest, _ options: RequestOptions, _ policy: Policy) {
        self.request = request
        self.options = options
        let method = request.httpMethod ?? "GET"
        let given = request.value(forHTTPHeaderField: "Idempotency-Key") != nil
        var idempotent = options.call.idempotent ?? (given || policy.retries(method))
        let makes = options.call.idempotent == nil && !idempotent && options.idempotencyKey
        key = makes ? UUID().uuidString : nil
        idempotent = idempotent || makes
        // A stream is read once. Data is sent again as it is, and so is a file.
        let replayable = options.call.replayable && (request.httpBodyStream == nil || options.bodyStream != nil)
        flags = (replayable ? Wire.replayable : 0) | (idempotent ? Wire.idempotent : 0)
        var call = options.call
        call.route = call.route ?? Plan.origin(request.url)
        self.call = call
    }

    /// `https://host:port`, as in every language.
    private static func origin(_ url: URL?) -> String {
        guard let url, let scheme = url.scheme?.lowercased(), let host = url.host else { return "default" }
        return "\(scheme)://\(host):\(url.port ?? (scheme == "https" ? 443 : 80))"
    }

    /// An attempt's request: equal to the first but for the retry header.
    func outgoing(_ attempt: Attempt) -> URLRequest {
        var request = request
        if let key { request.setValue(key, forHTTPHeaderField: "Idempotency-Key") }
        if attempt.number > 1, options.retryHeader {
            request.setValue(String(attempt.number - 1), forHTTPHeaderField: "Retry-Attempt")
        }
        if let bodyStream = options.bodyStream { request.httpBodyStream = bodyStream() }
        return request
    }

    /// The path that may be held, with its query.
    var path: String? {
        guard let url = request.url else { return nil }
        let path = url.path.isEmpty ? "/" : url.path
        return url.query.map { "\(path)?\($0)" } ?? path
    }
}

extension Policy {
    /// May a request of this method be repeated without an idempotency key?
    func retries(_ method: String) -> Bool {
        engine.native.retriesMethod(policy: number, method: method.uppercased())
    }
}
