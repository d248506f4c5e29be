// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

internal import TidegateNative

extension Parts {
    /// A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
    ///
    /// Integers only, so nothing drifts; a clock that runs back adds no tokens, and a silence of hours gives one burst. Within any span t
    /// it grants at most `burst` + t·`permits`/`per`.
    public final class TokenBucket: Sendable {
        let native: TidegateNative.TokenBucket

        /// - Parameter settings: `permits`, `per`, `burst`.
        /// - Parameter now: The moment from which it fills, on your clock.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: RateLimit, now: Duration) throws {
            native = try checked { try TidegateNative.TokenBucket(pairs: Self.pairs(settings), now: now.moment) }
        }

        private static func pairs(_ settings: RateLimit) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.TokenBucket) { self.native = native }

        /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
        public func tryTake(_ cost: UInt32 = 1, now: Duration) -> Bool { native.tryTake(now: now.moment, cost: cost) }
        /// Takes `cost` tokens, or takes none and says when to come back.
        ///
        /// `.now` where they were taken. Else the time until there are enough, rounded up to a microsecond; `.never` for a cost above the
        /// burst.
        public func acquire(_ cost: UInt32 = 1, now: Duration) -> Taken { Taken(native.acquire(now: now.moment, cost: cost)) }
        /// The time until `tokens` in all (0 to 2^64 − 1) will have flowed in beyond what is used; takes none.
        ///
        /// Linear, also above the burst: the third of three waiters that need one token each waits for 3.
        public func wait(for tokens: UInt64 = 1, now: Duration) -> Duration {
            Duration(exact: native.waitFor(now: now.moment, tokens: tokens))
        }
        /// Whole tokens that are available now.
        public func level(now: Duration) -> Int { Int(native.level(now: now.moment)) }
        /// Whether it is full, as a new one is.
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Applies new settings, with the same keys as before, and keeps the tokens.
        ///
        /// They are capped at the new burst; a larger burst fills at the new rate. Changing the settings back and forth adds no tokens.
        public func retune(_ settings: RateLimit, now: Duration) throws {
            try checked { try native.retune(pairs: Self.pairs(settings), now: now.moment) }
        }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> TokenBucket { TokenBucket(native.copy()) }
    }

    /// The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
    ///
    /// ITU-T I.371. It decides as a `TokenBucket` of the same settings wherever `permits` divide `per` in microseconds; elsewhere its
    /// interval is rounded up to whole microseconds, so that it never grants more. Starts full. A clock that runs back adds no tokens.
    public final class Gcra: Sendable {
        let native: TidegateNative.Gcra

        /// - Parameter settings: `permits`, `per`, `burst`.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: RateLimit) throws {
            native = try checked { try TidegateNative.Gcra(pairs: Self.pairs(settings)) }
        }

        private static func pairs(_ settings: RateLimit) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.Gcra) { self.native = native }

        /// Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted.
        public func tryTake(_ cost: UInt32 = 1, now: Duration) -> Bool { native.tryTake(now: now.moment, cost: cost) }
        /// Takes `cost` tokens, or takes none and says when to come back.
        ///
        /// `.now` where they were taken. Else the time until there are enough, rounded up to a microsecond; `.never` for a cost above the
        /// burst.
        public func acquire(_ cost: UInt32 = 1, now: Duration) -> Taken { Taken(native.acquire(now: now.moment, cost: cost)) }
        /// Whether it is full, as a new one is.
        public func isFresh(now: Duration) -> Bool { native.isFresh(now: now.moment) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> Gcra { Gcra(native.copy()) }
    }

    /// A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
    ///
    /// Off, and free, until the first throttle; never below 0.5 sends a second. The curve is CUBIC's (RFC 9438) with β = 0.7 and C = 0.4
    /// (`docs/spec.md`, 2.14).
    public final class CubicRate: Sendable {
        let native: TidegateNative.CubicRate

        /// - Parameter now: The moment from which sends are measured.
        /// - Throws: `PolicyError` if one is out of range.
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
        /// Another of the same state; the two then go their own ways.
        public func copy() -> CubicRate { CubicRate(native.copy()) }
    }
}
