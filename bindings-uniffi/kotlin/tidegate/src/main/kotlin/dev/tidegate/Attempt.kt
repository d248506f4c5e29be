package dev.tidegate

import kotlinx.coroutines.Job
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.toJavaDuration

/** What a function is told of the attempt that it is to make. */
public class Attempt internal constructor(
    /** Its number, from 1 on. */
    public val number: Int,
    /** Its time in microseconds, from [started] on; below 0 where it has none. */
    internal val us: Long = -1,
    internal val started: Long = 0,
) {
    /**
     * Its time, from its start on: what is left of the attempt timeout and of the deadline; null where there is neither. A
     * blocking call cannot be stopped from outside, so that is what its own timeouts should be.
     */
    public val time: Duration? get() = if (us < 0) null else us.microseconds

    /** [time] for Java. */
    public fun getTime(): java.time.Duration? = time?.toJavaDuration()

    /** What it runs as, where it can be stopped. */
    internal var job: Job? = null

    /** Has the engine told us to stop it? */
    internal var stopped = false

    /** What it was, at its place in a word, once it has been judged. */
    internal var outcome = 0L

    /** Did no step of the rule for errors say anything of its failure, and nobody else? */
    internal var unknown = false

    /** Has its end been told to the engine? */
    internal var told = false

    /** Is there a result, good or bad, for a caller? */
    internal var held = false

    /** Has it returned? Then [value] is what, or the exception. */
    @Volatile internal var returned = false
    internal var ok = false
    internal var value: Any? = null

    /** Keeps a result for the caller. */
    @Synchronized
    internal fun hold(ok: Boolean, value: Any?) {
        held = true
        this.ok = ok
        this.value = value
    }

    /** It is to stop, unless it has returned; what the caller gets of it, if it is the last, is that its time was up. */
    @Synchronized
    internal fun stop(error: Throwable?): Boolean {
        if (returned) return false
        stopped = true
        if (error != null) hold(false, error)
        return true
    }

    /** It has come to its end. A failure after it was stopped is that it was. */
    @Synchronized
    internal fun returned(ok: Boolean, value: Any?) {
        if (ok || !held) {
            this.ok = ok
            this.value = value
        }
        returned = true
    }

    internal companion object {
        /** What a function is told of a first attempt that has all the time there is: nothing of it is this call's alone. */
        val FIRST = Attempt(1)
    }

    internal fun error(): Throwable? = if (ok) null else value as Throwable?

    internal fun result(): Any? = if (ok) value else null
}
