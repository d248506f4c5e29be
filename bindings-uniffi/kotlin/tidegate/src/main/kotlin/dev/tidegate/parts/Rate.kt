// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.RateLimit
import dev.tidegate.internal.Library
import kotlin.time.Duration
import dev.tidegate.ffi.TokenBucket as NativeTokenBucket
import dev.tidegate.ffi.Gcra as NativeGcra
import dev.tidegate.ffi.CubicRate as NativeCubicRate

/**
 * A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
 *
 * Integers only, so nothing drifts; a clock that runs back adds no tokens, and a silence of hours gives one burst. Within any span t it
 * grants at most `burst` + t·`permits`/`per`.
 *
 * ```kotlin
 * val bucket = TokenBucket(now = Duration.ZERO) { permits = 3; per = 1.seconds; burst = 2 }
 * bucket.tryTake(now = Duration.ZERO, cost = 2) // true
 * bucket.acquire(now = Duration.ZERO) // 333.334ms
 * ```
 */
public class TokenBucket private constructor(internal val native: NativeTokenBucket) {
    /**
     * One with the settings `permits`, `per`, `burst`.
     *
     * @param now The moment from which it fills, on your clock.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(now: Duration, configure: Configure<RateLimit>) :
        this(made("rate_limit", ::RateLimit, configure) { NativeTokenBucket(it, moment(now)) })

    /** Takes `cost` tokens (0 to 2^31 − 1), if there are enough. A cost of 0 is always granted. */
    @JvmOverloads
    public fun tryTake(now: Duration, cost: Int = 1): Boolean = native.tryTake(moment(now), count("cost", cost))

    /**
     * Takes `cost` tokens, or takes none and says when to come back.
     *
     * Zero where they were taken. Else the time until there are enough, rounded up to a microsecond; infinite for a cost above the burst.
     */
    @JvmOverloads
    public fun acquire(now: Duration, cost: Int = 1): Duration = wait(native.acquire(moment(now), count("cost", cost)))

    /**
     * How long until `tokens` in all (0 to 2^63 − 1) will have flowed in beyond what is used; takes none.
     *
     * Linear, also above the burst: the third of three waiters that need one token each waits for 3.
     */
    @JvmOverloads
    public fun waitFor(now: Duration, tokens: Long = 1): Duration = wait(native.waitFor(moment(now), count("tokens", tokens)))

    /** Whole tokens that are available now. */
    public fun level(now: Duration): Int = native.level(moment(now)).toInt()

    /** Whether it is full, as a new one is. */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /**
     * Applies new settings, with the same keys as before, and keeps the tokens.
     *
     * They are capped at the new burst; a larger burst fills at the new rate. Changing the settings back and forth adds no tokens.
     */
    public fun retune(now: Duration, configure: Configure<RateLimit>): Unit =
        made("rate_limit", ::RateLimit, configure) { native.retune(it, moment(now)) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): TokenBucket = TokenBucket(native.copy())
}

/**
 * The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
 *
 * ITU-T I.371. It decides as a `TokenBucket` of the same settings wherever `permits` divide `per` in microseconds; elsewhere its interval
 * is rounded up to whole microseconds, so that it never grants more. Starts full. A clock that runs back adds no tokens.
 *
 * ```kotlin
 * val limit = Gcra { permits = 1; per = 1.seconds; burst = 2 }
 * limit.tryTake(now = Duration.ZERO, cost = 2) // true
 * limit.acquire(now = 400.milliseconds) // 600ms
 * ```
 */
public class Gcra private constructor(internal val native: NativeGcra) {
    /**
     * One with the settings `permits`, `per`, `burst`.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(configure: Configure<RateLimit>) : this(made("rate_limit", ::RateLimit, configure) { NativeGcra(it) })

    /** Takes `cost` tokens (0 to 2^31 − 1), if there are enough. A cost of 0 is always granted. */
    @JvmOverloads
    public fun tryTake(now: Duration, cost: Int = 1): Boolean = native.tryTake(moment(now), count("cost", cost))

    /**
     * Takes `cost` tokens, or takes none and says when to come back.
     *
     * Zero where they were taken. Else the time until there are enough, rounded up to a microsecond; infinite for a cost above the burst.
     */
    @JvmOverloads
    public fun acquire(now: Duration, cost: Int = 1): Duration = wait(native.acquire(moment(now), count("cost", cost)))

    /** Whether it is full, as a new one is. */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): Gcra = Gcra(native.copy())
}

/**
 * A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
 *
 * Off, and free, until the first throttle; never below 0.5 sends a second. The curve is CUBIC's (RFC 9438) with β = 0.7 and C = 0.4
 * (`docs/spec.md`, 2.14).
 *
 * ```kotlin
 * val rate = CubicRate(now = Duration.ZERO)
 * rate.onResponse(throttled = true, now = 1.seconds)
 * rate.acquire(now = 1.seconds) // how long to wait before asking again
 * ```
 */
public class CubicRate private constructor(internal val native: NativeCubicRate) {
    /**
     * A new one.
     *
     * @param now The moment from which sends are measured.
     */
    public constructor(now: Duration) : this(Library.loaded { NativeCubicRate(moment(now)) })

    /** Takes one send: zero, or the time to wait before asking again. */
    public fun acquire(now: Duration): Duration = wait(native.acquire(moment(now)))

    /** Counts an answer: a throttled one cuts the rate, any other lets it grow. */
    public fun onResponse(throttled: Boolean, now: Duration): Unit = native.onResponse(throttled, moment(now))

    /** Sends per second that are allowed; null before the first throttle. */
    public val rate: Double? get() = native.rate()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): CubicRate = CubicRate(native.copy())
}
