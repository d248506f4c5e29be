import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Options of a request.
public struct RequestOptions: Sendable {
    /// Options that any call has. If the route is nil, it is the request's origin.
    public var call: CallOptions
    /// Makes the body of each attempt, for bodies that can be read only once (`httpBodyStream`). An upload has its body already, and refuses it.
    public var bodyStream: (@Sendable () -> InputStream)?
    /// Whether repeats carry `Retry-Attempt: n`.
    public var retryHeader: Bool
    /// Whether to give a request without one an `Idempotency-Key`, the same for all its attempts, so that it may be repeated.
    public var idempotencyKey: Bool
    /// Whether the answer is a stream, to which `firstByteTimeout` applies. If nil, it is one if the request accepts `text/event-stream`.
    public var stream: Bool?

    public init(
        _ call: CallOptions = CallOptions(), bodyStream: (@Sendable () -> InputStream)? = nil, retryHeader: Bool = true,
        idempotencyKey: Bool = false, stream: Bool? = nil
    ) {
        self.call = call
        self.bodyStream = bodyStream
        self.retryHeader = retryHeader
        self.idempotencyKey = idempotencyKey
        self.stream = stream
    }
}

extension RequestOptions {
    /// Refuses a second body beside that of an upload.
    ///
    /// - Throws: `PolicyError` that names the option.
    func refuseBody() throws {
        if bodyStream == nil { return }
        throw PolicyError("bodyStream", "(given)", "must be nil: an upload has a file or data as its body. For a stream use data(for:policy:)")
    }
}

/// Plan of a request under a policy: whether it can be repeated, and the request of each attempt.
struct Plan: Sendable {
    let request: URLRequest
    let options: RequestOptions
    /// Generated idempotency key; nil if the request needs none.
    let key: String?
    let flags: UInt64
    let call: CallOptions

    /// What the request says that it is going to use; nil if that is not asked for, or its body cannot be read beforehand.
    let estimate: Estimate?

    /// `body`: the body if it is not the request's own; nil in it if it cannot be read beforehand.
    init(_ request: URLRequest, _ options: RequestOptions, _ policy: Policy, body: Data?? = nil) {
        self.request = request
        self.options = options
        let streamed = request.httpBodyStream != nil || options.bodyStream != nil
        let known = body ?? (streamed ? nil : request.httpBody ?? Data())
        let reads = policy.metering?.weigh != nil || policy.shared.streams.firstByte
        estimate = reads ? Estimate.read(request, known) : nil
        let method = request.httpMethod ?? "GET"
        let given = request.value(forHTTPHeaderField: "Idempotency-Key") != nil
        var idempotent = options.call.idempotent ?? (given || policy.retries(method))
        let makes = options.call.idempotent == nil && !idempotent && options.idempotencyKey
        key = makes ? UUID().uuidString : nil
        idempotent = idempotent || makes
        // A stream can be read once. Data and files are sent again as they are.
        let replayable = options.call.replayable && (body != nil || request.httpBodyStream == nil || options.bodyStream != nil)
        flags = (replayable ? Wire.replayable : 0) | (idempotent ? Wire.idempotent : 0)
        var call = options.call
        call.route = call.route ?? Plan.origin(request.url)
        if call.weights.isEmpty { call.weights = policy.weights(of: estimate) }
        self.call = call
    }

    /// Origin as `https://host:port`, as in every language.
    private static func origin(_ url: URL?) -> String {
        guard let url, let scheme = url.scheme?.lowercased(), let host = url.host else { return "default" }
        return "\(scheme)://\(host):\(url.port ?? (scheme == "https" ? 443 : 80))"
    }

    /// Request of an attempt: the original with a generated key, the retry header of a repeat and a new body stream.
    func outgoing(_ attempt: Attempt) -> URLRequest {
        var request = request
        if let key { request.setValue(key, forHTTPHeaderField: "Idempotency-Key") }
        if attempt.number > 1, options.retryHeader {
            request.setValue(String(attempt.number - 1), forHTTPHeaderField: "Retry-Attempt")
        }
        if let bodyStream = options.bodyStream { request.httpBodyStream = bodyStream() }
        return request
    }

    /// Addition to the note of a failed call whose SDK repeats requests too (semantics 15.8.7); nil if there is none.
    func sdkNote(_ policy: Policy) -> String? {
        let repeats = request.value(forHTTPHeaderField: "x-stainless-retry-count").flatMap { Int($0) } ?? 0
        return repeats > 0 && policy.readsErrors ? "the SDK retries too: set its maxRetries to 0" : nil
    }

    /// Path that may be held, with its query.
    var path: String? {
        guard let url = request.url else { return nil }
        let path = url.path.isEmpty ? "/" : url.path
        return url.query.map { "\(path)?\($0)" } ?? path
    }
}

extension Policy {
    /// Whether a request of this method may be repeated without an idempotency key.
    func retries(_ method: String) -> Bool {
        engine.native.retriesMethod(policy: number, method: method.uppercased())
    }
}
