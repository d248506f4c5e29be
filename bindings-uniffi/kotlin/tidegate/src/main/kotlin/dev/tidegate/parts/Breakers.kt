// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.Breaker
import dev.tidegate.Configure
import dev.tidegate.Throttle
import kotlin.time.Duration
import dev.tidegate.ffi.Ticket as NativeTicket
import dev.tidegate.ffi.CircuitBreaker as NativeCircuitBreaker
import dev.tidegate.ffi.AdaptiveThrottle as NativeAdaptiveThrottle

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
    internal constructor(names: List<String>) : this(BreakerState.valueOf(names[0].uppercase()), BreakerState.valueOf(names[1].uppercase()))

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
public class Ticket(public val number: Int, public val probe: Boolean) {
    internal val native: NativeTicket = NativeTicket(within("number", number, 0, 65535).toUShort(), probe)
}

/**
 * Refuses calls to a downstream that fails too often, and lets a few through after a break.
 *
 * It opens when failures ≥ `failureRatio`·results with at least `minThroughput` results in the window, or after `consecutive` failures.
 * Probes are leases: one that never reports loses its place, so that no lost call keeps a breaker half-open. A result that comes too late
 * changes nothing (`docs/spec.md`, 5).
 *
 * ```kotlin
 * val breaker = CircuitBreaker { consecutive = 2; breakDuration = 1.seconds }
 * repeat(2) { breaker.record(breaker.admit(Duration.ZERO)!!, Evidence.FAILURE, Duration.ZERO) }
 * breaker.state // OPEN
 * ```
 */
public class CircuitBreaker private constructor(internal val native: NativeCircuitBreaker) {
    /**
     * One with the settings `breakDuration`, `failureRatio`, `window`, `minThroughput`, `windowKind`, `consecutive`, `breakFactor`,
     * `maxBreakDuration`, `halfOpenMaxCalls`, `successesToClose`.
     *
     * @param seed Seed of all random draws, 64 bits; by default from the operating system.
     * @param probeLease How long a probe keeps its place without reporting; 1 µs to 365 days, by default `breakDuration`. In a policy it
     * follows from the attempt timeout.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(seed: Long? = null, probeLease: Duration? = null, configure: Configure<Breaker>) :
        this(made("breaker", ::Breaker, configure) { NativeCircuitBreaker(it, lease(probeLease), seed(seed)) })

    /**
     * `closed`, `open` or `half_open`.
     *
     * A break that has ended is `open` until the first admission after it.
     */
    public val state: BreakerState get() = BreakerState.valueOf(native.state().uppercase())

    /**
     * Lets a call through: a ticket to hand back with what came of it.
     *
     * Null where it is refused; `refuses` says for how long.
     */
    public fun admit(now: Duration): Ticket? = native.admit(moment(now))?.let { Ticket(it.number.toInt(), it.probe) }

    /**
     * Takes what came of an admitted call: the transition that it made, or null.
     *
     * @param ticket What `admit` gave. One of an older generation changes nothing.
     * @param evidence `neutral` gives a probe's place back and counts nothing.
     * @param bits 64 random bits for the jitter of a break that this opens, in the place of the seed's.
     */
    @JvmOverloads
    public fun record(ticket: Ticket, evidence: Evidence, now: Duration, bits: Long? = null): Transition? =
        native.record(ticket.native, evidence.name.lowercase(), moment(now), bits?.toULong())?.let(::Transition)

    /**
     * The body failed of a call that was recorded as a success at its head.
     *
     * Its success becomes a failure.
     */
    @JvmOverloads
    public fun onBodyFailure(ticket: Ticket, now: Duration, bits: Long? = null): Transition? =
        native.onBodyFailure(ticket.native, moment(now), bits?.toULong())?.let(::Transition)

    /**
     * What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
     *
     * `permanent`, a healthy server's "no", is a success.
     *
     * @throws IllegalArgumentException if `kind` is none of the classes.
     */
    public fun evidenceOf(kind: String): Evidence = Evidence.valueOf(argued { native.evidenceOf(kind) }.uppercase())

    /**
     * How long until another try makes sense if an admission now would be refused, else null.
     *
     * Changes nothing.
     */
    public fun refuses(now: Duration): Duration? = native.refuses(moment(now))?.let(::wait)

    /** The end of the break while open, on your clock; else null. */
    public val openUntil: Duration? get() = native.openUntil()?.let(::since)

    /** Failures in the window; while open, what is left of those that opened it. */
    public fun failures(now: Duration): Int = native.failures(moment(now)).toInt()

    /** Results in the window, failures included. */
    public fun throughput(now: Duration): Int = native.throughput(moment(now)).toInt()

    /** Whether a new breaker would decide the same from now on. */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Closed again, with nothing counted. Results of calls admitted before change nothing. */
    public fun reset(): Unit = native.reset()

    /** Releases the places of all probes: after a fork, they belong to the parent process. */
    public fun forgetProbes(): Unit = native.forgetProbes()

    /**
     * Applies new settings, with the same keys as before.
     *
     * State, probes out and failures in a row are kept, and so are the window's counts where its length and kind are the same. A break
     * under way is cut to the longest that the new settings could give.
     *
     * @param probeLease How long a probe keeps its place without reporting; 1 µs to 365 days, by default `breakDuration`. In a policy it
     * follows from the attempt timeout.
     */
    @JvmOverloads
    public fun retune(now: Duration, probeLease: Duration? = null, configure: Configure<Breaker>): Unit =
        made("breaker", ::Breaker, configure) { native.retune(it, lease(probeLease), moment(now)) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): CircuitBreaker = CircuitBreaker(native.copy())
}

/**
 * Refuses a share of the calls to a downstream that does not accept enough of them.
 *
 * With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling as in the SRE book, "Handling
 * Overload". About k times what is still accepted is let through, so that recovery is noticed without a special state (`docs/spec.md`, 6).
 *
 * ```kotlin
 * val throttle = AdaptiveThrottle(now = Duration.ZERO, seed = 7)
 * if (throttle.admit(now = 1.seconds)) throttle.record(accepted = true, now = 1.seconds)
 * ```
 */
public class AdaptiveThrottle private constructor(internal val native: NativeAdaptiveThrottle) {
    /**
     * One with the settings `k`, `window`, `windowKind`, `minThroughput`, `maxReject`, `probeInterval`, all of which have defaults.
     *
     * @param now The present, on your clock.
     * @param seed Seed of all random draws, 64 bits; by default from the operating system.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(now: Duration, seed: Long? = null, configure: Configure<Throttle> = Configure { }) :
        this(made("throttle", ::Throttle, configure) { NativeAdaptiveThrottle(it, moment(now), seed(seed)) })

    /**
     * May a call go through? One that is refused has been counted; record one that is let through.
     *
     * @param bits 64 random bits, in the place of the seed's.
     */
    @JvmOverloads
    public fun admit(now: Duration, bits: Long? = null): Boolean = native.admit(moment(now), bits?.toULong())

    /** A call that was let through has ended. Do not record one that says neither yes nor no. */
    public fun record(accepted: Boolean, now: Duration): Unit = native.record(accepted, moment(now))

    /**
     * Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? Null: it does not count.
     *
     * @throws IllegalArgumentException if `kind` is none of the classes.
     */
    public fun accepted(kind: String): Boolean? = argued { native.accepted(kind) }

    /** Requests in the window. */
    public fun requests(now: Duration): Int = native.requests(moment(now)).toInt()

    /** Those of them that the downstream accepted. */
    public fun accepts(now: Duration): Int = native.accepts(moment(now)).toInt()

    /** The probability that a call is refused now, 0 to 1. */
    public fun probability(now: Duration): Double = native.probability(moment(now))

    /** Is nothing in the window? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /**
     * Applies new settings, with the same keys as before.
     *
     * The counts are kept where the window's length and kind are the same.
     */
    public fun retune(now: Duration, configure: Configure<Throttle>): Unit =
        made("throttle", ::Throttle, configure) { native.retune(it, moment(now)) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): AdaptiveThrottle = AdaptiveThrottle(native.copy())
}
