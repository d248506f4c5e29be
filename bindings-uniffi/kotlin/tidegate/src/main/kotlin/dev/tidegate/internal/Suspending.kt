package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.Core
import dev.tidegate.RetryListener
import dev.tidegate.Scope
import dev.tidegate.Verdict
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.ExperimentalCoroutinesApi
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.selects.onTimeout
import kotlinx.coroutines.selects.select

/** A timer of real time fires late, but never this much early, in microseconds. */
private const val EARLY_US = 10_000L

private const val VIRTUAL = "this coroutine's delays take no time (runTest), but its policy's engine goes by the real clock, so that the " +
    "two would wait for each other: give the policy an engine of the test, policy(engine = Engine(timeSource = testTimeSource)) { … }"

/** Cancellation of an attempt that was stopped. */
internal class Stopped(message: String) : CancellationException(message)

/**
 * Suspending shell: carries out the steps of one call. Attempts are children of the caller's coroutine, so nothing outlives the call. All
 * events come through one inbox, and the call waits in one place.
 */
internal abstract class SuspendingRun<T>(core: Core, route: String, private val around: Scope?, onRetry: RetryListener? = null) :
    Run<T>(core, route, onRetry) {
    private val inbox = Channel<Attempt?>(Channel.UNLIMITED)

    /** Makes an attempt. */
    protected abstract suspend fun start(lane: Attempt): Any?

    /** Releases the resources of a failed result while the call continues. */
    protected open fun release(scope: CoroutineScope, lane: Attempt) = Unit

    /**
     * Result for the caller when the head of a good response has arrived. The call continues until the body is read, for at most [us]
     * microseconds.
     */
    protected open fun body(lane: Attempt, us: Long): T = throw IllegalStateException("this call has no body")

    /** Puts null into the inbox, which means a wake. */
    override fun wake() {
        inbox.trySend(null)
    }

    /** Drives a call from its first step. */
    suspend fun begin(call: Long, step: Long): T {
        this.call = call
        engine.after(step)
        return drive { step }
    }

    /** Continues after a first attempt that the fast path has made. */
    suspend fun resume(call: Long, lane: Attempt): T {
        this.call = call
        attempts = 1
        lanes[0] = lane
        return drive { settled(it, lane) }
    }

    /** Continues from the step that followed the end of a first attempt. */
    suspend fun resumeAt(call: Long, lane: Attempt, step: Long): T {
        this.call = call
        attempts = 1
        lanes[0] = lane
        lane.told = true
        lane.hold(lane.ok, lane.value)
        engine.after(step)
        return drive { step }
    }

    private suspend fun drive(first: suspend (CoroutineScope) -> Long): T {
        var whole = false
        try {
            // The caller's exception is thrown outside coroutineScope, which would throw a copy of it while debugging.
            val step = coroutineScope { loop(this, first(this)) }
            whole = true
            if (Wire.action(step) == Wire.DONE) {
                reportTheRest()
                return conclude(step)
            }
            val winner = held()!!
            winner.told = true
            reportTheRest()
            drop(winner)
            return body(winner, Wire.span(step))
        } finally {
            if (!whole) {
                giveUp()
                reportTheRest()
                drop(null)
            }
        }
    }

    private suspend fun loop(scope: CoroutineScope, first: Long): Long {
        var step = first
        var polls = 0
        while (true) {
            val stops = Wire.stops(step)
            if (stops != 0) stop(stops, step)
            val us = Wire.span(step)
            if (hears) announce(step)
            when (Wire.action(step)) {
                Wire.DONE -> {
                    ended = true
                    unpark()
                    for (lane in lanes) if (lane != null && !lane.returned) lane.job?.cancel(Stopped("the call has ended"))
                    return step
                }
                Wire.ATTEMPT -> {
                    unpark()
                    launch(scope, lane(Wire.attempt(step), us))
                }
                else -> {
                    val why = Wire.why(step)
                    if (why == Wire.WAIT_BODY) {
                        unpark()
                        return step
                    }
                    // A call that has just registered polls once more, because it may have been woken before.
                    if ((why > Wire.WAIT_BACKOFF && park()) || (us == 0L && polls++ < 2)) {
                        step = tell(Wire.POLL)
                        continue
                    }
                }
            }
            polls = 0
            step = next(scope, us)
        }
    }

    /** Waits for the next event, at most [us] microseconds, and returns the step that follows. */
    @OptIn(ExperimentalCoroutinesApi::class)
    private suspend fun next(scope: CoroutineScope, us: Long): Long {
        var timer = false
        val due = engine.now() + us
        val happened = try {
            if (us < 0) {
                inbox.receive()
            } else {
                select {
                    inbox.onReceive { it }
                    onTimeout((us + 999) / 1000) {
                        timer = true
                        null
                    }
                }
            }
        } catch (cancelled: CancellationException) {
            giveUp()
            throw cancelled
        }
        if (timer && engine.isReal && engine.now() < due - maxOf(EARLY_US, us / 2)) throw IllegalStateException(VIRTUAL)
        return when {
            timer -> tell(Wire.TIMER)
            happened == null -> tell(Wire.POLL)
            else -> settled(scope, happened)
        }
    }

    /** Reports the end of an attempt and returns the next step. */
    private suspend fun settled(scope: CoroutineScope, lane: Attempt): Long {
        if (!lane.ok && lane.value is CancellationException && !lane.stopped) {
            // The caller's cancellation, or a timeout inside the attempt?
            if (!currentCoroutineContext().isActive) giveUp()
            currentCoroutineContext().ensureActive()
        }
        val step = tell(finished(lane))
        if (lane.ok && Wire.action(step) != Wire.DONE && lane.told && lane.held) release(scope, lane)
        return step
    }

    private fun launch(scope: CoroutineScope, lane: Attempt) {
        val inside = Scope(engine, call, null, null, around, lane.number)
        lane.job = scope.launch(inside, CoroutineStart.UNDISPATCHED) {
            try {
                lane.returned(true, start(lane))
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                lane.returned(false, error) // any error belongs to the caller
            }
            inbox.trySend(lane)
        }
    }

    /** Stops attempts. A stopped attempt ends with an `AttemptTimeout`, unless the call has succeeded or was cancelled. */
    private fun stop(places: Int, step: Long) {
        val verdict = if (Wire.action(step) == Wire.DONE) Verdict.of(Wire.verdict(step)) else null
        for (place in 0 until 8) {
            val lane = lanes[place]
            if (places and (1 shl place) == 0 || lane == null) continue
            val late = verdict != Verdict.OK && verdict != Verdict.CANCELLED
            if (!lane.stop(if (late) core.attemptTimeout(route) else null)) continue
            lane.job?.cancel(Stopped(if (verdict == Verdict.OK) "another attempt has answered first" else "its time was up"))
        }
    }

    /** Cancels the call for its caller. Its permit is passed on at once. */
    private fun giveUp() {
        if (ended) return
        ended = true
        unpark()
        tell(Wire.CANCEL)
    }
}
