import TidegateNative

extension Parts {
    /// A rate and a burst: a bucket that starts full and refills continuously. Within any span t it grants at most
    /// `burst` + t·`permits`/`per`; a clock that runs back mints nothing, and a silence of hours gives one burst.
    public final class TokenBucket: Sendable {
        private let native: TidegateNative.TokenBucket

        /// - Parameters:
        ///   - settings: `permits`, `per`, `burst`; the first two it needs.
        ///   - now: The moment from which it fills.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: RateLimit, now: Duration) throws {
            native = try checked { try TidegateNative.TokenBucket(pairs: Pairs.of(settings.write), now: now.moment) }
        }

        private init(_ native: TidegateNative.TokenBucket) { self.native = native }

        /// Takes tokens, if there are enough. A cost of 0 is always granted.
        public func tryTake(_ cost: UInt32 = 1, now: Duration) -> Bool { native.tryTake(now: now.moment, cost: cost) }
        /// Takes tokens, or takes none and says when to come back.
        public func acquire(_ cost: UInt32 = 1, now: Duration) -> Taken { Taken(native.acquire(now: now.moment, cost: cost)) }
        /// The time until `tokens` in all will have flowed in beyond what is used; takes none. Linear, also above the burst.
        public func wait(for tokens: UInt64 = 1, now: Duration) -> Duration {
            Duration(exact: native.waitFor(now: now.moment, tokens: tokens))
        }
        /// Whole tokens that are there now.
        public func level(now: Duration) -> Int { Int(native.level(now: now.moment)) }
        /// Is it full, as a new one is?
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Goes on with other settings, and the tokens that are there.
        public func retune(_ settings: RateLimit, now: Duration) throws {
            try checked { try native.retune(pairs: Pairs.of(settings.write), now: now.moment) }
        }
        public func copy() -> TokenBucket { TokenBucket(native.copy()) }
    }

    /// The same rate limit kept as one moment: the generic cell rate algorithm (ITU-T I.371).
    public final class Gcra: Sendable {
        private let native: TidegateNative.Gcra

        /// - Parameter settings: `permits`, `per`, `burst`; the first two it needs.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: RateLimit) throws {
            native = try checked { try TidegateNative.Gcra(pairs: Pairs.of(settings.write)) }
        }

        private init(_ native: TidegateNative.Gcra) { self.native = native }

        /// Takes tokens, if there are enough. A cost of 0 is always granted.
        public func tryTake(_ cost: UInt32 = 1, now: Duration) -> Bool { native.tryTake(now: now.moment, cost: cost) }
        /// Takes tokens, or takes none and says when to come back.
        public func acquire(_ cost: UInt32 = 1, now: Duration) -> Taken { Taken(native.acquire(now: now.moment, cost: cost)) }
        /// Is it full, as a new one is?
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        public func copy() -> Gcra { Gcra(native.copy()) }
    }

    /// A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode). Off, and free, until the
    /// first throttle; never below 0.5 sends a second.
    public final class CubicRate: Sendable {
        private let native: TidegateNative.CubicRate

        /// - Parameter now: The moment from which sends are measured.
        public init(now: Duration) throws {
            native = try checked { try TidegateNative.CubicRate(now: now.moment) }
        }

        private init(_ native: TidegateNative.CubicRate) { self.native = native }

        /// Takes one send: `.now`, or the time to wait before asking again.
        public func acquire(now: Duration) -> Taken { Taken(native.acquire(now: now.moment)) }
        /// Counts an answer: a throttled one cuts the rate, any other lets it grow.
        public func onResponse(throttled: Bool, now: Duration) { native.onResponse(throttled: throttled, now: now.moment) }
        /// Sends per second that are allowed; nil before the first throttle.
        public var rate: Double? { native.rate() }
        public func copy() -> CubicRate { CubicRate(native.copy()) }
    }
}
