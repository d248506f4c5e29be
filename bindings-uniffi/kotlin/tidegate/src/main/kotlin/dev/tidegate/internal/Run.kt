package dev.tidegate.internal

import dev.tidegate.Attempt
import dev.tidegate.AttemptTimeout
import dev.tidegate.Core
import dev.tidegate.Delivered
import dev.tidegate.Ended
import dev.tidegate.Opinion
import dev.tidegate.Outcomes
import dev.tidegate.Report
import dev.tidegate.RetryListener
import dev.tidegate.Retrying
import dev.tidegate.Scope
import dev.tidegate.TidegateException
import dev.tidegate.Verdict
import dev.tidegate.guarded
import java.time.Instant
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import kotlin.time.Duration.Companion.milliseconds

/** Something that waits and can be woken. */
internal interface Waiter {
    fun wake()
}

/** How the policy has judged the failure that a call ended with, for the fallback of that call (semantics 7.4.2). */
internal class Judgement {
    /** Kind of the failure; null if the call delivered no failure of an attempt. */
    var kind: Int? = null

    /** Whether the policy's `classify` has judged it. */
    var isOwn = false
}

/** Common part of both shells: the attempts of one call, and the result for its caller. It decides nothing. */
internal abstract class Run<T>(
    val core: Core,
    val route: String,
    protected val around: Scope?,
    private val onRetry: RetryListener? = null,
    /** Receives the judgement of a failure that the call ends with. */
    private val judgement: Judgement? = null,
) : Waiter {
    val engine = core.engine

    /** Whether somebody listens to retries. */
    protected val hears = onRetry != null || core.onRetry != null

    /** Number of the last failed attempt whose retry was announced. */
    private var announced = 0
    var call = 0L
    var attempts = 0

    /** Whether the call has ended. Stopped attempts may still be running. */
    var ended = false
    val slots = arrayOfNulls<Attempt>(8)
    private var parked = false

    protected fun advance(event: Long): Long = engine.advance(call, event)

    /** Judgement: the head of a good response has arrived, and its body follows. */
    protected val head = -1L

    /** Outcome of an attempt, at its bit position in a word, or [head]. */
    protected open fun judge(attempt: Attempt): Long {
        val error = attempt.error()
        var outcome = if (error == null) Marks.take(attempt.value, engine, call) ?: Wire.OK else known(error)
        val unknown = outcome < 0
        if (unknown) outcome = Wire.PERMANENT
        val known = if (error == null) outcome else Outcomes.on(core, error, outcome)
        val classify = core.classify ?: return known.also { attempt.unknown = unknown && it == outcome }
        return Outcomes.by(classify, core, attempt.result(), error, -1).let {
            attempt.unknown = unknown && it < 0 && known == outcome
            attempt.isOwn = it >= 0
            if (it < 0) known else it
        }
    }

    /** Addition to the note of a failed call; null if there is nothing to add. */
    protected open val sdkNote: String? get() = null

    /** Tells the listeners of a retry, once, before its wait begins. A hedge is no retry: it starts beside a running attempt. */
    protected fun announce(step: Long) {
        val why = if (Wire.action(step) == Wire.ATTEMPT) -1 else Wire.why(step)
        if (Wire.action(step) == Wire.DONE || why == Wire.WAIT_RUNNING || why == Wire.WAIT_BODY) return
        if (announced == attempts || slots.any { it != null && !it.reported && !it.stopped }) return
        val attempt = slots[(attempts - 1) and 7] ?: return
        announced = attempts
        val wait = if (why == Wire.WAIT_BACKOFF) Wire.span(step).coerceAtLeast(0).microseconds else Duration.ZERO
        val outcome = outcomeOf(attempt)
        val retrying = Retrying(attempt.error(), attempt.result(), attempts, wait, core.kindName(Wire.kind(outcome)), core.name, route, call)
        for (listener in listOfNotNull(core.onRetry, onRetry)) guarded { listener.on(retrying) }
    }

    /**
     * Outcome of an error by the rule for errors, or [Judged.UNKNOWN]. A body that breaks off before its delivery may pass, even with an error
     * that is permanent elsewhere.
     */
    protected open fun known(error: Throwable): Long {
        val known = Judged.of(error, core) { Marks.take(it, engine, call) }
        val isBroken = slots.any { it?.broke == true && it.error() === error }
        return if (isBroken && (known < 0 || Wire.kind(known) == Wire.kind(Wire.PERMANENT))) Wire.TRANSIENT else known
    }

    /** Releases the resources of a result that the caller does not receive: an answer of a guarded client inside this call. */
    protected open fun discard(value: Any?) {
        if (value is AutoCloseable && Marks.isAnswer(value)) guarded { value.close() }
    }

    /** Whether this earlier result can still be delivered. */
    protected open fun intact(value: Any?): Boolean = true

    /** Turns a result into what the caller gets. */
    @Suppress("UNCHECKED_CAST") // a good result is what the function returned
    protected open fun deliver(value: Any?, report: () -> Report): T = value as T

    /** Attempt that a step starts. */
    protected fun newAttempt(step: Long): Attempt {
        val number = Wire.attempt(step)
        val us = Wire.span(step)
        val target = if (step and Wire.TARGET == 0L) null else engine.native.engine.targetOf(call.toULong())
        attempts = number
        // A step of a stream may end earlier than its attempt, with a report of silence, and no step has a longer time than half an hour.
        val limit = if (core.streams.some || us == Wire.LONGEST_SPAN) engine.timeLeft(call) else us
        val started = if (limit < 0) 0 else engine.now() // only an attempt with a limit asks for it
        return Attempt(number, limit, started, engine, call, target).also { slots[(number - 1) and 7] = it }
    }

    /** Registers for wakes. True if the call was not registered before; then it must poll once more. */
    protected fun park(): Boolean {
        if (parked) return false
        parked = true
        engine.waiters[call] = this
        return true
    }

    protected fun unpark() {
        if (!parked) return
        parked = false
        engine.waiters.remove(call)
    }

    /** Event word of an attempt's end, with its outcome under the policy. */
    protected fun finished(attempt: Attempt): Long {
        attempt.reported = true
        if (attempt.stopped && !attempt.ok) return Wire.finished(attempt.number, Wire.TIMEOUT)
        if (!attempt.held) attempt.hold(attempt.ok, attempt.value)
        val outcome = judge(attempt)
        attempt.outcome = outcome
        if (outcome == head && !attempt.stopped) {
            attempt.reported = false // the end of its body is reported instead
            attempts = attempt.number
            return Wire.headers(attempt.number)
        }
        return Wire.finished(attempt.number, maxOf(outcome, 0))
    }

    /** Reports the attempts that were still unreported when the call ended: until then they may hold their permits. */
    protected fun reportTheRest() {
        for (attempt in slots) {
            if (attempt == null || attempt.reported) continue
            attempt.reported = true
            advance(Wire.finished(attempt.number, Wire.CANCELLED))
        }
    }

    /** Drops the results of all attempts but one, and releases their resources. */
    protected fun drop(keep: Attempt?) {
        for (place in slots.indices) {
            val attempt = slots[place]
            if (attempt != null && attempt !== keep && attempt.ok && (attempt.held || attempt.returned)) discard(attempt.value)
            slots[place] = null
        }
    }

    /** Result of the attempt that was started last. */
    protected fun held(): Attempt? = slots[(attempts - 1).coerceAtLeast(0) and 7]?.takeIf { it.held }

    /** Returns or throws the caller's result, by the step that ended the call. */
    protected fun conclude(step: Long): T {
        val verdict = Verdict.of(Wire.verdict(step))
        val span = Wire.span(step)
        val retryIn = if (span < 0) null else span.milliseconds
        val last = held()
        val place = Wire.result(step)
        val decided = when {
            place >= 0 -> slots[place]
            verdict == Verdict.STALE || verdict == Verdict.LOST -> last
            else -> null
        }
        if (decided == null || !decided.held || (decided.ok && !intact(decided.value))) {
            val failure = last?.error()
            val cause = if (verdict == Verdict.DEADLINE && failure is AttemptTimeout) failure.cause else failure
            drop(null)
            throw refusal(verdict, retryIn, cause)
        }
        drop(decided)
        val report = { report(verdict, retryIn, decided) }
        if (decided.ok) return deliver(decided.value, report).also { answer -> opinion(verdict)?.let { mark(answer, decided, it) } }
        val error = decided.value as Throwable
        judgement?.let {
            it.kind = Wire.kind(outcomeOf(decided))
            it.isOwn = decided.isOwn
        }
        opinion(verdict)?.let { mark(error, decided, it) }
        Delivered.report(error, report())
        throw error
    }

    /** Error of a call that has no result of its own, with its report. */
    protected fun refusal(verdict: Verdict, retryIn: Duration?, cause: Throwable?): TidegateException =
        core.refusal(verdict, route, retryIn, cause, call).also { it.made = report(verdict, retryIn, null) }

    /** Report of a call that has ended well, or whose answer has begun well. */
    protected fun success(): Report = report(Verdict.OK, null, null)

    /** Opinion that a call which made no retry leaves for the surrounding call; null if it leaves none (semantics 1.6.2, 1.6.4). */
    private fun opinion(verdict: Verdict): Opinion? = when (verdict) {
        Verdict.NESTED -> Opinion.RETRY
        Verdict.METHOD, Verdict.ONE_SHOT_BODY, Verdict.OPINION -> Opinion.DO_NOT
        else -> null
    }

    /** Outcome of an attempt that has ended. One that was stopped ran out of time. */
    private fun outcomeOf(attempt: Attempt): Long = if (attempt.stopped && !attempt.ok) Wire.TIMEOUT else attempt.outcome

    /** Leaves this judgement for the surrounding call, which decides about the next attempt. */
    private fun mark(delivered: Any?, attempt: Attempt, opinion: Opinion) {
        val outer = around?.innermost()
        if (delivered == null || outer == null) return
        val own = outcomeOf(attempt)
        val outcome = Wire.withKind(own, core.classOf(Wire.kind(own)))
        val judged = Wire.withOpinion(outcome, opinion.ordinal)
        if (opinion == Opinion.DO_NOT) Judged.status(delivered)?.let { Marks.put(Marks.ofStatus(it), outer, judged) }
        // A function that returns an answer has succeeded, whether or not the answer's request may be repeated.
        if (!attempt.ok || opinion == Opinion.RETRY) Marks.put(delivered, outer, judged)
    }

    private fun report(verdict: Verdict, retryIn: Duration?, decided: Attempt?): Report {
        val unknown = verdict == Verdict.NOT_RETRYABLE && decided?.unknown == true && (core.count("retry.max_attempts") ?: 1) > 1
        val type = decided?.error()?.javaClass?.simpleName
        val note = if (unknown) ErrorsGen.NOTE.replace("{error}", "$type").replace("{on}", "retryOn<$type>()") else verdict.note(Ended(attempts, retryIn) { core.span("retry.max_retry_after") })
        val whole = if (verdict == Verdict.OK) note else listOfNotNull(note, sdkNote).joinToString("; ").ifEmpty { null }
        return Report(attempts, verdict, whole, retryIn?.let { Instant.now().plusMillis(it.inWholeMilliseconds) }, call, engine)
    }
}
