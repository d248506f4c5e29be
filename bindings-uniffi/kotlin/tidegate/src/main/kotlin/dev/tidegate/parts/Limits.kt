package dev.tidegate.parts

import dev.tidegate.Bulkhead
import dev.tidegate.BulkheadKind
import dev.tidegate.Configure
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import dev.tidegate.ffi.Aimd as NativeAimd
import dev.tidegate.ffi.CoDel as NativeCoDel
import dev.tidegate.ffi.Gradient2 as NativeGradient2

private fun <R> limit(kind: BulkheadKind, configure: Configure<Bulkhead>, make: (List<dev.tidegate.ffi.Pair>) -> R): R =
    made("bulkhead", ::Bulkhead, configure, mapOf("kind" to kind), make)

/**
 * A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not (`docs/spec.md`, 4.2).
 *
 * A controller and nothing else: it is told what happened and answers with a limit; who holds a permit and who waits is yours.
 *
 * ```kotlin
 * val limit = Aimd { maxConcurrency = 20; latencyThreshold = 300.milliseconds; backoffRatio = 0.5 }
 * limit.onLatency(301.milliseconds, now = Duration.ZERO)
 * limit.limit // 10
 * ```
 */
public class Aimd private constructor(private val native: NativeAimd) {
    /** One with the settings `maxConcurrency`, `latencyThreshold`, `minConcurrency`, `increaseStep`, `backoffRatio`, `cooldown`, `latencyQuantile`. */
    public constructor(configure: Configure<Bulkhead>) : this(limit(BulkheadKind.AIMD, configure) { NativeAimd(it) })

    /** Calls that may be in flight. */
    public val limit: Int get() = native.limit().toInt()

    /** The limit with its fraction. */
    public val exact: Double get() = native.exact()

    /** A call has ended well after this long. */
    public fun onLatency(latency: Duration, now: Duration): Unit = native.onLatency(span("latency", latency), moment(now))

    /** A call has failed after this long. */
    public fun onFailure(latency: Duration, now: Duration): Unit = native.onFailure(span("latency", latency), moment(now))

    /** A call was cut by a timeout. */
    public fun onTimeout(now: Duration): Unit = native.onTimeout(moment(now))

    /** Is it as if new? */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /** Goes on with other settings, which say all of it. */
    public fun retune(configure: Configure<Bulkhead>): Unit = limit(BulkheadKind.AIMD, configure) { native.retune(it) }

    /** Another of the same state. */
    public fun copy(): Aimd = Aimd(native.copy())
}

/**
 * A concurrency limit that follows the change of latency (`docs/spec.md`, 4.3): it needs no threshold.
 *
 * ```kotlin
 * val limit = Gradient2 { maxConcurrency = 200 }
 * limit.onLatency(rtt = 20.milliseconds, started = Duration.ZERO, inFlight = 10, now = 20.milliseconds)
 * ```
 */
public class Gradient2 private constructor(private val native: NativeGradient2) {
    /** One with the settings `maxConcurrency`, `minConcurrency`, `longWindow`, `rttTolerance`, `headroom`, `variant`. */
    public constructor(configure: Configure<Bulkhead>) : this(limit(BulkheadKind.GRADIENT2, configure) { NativeGradient2(it) })

    /** Calls that may be in flight. */
    public val limit: Int get() = native.limit().toInt()

    /** The limit with its fraction. */
    public val exact: Double get() = native.exact()

    /** The long-term latency; null before the first sample. */
    public val baseline: Duration? get() = native.baseline()?.seconds

    /** A call that began at [started] has ended well after [rtt], and [inFlight] were in flight with it. */
    public fun onLatency(rtt: Duration, started: Duration, inFlight: Int, now: Duration): Unit =
        native.onLatency(span("rtt", rtt), moment(started, "started"), count("inFlight", inFlight), moment(now))

    /** A call that began at [started] was cut by a timeout, or throttled. */
    public fun onDrop(started: Duration, inFlight: Int, now: Duration): Unit =
        native.onDrop(moment(started, "started"), count("inFlight", inFlight), moment(now))

    /** Is it as if new? */
    public val isFresh: Boolean get() = native.isFresh()

    /** Goes on with other settings, which say all of it. */
    public fun retune(configure: Configure<Bulkhead>): Unit = limit(BulkheadKind.GRADIENT2, configure) { native.retune(it) }

    /** Another of the same state. */
    public fun copy(): Gradient2 = Gradient2(native.copy())
}

/**
 * Controlled delay: says which waiters of a queue are shed so that it does not stand (`docs/spec.md`, 4.5). The queue is yours:
 * ask for each waiter before it is served, and tell when nobody waits.
 *
 * ```kotlin
 * val queue = CoDel(now = Duration.ZERO) { queueTarget = 5.milliseconds; queueInterval = 100.milliseconds }
 * queue.shouldShed(sojourn = 1.milliseconds, now = 1.milliseconds) // false
 * ```
 */
public class CoDel private constructor(private val native: NativeCoDel) {
    /** One with the settings `queueTarget`, `queueInterval` and `codel`. */
    public constructor(now: Duration, configure: Configure<Bulkhead>) :
        this(made("bulkhead", ::Bulkhead, configure, owned) { NativeCoDel(it, moment(now)) })

    /** The queue has just been seen empty: before a waiter came, or after the last one has left. */
    public fun onEmpty(now: Duration): Unit = native.onEmpty(moment(now))

    /** Has the queue not been empty for a whole interval? */
    public fun congested(now: Duration): Boolean = native.congested(moment(now))

    /** How long a waiter of scale 1 may have waited. */
    public fun allowance(now: Duration): Duration = wait(native.allowance(moment(now)))

    /**
     * Is the waiter at hand shed, who has waited for [sojourn]? To be asked once for each that is taken out.
     *
     * @param scale What its importance stretches the allowed wait by, 0.01 to 100. A policy has 0.25 for best effort, 0.5 for
     * degraded, 1 for normal and 2 for critical.
     */
    @JvmOverloads
    public fun shouldShed(sojourn: Duration, now: Duration, scale: Double = 1.0): Boolean =
        native.shouldShed(span("sojourn", sojourn), real("scale", scale, 0.01, 100.0), moment(now))

    /** Goes on with other settings, which say all of it. */
    public fun retune(configure: Configure<Bulkhead>): Unit = made("bulkhead", ::Bulkhead, configure, owned) { native.retune(it) }

    /** Another of the same state. */
    public fun copy(): CoDel = CoDel(native.copy())

    private companion object {
        /** A policy has a queue only where it has a bulkhead; none of these changes what the queue does. */
        val owned = mapOf("max_concurrency" to 1, "max_queue" to 1)
    }
}
