import Foundation
internal import TidegateNative

/// The engine's parts on their own: for programs that have a loop of their own, and want one decision.
///
/// No part reads a clock. Where one needs the time it takes `now`: the time since a moment of yours on any clock that does not run
/// back, always the same one for the same part; what is before that moment is taken for it. Core counts whole microseconds. Settings
/// are those of a policy, as the same types, with the same ranges and defaults, and core checks them: a mistake is a `PolicyError`.
/// Each part is safe for threads, and `copy` is another of the same state, which goes its own way.
///
/// | For | Parts |
/// |---|---|
/// | delays | `Backoff`, `retryAfter` |
/// | how many retries | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
/// | retry tokens | `RetryStrategy` |
/// | how fast | `TokenBucket`, `Gcra`, `CubicRate` |
/// | how much at once | `Aimd`, `Gradient2`, `CoDel` |
/// | who is let through | `CircuitBreaker`, `AdaptiveThrottle` |
/// | how slow | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
///
/// ```swift
/// let bucket = try Parts.TokenBucket(RateLimit(permits: 3, per: .seconds(1), burst: 2), now: .zero)
/// let granted = bucket.tryTake(2, now: .zero)
/// let wait = bucket.acquire(now: .zero)
/// ```
public enum Parts {
    /// What asking for tokens has brought.
    public enum Taken: Sendable, Hashable {
        /// They are taken.
        case now
        /// None is taken; there will be enough after this time.
        case after(Duration)
        /// None is taken, and waiting does not help: more than it ever holds.
        case never

        init(_ us: UInt64) {
            self = us == 0 ? .now : us == .max ? .never : .after(Duration(exact: us))
        }
    }
}

extension Duration {
    /// Whole microseconds, of which there may be more than an `Int64` holds.
    init(exact us: UInt64) {
        self = .seconds(Int64(us / 1_000_000)) + .microseconds(Int64(us % 1_000_000))
    }

    /// Whole microseconds, rounded down; none below zero.
    var moment: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (us, over) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, more) = us.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000_000))
        return over || more ? .max : sum
    }

    /// Whole microseconds, rounded to the nearest; none below zero.
    var span: UInt64 {
        (self + .nanoseconds(500)).moment
    }
}

/// All the randomness of a part: a seed, or the platform's.
func drawn(_ seed: UInt64?) -> UInt64 {
    seed ?? .random(in: 0 ... .max)
}

extension Pairs {
    /// The pairs that settings write.
    static func of(_ write: (inout Pairs) -> Void) -> [Pair] {
        var pairs = Pairs(preset: false)
        write(&pairs)
        return pairs.list
    }
}

/// A number of a part's that is no setting of a policy.
func within(_ name: String, _ value: Double, _ range: ClosedRange<Double>) throws -> Double {
    guard range.contains(value) else {
        throw PolicyError(name, "\(value)", "must be a number from \(plain(range.lowerBound)) to \(plain(range.upperBound))")
    }
    return value
}

/// A whole number of a part's that is no setting of a policy.
func whole(_ name: String, _ value: Int, from least: UInt32) throws -> UInt32 {
    guard let number = UInt32(exactly: value), number >= least else {
        throw PolicyError(name, "\(value)", "must be a whole number from \(least) to \(UInt32.max)")
    }
    return number
}

private func plain(_ number: Double) -> String {
    number == number.rounded() ? "\(Int(number))" : "\(number)"
}
