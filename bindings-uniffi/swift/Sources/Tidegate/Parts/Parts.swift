import Foundation
internal import TidegateNative

/// The engine's components on their own, for programs with their own loop that need one decision.
///
/// No part reads a clock. A part that needs the time takes `now`: the time since a moment of your choice, always the same moment for the
/// same part, on any clock that does not run back. A time before that moment counts as that moment. Core counts whole microseconds.
/// Settings have the types, ranges and defaults of a policy, and core checks them: a mistake is a `PolicyError`. Each part is thread-safe.
/// `copy` returns an independent part with the same state.
///
/// | For | Parts |
/// |---|---|
/// | delays | `Backoff`, `retryAfter` |
/// | how many retries | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
/// | retry tokens | `RetryStrategy` |
/// | how fast | `TokenBucket`, `Gcra`, `CubicRate` |
/// | how much at once | `Aimd`, `Gradient2`, `CoDel` |
/// | which calls are admitted | `CircuitBreaker`, `AdaptiveThrottle` |
/// | how slow | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
///
/// ```swift
/// let bucket = try Parts.TokenBucket(RateLimit(permits: 3, per: .seconds(1), burst: 2), now: .zero)
/// let granted = bucket.tryTake(2, now: .zero)
/// let wait = bucket.acquire(now: .zero)
/// ```
public enum Parts {
    /// Result of asking for tokens.
    public enum Taken: Sendable, Hashable {
        /// The tokens are taken.
        case now
        /// No token is taken; there will be enough after this time.
        case after(Duration)
        /// No token is taken, and waiting does not help: the request exceeds what the part can ever hold.
        case never

        init(_ us: UInt64) {
            self = us == 0 ? .now : us == .max ? .never : .after(Duration(exact: us))
        }
    }
}

extension Duration {
    /// Converts whole microseconds, which may exceed an `Int64`.
    init(exact us: UInt64) {
        self = .seconds(Int64(us / 1_000_000)) + .microseconds(Int64(us % 1_000_000))
    }

    /// Whole microseconds, rounded down; 0 if negative.
    var moment: UInt64 {
        guard self > .zero, self < .seconds(Int64.max) else { return self > .zero ? .max : 0 } // `components` traps beyond
        let (seconds, attoseconds) = components
        let (us, over) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, more) = us.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000_000))
        return over || more ? .max : sum
    }

    /// Whole microseconds, rounded to the nearest; 0 if negative.
    var span: UInt64 {
        (self + .nanoseconds(500)).moment
    }
}

/// Seed of a part: the given one, or a random one.
func drawn(_ seed: UInt64?) -> UInt64 {
    seed ?? .random(in: 0 ... .max)
}

extension Pairs {
    /// Pairs that settings write.
    static func of(_ write: (inout Pairs) -> Void) -> [Pair] {
        var pairs = Pairs(preset: false)
        write(&pairs)
        return pairs.list
    }
}

/// Checks a number of a part that is not a setting of a policy.
func within(_ name: String, _ value: Double, _ range: ClosedRange<Double>) throws -> Double {
    guard range.contains(value) else {
        throw PolicyError(name, "\(value)", "must be a number from \(plain(range.lowerBound)) to \(plain(range.upperBound))")
    }
    return value
}

/// Checks a whole number of a part that is not a setting of a policy.
func whole(_ name: String, _ value: Int, from least: UInt32) throws -> UInt32 {
    guard let number = UInt32(exactly: value), number >= least else {
        throw PolicyError(name, "\(value)", "must be a whole number from \(least) to \(UInt32.max)")
    }
    return number
}

private func plain(_ number: Double) -> String {
    number == number.rounded() ? "\(Int(number))" : "\(number)"
}
