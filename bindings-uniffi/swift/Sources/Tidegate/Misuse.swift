import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

extension URLSession {
    /// Error for a session that cannot work under a policy; nil if it can.
    func refusal(_ policy: Policy) -> PolicyError? {
        #if canImport(FoundationNetworking)
        nil // There are no background sessions on Linux.
        #else
        configuration.identifier.map(Self.refusal(ofBackground:))
        #endif
    }

    static func refusal(ofBackground identifier: String) -> PolicyError {
        PolicyError(
            "session", "background(withIdentifier: \"\(identifier)\")",
            "must not be a background session: it transfers outside of this process and when the system decides, so a policy can neither "
                + "stop nor repeat its attempts. Use URLSession(configuration: .default), or the background session without a policy")
    }

    /// Not available: a task with a completion handler ends after the policy's attempt.
    @available(*, unavailable, message: "use try await data(for:policy:), in a Task { } if the caller is not async")
    public func dataTask(
        with request: URLRequest, policy: Policy, completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionDataTask {
        fatalError("unavailable")
    }

    /// Not available: a task with a completion handler ends after the policy's attempt.
    @available(*, unavailable, message: "use try await upload(for:from:policy:), in a Task { } if the caller is not async")
    public func uploadTask(
        with request: URLRequest, from body: Data?, policy: Policy,
        completionHandler: @escaping @Sendable (Data?, URLResponse?, (any Error)?) -> Void
    ) -> URLSessionUploadTask {
        fatalError("unavailable")
    }
}
