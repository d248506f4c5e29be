package dev.tidegate

import dev.tidegate.internal.Marks
import kotlinx.coroutines.Job
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.toJavaDuration

/** The attempt that the protected function is about to make. */
public class Attempt internal constructor(
    /** Number of the attempt, from 1. */
    public val number: Int,
    /** Time limit in microseconds, counted from [started]. If there is none it is negative, and [started] is 0. */
    internal val us: Long = -1,
    internal val started: Long = 0,
    private val engine: Engine? = null,
    private val call: Long = 0,
    /** Name of the target that the attempt goes to, if its policy has targets; [dev.tidegate.target] finds it from inside. */
    public val target: String? = null,
) {
    /**
     * Time limit of the attempt, counted from its start: what is left of the attempt timeout and of the deadline. Null if there is neither.
     * A blocking call cannot be stopped from outside, so use this limit for the function's own timeouts.
     */
    public val time: Duration? get() = if (us < 0) null else us.microseconds

    /** [time] for Java. */
    public fun getTime(): java.time.Duration? = time?.toJavaDuration()

    /**
     * Settles the [total] that this attempt has used so far of a [weight]: `attempt.settle("tokens", 1_200)`. Call it whenever a better total
     * is known. What exceeds the reservation is charged at once, and a lower total than before is ignored. When the attempt ends, what it has
     * reserved and not used comes back.
     *
     * @return Whether the total was taken: false once the attempt has ended, and for a weight that it does not count.
     * @throws IllegalArgumentException if [total] is negative or above 2^53 - 1.
     */
    public fun settle(weight: String, total: Long): Boolean {
        requireAmounts("settle", mapOf(weight to total))
        return engine?.settle(call, number, weight, total) ?: false
    }

    /** Takes the judgement of this result that a call inside the attempt has left (semantics 1.6). */
    internal fun left(of: Any): Long? = engine?.let { Marks.take(of, it, call) }

    /** Reports the headers of the attempt's answer, which may say what is left of the service's quotas. */
    internal fun noteQuotas(headers: Iterable<Pair<String, String>>) {
        engine?.noteQuotas(call, headers)
    }

    /** Job that runs the attempt, where it can be stopped. */
    internal var job: Job? = null

    /** Whether the engine has ordered this attempt to stop. */
    internal var stopped = false

    /** Beginning of a failed response's body, where the policy reads errors. */
    internal var beginning: ByteArray = NOTHING

    /** Judgement of a response whose delivery waits for its body; negative without one. */
    internal var judged = -1L

    /** What an adapter keeps of a body that was read up to its delivery. */
    internal var stream: Any? = null

    /** Whether a body that was good so far has failed before its delivery. */
    internal var broke = false

    /** Judged outcome, at its bit position in an event word. */
    internal var outcome = 0L

    /** Whether the failure is unknown: neither the rule for errors nor the policy has judged it. */
    internal var unknown = false

    /** Whether the policy's `classify` has judged the attempt. */
    internal var isOwn = false

    /** Whether the end of the attempt has been reported to the engine. */
    internal var reported = false

    /** Whether [value] holds a result or an exception for the caller. */
    internal var held = false

    /** Whether the attempt has returned; [value] is then its result or its exception. */
    @Volatile internal var returned = false
    internal var ok = false
    internal var value: Any? = null

    /** Keeps a result or an exception for the caller. */
    @Synchronized
    internal fun hold(ok: Boolean, value: Any?) {
        held = true
        this.ok = ok
        this.value = value
    }

    /**
     * Marks the attempt as stopped; false if it has returned already. The caller gets [error], if there is one, should this be the last
     * attempt.
     */
    @Synchronized
    internal fun stop(error: Throwable?): Boolean {
        if (returned) return false
        stopped = true
        if (error != null) hold(false, error)
        return true
    }

    /** Records the end of the attempt. A failure after a stop does not replace the error of the stop. */
    @Synchronized
    internal fun returned(ok: Boolean, value: Any?) {
        if (ok || !held) {
            this.ok = ok
            this.value = value
        }
        returned = true
    }

    internal companion object {
        private val NOTHING = ByteArray(0)

        /** First attempt without a time limit. All such calls share this object, because it holds nothing of a single call. */
        val FIRST = Attempt(1)
    }

    internal fun error(): Throwable? = if (ok) null else value as Throwable?

    internal fun result(): Any? = if (ok) value else null
}

private const val MOST_AMOUNT = (1L shl 53) - 1

/** Throws an error that names [what] if one of the amounts is out of its range. */
internal fun requireAmounts(what: String, amounts: Map<String, Long>): Unit =
    require(amounts.values.all { it in 0..MOST_AMOUNT }) { "$what = $amounts: must be whole numbers from 0 to 2^53 - 1" }
