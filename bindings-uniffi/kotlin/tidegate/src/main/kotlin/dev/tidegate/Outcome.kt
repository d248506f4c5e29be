package dev.tidegate

import dev.tidegate.internal.Judged
import dev.tidegate.internal.Wire
import java.util.Collections
import java.util.WeakHashMap
import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** What somebody says about a retry. It changes what is retryable, never what is safe. */
public enum class Opinion {
    /** No opinion: the class decides. */
    NONE,

    /** Retry, although the class would not. */
    RETRY,

    /** Do not retry, although the class would. */
    DO_NOT,
}

/**
 * What an attempt's end was: the name of a class ([OK], [TRANSIENT], …), or of a kind that the policy declares.
 *
 * @property kind The name.
 * @property opinion Whether to retry, whatever the class.
 * @property retryAfter How long the other side asked us to wait.
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

    /** The classes. */
    public companion object {
        /** An outcome of a server that has asked for a wait, for Java. */
        @JvmStatic
        @JvmOverloads
        public fun of(kind: String, retryAfter: java.time.Duration, opinion: Opinion = Opinion.NONE): Outcome =
            Outcome(kind, opinion, retryAfter.toKotlinDuration())

        /** It worked. */
        public const val OK: String = "ok"

        /** It failed in a way that may pass. */
        public const val TRANSIENT: String = "transient"

        /** The other side asked for less load. */
        public const val THROTTLED: String = "throttled"

        /** It ran out of its time. */
        public const val TIMEOUT: String = "timeout"

        /** It failed before the request left. */
        public const val NEVER_SENT: String = "never_sent"

        /** Another try may win. */
        public const val CONFLICT: String = "conflict"

        /** The caller's fault. */
        public const val PERMANENT: String = "permanent"

        /** No evidence of anything. */
        public const val IGNORED: String = "ignored"

        internal val classes =
            listOf(OK, TRANSIENT, THROTTLED, TIMEOUT, NEVER_SENT, CONFLICT, PERMANENT, IGNORED, "cancelled")
    }
}

/**
 * Told the result or the error of each attempt, says what it was; null for the default. What it throws is ignored, and told
 * once to the thread's handler of uncaught exceptions (on Android to the log).
 */
public fun interface Classify {
    /** One of the two is null. */
    public fun of(result: Any?, error: Throwable?): Outcome?
}

/** Outcomes at their places in the words of the wire (semantics 1.4). */
internal object Outcomes {
    /** Of which nobody keeps what the policy has let go. */
    private val warned = Collections.synchronizedSet(Collections.newSetFromMap(WeakHashMap<Classify, Boolean>()))

    /** What a failure was by the rule for errors of plain functions. */
    fun of(error: Throwable, core: Core): Long = Judged.of(error, core).let { if (it == Judged.UNKNOWN) Wire.PERMANENT else it }

    /** An error that the policy names is repeated: with its own class and wait where that class may be, else as one that may pass. */
    fun on(core: Core, error: Throwable, known: Long): Long {
        if (core.on.none { it.isInstance(error) }) return known
        return if (Wire.kind(known) in RETRYABLE) Wire.withOpinion(known, 0) else Wire.TRANSIENT
    }

    private val RETRYABLE = 1..5

    /** The outcome that the user's [classify] names; [otherwise] where it has no opinion or is broken. */
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
