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
internal abstract class BlockingRun<T>(
    core: Core,
    route: String,
    around: Scope?,
    onRetry: RetryListener? = null,
    judgement: Judgement? = null,
) : Run<T>(core, route, around, onRetry, judgement) {
    private val thread = Thread.currentThread()

    /** Time from the delivery to the first report of silence, in microseconds; negative without one. */
    protected var firstReport = -1L
        private set

    @Volatile private var woken = false

    /** Makes an attempt. */
    protected abstract fun start(attempt: Attempt): Any?

    /** Releases the resources of a failed result while the call continues. */
    protected open fun release(attempt: Attempt) = Unit

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

    fun resume(call: Long, attempt: Attempt): T {
        this.call = call
        attempts = 1
        slots[0] = attempt
        return drive(null, attempt)
    }

    fun resumeAt(call: Long, attempt: Attempt, step: Long): T {
        this.call = call
        attempts = 1
        slots[0] = attempt
        attempt.reported = true
        attempt.hold(attempt.ok, attempt.value)
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
                    step = settled(made(newAttempt(step)))
                    continue
                }
            }
            val why = Wire.why(step)
            if (why == Wire.WAIT_BODY) {
                firstReport = us
                unpark()
                return step
            }
            if ((why > Wire.WAIT_BACKOFF && park()) || (us == 0L && polls++ < 2)) {
                step = advance(Wire.POLL)
                continue
            }
            polls = 0
            step = advance(pause(us))
        }
    }

    private fun made(attempt: Attempt): Attempt {
        Scope.within(Scope(engine, call, null, null, around, attempt.number, attempt.target)) {
            try {
                attempt.returned(true, start(attempt))
            } catch (@Suppress("TooGenericExceptionCaught") error: Throwable) {
                attempt.returned(false, error) // any error belongs to the caller
            }
        }
        return attempt
    }

    private fun settled(attempt: Attempt): Long {
        val error = attempt.error()
        if (error != null && isCancellation(error)) throw error
        if (error != null && (attempt.stopped || late())) {
            val step = timedOut(attempt)
            if (Wire.action(step) == Wire.DONE) return step // the deadline has passed; the attempt's end is reported with the rest
            if (late()) throw refusal(Verdict.DEADLINE, null, error)
        }
        val step = advance(finished(attempt))
        if (attempt.ok && attempt.reported && Wire.action(step) != Wire.DONE) release(attempt)
        return step
    }

    /**
     * Reports that an attempt ran out of time, by the clock that stopped it. The engine's own clock may be a little behind (it is another
     * one, and rounds to microseconds), so the engine is asked again at its moment, for at most [SKEW_US].
     */
    private fun timedOut(attempt: Attempt): Long {
        val until = System.nanoTime() + SKEW_US * 1_000
        while (true) {
            val step = advance(Wire.TIMER)
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
        advance(Wire.CANCEL)
    }
}
