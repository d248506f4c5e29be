package dev.tidegate

import java.time.Instant

/**
 * How a call ended. The call's exception or response carries it.
 *
 * A stack trace shows the [note] among the suppressed exceptions; [report] finds it. Each call that delivers an exception replaces the
 * report there. With nested policies, or an exception that is thrown twice, the report is that of the last delivery.
 *
 * @property attempts Number of attempts.
 * @property reason Why the call ended.
 * @property note Why there was no further attempt, in words; null if nothing was held back.
 * @property retryAt Moment from which another try makes sense.
 */
public class Report internal constructor(
    public val attempts: Int,
    public val reason: Verdict,
    public val note: String?,
    public val retryAt: Instant?,
) {
    override fun toString(): String = "tidegate: ${note ?: reason.word}"

    public companion object {
        /** Report of the call that ended with this exception, for Java; null if no policy has delivered it. */
        @JvmStatic
        public fun of(error: Throwable): Report? = error.report
    }
}

/** Report of the call that ended with this exception; null if no policy has delivered it. */
public val Throwable.report: Report?
    @JvmName("of") get() = own(this) ?: cause?.takeIf { it.javaClass === javaClass }?.let(::own)

/** Report of this very object. A debugged coroutine throws a copy without the suppressed exceptions, and with the original as its cause. */
private fun own(error: Throwable): Report? = Delivered.of(error)?.report

/** Holds the report of an exception, among the suppressed ones. An exception has one holder for all calls: it cannot be removed. */
internal class Delivered private constructor(@Volatile var report: Report) : Exception(null, null, false, false) {
    override fun toString(): String = report.toString()

    companion object {
        fun of(error: Throwable): Delivered? = error.suppressed.lastOrNull { it is Delivered } as Delivered?

        fun report(error: Throwable, report: Report): Unit = synchronized(error) {
            of(error)?.let { it.report = report } ?: error.addSuppressed(Delivered(report))
        }
    }
}
