// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

import Foundation
internal import TidegateNative

extension Parts {
    /// Reads a `Retry-After` value: the time to wait, or nil where it says nothing (RFC 9110, 10.2.3).
    ///
    /// Delay-seconds, or one of the three HTTP dates against the wall clock. A negative number and a past date are zero; decimals,
    /// units, signs, wrong dates and garbage are nil.
    ///
    /// - Parameter now: The wall clock; before 1970 is taken for 1970.
    public static func retryAfter(_ value: String, now: Date = Date()) -> Duration? {
        let us = now.timeIntervalSince1970 * 1e6
        let wall = us > 0 ? (us < 0x1p53 ? UInt64(us.rounded()) : 1 << 53) : 0
        return parseRetryAfter(value: Data(value.utf8), wallUs: wall).map { Duration(exact: $0) }
    }

    /// The delay before retry n = 1, 2, …: growth, cap, jitter.
    ///
    /// Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial` base·n^exponent, each capped at `max`
    /// before jitter. Jitter of a delay d: `none`, `full` U(0, d), `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated`
    /// U(base, min(max, 3·previous)), `bounded` U((1−j)·d, (1+j)·d). Names after "Exponential Backoff And Jitter" (AWS Architecture Blog,
    /// 2015); `docs/spec.md`, 2.4 and 2.5.
    public final class Backoff: Sendable {
        let native: TidegateNative.Backoff

        /// - Parameter settings: `kind`, `base`, `max`, `multiplier`, `exponent`, `jitter`, `jitterRatio`, all of which have defaults.
        /// - Parameter seed: Seed of all random draws, 64 bits; by default from the operating system.
        /// - Throws: `PolicyError` with every mistake there is.
        public init(_ settings: Tidegate.Backoff = Tidegate.Backoff(), seed: UInt64? = nil) throws {
            native = try checked { try TidegateNative.Backoff(pairs: Self.pairs(settings), seed: drawn(seed)) }
        }

        private static func pairs(_ settings: Tidegate.Backoff) -> [Pair] {
            return Pairs.of(settings.write)
        }

        private init(_ native: TidegateNative.Backoff) { self.native = native }

        /// The time to wait before retry `n`, 1 to 255.
        ///
        /// Without `call` every delay is a draw of its own. With one, a number of your own for the call that is retried, the delay is a
        /// function of seed, call and n, and `decorrelated` follows the call's own draws.
        public func delay(_ n: UInt8, call: UInt64? = nil) -> Duration { Duration(exact: native.delay(n: n, call: call)) }
        /// The time before retry `n`, 1 to 255, without jitter.
        public func ceiling(_ n: UInt8) -> Duration { Duration(exact: native.ceiling(n: n)) }
        /// Another of the same state; the two then go their own ways.
        public func copy() -> Backoff { Backoff(native.copy()) }
    }
}
