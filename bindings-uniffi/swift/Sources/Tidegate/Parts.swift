import TidegateNative

/// The engine's parts on their own, for people who want a single one: `Parts.TokenBucket`, `Parts.DdSketch` and the rest, as in every
/// language. Moments and spans are microseconds of a clock of yours, from 0 on; settings are pairs of a policy's keys, such as
/// `rate_limit.permits`. Each is safe for threads, and is a plain object: nothing of it waits.
///
/// ```swift
/// let median = Parts.P2Quantile(p: 0.5)
/// for latency in [0.02, 0.15, 0.74] { median.observe(x: latency) }
/// ```
public enum Parts {
    /// A setting: a policy's key, and a value. Spans are microseconds.
    public typealias Setting = TidegateNative.Pair
    /// A number or a word.
    public typealias Value = TidegateNative.Value
    /// What is thrown for a setting or an argument that is none.
    public typealias Invalid = TidegateNative.Invalid

    public typealias Backoff = TidegateNative.Backoff
    public typealias RetryBudget = TidegateNative.RetryBudget
    public typealias RatioBudget = TidegateNative.RatioBudget
    public typealias ShareBudget = TidegateNative.ShareBudget
    public typealias TokenBudget = TidegateNative.TokenBudget
    public typealias RetryQuota = TidegateNative.RetryQuota
    public typealias RetryStrategy = TidegateNative.RetryStrategy
    public typealias RetryToken = TidegateNative.RetryToken
    public typealias TokenBucket = TidegateNative.TokenBucket
    public typealias Gcra = TidegateNative.Gcra
    public typealias CubicRate = TidegateNative.CubicRate
    public typealias Aimd = TidegateNative.Aimd
    public typealias Gradient2 = TidegateNative.Gradient2
    public typealias CoDel = TidegateNative.CoDel
    public typealias CircuitBreaker = TidegateNative.CircuitBreaker
    public typealias Ticket = TidegateNative.Ticket
    public typealias AdaptiveThrottle = TidegateNative.AdaptiveThrottle
    public typealias P2Quantile = TidegateNative.P2Quantile
    public typealias WindowedP2Quantile = TidegateNative.WindowedP2Quantile
    public typealias DdSketch = TidegateNative.DdSketch
}
