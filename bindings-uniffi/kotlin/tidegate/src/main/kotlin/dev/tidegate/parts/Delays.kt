// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

@file:JvmName("Delays")

package dev.tidegate.parts

import dev.tidegate.Backoff as BackoffOptions
import dev.tidegate.Configure
import dev.tidegate.internal.Library
import java.time.Instant
import kotlin.time.Duration
import dev.tidegate.ffi.parseRetryAfter as parse
import dev.tidegate.ffi.Backoff as NativeBackoff

/**
 * Reads a `Retry-After` value: how long to wait, or null where it says nothing (RFC 9110, 10.2.3).
 *
 * Delay-seconds, or one of the three HTTP dates against the wall clock, which [now] is. A negative number and a past date are
 * zero; decimals, units, signs, wrong dates and garbage are null. It never throws for a value, whatever it is.
 *
 * ```kotlin
 * parseRetryAfter("120") // 2m
 * ```
 */
@JvmOverloads
public fun parseRetryAfter(value: String, now: Instant = Instant.now()): Duration? {
    val us = now.epochSecond * 1_000_000 + now.nano / 1_000
    require(us >= 0) { "now = $now: must not be before 1970" }
    return Library.loaded { parse(value.encodeToByteArray(), us.toULong()) }?.let(::wait)
}

/**
 * The delay before retry n = 1, 2, …: growth, cap, jitter.
 *
 * Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial` base·n^exponent, each capped at `max` before
 * jitter. Jitter of a delay d: `none`, `full` U(0, d), `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated` U(base, min(max,
 * 3·previous)), `bounded` U((1−j)·d, (1+j)·d). Names after "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015); `docs/spec.md`,
 * 2.4 and 2.5.
 *
 * ```kotlin
 * val backoff = Backoff { base = 100.milliseconds; max = 5.seconds; jitter = BackoffJitter.NONE }
 * (1..4).map { backoff.delay(it) } // 100ms, 200ms, 400ms, 800ms
 * ```
 */
public class Backoff private constructor(internal val native: NativeBackoff) {
    /**
     * One with the settings `kind`, `base`, `max`, `multiplier`, `exponent`, `jitter`, `jitterRatio`, all of which have defaults.
     *
     * @param seed Seed of all random draws, 64 bits; by default from the operating system.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(seed: Long? = null, configure: Configure<BackoffOptions> = Configure { }) :
        this(made("retry.backoff", ::BackoffOptions, configure) { NativeBackoff(it, seed(seed)) })

    /**
     * How long to wait before retry `n`, 1 to 255.
     *
     * Without `call` every delay is a draw of its own. With one, a number of your own for the call that is retried, the delay is a function
     * of seed, call and n, and `decorrelated` follows the call's own draws.
     */
    @JvmOverloads
    public fun delay(n: Int, call: Long? = null): Duration = wait(native.delay(within("n", n, 1, 255).toUByte(), call?.toULong()))

    /** How long before retry `n`, 1 to 255, without jitter. */
    public fun ceiling(n: Int): Duration = wait(native.ceiling(within("n", n, 1, 255).toUByte()))

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): Backoff = Backoff(native.copy())
}
