import Foundation
internal import TidegateNative

extension Parts {
    /// Known facts about a failure.
    public struct ErrorInfo: Sendable, Hashable {
        /// Whether the call may be repeated; nil if the error does not say.
        public var isRetrySafe: Bool?
        /// Wait that the server asked for.
        public var retryAfter: Duration?
        /// Whether the server asked for less load.
        public var isThrottlingError: Bool
        /// Whether the caller's own timeout ended the attempt.
        public var isTimeoutError: Bool

        public init(
            isRetrySafe: Bool? = nil, retryAfter: Duration? = nil, isThrottlingError: Bool = false, isTimeoutError: Bool = false
        ) {
            self.isRetrySafe = isRetrySafe
            self.retryAfter = retryAfter
            self.isThrottlingError = isThrottlingError
            self.isTimeoutError = isTimeoutError
        }
    }

    /// The strategy does not allow a further attempt.
    public struct RetryError: LocalizedError, CustomStringConvertible, Sendable, Hashable {
        /// `attempts` (used up), `quota` (spent), or `not_safe` (or not known to be).
        public let reason: String
        /// With `quota`, the wait before the attempt that was not allowed.
        public let retryDelay: Duration?
        public var description: String { "no further attempt: \(reason)" }
        public var errorDescription: String? { description }
    }

    /// Token that a strategy issues for an attempt.
    public struct RetryToken: Sendable {
        let native: TidegateNative.RetryToken
        /// Retries so far: 0 for the first attempt.
        public var retryCount: Int { Int(native.retryCount()) }
        /// Wait before the attempt; the caller waits.
        public var retryDelay: Duration { Duration(exact: native.retryDelay()) }
    }

    /// Retry tokens: the standard retry interface of the Smithy SDKs. The strategy keeps the quota of each scope.
    public final class RetryStrategy: Sendable {
        private let native: TidegateNative.RetryStrategy

        /// - Parameters:
        ///   - maxAttempts: Number of attempts, including the first; nil for core's default.
        ///   - quota: Quota of which every scope gets one; nil for none.
        ///   - retryUnknown: Whether an error counts as safe that does not say whether it is.
        /// - Throws: `PolicyError` with all mistakes.
        public init(
            maxAttempts: Int? = nil, backoff: Backoff? = nil, quota: RetryQuota?, retryUnknown: Bool = false,
            seed: UInt64? = nil
        ) throws {
            let backoff = try backoff ?? Backoff()
            native = try checked {
                try TidegateNative.RetryStrategy(
                    pairs: Pairs.of(Retry(maxAttempts: maxAttempts).write), seed: drawn(seed), backoff: backoff.native,
                    quota: quota?.native, retryUnknown: retryUnknown)
            }
        }

        /// Makes a strategy with core's default quota.
        public convenience init(
            maxAttempts: Int? = nil, backoff: Backoff? = nil, retryUnknown: Bool = false, seed: UInt64? = nil
        ) throws {
            try self.init(
                maxAttempts: maxAttempts, backoff: backoff, quota: RetryQuota(), retryUnknown: retryUnknown, seed: seed)
        }

        private init(_ native: TidegateNative.RetryStrategy) { self.native = native }

        /// Token of a call's first attempt: no retry yet, no wait.
        public func acquireInitialToken(scope: String = "") -> RetryToken { RetryToken(native: native.acquire(scope: scope)) }

        /// Token of the next attempt, after a failed one.
        ///
        /// - Throws: `RetryError` if attempts, quota or safety forbid a further attempt.
        public func refresh(_ token: RetryToken, _ error: ErrorInfo) throws -> RetryToken {
            let refreshed = native.refresh(
                token: token.native, safe: error.isRetrySafe, retryAfter: error.retryAfter?.span,
                throttling: error.isThrottlingError, timeout: error.isTimeoutError)
            switch refreshed {
            case .next(let token): return RetryToken(native: token)
            case .refused(let why, let us): throw RetryError(reason: why, retryDelay: us.map { Duration(exact: $0) })
            }
        }

        /// Records that a call has succeeded with this token. The cost of its last retry is refunded to its scope.
        public func recordSuccess(_ token: RetryToken) { native.recordSuccess(token: token.native) }
        /// Tokens left in a scope's quota; nil without quotas.
        public func available(scope: String = "") -> Int? { native.available(scope: scope).map(Int.init) }
        public func copy() -> RetryStrategy { RetryStrategy(native.copy()) }
    }
}
