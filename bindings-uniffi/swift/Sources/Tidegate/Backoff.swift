/// The names of the Swift proposal for retries (swift-async-algorithms), so that ours reads as more of the same.
extension Backoff {
    /// The same delay before every retry.
    public static func constant(_ delay: Duration) -> Backoff {
        Backoff(kind: .constant, base: delay)
    }

    /// n times this delay before retry n.
    public static func linear(_ delay: Duration) -> Backoff {
        Backoff(kind: .linear, base: delay)
    }

    /// From `initial` on, `factor` times as long before each further retry.
    public static func exponential(factor: Double = 2, initial: Duration) -> Backoff {
        Backoff(kind: .exponential, base: initial, multiplier: factor)
    }

    /// `initial` times n to the power of `exponent` before retry n.
    public static func polynomial(exponent: Int, initial: Duration) -> Backoff {
        Backoff(kind: .polynomial, base: initial, exponent: exponent)
    }

    /// Drawn between `base` and three times the delay before.
    public static func decorrelatedJitter(base: Duration) -> Backoff {
        Backoff(base: base, jitter: .decorrelated)
    }

    private func with(_ change: (inout Backoff) -> Void) -> Backoff {
        var copy = self
        change(&copy)
        return copy
    }

    /// The longest delay, before jitter.
    public func maximum(_ delay: Duration) -> Backoff { with { $0.max = delay } }
    /// Drawn between zero and the delay.
    public func fullJitter() -> Backoff { with { $0.jitter = .full } }
    /// Drawn between half the delay and the delay.
    public func equalJitter() -> Backoff { with { $0.jitter = .equal } }
    /// Drawn between (1 − ratio) and (1 + ratio) times the delay.
    public func boundedJitter(ratio: Double) -> Backoff {
        with { ($0.jitter, $0.jitterRatio) = (.bounded, ratio) }
    }
    /// Exactly the delay.
    public func withoutJitter() -> Backoff { with { $0.jitter = .off } }
}

extension Budget {
    /// No budget: retries may add as much load as the attempts allow.
    public static let off = Budget(kind: .off)
}
