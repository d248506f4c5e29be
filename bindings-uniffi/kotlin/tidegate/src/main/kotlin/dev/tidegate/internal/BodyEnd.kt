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
    private val end: (outcome: Long) -> Unit,
) {
    /** Outcome that was reported; negative before. */
    private val ended = AtomicLong(-1)

    @Volatile private var timer: Job? = null

    /** Reads by [read], which returns a negative number at the end of the body. */
    inline fun reading(read: () -> Long): Long {
        val count = try {
            read()
        } catch (error: IOException) {
            throw failed(error)
        }
        if (count < 0) closed()
        if (passed()) throw late(null)
        return count
    }

    /** Ends the body because of this error, and returns the error for its reader. */
    fun failed(error: IOException): IOException {
        if (passed()) return late(error)
        once(Outcomes.of(error, core))
        return error
    }

    /** Ends the body because the deadline has passed, and returns the error for its reader. */
    fun late(error: IOException?): IOException {
        once(Wire.TIMEOUT)
        return deadline(error)
    }

    /** Ends the body because its reader has all of it, or has closed it. */
    fun closed(): Unit = once(Wire.OK)

    /** Ends the body after [time] even if nothing reads it, so that a forgotten body keeps no slot. */
    @OptIn(DelicateCoroutinesApi::class)
    fun at(time: Duration) {
        timer = GlobalScope.launch {
            delay(time)
            once(Wire.TIMEOUT)
        }
        if (ended.get() >= 0) timer?.cancel()
    }

    private fun passed() = isLate() && ended.get() != Wire.OK

    private fun once(outcome: Long) {
        if (!ended.compareAndSet(-1, outcome)) return
        timer?.cancel()
        end(outcome)
    }
}
