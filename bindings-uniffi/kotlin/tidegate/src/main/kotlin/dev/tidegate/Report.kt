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
 * @property call Number of the call in [events][Engine.events], for [Engine.explain].
 */
public class Report internal constructor(
    public val attempts: Int,
    public val reason: Verdict,
    public val note: String?,
    public val retryAt: Instant?,
    public val call: Long,
    private val engine: Engine,
) {
    /**
     * Explains the end of the call: each decision about it, and the numbers of its route. Null if the engine keeps no history, or if newer
     * records have replaced those of the call.
     */
    public fun explain(): CallExplanation? = engine.explain(call)

    override fun toString(): String = "tidegate: ${note ?: reason.word}"

    public companion object {
        /** Report of the call that ended with this exception, for Java; null if no policy has delivered it. */
        @JvmStatic
        public fun of(error: Throwable): Report? = error.report
    }
}

/**
 * Report of the call that ended with this exception; null if no policy has delivered it. If a client has wrapped the exception (Spring's
 * `ResourceAccessException`), the report is that of the nearest cause that has one.
 */
public val Throwable.report: Report?
    @JvmName("of") get() = generateSequence(this) { it.cause }.take(DEEPEST).firstNotNullOfOrNull(::own)

private const val DEEPEST = 8

/** Report of this very object. A debugged coroutine throws a copy without the suppressed exceptions, and with the original as its cause. */
private fun own(error: Throwable): Report? = Delivered.of(error)?.report ?: (error as? TidegateException)?.made

/** Holds the report of an exception, among the suppressed ones. An exception has one holder for all calls: it cannot be removed. */
internal class Delivered private constructor(@Volatile @Transient var report: Report?, private val text: String) :
    Exception(null, null, false, false) {
    override fun toString(): String = report?.toString() ?: text // a report is not serialized, because it refers to the engine

    companion object {
        fun of(error: Throwable): Delivered? = error.suppressed.lastOrNull { it is Delivered } as Delivered?

        fun report(error: Throwable, report: Report): Unit = synchronized(error) {
            of(error)?.let { it.report = report } ?: error.addSuppressed(Delivered(report, report.toString()))
        }
    }
}
