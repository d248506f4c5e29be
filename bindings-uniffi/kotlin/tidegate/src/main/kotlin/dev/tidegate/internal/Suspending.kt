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
internal abstract class SuspendingRun<T>(
    core: Core,
    route: String,
    around: Scope?,
    onRetry: RetryListener? = null,
    judgement: Judgement? = null,
) : Run<T>(core, route, around, onRetry, judgement) {
    private val inbox = Channel<Attempt?>(Channel.UNLIMITED)

    /** Makes an attempt. */
    protected abstract suspend fun start(attempt: Attempt): Any?

    /** Releases the resources of a failed result while the call continues. */
    protected open fun release(scope: CoroutineScope, attempt: Attempt) = Unit

    /**
     * Result for the caller when the head of a good response has arrived. The call continues until the body is read, for at most [us]
     * microseconds.
     */
    protected open fun body(attempt: Attempt, us: Long): T = throw IllegalStateException("this call has no body")

    /** Silence of an attempt that the call's timer reports; null if there is nothing to report. */
    protected open fun silence(attempt: Attempt): Silence? = null

    /** Error for the caller if the call was cancelled otherwise than by its coroutine, else null. Such a cancellation must wake the call. */
    protected open fun cancelled(): Throwable? = null

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
    suspend fun resume(call: Long, attempt: Attempt): T {
        this.call = call
        attempts = 1
        slots[0] = attempt
        return drive { settled(it, attempt) }
    }

    /** Continues from the step that followed the end of a first attempt. */
    suspend fun resumeAt(call: Long, attempt: Attempt, step: Long): T {
        this.call = call
        attempts = 1
        slots[0] = attempt
        attempt.reported = true
        attempt.hold(attempt.ok, attempt.value)
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
            winner.reported = true
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
                    for (attempt in slots) if (attempt != null && !attempt.returned) attempt.job?.cancel(Stopped("the call has ended"))
                    return step
                }
                Wire.ATTEMPT -> {
                    unpark()
                    launch(scope, newAttempt(step))
                }
                else -> {
                    val why = Wire.why(step)
                    if (why == Wire.WAIT_BODY) {
                        unpark()
                        return step
                    }
                    // A call that has just registered polls once more, because it may have been woken before.
                    if ((why > Wire.WAIT_BACKOFF && park()) || (us == 0L && polls++ < 2)) {
                        step = advance(Wire.POLL)
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
        cancelled()?.let {
            giveUp()
            throw it
        }
        if (timer && engine.isReal && engine.now() < due - maxOf(EARLY_US, us / 2)) throw IllegalStateException(VIRTUAL)
        return when {
            timer -> advance(timerEvent())
            happened == null -> advance(Wire.POLL)
            else -> settled(scope, happened)
        }
    }

    /** Event of the call's timer: the longest silence of a running attempt, if there is one to report (semantics 7.7.16). */
    private fun timerEvent(): Long {
        val ages = slots.filterNotNull().filter { !it.returned && !it.stopped }.mapNotNull { attempt -> silence(attempt)?.let { attempt.number to it.age() } }
        val (number, age) = ages.maxByOrNull { it.second } ?: return Wire.TIMER
        return Wire.progress(number, age)
    }

    /** Reports the end of an attempt and returns the next step. */
    private suspend fun settled(scope: CoroutineScope, attempt: Attempt): Long {
        if (!attempt.ok && attempt.value is CancellationException && !attempt.stopped) {
            // The caller's cancellation, or a timeout inside the attempt?
            if (!currentCoroutineContext().isActive) giveUp()
            currentCoroutineContext().ensureActive()
        }
        val step = advance(finished(attempt))
        if (attempt.ok && Wire.action(step) != Wire.DONE && attempt.reported && attempt.held) release(scope, attempt)
        return step
    }

    private fun launch(scope: CoroutineScope, attempt: Attempt) {
        val inside = Scope(engine, call, null, null, around, attempt.number, attempt.target)
        attempt.job = scope.launch(inside, CoroutineStart.UNDISPATCHED) {
            try {
                attempt.returned(true, start(attempt))
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                attempt.returned(false, error) // any error belongs to the caller
            }
            inbox.trySend(attempt)
        }
    }

    /** Stops attempts. A stopped attempt ends with an `AttemptTimeout`, unless the call has succeeded or was cancelled. */
    private fun stop(places: Int, step: Long) {
        val verdict = if (Wire.action(step) == Wire.DONE) Verdict.of(Wire.verdict(step)) else null
        for (place in 0 until 8) {
            val attempt = slots[place]
            if (places and (1 shl place) == 0 || attempt == null) continue
            val late = verdict != Verdict.OK && verdict != Verdict.CANCELLED
            if (!attempt.stop(if (late) core.attemptTimeout(route) else null)) continue
            attempt.job?.cancel(Stopped(if (verdict == Verdict.OK) "another attempt has answered first" else "its time was up"))
        }
    }

    /** Cancels the call for its caller. Its permit is passed on at once. */
    private fun giveUp() {
        if (ended) return
        ended = true
        unpark()
        advance(Wire.CANCEL)
    }
}
