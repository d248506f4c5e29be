package dev.tidegate

import dev.tidegate.internal.Judged
import dev.tidegate.internal.Wire
import java.util.Collections
import java.util.WeakHashMap
import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** Opinion about a retry. It changes what is retryable, never what is safe. */
public enum class Opinion {
    /** No opinion: the class decides. */
    NONE,

    /** Retry, although the class would not. */
    RETRY,

    /** Do not retry, although the class would. */
    DO_NOT,
}

/**
 * Result of judging an attempt: the name of a class ([OK], [TRANSIENT], …), or of a kind that the policy declares.
 *
 * @property kind Name of the class or kind.
 * @property opinion Whether to retry, whatever the class.
 * @property retryAfter Wait that the server asked for.
 */
public class Outcome @JvmOverloads constructor(
    public val kind: String,
    public val opinion: Opinion = Opinion.NONE,
    public val retryAfter: Duration? = null,
) {
    private fun all() = listOf(kind, opinion, retryAfter)

    override fun equals(other: Any?): Boolean = other is Outcome && all() == other.all()

    override fun hashCode(): Int = all().hashCode()

    override fun toString(): String = "Outcome(kind=$kind, opinion=$opinion, retryAfter=$retryAfter)"

    /** Names of the classes. */
    public companion object {
        /** Outcome with a wait that the server asked for, for Java. */
        @JvmStatic
        @JvmOverloads
        public fun of(kind: String, retryAfter: java.time.Duration, opinion: Opinion = Opinion.NONE): Outcome =
            Outcome(kind, opinion, retryAfter.toKotlinDuration())

        /** Success. */
        public const val OK: String = "ok"

        /** Failure that may pass. */
        public const val TRANSIENT: String = "transient"

        /** The server asked for less load. */
        public const val THROTTLED: String = "throttled"

        /** The attempt ran out of time. */
        public const val TIMEOUT: String = "timeout"

        /** Failure before the request was sent. */
        public const val NEVER_SENT: String = "never_sent"

        /** Conflict; another try may succeed. */
        public const val CONFLICT: String = "conflict"

        /** Failure that the caller caused. */
        public const val PERMANENT: String = "permanent"

        /** No evidence about the server. */
        public const val IGNORED: String = "ignored"

        internal val classes =
            listOf(OK, TRANSIENT, THROTTLED, TIMEOUT, NEVER_SENT, CONFLICT, PERMANENT, IGNORED, "cancelled")
    }
}

/**
 * Judges the result or the error of each attempt. An exception from it is ignored, and reported once to the thread's handler of uncaught
 * exceptions (on Android to the log).
 */
public fun interface Classify {
    /** Outcome of an attempt; null for the default. Either [result] or [error] is null. */
    public fun of(result: Any?, error: Throwable?): Outcome?
}

/** Outcomes, at their bit positions in the words of the wire (semantics 1.4). */
internal object Outcomes {
    /** Classifiers whose first exception has been reported. The references are weak, so classifiers of released policies can be collected. */
    private val warned = Collections.synchronizedSet(Collections.newSetFromMap(WeakHashMap<Classify, Boolean>()))

    /** Outcome of a failure, by the rule for errors of plain functions. */
    fun of(error: Throwable, core: Core, left: (Any) -> Long? = { null }): Long =
        Judged.of(error, core, left).let { if (it < 0) Wire.PERMANENT else it }

    /** Makes an error retryable that the policy names (`retryOn`): with its own class and wait if that class is retryable, else as transient. */
    fun on(core: Core, error: Throwable, known: Long): Long {
        if (core.on.none { it.isInstance(error) }) return known
        return if (Wire.kind(known) in RETRYABLE) Wire.withOpinion(known, 0) else Wire.TRANSIENT
    }

    private val RETRYABLE = 1..5

    /** Outcome that the user's [classify] returns; [otherwise] if it returns null or fails. */
    @Suppress("TooGenericExceptionCaught") // a user's predicate cannot break a call
    fun by(classify: Classify, core: Core, result: Any?, error: Throwable?, otherwise: Long): Long = try {
        val answer = classify.of(result, error)
        if (answer == null) {
            otherwise
        } else {
            val kind = core.kinds[answer.kind] ?: throw IllegalArgumentException(
                "kind = \"${answer.kind}\": must be one of ${core.kinds.keys.joinToString()}",
            )
            Wire.outcome(kind, answer.opinion.ordinal, answer.retryAfter)
        }
    } catch (broken: Throwable) {
        if (warned.add(classify)) uncaught(broken)
        otherwise
    }
}
