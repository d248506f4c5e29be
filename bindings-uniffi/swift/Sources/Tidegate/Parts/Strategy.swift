// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

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

        public init(isRetrySafe: Bool? = nil, retryAfter: Duration? = nil, isThrottlingError: Bool = false, isTimeoutError: Bool = false) {
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

    private static func granted(_ token: TidegateNative.RetryToken) throws -> RetryToken {
        switch token.refused() {
        case 0: return RetryToken(token)
        case 1: throw RetryError(reason: "attempts", retryDelay: nil)
        case 2: throw RetryError(reason: "not_safe", retryDelay: nil)
        default: throw RetryError(reason: "quota", retryDelay: Duration(exact: token.retryDelay()))
        }
    }

    /// A strategy's permission for an attempt.
    ///
    /// It has the state of its call, so that the strategy keeps nothing of a call.
    public final class RetryToken: Sendable {
        let native: TidegateNative.RetryToken

        fileprivate init(_ native: TidegateNative.RetryToken) { self.native = native }

        /// Retries so far: 0 for the first attempt.
        public var retryCount: Int { Int(native.retryCount()) }
        /// The time to wait before the attempt. The caller waits.
        public var retryDelay: Duration { Duration(exact: native.retryDelay()) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> RetryToken { RetryToken(native.copy()) }
    }

    /// Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
    ///
    /// It keeps the quota of each scope, and never waits: the caller waits before the attempt.
    public final class RetryStrategy: Sendable {
        let native: TidegateNative.RetryStrategy

        /// - Parameter settings: `maxAttempts`, all of which have defaults.
        /// - Parameter backoff: The delay before each retry; `Backoff()` by default.
        /// - Parameter quota: The quota of which every scope gets a copy; `RetryQuota()` by default, and there may be none.
        /// - Parameter retryUnknown: Whether an error is retried that does not say if that is safe; no by default.
        /// - Parameter seed: Seed of all random draws, 64 bits; by default from the operating system.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Retry = Retry(), backoff: Backoff? = nil, quota: RetryQuota? = try? RetryQuota(), retryUnknown: Bool =
            false, seed: UInt64? = nil) throws {
            native = try checked { try TidegateNative.RetryStrategy(pairs: Self.pairs(settings), backoff: (backoff ?? Backoff()).native,
                quota: quota?.native, retryUnknown: retryUnknown, seed: drawn(seed)) }
        }

        private static func pairs(_ settings: Retry) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.RetryStrategy) { self.native = native }

        /// The token of a call's first attempt, without a wait. Each scope has a quota of its own.
        public func acquireInitialRetryToken(scope: String = "") -> RetryToken { RetryToken(native.acquireInitialRetryToken(scope: scope)) }
        /// The token of the next attempt, in exchange for that of the failed one.
        ///
        /// A `RetryError` says that attempts, quota or safety forbid a further attempt.
        ///
        /// - Throws: `PolicyError` if the error's wait is not a span of 0 or more.
        public func refreshRetryTokenForRetry(_ token: RetryToken, _ error: ErrorInfo) throws -> RetryToken {
            try Parts.granted(native.refreshRetryTokenForRetry(token: token.native, error: error.isRetrySafe, after: error.retryAfter?.span,
                throttling: error.isThrottlingError, timeout: error.isTimeoutError))
        }
        /// A call has succeeded with this token: its scope gets the cost of the last retry back.
        public func recordSuccess(_ token: RetryToken) { native.recordSuccess(token: token.native) }
        /// Tokens left in a scope's quota; nil without quotas.
        public func available(scope: String = "") -> Int? { native.available(scope: scope).map(Int.init) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> RetryStrategy { RetryStrategy(native.copy()) }
    }
}
