// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

internal import TidegateNative

extension Parts {
    /// Proof of an admission, to be handed back with what came of it, once.
    public struct Ticket: Sendable, Hashable {
        /// The generation while closed; the probe while half-open.
        public let number: UInt16
        /// Was it admitted as a probe?
        public let isProbe: Bool

        public init(number: UInt16, isProbe: Bool) {
            (self.number, self.isProbe) = (number, isProbe)
        }

        fileprivate var native: TidegateNative.Ticket { TidegateNative.Ticket(number: number, probe: isProbe) }
    }

    /// Refuses calls to a downstream that fails too often, and lets a few through after a break.
    ///
    /// It opens when failures ≥ `failureRatio`·results with at least `minThroughput` results in the window, or after `consecutive`
    /// failures. Probes are leases: one that never reports loses its place, so that no lost call keeps a breaker half-open. A result that
    /// comes too late changes nothing (`docs/spec.md`, 5).
    public final class CircuitBreaker: Sendable {
        let native: TidegateNative.CircuitBreaker

        /// - Parameter settings: `breakDuration`, `failureRatio`, `window`, `minThroughput`, `windowKind`, `consecutive`, `breakFactor`,
        ///   `maxBreakDuration`, `halfOpenMaxCalls`, `successesToClose`.
        /// - Parameter probeLease: How long a probe keeps its place without reporting; 1 µs to 365 days, by default `breakDuration`. In a
        ///   policy it follows from the attempt timeout.
        /// - Parameter seed: Seed of all random draws, 64 bits; by default from the operating system.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Breaker, probeLease: Duration? = nil, seed: UInt64? = nil) throws {
            native = try checked { try TidegateNative.CircuitBreaker(pairs: Self.pairs(settings), probeLease: probeLease?.span, seed:
                drawn(seed)) }
        }

        private static func pairs(_ settings: Breaker) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.CircuitBreaker) { self.native = native }

        /// `closed`, `open` or `half_open`.
        ///
        /// A break that has ended is `open` until the first admission after it.
        public var state: State { State(rawValue: native.state()) ?? .closed }
        /// Lets a call through: a ticket to hand back with what came of it.
        ///
        /// Nil where it is refused; `refuses` says for how long.
        public func admit(now: Duration) -> Ticket? { native.admit(now: now.moment).map { Ticket(number: $0.number, isProbe: $0.probe) } }
        /// Takes what came of an admitted call: the transition that it made, or nil.
        /// - Parameter ticket: What `admit` gave. One of an older generation changes nothing.
        /// - Parameter evidence: `neutral` gives a probe's place back and counts nothing.
        /// - Parameter bits: 64 random bits for the jitter of a break that this opens, in the place of the seed's.
        @discardableResult
        public func record(_ ticket: Ticket, _ evidence: Evidence, now: Duration, bits: UInt64? = nil) -> Change? {
            Change((try? native.record(ticket: ticket.native, evidence: evidence.rawValue, now: now.moment, bits: bits)) ?? nil)
        }
        /// The body failed of a call that was recorded as a success at its head.
        ///
        /// Its success becomes a failure.
        @discardableResult
        public func onBodyFailure(_ ticket: Ticket, now: Duration, bits: UInt64? = nil) -> Change? {
            Change(native.onBodyFailure(ticket: ticket.native, now: now.moment, bits: bits))
        }
        /// What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
        ///
        /// `permanent`, a healthy server's "no", is a success.
        public func evidenceOf(_ kind: Kind) -> Evidence? { ((try? native.evidenceOf(kind: kind.rawValue)) ?? nil).flatMap(Evidence.init) }
        /// The time until another try makes sense if an admission now would be refused, else nil.
        ///
        /// Changes nothing.
        public func refuses(now: Duration) -> Duration? { native.refuses(now: now.moment).map { Duration(exact: $0) } }
        /// The end of the break while open, on your clock; else nil.
        public var openUntil: Duration? { native.openUntil().map { Duration(exact: $0) } }
        /// Failures in the window; while open, what is left of those that opened it.
        public func failures(now: Duration) -> Int { Int(native.failures(now: now.moment)) }
        /// Results in the window, failures included.
        public func throughput(now: Duration) -> Int { Int(native.throughput(now: now.moment)) }
        /// Whether a new breaker would decide the same from now on.
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Closed again, with nothing counted. Results of calls admitted before change nothing.
        public func reset() { native.reset() }
        /// Releases the places of all probes: after a fork, they belong to the parent process.
        public func forgetProbes() { native.forgetProbes() }
        /// Where it stands.
        public enum State: String, Sendable, Hashable, CaseIterable {
            case closed, open
            case halfOpen = "half_open"
        }

        /// What came of a call.
        public enum Evidence: String, Sendable, Hashable, CaseIterable {
            case success, failure
            /// Gives a probe's place back and counts nothing.
            case neutral
        }

        /// A transition.
        public struct Change: Sendable, Hashable {
            public let from: State
            public let to: State

            fileprivate init?(_ names: [String]?) {
                guard let names, let from = State(rawValue: names[0]), let to = State(rawValue: names[1]) else { return nil }
                (self.from, self.to) = (from, to)
            }
        }
        /// Applies new settings, with the same keys as before.
        ///
        /// State, probes out and failures in a row are kept, and so are the window's counts where its length and kind are the same. A break
        /// under way is cut to the longest that the new settings could give.
        public func retune(_ settings: Breaker, probeLease: Duration? = nil, now: Duration) throws {
            try checked { try native.retune(pairs: Self.pairs(settings), probeLease: probeLease?.span, now: now.moment) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> CircuitBreaker { CircuitBreaker(native.copy()) }
    }

    /// Refuses a share of the calls to a downstream that does not accept enough of them.
    ///
    /// With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling as in the SRE book,
    /// "Handling Overload". About k times what is still accepted is let through, so that recovery is noticed without a special state
    /// (`docs/spec.md`, 6).
    public final class AdaptiveThrottle: Sendable {
        let native: TidegateNative.AdaptiveThrottle

        /// - Parameter settings: `k`, `window`, `windowKind`, `minThroughput`, `maxReject`, `probeInterval`, all of which have defaults.
        /// - Parameter seed: Seed of all random draws, 64 bits; by default from the operating system.
        /// - Parameter now: The present, on your clock.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Throttle = Throttle(), seed: UInt64? = nil, now: Duration) throws {
            native = try checked { try TidegateNative.AdaptiveThrottle(pairs: Self.pairs(settings), now: now.moment, seed: drawn(seed)) }
        }

        private static func pairs(_ settings: Throttle) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.AdaptiveThrottle) { self.native = native }

        /// May a call go through? One that is refused has been counted; record one that is let through.
        /// - Parameter bits: 64 random bits, in the place of the seed's.
        public func admit(now: Duration, bits: UInt64? = nil) -> Bool { native.admit(now: now.moment, bits: bits) }
        /// A call that was let through has ended. Do not record one that says neither yes nor no.
        public func record(accepted: Bool, now: Duration) { native.record(accepted: accepted, now: now.moment) }
        /// Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? Nil: it does not count.
        public func accepted(_ kind: Kind) -> Bool? { (try? native.accepted(kind: kind.rawValue)) ?? nil }
        /// Requests in the window.
        public func requests(now: Duration) -> Int { Int(native.requests(now: now.moment)) }
        /// Those of them that the downstream accepted.
        public func accepts(now: Duration) -> Int { Int(native.accepts(now: now.moment)) }
        /// The probability that a call is refused now, 0 to 1.
        public func probability(now: Duration) -> Double { native.probability(now: now.moment) }
        /// Is nothing in the window?
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Applies new settings, with the same keys as before.
        ///
        /// The counts are kept where the window's length and kind are the same.
        public func retune(_ settings: Throttle, now: Duration) throws {
            try checked { try native.retune(pairs: Self.pairs(settings), now: now.moment) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> AdaptiveThrottle { AdaptiveThrottle(native.copy()) }
    }
}
