import TidegateNative

extension Budget {
    /// The pairs of a budget of this kind.
    fileprivate func pairs(_ kind: Kind) -> [Pair] {
        var copy = self
        copy.kind = kind
        return Pairs.of(copy.write)
    }
}

extension Parts {
    /// The default budget of a policy: each call that ends with an answer earns a part of a retry.
    ///
    /// Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start`. It bounds attempts ≤ (1 + ratio)·calls + start.
    public final class EarnedBudget: Sendable {
        private let native: TidegateNative.EarnedBudget

        /// - Parameter settings: `ratio`, `start`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.EarnedBudget(pairs: settings.pairs(.earned)) }
        }

        private init(_ native: TidegateNative.EarnedBudget) { self.native = native }

        /// Counts one call, which has started, however many attempts it makes.
        public func onCall(now: Duration) { native.onCall(now: now.moment) }
        /// A call has ended with an answer, good or permanent; at most once per call.
        public func onAnswer(now: Duration) { native.onAnswer(now: now.moment) }
        /// Takes one retry, if there is one to take.
        public func tryWithdraw(now: Duration) -> Bool { native.tryWithdraw(now: now.moment) }
        /// Gives back a retry that was withdrawn and never started.
        public func refund(now: Duration) { native.refund(now: now.moment) }
        /// Whole retries that could be taken now.
        public func balance(now: Duration) -> UInt64 { native.balance(now: now.moment) }
        public func copy() -> EarnedBudget { EarnedBudget(native.copy()) }
    }

    /// A budget over a sliding window: a share of recent calls, plus a floor (Finagle's RetryBudget).
    ///
    /// Every call deposits, every retry withdraws. Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant.
    public final class RetryBudget: Sendable {
        private let native: TidegateNative.RetryBudget

        /// - Parameter settings: `ttl`, `minRetriesPerSec`, `percentCanRetry`, `rounding`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.RetryBudget(pairs: settings.pairs(.window)) }
        }

        private init(_ native: TidegateNative.RetryBudget) { self.native = native }

        /// Counts one call, however many attempts it makes.
        public func deposit(now: Duration) { native.deposit(now: now.moment) }
        /// Takes one retry, if there is one to take.
        public func tryWithdraw(now: Duration) -> Bool { native.tryWithdraw(now: now.moment) }
        /// Gives back a retry withdrawn at the moment `withdrawn` that was never started.
        public func refund(withdrawn: Duration, now: Duration) { native.refund(charged: withdrawn.moment, now: now.moment) }
        /// Retries that could be taken now.
        public func balance(now: Duration) -> UInt64 { native.balance(now: now.moment) }
        public func copy() -> RetryBudget { RetryBudget(native.copy()) }
    }

    /// Each call earns a part of a retry, up to max(1, minThroughput·ratio); no clock.
    public final class RatioBudget: Sendable {
        private let native: TidegateNative.RatioBudget

        /// - Parameter settings: `ratio`, which it needs, and `minThroughput`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget) throws {
            native = try checked { try TidegateNative.RatioBudget(pairs: settings.pairs(.ratio)) }
        }

        private init(_ native: TidegateNative.RatioBudget) { self.native = native }

        /// Counts one call, however many attempts it makes.
        public func onCall() { native.onCall() }
        /// Takes one retry, if it is free or there is one to take.
        public func tryWithdraw() -> Bool { native.tryWithdraw() }
        /// Gives back a retry that was paid for and never started; not one that was free.
        public func refund() { native.refund() }
        /// Would a retry be free now, because there have been few calls?
        public var isFree: Bool { native.isFree() }
        /// Whole retries that could be taken now.
        public var balance: UInt64 { native.balance() }
        public func copy() -> RatioBudget { RatioBudget(native.copy()) }
    }

    /// Retries in flight ≤ max(minRetries, share·calls in flight); no clock (Envoy's `retry_budget`). One that waits in its backoff is in
    /// flight.
    public final class ShareBudget: Sendable {
        private let native: TidegateNative.ShareBudget

        /// - Parameter settings: `share`, `minRetries`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.ShareBudget(pairs: settings.pairs(.share)) }
        }

        private init(_ native: TidegateNative.ShareBudget) { self.native = native }

        /// Takes one retry, while `calls` are in flight.
        public func tryAcquire(calls: UInt32) -> Bool { native.tryAcquire(calls: calls) }
        /// A retry that was taken has ended, or will not start.
        public func onEnd() { native.onEnd() }
        /// Retries that could be taken now, while `calls` are in flight.
        public func balance(calls: UInt32) -> UInt64 { native.balance(calls: calls) }
        /// Retries in flight.
        public var inFlight: Int { Int(native.inFlight()) }
        public func copy() -> ShareBudget { ShareBudget(native.copy()) }
    }

    /// Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
    public final class TokenBudget: Sendable {
        private let native: TidegateNative.TokenBudget

        /// - Parameter settings: `max` and `ratio`, both of which it needs.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget) throws {
            native = try checked { try TidegateNative.TokenBudget(pairs: settings.pairs(.tokens)) }
        }

        private init(_ native: TidegateNative.TokenBudget) { self.native = native }

        /// A retryable failure, first attempts included.
        public func onFailure() { native.onFailure() }
        /// A success.
        public func onSuccess() { native.onSuccess() }
        /// May there be a retry now?
        public var allows: Bool { native.allows() }
        /// Failures until retries are refused.
        public var balance: UInt64 { native.balance() }
        public func copy() -> TokenBudget { TokenBudget(native.copy()) }
    }

    /// Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
    public final class RetryQuota: Sendable {
        let native: TidegateNative.RetryQuota

        /// - Parameter settings: `capacity`, `cost`, `timeoutCost`, `throttledCost`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Budget = Budget()) throws {
            native = try checked { try TidegateNative.RetryQuota(pairs: settings.pairs(.quota)) }
        }

        private init(_ native: TidegateNative.RetryQuota) { self.native = native }

        /// What a retry is paid for after.
        public enum Failure: String, Sendable, Hashable, CaseIterable {
            case transient, timeout, throttled
        }

        /// Pays for a retry after a failure of this kind: the cost, or nil where there is not enough.
        public func tryAcquire(_ failure: Failure = .transient) -> UInt16? {
            // Core knows all of these.
            (try? native.tryAcquire(kind: failure.rawValue)) ?? nil
        }

        /// A call has succeeded, whose last retry cost `cost`: 0 if there was none.
        public func onSuccess(cost: UInt16 = 0) { native.onSuccess(cost: cost) }
        /// Gives a charge back, of a retry that was never started.
        public func refund(_ cost: UInt16) { native.refund(cost: cost) }
        /// Tokens left.
        public var available: Int { Int(native.available()) }
        public func copy() -> RetryQuota { RetryQuota(native.copy()) }
    }
}
