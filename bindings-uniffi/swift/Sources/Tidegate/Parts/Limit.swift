// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

internal import TidegateNative

extension Parts {
    /// A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
    ///
    /// Additive increase, multiplicative decrease, as TCP does it: several of them on one server share it evenly without knowing each
    /// other. It computes the limit only: report how calls ended, and read the limit. Your code keeps the permits and the queue
    /// (`docs/spec.md`, 4.2).
    public final class Aimd: Sendable {
        let native: TidegateNative.Aimd

        /// - Parameter settings: `maxConcurrency`, `latencyThreshold`, `minConcurrency`, `increaseStep`, `backoffRatio`, `cutInterval`,
        ///   `latencyQuantile`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead) throws {
            native = try checked { try TidegateNative.Aimd(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Bulkhead) -> [Pair] {
            var settings = settings
            settings.kind = .aimd
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.Aimd) { self.native = native }

        /// Calls that may be in flight.
        public var limit: Int { Int(native.limit()) }
        /// The limit with the fraction that it keeps inside.
        public var exact: Double { native.exact() }
        /// A call has ended well, after `latency`: 0 or more.
        public func onLatency(_ latency: Duration, now: Duration) { native.onLatency(latency: latency.span, now: now.moment) }
        /// A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
        public func onFailure(_ latency: Duration, now: Duration) { native.onFailure(latency: latency.span, now: now.moment) }
        /// A call was stopped by its timeout, which is a breach whatever the quantile is.
        public func onTimeout(now: Duration) { native.onTimeout(now: now.moment) }
        /// Whether it is as new: at its maximum, with no recent cut and no estimate.
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Applies new settings, with the same keys as before.
        ///
        /// A limit at its maximum moves with it; any other stays where it is, within the new range.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: Self.pairs(settings)) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> Aimd { Aimd(native.copy()) }
    }

    /// A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
    ///
    /// It compares the latest latencies with their long-term average, so it needs no threshold (Netflix `concurrency-limits`; `steady` is
    /// what this project made of it, `docs/adr/0007`).
    public final class Gradient2: Sendable {
        let native: TidegateNative.Gradient2

        /// - Parameter settings: `maxConcurrency`, `minConcurrency`, `longWindow`, `rttTolerance`, `headroom`, `variant`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead) throws {
            native = try checked { try TidegateNative.Gradient2(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: Bulkhead) -> [Pair] {
            var settings = settings
            settings.kind = .gradient2
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.Gradient2) { self.native = native }

        /// Calls that may be in flight.
        public var limit: Int { Int(native.limit()) }
        /// The limit with the fraction that it keeps inside.
        public var exact: Double { native.exact() }
        /// The long-term latency in seconds; nil before the first sample.
        public var baseline: Double? { native.baseline() }
        /// A call has ended well.
        /// - Parameter rtt: How long it took; 0 or more.
        /// - Parameter started: When it started, on the clock of `now`.
        /// - Parameter inFlight: Calls in flight when it ended, itself included; 0 to 2^32 − 1.
        public func onLatency(_ rtt: Duration, started: Duration, inFlight: UInt32, now: Duration) {
            native.onLatency(rtt: rtt.span, started: started.moment, inFlight: inFlight, now: now.moment)
        }
        /// A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
        /// - Parameter started: When it started, on the clock of `now`.
        /// - Parameter inFlight: Calls in flight when it ended, itself included; 0 to 2^32 − 1.
        public func onDrop(started: Duration, inFlight: UInt32, now: Duration) {
            native.onDrop(started: started.moment, inFlight: inFlight, now: now.moment)
        }
        /// Whether it is as new: before its first sample or drop.
        public var isFresh: Bool { native.isFresh() }
        /// Applies new settings, with the same keys as before, and keeps the estimates.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: Self.pairs(settings)) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> Gradient2 { Gradient2(native.copy()) }
    }

    /// Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
    ///
    /// It bounds a queue by the time that waiters spend in it, not by its length alone. It does not hold the queue: ask it for each waiter
    /// that is taken out, and report when the queue is empty.
    public final class CoDel: Sendable {
        let native: TidegateNative.CoDel

        /// - Parameter settings: `queueTarget`, `queueInterval`, `codel`.
        /// - Parameter now: The present, on your clock: the queue is empty.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead, now: Duration) throws {
            native = try checked { try TidegateNative.CoDel(pairs: Self.pairs(settings), now: now.moment) }
        }

        private static func pairs(_ settings: Bulkhead) -> [Pair] {
            var settings = settings
            settings.maxConcurrency = 1
            settings.maxQueue = 1
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.CoDel) { self.native = native }

        /// The queue is empty: before a waiter comes, or after the last one has left.
        public func onEmpty(now: Duration) { native.onEmpty(now: now.moment) }
        /// Whether to shed this waiter. Ask once for each waiter that is taken out.
        /// - Parameter sojourn: How long it has waited; 0 or more.
        /// - Parameter scale: Factor by which its importance extends the allowed wait; 0.01 to 100. A policy has 0.25 for `best_effort`,
        ///   0.5 for `degraded`, 1 for `normal` and 2 for `critical`.
        public func shouldShed(_ sojourn: Duration, scale: Double = 1, now: Duration) -> Bool {
            native.shouldShed(sojourn: sojourn.span, now: now.moment, scale: scale)
        }
        /// Whether the queue has not been empty for a whole interval; then serve the newest waiter first.
        public func congested(now: Duration) -> Bool { native.congested(now: now.moment) }
        /// The time that a waiter of scale 1 may have waited, under the law of `facebook`.
        public func allowance(now: Duration) -> Duration { Duration(exact: native.allowance(now: now.moment)) }
        /// Applies new settings, with the same keys as before. A change of the law resets the state.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: Self.pairs(settings)) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> CoDel { CoDel(native.copy()) }
    }
}
