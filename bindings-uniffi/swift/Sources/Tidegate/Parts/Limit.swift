import TidegateNative

extension Bulkhead {
    /// The pairs of a bulkhead of this kind.
    fileprivate func pairs(_ kind: Kind) -> [Pair] {
        var copy = self
        copy.kind = kind
        return Pairs.of(copy.write)
    }

    /// The pairs of a controlled queue: what it controls is its owner's, and any will do.
    fileprivate var queue: [Pair] {
        var copy = Bulkhead(queueTarget: queueTarget, queueInterval: queueInterval, codel: codel)
        (copy.maxConcurrency, copy.maxQueue) = (1, 1)
        return Pairs.of(copy.write)
    }
}

extension Parts {
    /// A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not. A controller and nothing else:
    /// who holds a permit and who waits is yours.
    public final class Aimd: Sendable {
        private let native: TidegateNative.Aimd

        /// - Parameter settings: `maxConcurrency` and `latencyThreshold`, which it needs, `minConcurrency`, `increaseStep`,
        ///   `backoffRatio`, `cooldown`, `latencyQuantile`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead) throws {
            native = try checked { try TidegateNative.Aimd(pairs: settings.pairs(.aimd)) }
        }

        private init(_ native: TidegateNative.Aimd) { self.native = native }

        /// Calls that may be in flight.
        public var limit: Int { Int(native.limit()) }
        /// The limit with the fraction that it keeps inside.
        public var exact: Double { native.exact() }
        /// A call has ended well, after `latency`.
        public func onLatency(_ latency: Duration, now: Duration) { native.onLatency(latency: latency.span, now: now.moment) }
        /// A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach.
        public func onFailure(_ latency: Duration, now: Duration) { native.onFailure(latency: latency.span, now: now.moment) }
        /// Our own timeout has cut a call: a breach, whatever the quantile says.
        public func onTimeout(now: Duration) { native.onTimeout(now: now.moment) }
        /// Is it as if new: at its maximum, with no cut that still cools down, and no estimate?
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Goes on with other settings. A limit at its maximum moves with it; any other stays where it is, within the new range.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: settings.pairs(.aimd)) }
        }
        public func copy() -> Aimd { Aimd(native.copy()) }
    }

    /// A concurrency limit that follows the ratio of long-term to present latency (Netflix concurrency-limits).
    public final class Gradient2: Sendable {
        private let native: TidegateNative.Gradient2

        /// - Parameter settings: `maxConcurrency`, which it needs, `minConcurrency`, `longWindow`, `rttTolerance`, `headroom`, `variant`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead) throws {
            native = try checked { try TidegateNative.Gradient2(pairs: settings.pairs(.gradient2)) }
        }

        private init(_ native: TidegateNative.Gradient2) { self.native = native }

        /// Calls that may be in flight.
        public var limit: Int { Int(native.limit()) }
        /// The limit with the fraction that it keeps inside.
        public var exact: Double { native.exact() }
        /// The long-term latency in microseconds; nil before the first.
        public var baseline: Double? { native.baseline() }
        /// A call has ended well: how long it took, when it started, and how many were in flight then.
        public func onLatency(_ rtt: Duration, started: Duration, inFlight: UInt32, now: Duration) {
            native.onLatency(rtt: rtt.span, started: started.moment, inFlight: inFlight, now: now.moment)
        }
        /// A call was dropped: refused by the server, or cut by a timeout.
        public func onDrop(started: Duration, inFlight: UInt32, now: Duration) {
            native.onDrop(started: started.moment, inFlight: inFlight, now: now.moment)
        }
        /// Is it as if new?
        public var isFresh: Bool { native.isFresh() }
        /// Goes on with other settings.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: settings.pairs(.gradient2)) }
        }
        public func copy() -> Gradient2 { Gradient2(native.copy()) }
    }

    /// Who is put out of a queue that is too slow (CoDel, RFC 8289 or Facebook's form). The queue is yours: ask for each waiter, and say
    /// when nobody waits.
    public final class CoDel: Sendable {
        private let native: TidegateNative.CoDel

        /// - Parameters:
        ///   - settings: `queueTarget`, `queueInterval`, `codel`; all else of a bulkhead is left out.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Bulkhead, now: Duration) throws {
            native = try checked { try TidegateNative.CoDel(pairs: settings.queue, now: now.moment) }
        }

        private init(_ native: TidegateNative.CoDel) { self.native = native }

        /// Nobody waits.
        public func onEmpty(now: Duration) { native.onEmpty(now: now.moment) }
        /// Has the delay been over target for an interval?
        public func congested(now: Duration) -> Bool { native.congested(now: now.moment) }
        /// How long a call may wait now.
        public func allowance(now: Duration) -> Duration { Duration(exact: native.allowance(now: now.moment)) }
        /// Is this waiter put out, which has waited for `sojourn`? `scale` stretches its patience: more for critical calls.
        public func shouldShed(_ sojourn: Duration, scale: Double = 1, now: Duration) -> Bool {
            native.shouldShed(sojourn: sojourn.span, scale: scale, now: now.moment)
        }
        /// Goes on with other settings.
        public func retune(_ settings: Bulkhead) throws {
            try checked { try native.retune(pairs: settings.queue) }
        }
        public func copy() -> CoDel { CoDel(native.copy()) }
    }
}
