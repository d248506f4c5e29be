// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

internal import TidegateNative

extension Parts {
    /// The default budget of a policy: each call that ends with an answer earns a part of a retry.
    ///
    /// Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start` (`docs/spec.md`, 2.20). It bounds attempts ≤ (1
    /// + ratio)·calls + start: there is no floor per second, so a server that is down is asked less and less.
    public final class EarnedBudget: Sendable {
        let native: TidegateNative.EarnedBudget

        /// - Parameter settings: `ratio`, `start`, all of which have defaults.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.EarnedBudget(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .earned
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.EarnedBudget) { self.native = native }

        /// Counts one call, which has started, however many attempts it makes.
        public func onCall(now: Duration) { native.onCall(now: now.moment) }
        /// Reports an answer: a success or a permanent error. At most once per call.
        public func onAnswer(now: Duration) { native.onAnswer(now: now.moment) }
        /// Takes one retry, if one is available.
        public func tryWithdraw(now: Duration) -> Bool { native.tryWithdraw(now: now.moment) }
        /// Refunds a retry that was withdrawn and never started.
        public func refund(now: Duration) { native.refund(now: now.moment) }
        /// Whole retries that could be taken now.
        public func balance(now: Duration) -> UInt64 { native.balance(now: now.moment) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> EarnedBudget { EarnedBudget(native.copy()) }
    }

    /// A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
    ///
    /// Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percentCanRetry) + floor(minRetriesPerSec·ttl).
    /// Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It bounds attempts ≤ (1 + percent)·calls +
    /// minRetriesPerSec·(seconds + 1.1·ttl) (`docs/spec.md`, 2.10).
    public final class RetryBudget: Sendable {
        let native: TidegateNative.RetryBudget

        /// - Parameter settings: `ttl`, `minRetriesPerSec`, `percentCanRetry`, `rounding`, all of which have defaults.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.RetryBudget(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .window
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.RetryBudget) { self.native = native }

        /// Counts one call, however many attempts it makes.
        public func deposit(now: Duration) { native.deposit(now: now.moment) }
        /// Takes one retry, if one is available.
        public func tryWithdraw(now: Duration) -> Bool { native.tryWithdraw(now: now.moment) }
        /// Refunds a retry withdrawn at the moment `withdrawn` that was never started.
        public func refund(withdrawn: Duration, now: Duration) { native.refund(withdrawn: withdrawn.moment, now: now.moment) }
        /// Retries that could be taken now.
        public func balance(now: Duration) -> UInt64 { native.balance(now: now.moment) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> RetryBudget { RetryBudget(native.copy()) }
    }

    /// Each call earns a part of a retry, up to max(1, `minThroughput`·`ratio`); no clock.
    ///
    /// In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 + ratio)·calls +
    /// minThroughput·(maxAttempts − 1) (`docs/spec.md`, 2.11).
    public final class RatioBudget: Sendable {
        let native: TidegateNative.RatioBudget

        /// - Parameter settings: `ratio`, `minThroughput`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget) throws {
            native = try checked { try TidegateNative.RatioBudget(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .ratio
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.RatioBudget) { self.native = native }

        /// Counts one call, however many attempts it makes.
        public func onCall() { native.onCall() }
        /// Takes one retry, if it is free or one is available.
        public func tryWithdraw() -> Bool { native.tryWithdraw() }
        /// Refunds a retry that was paid for and never started; not one that was free.
        public func refund() { native.refund() }
        /// Whether a retry would be free now, because there have been few calls.
        public var isFree: Bool { native.isFree() }
        /// Whole retries that could be taken now.
        public var balance: UInt64 { native.balance() }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> RatioBudget { RatioBudget(native.copy()) }
    }

    /// Retries in flight ≤ max(`minRetries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
    ///
    /// A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass (`docs/spec.md`, 2.12).
    public final class ShareBudget: Sendable {
        let native: TidegateNative.ShareBudget

        /// - Parameter settings: `share`, `minRetries`, all of which have defaults.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.ShareBudget(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .share
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.ShareBudget) { self.native = native }

        /// Takes one retry, while `calls` are in flight (0 to 2^32 − 1).
        public func tryAcquire(calls: UInt32) -> Bool { native.tryAcquire(calls: calls) }
        /// A retry that was taken has ended, or will not start.
        public func onEnd() { native.onEnd() }
        /// Retries that could be taken now, while `calls` are in flight.
        public func balance(calls: UInt32) -> UInt64 { native.balance(calls: calls) }
        /// Retries in flight.
        public var inFlight: Int { Int(native.inFlight()) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> ShareBudget { ShareBudget(native.copy()) }
    }

    /// Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
    ///
    /// Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).
    public final class TokenBudget: Sendable {
        let native: TidegateNative.TokenBudget

        /// - Parameter settings: `max`, `ratio`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget) throws {
            native = try checked { try TidegateNative.TokenBudget(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .tokens
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.TokenBudget) { self.native = native }

        /// A retryable failure, first attempts included.
        public func onFailure() { native.onFailure() }
        /// A success.
        public func onSuccess() { native.onSuccess() }
        /// Whether a retry is allowed now.
        public var allows: Bool { native.allows() }
        /// Failures until retries are refused.
        public var balance: UInt64 { native.balance() }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> TokenBudget { TokenBudget(native.copy()) }
    }

    /// Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
    ///
    /// Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1 (`docs/spec.md`, 2.14).
    public final class RetryQuota: Sendable {
        let native: TidegateNative.RetryQuota

        /// - Parameter settings: `capacity`, `cost`, `timeoutCost`, `throttledCost`, all of which have defaults.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.RetryQuota(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Budget) -> [Pair] {
            var settings = settings
            settings.kind = .quota
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.RetryQuota) { self.native = native }

        /// Pays for a retry after a failure of this kind: the cost, or nil if the tokens are too few.
        public func tryAcquire(_ kind: Failure = .transient) -> UInt16? { (try? native.tryAcquire(kind: kind.rawValue)) ?? nil }
        /// Reports a success of a call whose last retry cost `cost`: 0 if it had none.
        public func onSuccess(cost: UInt16 = 0) { native.onSuccess(cost: cost) }
        /// Refunds the charge of a retry that was never started; 0 to 65,535.
        public func refund(_ cost: UInt16) { native.refund(cost: cost) }
        /// Tokens left.
        public var available: Int { Int(native.available()) }
        /// What a retry is paid for after.
        public enum Failure: String, Sendable, Hashable, CaseIterable {
            case transient, timeout, throttled
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> RetryQuota { RetryQuota(native.copy()) }
    }
}
