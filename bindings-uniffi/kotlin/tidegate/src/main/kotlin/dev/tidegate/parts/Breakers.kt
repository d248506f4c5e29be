package dev.tidegate.parts

import dev.tidegate.Breaker
import dev.tidegate.Configure
import dev.tidegate.Throttle
import dev.tidegate.ffi.BreakerChange
import dev.tidegate.internal.Library
import kotlin.time.Duration
import kotlin.time.Duration.Companion.days
import kotlin.time.Duration.Companion.microseconds
import dev.tidegate.ffi.AdaptiveThrottle as NativeThrottle
import dev.tidegate.ffi.CircuitBreaker as NativeBreaker
import dev.tidegate.ffi.Ticket as NativeTicket

/** Where a breaker stands. */
public enum class BreakerState {
    /** Calls go through. */
    CLOSED,

    /** Calls are refused; also after the break, until the first admission. */
    OPEN,

    /** Probes go through. */
    HALF_OPEN,
}

/** What a result says about a downstream's health. */
public enum class Evidence {
    /** It is well. */
    SUCCESS,

    /** It is not. */
    FAILURE,

    /** Nothing: a probe's place is given back, and nothing is counted. */
    NEUTRAL,
}

/** A transition of a breaker. */
public class Transition internal constructor(
    /** From this … */
    public val from: BreakerState,
    /** … to this. */
    public val to: BreakerState,
) {
    override fun equals(other: Any?): Boolean = other is Transition && from == other.from && to == other.to

    override fun hashCode(): Int = 31 * from.hashCode() + to.hashCode()

    override fun toString(): String = "Transition(from=$from, to=$to)"
}

/**
 * Proof of an admission, to be handed back with what came of it, once.
 *
 * @property number The generation while closed; the probe while half-open. 0 to 65,535.
 * @property probe Was it admitted as a probe?
 */
public class Ticket private constructor(internal val native: NativeTicket) {
    /** The ticket of this number, to make one again that was kept elsewhere. */
    public constructor(number: Int, probe: Boolean) : this(Library.loaded { NativeTicket(checked(number), probe) })

    public val number: Int get() = native.number().toInt()

    public val probe: Boolean get() = native.probe()

    internal companion object {
        fun of(native: NativeTicket): Ticket = Ticket(native)

        private fun checked(number: Int): UShort {
            require(number in 0..0xffff) { "number = $number: must be from 0 to 65535" }
            return number.toUShort()
        }
    }
}

/**
 * The circuit breaker (`docs/spec.md`, 5): it opens after failures, refuses for a while, and lets probes through then.
 *
 * ```kotlin
 * val breaker = CircuitBreaker { consecutive = 2; breakDuration = 1.seconds }
 * repeat(2) { breaker.record(breaker.admit(Duration.ZERO)!!, Evidence.FAILURE, Duration.ZERO) }
 * breaker.state // OPEN
 * ```
 */
public class CircuitBreaker private constructor(private val native: NativeBreaker) {
    /**
     * One with the settings of a policy's `breaker { … }`.
     *
     * @param seed All the randomness there is; drawn where it is null.
     * @param probeLease A probe that is not heard of for so long gives its place back; core's default where it is null.
     * @throws dev.tidegate.PolicyException if a setting is outside its range.
     */
    @JvmOverloads
    public constructor(seed: Long? = null, probeLease: Duration? = null, configure: Configure<Breaker>) :
        this(made("breaker", ::Breaker, configure) { NativeBreaker(it, lease(probeLease), seed(seed)) })

    /** Where it stands. A break that has ended is open until the first admission after it. */
    public val state: BreakerState get() = BreakerState.valueOf(native.state().uppercase())

    /** How long until another try makes sense, where an admission now would be refused; else null. Changes nothing. */
    public fun refuses(now: Duration): Duration? = native.refuses(moment(now))?.let(::wait)

    /** Lets a call through: a ticket to hand back with what came of it; null where it is refused. */
    public fun admit(now: Duration): Ticket? = native.admit(moment(now))?.let(Ticket::of)

    /**
     * Takes what came of an admitted call: the transition that it made, or null. A ticket of an older generation changes
     * nothing.
     *
     * @param bits 64 random bits for the jitter of a break that this opens, in the place of the seed's.
     */
    @JvmOverloads
    public fun record(ticket: Ticket, evidence: Evidence, now: Duration, bits: Long? = null): Transition? =
        change(native.record(ticket.native, evidence.name.lowercase(), moment(now), bits?.toULong()))

    /** The body failed of a call that was recorded as a success at its head: its success becomes a failure. */
    @JvmOverloads
    public fun onBodyFailure(ticket: Ticket, now: Duration, bits: Long? = null): Transition? =
        change(native.onBodyFailure(ticket.native, moment(now), bits?.toULong()))

    /** The end of the break, on your clock; null where it is not open. */
    public val openUntil: Duration? get() = native.openUntil()?.let(::since)

    /** Failures in the window. */
    public fun failures(now: Duration): Int = native.failures(moment(now)).toInt()

    /** Results in the window. */
    public fun throughput(now: Duration): Int = native.throughput(moment(now)).toInt()

    /** Would a new breaker do the same from here on? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Closed again, with nothing counted. */
    public fun reset(): Unit = native.reset()

    /** Gives all probes' places back. */
    public fun forgetProbes(): Unit = native.forgetProbes()

    /** Goes on with other settings, which say all of it; the counts are kept where the window's length and kind are the same. */
    @JvmOverloads
    public fun retune(now: Duration, probeLease: Duration? = null, configure: Configure<Breaker>): Unit =
        made("breaker", ::Breaker, configure) { native.retune(it, lease(probeLease), moment(now)) }

    /** Another of the same state. */
    public fun copy(): CircuitBreaker = CircuitBreaker(native.copy())

    public companion object {
        /**
         * What a result of this class (`ok`, `transient`, …) says about a downstream's health.
         *
         * @throws IllegalArgumentException if it is none of the classes.
         */
        @JvmStatic
        public fun evidenceOf(kind: String): Evidence = Evidence.valueOf(argued { dev.tidegate.ffi.evidenceOf(kind) }.uppercase())

        private fun change(change: BreakerChange?): Transition? = change?.let {
            Transition(BreakerState.valueOf(it.from.uppercase()), BreakerState.valueOf(it.to.uppercase()))
        }

        private fun lease(lease: Duration?): ULong? {
            if (lease == null) return null
            require(lease in 1.microseconds..365.days) { "probeLease = $lease: must be from 1 µs to 365 days" }
            return span("probeLease", lease)
        }
    }
}

/**
 * The adaptive throttle (Google's SRE book, chapter 21; `docs/spec.md`, 6): it refuses a part of the calls, the larger the more the
 * downstream refuses.
 *
 * ```kotlin
 * val throttle = AdaptiveThrottle(now = Duration.ZERO, seed = 7)
 * if (throttle.admit(now = 1.seconds)) throttle.record(accepted = true, now = 1.seconds)
 * ```
 */
public class AdaptiveThrottle private constructor(private val native: NativeThrottle) {
    /**
     * One with the settings of a policy's `throttle { … }`, all of which have defaults.
     *
     * @param seed All the randomness there is; drawn where it is null.
     * @throws dev.tidegate.PolicyException if a setting is outside its range.
     */
    @JvmOverloads
    public constructor(now: Duration, seed: Long? = null, configure: Configure<Throttle> = Configure { }) :
        this(made("throttle", ::Throttle, configure) { NativeThrottle(it, seed(seed), moment(now)) })

    /** The probability that a call is refused now. */
    public fun probability(now: Duration): Double = native.probability(moment(now))

    /** May a call go through? [bits] are 64 random bits in the place of the seed's. */
    @JvmOverloads
    public fun admit(now: Duration, bits: Long? = null): Boolean = native.admit(moment(now), bits?.toULong())

    /** A call that was let through has ended: did the downstream accept it? */
    public fun record(accepted: Boolean, now: Duration): Unit = native.record(accepted, moment(now))

    /** Requests in the window. */
    public fun requests(now: Duration): Int = native.counts(moment(now)).requests.toInt()

    /** Those that the downstream accepted. */
    public fun accepts(now: Duration): Int = native.counts(moment(now)).accepts.toInt()

    /** Is nothing in the window? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Goes on with other settings, which say all of it; the counts are kept where the window's length and kind are the same. */
    public fun retune(now: Duration, configure: Configure<Throttle>): Unit =
        made("throttle", ::Throttle, configure) { native.retune(it, moment(now)) }

    /** Another of the same state. */
    public fun copy(): AdaptiveThrottle = AdaptiveThrottle(native.copy())

    public companion object {
        /**
         * Was a call of this class (`ok`, `transient`, …) accepted? Null where it does not count.
         *
         * @throws IllegalArgumentException if it is none of the classes.
         */
        @JvmStatic
        public fun accepted(kind: String): Boolean? = argued { dev.tidegate.ffi.accepted(kind) }
    }
}
