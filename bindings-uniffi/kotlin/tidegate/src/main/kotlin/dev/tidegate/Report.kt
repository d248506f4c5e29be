package dev.tidegate

import java.time.Instant

/**
 * What became of a call, for whoever holds its exception or its response.
 *
 * On an exception it stands among the suppressed ones, so that a stack trace shows the [note]; [report] finds it. It has
 * no stack trace of its own.
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
) : Exception(note ?: reason.word, null, false, false) {
    override fun toString(): String = "tidegate: $message"

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
private fun own(error: Throwable): Report? = error.suppressed.lastOrNull { it is Report } as Report?
