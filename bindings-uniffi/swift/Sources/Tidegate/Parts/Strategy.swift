import Foundation
internal import TidegateNative

extension Parts {
    /// What an error says about itself.
    public struct ErrorInfo: Sendable, Hashable {
        /// May it be retried? Nil where the error does not say.
        public var isRetrySafe: Bool?
        /// The wait that the server asked for.
        public var retryAfter: Duration?
        /// Did the server ask for less load?
        public var isThrottlingError: Bool
        /// Did our own timeout end it?
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

    /// There is no further attempt.
    public struct RetryError: LocalizedError, CustomStringConvertible, Sendable, Hashable {
        /// `attempts` (used up), `quota` (spent), or `not_safe` (or not known to be).
        public let reason: String
        /// With `quota`, the wait that there would have been.
        public let retryDelay: Duration?
        public var description: String { "no further attempt: \(reason)" }
        public var errorDescription: String? { description }
    }

    /// What a strategy hands out for an attempt.
    public struct RetryToken: Sendable {
        let native: TidegateNative.RetryToken
        /// Retries so far: 0 for the first attempt.
        public var retryCount: Int { Int(native.retryCount()) }
        /// The wait before the attempt, which is the caller's to sit out.
        public var retryDelay: Duration { Duration(exact: native.retryDelay()) }
    }

    /// Retry tokens: the standard retry interface of the Smithy SDKs. The strategy keeps the quota of each scope.
    public final class RetryStrategy: Sendable {
        private let native: TidegateNative.RetryStrategy

        /// - Parameters:
        ///   - maxAttempts: Attempts in all, the first one counts; nil is core's default.
        ///   - quota: The quota that every scope gets one like; nil for none.
        ///   - retryUnknown: Is an error that does not say whether it is safe taken as safe?
        /// - Throws: `PolicyError` with every mistake there is.
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

        /// The same with core's default quota.
        public convenience init(
            maxAttempts: Int? = nil, backoff: Backoff? = nil, retryUnknown: Bool = false, seed: UInt64? = nil
        ) throws {
            try self.init(
                maxAttempts: maxAttempts, backoff: backoff, quota: RetryQuota(), retryUnknown: retryUnknown, seed: seed)
        }

        private init(_ native: TidegateNative.RetryStrategy) { self.native = native }

        /// The token of a call's first attempt: no retry yet, no wait.
        public func acquireInitialToken(scope: String = "") -> RetryToken { RetryToken(native: native.acquire(scope: scope)) }

        /// The token of the next attempt, after one that failed.
        ///
        /// - Throws: `RetryError` if attempts, quota or safety forbid one.
        public func refresh(_ token: RetryToken, _ error: ErrorInfo) throws -> RetryToken {
            let refreshed = native.refresh(
                token: token.native, safe: error.isRetrySafe, retryAfter: error.retryAfter?.span,
                throttling: error.isThrottlingError, timeout: error.isTimeoutError)
            switch refreshed {
            case .next(let token): return RetryToken(native: token)
            case .refused(let why, let us): throw RetryError(reason: why, retryDelay: us.map { Duration(exact: $0) })
            }
        }

        /// A call has succeeded with this token: the cost of its last retry goes back to its scope.
        public func recordSuccess(_ token: RetryToken) { native.recordSuccess(token: token.native) }
        /// Tokens left in a scope's quota; nil without quotas.
        public func available(scope: String = "") -> Int? { native.available(scope: scope).map(Int.init) }
        public func copy() -> RetryStrategy { RetryStrategy(native.copy()) }
    }
}
