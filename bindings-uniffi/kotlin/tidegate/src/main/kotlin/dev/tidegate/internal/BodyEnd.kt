package dev.tidegate.internal

import dev.tidegate.Core
import dev.tidegate.Outcomes
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.Job
import kotlinx.coroutines.delay
import kotlinx.coroutines.launch
import java.io.IOException
import java.util.concurrent.atomic.AtomicLong
import kotlin.time.Duration

/** End of a body that is read under a call. It is reported once: the body was read to its end, was closed, has failed, or was late. */
internal class BodyEnd(
    private val isLate: () -> Boolean,
    private val core: Core,
    private val deadline: (Throwable?) -> IOException,
    private val meter: Meter? = null,
    private val firstRead: () -> Unit = {},
    private val isCancelled: (IOException) -> Boolean = ::isInterrupt,
    private val end: (outcome: Long) -> Unit,
) {
    /** Outcome that was reported; negative before. */
    private val ended = AtomicLong(-1)

    @Volatile private var timer: Job? = null

    /** Why the call has ended although its body has not. */
    @Volatile private var broken: IOException? = null

    /** Whether the body has ended: it was read, was closed, has failed, or was late. */
    val isOver: Boolean get() = ended.get() >= 0

    private var begun = false

    /** Notes that a read begins. Throws the error for the reader if the call has ended without it. */
    fun starts() {
        if (!begun) {
            begun = true
            firstRead()
        }
        passedOn()
    }

    /** Reads by [read], which returns a negative number at the end of the body. */
    inline fun reading(read: () -> Long): Long {
        val count = try {
            read()
        } catch (error: IOException) {
            throw failed(error)
        }
        if (count < 0) whole()
        passedOn()
        return count
    }

    /** Throws the error for the reader if the call has ended without it. */
    fun passedOn() {
        broken?.let { throw it }
        if (passed()) throw late(null)
    }

    /** Ends the body for its reader, who gets this error, because the call has ended. False if the body has ended before. */
    fun over(error: IOException): Boolean {
        if (!ended.compareAndSet(-1, Wire.TIMEOUT)) return false
        broken = error
        timer?.cancel()
        return true
    }

    /** Ends the body for its call because an event of it has reported this failure. Its reader reads on. */
    fun reported(outcome: Long): Unit = once(outcome)

    /** Runs [work] beside the body, and cancels it at the body's end. */
    @OptIn(DelicateCoroutinesApi::class)
    fun during(work: suspend () -> Unit) {
        timer = GlobalScope.launch { work() }
        if (ended.get() >= 0) timer?.cancel()
    }

    /** Ends the body because of this error, and returns the error for its reader. */
    fun failed(error: IOException): IOException {
        broken?.let { return it }
        if (passed()) return late(error)
        once(if (isCancelled(error)) Wire.CANCELLED else Outcomes.of(error, core))
        return error
    }

    /** Ends the body because the deadline has passed, and returns the error for its reader. */
    fun late(error: IOException?): IOException {
        once(Wire.TIMEOUT)
        return deadline(error)
    }

    /** Ends the body because its reader has all of it. Throws the error for the reader if the call has ended without it, and closed the body. */
    fun whole() {
        broken?.let { throw it }
        if (ended.get() < 0) meter?.end(whole = true)
        once(Wire.OK)
    }

    /** Ends the body because its reader has closed it. */
    fun closed() {
        meter?.end(whole = false)
        once(Wire.OK)
    }

    /** Ends the body after [time] even if nothing reads it, so that a forgotten body keeps no slot. */
    fun at(time: Duration) {
        during {
            delay(time)
            once(Wire.TIMEOUT)
        }
    }

    private fun passed() = isLate() && ended.get() != Wire.OK

    private fun once(outcome: Long) {
        if (!ended.compareAndSet(-1, outcome)) return
        timer?.cancel()
        end(outcome)
    }
}
