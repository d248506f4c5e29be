// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.Bulkhead
import dev.tidegate.Configure
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import dev.tidegate.ffi.Aimd as NativeAimd
import dev.tidegate.ffi.Gradient2 as NativeGradient2
import dev.tidegate.ffi.CoDel as NativeCoDel

/**
 * A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
 *
 * Additive increase, multiplicative decrease, as TCP does it: several of them on one server share it evenly without knowing each other. It
 * computes the limit only: report how calls ended, and read the limit. Your code keeps the permits and the queue (`docs/spec.md`, 4.2).
 *
 * ```kotlin
 * val limit = Aimd { maxConcurrency = 20; latencyThreshold = 300.milliseconds; backoffRatio = 0.5 }
 * limit.onLatency(301.milliseconds, now = Duration.ZERO)
 * limit.limit // 10
 * ```
 */
public class Aimd private constructor(internal val native: NativeAimd) {
    /**
     * One with the settings `maxConcurrency`, `latencyThreshold`, `minConcurrency`, `increaseStep`, `backoffRatio`, `cutInterval`,
     * `latencyQuantile`.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(configure: Configure<Bulkhead>) :
        this(made("bulkhead", ::Bulkhead, configure, mapOf("kind" to "aimd")) { NativeAimd(it) })

    /** Calls that may be in flight. */
    public val limit: Int get() = native.limit().toInt()

    /** The limit with the fraction that it keeps inside. */
    public val exact: Double get() = native.exact()

    /** A call has ended well, after `latency`: 0 or more. */
    public fun onLatency(latency: Duration, now: Duration): Unit = native.onLatency(span("latency", latency), moment(now))

    /** A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach. */
    public fun onFailure(latency: Duration, now: Duration): Unit = native.onFailure(span("latency", latency), moment(now))

    /** A call was stopped by its timeout, which is a breach whatever the quantile is. */
    public fun onTimeout(now: Duration): Unit = native.onTimeout(moment(now))

    /** Whether it is as new: at its maximum, with no recent cut and no estimate. */
    public fun isFresh(now: Duration): Boolean = native.isFresh(moment(now))

    /**
     * Applies new settings, with the same keys as before.
     *
     * A limit at its maximum moves with it; any other stays where it is, within the new range.
     */
    public fun retune(configure: Configure<Bulkhead>): Unit =
        made("bulkhead", ::Bulkhead, configure, mapOf("kind" to "aimd")) { native.retune(it) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): Aimd = Aimd(native.copy())
}

/**
 * A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
 *
 * It compares the latest latencies with their long-term average, so it needs no threshold (Netflix `concurrency-limits`; `steady` is what
 * this project made of it, `docs/adr/0007`).
 *
 * ```kotlin
 * val limit = Gradient2 { maxConcurrency = 200 }
 * limit.onLatency(rtt = 20.milliseconds, started = Duration.ZERO, inFlight = 10, now = 20.milliseconds)
 * ```
 */
public class Gradient2 private constructor(internal val native: NativeGradient2) {
    /**
     * One with the settings `maxConcurrency`, `minConcurrency`, `longWindow`, `rttTolerance`, `headroom`, `variant`.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(configure: Configure<Bulkhead>) :
        this(made("bulkhead", ::Bulkhead, configure, mapOf("kind" to "gradient2")) { NativeGradient2(it) })

    /** Calls that may be in flight. */
    public val limit: Int get() = native.limit().toInt()

    /** The limit with the fraction that it keeps inside. */
    public val exact: Double get() = native.exact()

    /** The long-term latency; null before the first sample. */
    public val baseline: Duration? get() = native.baseline()?.seconds

    /**
     * A call has ended well.
     *
     * @param rtt How long it took; 0 or more.
     * @param started When it started, on the clock of `now`.
     * @param inFlight Calls in flight when it ended, itself included; 0 to 2^31 − 1.
     */
    public fun onLatency(rtt: Duration, started: Duration, inFlight: Int, now: Duration): Unit =
        native.onLatency(span("rtt", rtt), moment(started, "started"), count("inFlight", inFlight), moment(now))

    /**
     * A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
     *
     * @param started When it started, on the clock of `now`.
     * @param inFlight Calls in flight when it ended, itself included; 0 to 2^31 − 1.
     */
    public fun onDrop(started: Duration, inFlight: Int, now: Duration): Unit =
        native.onDrop(moment(started, "started"), count("inFlight", inFlight), moment(now))

    /** Whether it is as new: before its first sample or drop. */
    public val isFresh: Boolean get() = native.isFresh()

    /** Applies new settings, with the same keys as before, and keeps the estimates. */
    public fun retune(configure: Configure<Bulkhead>): Unit =
        made("bulkhead", ::Bulkhead, configure, mapOf("kind" to "gradient2")) { native.retune(it) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): Gradient2 = Gradient2(native.copy())
}

/**
 * Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
 *
 * It bounds a queue by the time that waiters spend in it, not by its length alone. It does not hold the queue: ask it for each waiter that
 * is taken out, and report when the queue is empty.
 *
 * ```kotlin
 * val queue = CoDel(now = Duration.ZERO) { queueTarget = 5.milliseconds; queueInterval = 100.milliseconds }
 * queue.shouldShed(sojourn = 1.milliseconds, now = 1.milliseconds) // false
 * ```
 */
public class CoDel private constructor(internal val native: NativeCoDel) {
    /**
     * One with the settings `queueTarget`, `queueInterval`, `codel`.
     *
     * @param now The present, on your clock: the queue is empty.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(now: Duration, configure: Configure<Bulkhead>) :
        this(made("bulkhead", ::Bulkhead, configure, mapOf("max_concurrency" to 1, "max_queue" to 1)) { NativeCoDel(it, moment(now)) })

    /** The queue is empty: before a waiter comes, or after the last one has left. */
    public fun onEmpty(now: Duration): Unit = native.onEmpty(moment(now))

    /**
     * Whether to shed this waiter. Ask once for each waiter that is taken out.
     *
     * @param sojourn How long it has waited; 0 or more.
     * @param scale Factor by which its importance extends the allowed wait; 0.01 to 100. A policy has 0.25 for `best_effort`, 0.5 for
     * `degraded`, 1 for `normal` and 2 for `critical`.
     */
    @JvmOverloads
    public fun shouldShed(sojourn: Duration, now: Duration, scale: Double = 1.0): Boolean =
        native.shouldShed(span("sojourn", sojourn), moment(now), real("scale", scale, 0.01, 100.0))

    /** Whether the queue has not been empty for a whole interval; then serve the newest waiter first. */
    public fun congested(now: Duration): Boolean = native.congested(moment(now))

    /** How long that a waiter of scale 1 may have waited, under the law of `facebook`. */
    public fun allowance(now: Duration): Duration = wait(native.allowance(moment(now)))

    /** Applies new settings, with the same keys as before. A change of the law resets the state. */
    public fun retune(configure: Configure<Bulkhead>): Unit =
        made("bulkhead", ::Bulkhead, configure, mapOf("max_concurrency" to 1, "max_queue" to 1)) { native.retune(it) }

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): CoDel = CoDel(native.copy())
}
