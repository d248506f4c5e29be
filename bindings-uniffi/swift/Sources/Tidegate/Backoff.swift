/// Names from the Swift proposal for retries (swift-async-algorithms), so that both read alike.
extension Backoff {
    /// Waits the same delay before every retry.
    public static func constant(_ delay: Duration) -> Backoff {
        Backoff(kind: .constant, base: delay)
    }

    /// Waits n times this delay before retry n.
    public static func linear(_ delay: Duration) -> Backoff {
        Backoff(kind: .linear, base: delay)
    }

    /// Waits `initial` before the first retry, and `factor` times longer before each further one.
    public static func exponential(factor: Double = 2, initial: Duration) -> Backoff {
        Backoff(kind: .exponential, base: initial, multiplier: factor)
    }

    /// Waits `initial` times n to the power of `exponent` before retry n.
    public static func polynomial(exponent: Int, initial: Duration) -> Backoff {
        Backoff(kind: .polynomial, base: initial, exponent: exponent)
    }

    /// Draws each delay between `base` and three times the delay before.
    public static func decorrelatedJitter(base: Duration) -> Backoff {
        Backoff(base: base, jitter: .decorrelated)
    }

    private func with(_ change: (inout Backoff) -> Void) -> Backoff {
        var copy = self
        change(&copy)
        return copy
    }

    /// Limits the delay, before jitter.
    public func maximum(_ delay: Duration) -> Backoff { with { $0.max = delay } }
    /// Draws the delay between zero and its full length.
    public func fullJitter() -> Backoff { with { $0.jitter = .full } }
    /// Draws the delay between half and its full length.
    public func equalJitter() -> Backoff { with { $0.jitter = .equal } }
    /// Draws the delay between (1 − ratio) and (1 + ratio) times its length.
    public func boundedJitter(ratio: Double) -> Backoff {
        with { ($0.jitter, $0.jitterRatio) = (.bounded, ratio) }
    }
    /// Waits exactly the delay.
    public func withoutJitter() -> Backoff { with { $0.jitter = .off } }
}

extension Budget {
    /// No budget: retries may add as much load as the attempts allow.
    public static let off = Budget(kind: .off)
}
