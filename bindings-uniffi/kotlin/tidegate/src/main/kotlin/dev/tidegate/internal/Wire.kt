package dev.tidegate.internal

import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.DurationUnit

/** The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`). */
internal object Wire {
    // Actions of a step: bits 0 and 1.
    const val DONE = 0
    const val ATTEMPT = 1

    /** Flag of a step that starts an attempt: the attempt goes to a target. */
    const val TARGET = 1L shl 21

    const val WAKES = 4L
    const val COMMANDS = 8L

    /** "Start attempt 1" alone, without a timer: the first step of the happy path. */
    const val FIRST = 1L or (1L shl 12)

    /** Done, ok, with the result of attempt 1: the last step of the happy path. */
    const val OK_1 = 8L shl 18

    const val WAIT_RUNNING = 0
    const val WAIT_BACKOFF = 1
    const val WAIT_BODY = 6

    // Events.
    const val TIMER = 0L
    const val POLL = 1L
    const val CANCEL = 2L
    private const val HEADERS = 3L
    private const val FINISHED = 4L
    private const val PROGRESS = 5L

    /** Attempt 1 succeeded. */
    const val FINISHED_1 = FINISHED or (1L shl 3)

    // Classes, at their bit positions in an outcome.
    const val OK = 0L
    const val TRANSIENT = 1L shl 11
    const val TIMEOUT = 3L shl 11
    const val NEVER_SENT = 4L shl 11
    const val CONFLICT = 5L shl 11
    const val PERMANENT = 6L shl 11
    const val IGNORED = 7L shl 11
    const val CANCELLED = 8L shl 11

    // Request flags.
    /** Number of [dev.tidegate.Criticality.NORMAL]. */
    const val NORMAL = 2
    const val REPLAYABLE = 1L shl 2
    const val IDEMPOTENT = 1L shl 3
    const val ABORTABLE = 1L shl 4
    const val MAY_PARK = 1L shl 5
    const val SLOT_UNTIL_BODY = 1L shl 6
    const val COST_SHIFT = 7
    const val SOLO = 1L shl 23
    const val STREAM = 1L shl 24

    /** Longest span of a step, of 35 minutes; a longer one is cut to it. */
    const val LONGEST_SPAN = (1L shl 31) - 2

    private const val LONGEST_MS = (1L shl 31) - 2
    private const val LONGEST_US = (1L shl 53) - 2
    private const val LONGEST_AGE = (1L shl 42) - 1

    /** Kind of an outcome. */
    fun kind(outcome: Long): Int = (outcome ushr 11 and 31).toInt()

    fun action(step: Long): Int = (step and 3).toInt()

    fun stops(step: Long): Int = (step ushr 4 and 0xff).toInt()

    fun attempt(step: Long): Int = (step ushr 12 and 0xff).toInt()

    fun why(step: Long): Int = (step ushr 12 and 0xf).toInt()

    fun verdict(step: Long): Int = (step ushr 12 and 0x3f).toInt()

    /** Index of the attempt whose result the caller gets; negative if there is none. */
    fun result(step: Long): Int = (step ushr 18 and 0xf).toInt().let { if (it == 0) -1 else it and 7 }

    /** Span of a step, in microseconds, or in milliseconds if the step is Done; negative if there is none. */
    fun span(step: Long): Long = (step ushr 22) - 1

    fun headers(attempt: Int): Long = HEADERS or (attempt.toLong() shl 3)

    fun finished(attempt: Int, outcome: Long): Long = FINISHED or (attempt.toLong() shl 3) or outcome

    /** Report of the age of the last piece that an attempt's body has brought, in microseconds. */
    fun progress(attempt: Int, age: Long): Long = PROGRESS or (attempt.toLong() shl 3) or (minOf(age, LONGEST_AGE) shl 11)

    /** Outcome at its bit position in a Finished event; [retryAfter] is rounded up to milliseconds. */
    fun outcome(kind: Int, opinion: Int, retryAfter: Duration?): Long {
        val word = (kind.toLong() shl 11) or (opinion.toLong() shl 16)
        if (retryAfter == null) return word
        val us = retryAfter.coerceAtLeast(Duration.ZERO).inWholeNanoseconds.let { if (it % 1000 > 0) it / 1000 + 1 else it / 1000 }
        val ms = minOf((us + 999) / 1000, LONGEST_MS)
        return word or ((1 + ms) shl 18)
    }

    /** Index of an outcome's opinion. */
    fun opinion(outcome: Long): Int = (outcome ushr 16 and 3).toInt()

    /** Wait of an outcome, in whole milliseconds; null without one. */
    fun retryAfter(outcome: Long): Duration? = ((outcome ushr 18) - 1).let { if (it < 0) null else it.milliseconds }

    /** Copy of the outcome with another opinion. */
    fun withOpinion(outcome: Long, opinion: Int): Long = (outcome and (3L shl 16).inv()) or (opinion.toLong() shl 16)

    /** Copy of the outcome with another kind. */
    fun withKind(outcome: Long, kind: Int): Long = (outcome and (31L shl 11).inv()) or (kind.toLong() shl 11)

    /** Time left, in the encoding of `begin`; 0 if there is no limit. */
    fun remaining(left: Duration?): Long {
        if (left == null || left == Duration.INFINITE) return 0
        return 1 + left.toLong(DurationUnit.MICROSECONDS).coerceIn(0, LONGEST_US)
    }

    /** Decodes what [remaining] has encoded. */
    fun left(remaining: Long): Duration? = if (remaining == 0L) null else (remaining - 1).microseconds
}
