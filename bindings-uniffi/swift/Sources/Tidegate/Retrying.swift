/// What `onRetry` learns: an attempt has failed, and another one will follow.
public struct Retrying: Sendable {
    /// Error of the attempt; nil if it returned a value.
    public let error: (any Error)?
    /// Value that was judged a failure, such as a response with status 503; nil if the attempt threw.
    public let value: (any Sendable)?
    /// Number of the failed attempt, from 1.
    public let attempt: Int
    /// Wait before the next attempt.
    public let wait: Duration
    /// Class of the failure, or the name of a kind that the policy declares.
    public let reason: Kind
    /// Name of the policy.
    public let policy: String
    /// Key of the route.
    public let route: String
    /// Number of the call, as in events and for `Engine.explain`.
    public let call: UInt64
}

/// Receives each failed attempt that is followed by another one, as the wait begins. It runs in the caller's task, with its task-local values,
/// so a slow one delays the next attempt. What it throws is ignored, and reported once.
public typealias OnRetry = @Sendable (Retrying) throws -> Void

extension Policy {
    /// Runs the callbacks of a retry. None of them can break the call.
    func notify(_ callbacks: [OnRetry], _ retrying: Retrying) {
        for callback in callbacks {
            do { try callback(retrying) } catch {
                guard failed.withLock({ failed in
                    defer { failed = true }
                    return !failed
                }) else { continue }
                Warnings.write("onRetry of policy \"\(name)\" threw \(type(of: error)), which changes nothing and is reported once")
            }
        }
    }
}
