package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.Core
import dev.tidegate.RetryListener
import dev.tidegate.Scope
import dev.tidegate.Verdict
import java.io.InterruptedIOException
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.locks.LockSupport

/**
 * Whether the thread was interrupted. I/O that notices an interrupt throws exceptions of its own and leaves the thread's interrupt flag
 * set. A timeout, which Java reports by some of the same exceptions, does not set the flag.
 */
internal fun isInterrupt(error: Throwable): Boolean = error is InterruptedException ||
    (error is InterruptedIOException || error is ClosedByInterruptException) &&
    error !is SocketTimeoutException && Thread.currentThread().isInterrupted

/** Largest difference between two clocks of one machine, in microseconds, with a margin. */
private const val SKEW_US = 100_000L

/**
 * Blocking shell: carries out the steps of one call on the thread that makes it. Attempts cannot be stopped from outside, so none runs
 * beside another.
 */
internal abstract class BlockingRun<T>(core: Core, route: String, private val around: Scope?, onRetry: RetryListener? = null) :
    Run<T>(core, route, onRetry) {
    private val thread = Thread.currentThread()

    @Volatile private var woken = false

    /** Makes an attempt. */
    protected abstract fun start(lane: Attempt): Any?

    /** Releases the resources of a failed result while the call continues. */
    protected open fun release(lane: Attempt) = Unit

    /** Result for the caller when the head of a good response has arrived and its body follows. */
    protected open fun body(): T = throw IllegalStateException("this call has no body")

    /** Whether this error means that the caller cancelled. */
    protected open fun isCancellation(error: Throwable): Boolean = isInterrupt(error)

    /** Error for the caller if it has cancelled otherwise than by an interrupt, else null. Such a cancellation must wake the call. */
    protected open fun cancelled(): Throwable? = null

    /** Whether Tidegate has ended the attempt because the deadline passed. */
    protected open fun late(): Boolean = false

    /** Longest wait between two looks at [cancelled], in microseconds. */
    protected open val lookUs: Long get() = Long.MAX_VALUE

    override fun wake() {
        woken = true
        LockSupport.unpark(thread)
    }

    fun begin(call: Long, step: Long): T {
        this.call = call
        engine.after(step)
        return drive(step)
    }

    fun resume(call: Long, lane: Attempt): T {
        this.call = call
        attempts = 1
        lanes[0] = lane
        return drive(null, lane)
    }

    fun resumeAt(call: Long, lane: Attempt, step: Long): T {
        this.call = call
        attempts = 1
        lanes[0] = lane
        lane.told = true
        lane.hold(lane.ok, lane.value)
        engine.after(step)
        return drive(step)
    }

    private fun drive(first: Long?, made: Attempt? = null): T {
        var whole = false
        try {
            val step = loop(first ?: settled(made!!))
            if (Wire.action(step) != Wire.DONE) return body().also { whole = true }
            whole = true
            reportTheRest()
            return conclude(step)
        } finally {
            if (!whole) {
                giveUp()
                reportTheRest()
                drop(null)
            }
        }
    }

    private fun loop(first: Long): Long {
        var step = first
        var polls = 0
        while (true) {
            val us = Wire.span(step)
            if (hears) announce(step)
            when (Wire.action(step)) {
                Wire.DONE -> {
                    ended = true
                    unpark()
                    return step
                }
                Wire.ATTEMPT -> {
                    unpark()
                    step = settled(made(lane(Wire.attempt(step), us)))
                    continue
                }
            }
            val why = Wire.why(step)
            if (why == Wire.WAIT_BODY) {
                unpark()
                return step
            }
            if ((why > Wire.WAIT_BACKOFF && park()) || (us == 0L && polls++ < 2)) {
                step = tell(Wire.POLL)
                continue
            }
            polls = 0
            step = tell(pause(us))
        }
    }

    private fun made(lane: Attempt): Attempt {
        Scope.within(Scope(engine, call, null, null, around, lane.number)) {
            try {
                lane.returned(true, start(lane))
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                lane.returned(false, error) // any error belongs to the caller
            }
        }
        return lane
    }

    private fun settled(lane: Attempt): Long {
        val error = lane.error()
        if (error != null && isCancellation(error)) throw error
        if (error != null && (lane.stopped || late())) {
            val step = timedOut(lane)
            if (Wire.action(step) == Wire.DONE) return step // the deadline has passed; the attempt's end is reported with the rest
            if (late()) throw refusal(Verdict.DEADLINE, null, error)
        }
        val step = tell(finished(lane))
        if (lane.ok && lane.told && Wire.action(step) != Wire.DONE) release(lane)
        return step
    }

    /**
     * Reports that an attempt ran out of time, by the clock that stopped it. The engine's own clock may be a little behind (it is another
     * one, and rounds to microseconds), so the engine is asked again at its moment, for at most [SKEW_US].
     */
    private fun timedOut(lane: Attempt): Long {
        val until = System.nanoTime() + SKEW_US * 1_000
        while (true) {
            val step = tell(Wire.TIMER)
            val us = Wire.span(step)
            val decided = Wire.action(step) == Wire.DONE || Wire.action(step) == Wire.ATTEMPT || Wire.why(step) != Wire.WAIT_RUNNING
            if (decided || us !in 0..SKEW_US || System.nanoTime() >= until) return step
            LockSupport.parkNanos(us * 1_000 + 1_000)
        }
    }

    /** Waits [us] microseconds, or until it is woken, and returns the event that follows. */
    private fun pause(us: Long): Long {
        val until = if (us < 0) Long.MAX_VALUE else engine.now() + us
        while (!woken) {
            if (Thread.interrupted()) throw InterruptedException("the call was interrupted while it waited")
            cancelled()?.let { throw it }
            val left = until - engine.now()
            if (left <= 0) return Wire.TIMER
            engine.park(minOf(left, lookUs), this)
        }
        woken = false
        cancelled()?.let { throw it }
        return Wire.POLL
    }

    private fun giveUp() {
        if (ended) return
        ended = true
        unpark()
        tell(Wire.CANCEL)
    }
}
