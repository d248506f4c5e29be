package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.RateLimit
import dev.tidegate.internal.Library
import kotlin.time.Duration
import dev.tidegate.ffi.CubicRate as NativeCubic
import dev.tidegate.ffi.Gcra as NativeGcra
import dev.tidegate.ffi.TokenBucket as NativeBucket

/**
 * A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
 *
 * Integers only, so nothing drifts; a clock that runs back mints nothing, and a silence of hours gives one burst. Within any
 * span t it grants at most `burst` + t·`permits`/`per`. Safe for threads, as all parts; none of them waits.
 *
 * ```kotlin
 * val bucket = TokenBucket(now = Duration.ZERO) { permits = 3; per = 1.seconds; burst = 2 }
 * bucket.tryTake(now = Duration.ZERO, cost = 2) // true
 * bucket.acquire(now = Duration.ZERO) // 333.334ms
 * ```
 */
public class TokenBucket private constructor(private val native: NativeBucket) {
    /**
     * A full one, from [now] on, with the settings `permits`, `per` and `burst`.
     *
     * @param now A span since an origin of yours, which does not matter; so for all parts.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(now: Duration, configure: Configure<RateLimit>) :
        this(made("rate_limit", ::RateLimit, configure) { NativeBucket(it, moment(now)) })

    /** Takes [cost] tokens, or takes none: zero, or how long until there are enough, infinite above the burst. */
    @JvmOverloads
    public fun acquire(now: Duration, cost: Int = 1): Duration = wait(native.acquire(moment(now), count("cost", cost)))

    /** Takes [cost] tokens, if there are enough. */
    @JvmOverloads
    public fun tryTake(now: Duration, cost: Int = 1): Boolean = native.tryTake(moment(now), count("cost", cost))

    /** How long until [tokens] in all will have flowed in beyond what is used; takes none. Linear, also above the burst. */
    @JvmOverloads
    public fun waitFor(now: Duration, tokens: Long = 1): Duration {
        require(tokens >= 0) { "tokens = $tokens: must be 0 or more" }
        return wait(native.waitFor(moment(now), tokens.toULong()))
    }

    /** Whole tokens that are there now. */
    public fun level(now: Duration): Int = native.level(moment(now)).toInt()

    /** Is it full, as a new one is? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Goes on with other settings, which say all of it, and the tokens that are there, capped at the new burst. */
    public fun retune(now: Duration, configure: Configure<RateLimit>): Unit =
        made("rate_limit", ::RateLimit, configure) { native.retune(it, moment(now)) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): TokenBucket = TokenBucket(native.copy())
}

/**
 * The same rate limit kept as one moment: the generic cell rate algorithm (ITU-T I.371; `docs/spec.md`, 3.3). It decides as a
 * [TokenBucket] of the same settings wherever `permits` divide `per` in microseconds; elsewhere it never grants more.
 *
 * ```kotlin
 * val limit = Gcra { permits = 1; per = 1.seconds; burst = 2 }
 * limit.tryTake(now = Duration.ZERO, cost = 2) // true
 * limit.acquire(now = 400.milliseconds) // 600ms
 * ```
 */
public class Gcra private constructor(private val native: NativeGcra) {
    /** A full one with the settings `permits`, `per` and `burst`. */
    public constructor(configure: Configure<RateLimit>) : this(made("rate_limit", ::RateLimit, configure) { NativeGcra(it) })

    /** Takes [cost] tokens, or takes none: zero, or how long until there are enough, infinite above the burst. */
    @JvmOverloads
    public fun acquire(now: Duration, cost: Int = 1): Duration = wait(native.acquire(moment(now), count("cost", cost)))

    /** Takes [cost] tokens, if there are enough. */
    @JvmOverloads
    public fun tryTake(now: Duration, cost: Int = 1): Boolean = native.tryTake(moment(now), count("cost", cost))

    /** Is it full, as a new one is? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Another of the same state. */
    public fun copy(): Gcra = Gcra(native.copy())
}

/**
 * A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode; `docs/spec.md`, 2.14).
 * Off, and free, until the first throttle; never below 0.5 sends a second.
 *
 * ```kotlin
 * val rate = CubicRate(now = Duration.ZERO)
 * rate.onResponse(throttled = true, now = 1.seconds)
 * rate.acquire(now = 1.seconds) // how long to wait before asking again
 * ```
 */
public class CubicRate private constructor(private val native: NativeCubic) {
    /** One that measures sends from [now] on. */
    public constructor(now: Duration) : this(Library.loaded { NativeCubic(moment(now)) })

    /** Takes one send: zero, or how long to wait before asking again. */
    public fun acquire(now: Duration): Duration = wait(native.acquire(moment(now)))

    /** Counts an answer: a throttled one cuts the rate, any other lets it grow. */
    public fun onResponse(throttled: Boolean, now: Duration): Unit = native.onResponse(throttled, moment(now))

    /** Sends per second that are allowed; null before the first throttle. */
    public val rate: Double? get() = native.rate()

    /** Another of the same state. */
    public fun copy(): CubicRate = CubicRate(native.copy())
}
