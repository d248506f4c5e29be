@file:JvmName("Delays")

package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.internal.Library
import java.time.Instant
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import dev.tidegate.Backoff as BackoffOptions
import dev.tidegate.ffi.Backoff as NativeBackoff
import dev.tidegate.ffi.parseRetryAfter as parse

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
    return Library.loaded { parse(value.encodeToByteArray(), us.toULong()) }?.toLong()?.microseconds
}

/**
 * The delay before retry n = 1, 2, …: growth, cap, jitter (`docs/spec.md`, 2.4 and 2.5).
 *
 * ```kotlin
 * val backoff = Backoff { base = 100.milliseconds; max = 5.seconds; jitter = BackoffJitter.NONE }
 * (1..4).map { backoff.delay(it) } // 100ms, 200ms, 400ms, 800ms
 * ```
 */
public class Backoff private constructor(internal val native: NativeBackoff) {
    /**
     * One with the settings of a policy's `backoff { … }`, all of which have defaults.
     *
     * @param seed All the randomness there is; drawn where it is null.
     * @throws dev.tidegate.PolicyException if a setting is outside its range.
     */
    @JvmOverloads
    public constructor(seed: Long? = null, configure: Configure<BackoffOptions> = Configure { }) :
        this(made("retry.backoff", ::BackoffOptions, configure) { NativeBackoff(it, seed(seed)) })

    /**
     * How long to wait before retry [n], 1 to 255.
     *
     * Without [call] every delay is a draw of its own. With one, a number of your own for the call that is retried, the delay
     * is a function of seed, call and n, and a decorrelated jitter follows the call's own draws.
     */
    @JvmOverloads
    public fun delay(n: Int, call: Long? = null): Duration = native.delay(retry(n), call?.toULong()).toLong().microseconds

    /** How long before retry [n], 1 to 255, without jitter. */
    public fun ceiling(n: Int): Duration = native.ceiling(retry(n)).toLong().microseconds

    /** Another that draws the same delays from here on. */
    public fun copy(): Backoff = Backoff(native.copy())

    private fun retry(n: Int): UByte {
        require(n in 1..255) { "n = $n: must be from 1 to 255" }
        return n.toUByte()
    }
}
