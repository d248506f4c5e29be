package dev.tidegate

import java.time.Instant

/**
 * What became of a call, for whoever holds its exception or its response.
 *
 * A stack trace shows the [note] of an exception among the suppressed ones; [report] finds it. Each call that delivers an exception
 * leaves its own report there: where policies are nested, or an exception is thrown twice, the last one to deliver it is asked.
 *
 * @property attempts How many attempts the call made.
 * @property reason Why it ended as it did.
 * @property note Why there was no further attempt, in words; null where nothing was held back.
 * @property retryAt When another try would make sense.
 */
public class Report internal constructor(
    public val attempts: Int,
    public val reason: Verdict,
    public val note: String?,
    public val retryAt: Instant?,
) {
    override fun toString(): String = "tidegate: ${note ?: reason.word}"

    public companion object {
        /** What became of the call that ended with this exception, for Java; null where no policy has delivered it. */
        @JvmStatic
        public fun of(error: Throwable): Report? = error.report
    }
}

/** What became of the call that ended with this exception; null where no policy has delivered it. */
public val Throwable.report: Report?
    @JvmName("of") get() = own(this) ?: cause?.takeIf { it.javaClass === javaClass }?.let(::own)

/** Coroutines that are debugged hand on a copy, with the original as its cause and none of what was suppressed there. */
private fun own(error: Throwable): Report? = Delivered.of(error)?.report

/** Holds the report of an exception, among the suppressed ones. There is one for all calls: suppressed exceptions cannot be taken out. */
internal class Delivered private constructor(@Volatile var report: Report) : Exception(null, null, false, false) {
    override fun toString(): String = report.toString()

    companion object {
        fun of(error: Throwable): Delivered? = error.suppressed.lastOrNull { it is Delivered } as Delivered?

        fun report(error: Throwable, report: Report): Unit = synchronized(error) {
            of(error)?.let { it.report = report } ?: error.addSuppressed(Delivered(report))
        }
    }
}
