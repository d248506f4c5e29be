package dev.tidegate

import dev.tidegate.ffi.Refusal
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds

/**
 * Why a call ended. The order is that of the wire; the words are the same in every language.
 *
 * This is the only table of verdicts: it has the message of each refusal, and the note on a failure without a further attempt.
 */
public enum class Verdict(
    private val refusal: ((Refused) -> TidegateException)? = null,
    private val noted: ((Ended) -> String?)? = null,
) {
    OK,
    NOT_RETRYABLE,
    ATTEMPTS(noted = { if (it.attempts == 1) null else "gave up after ${it.attempts} attempts" }),
    METHOD(noted = { "not retried: a repeat could happen twice (not idempotent, and no idempotency key)" }),
    ONE_SHOT_BODY(noted = { "body cannot be replayed" }),
    OPINION(noted = { "not retried: the policy's statuses, its predicate or the server said not to" }),
    NESTED(noted = { "not retried: a call around this one retries already" }),
    RETRY_AFTER_TOO_LONG(noted = { "Retry-After ${seconds(it.retryIn)} exceeds maxRetryAfter${it.maxRetryAfter()}" }),
    WOULD_OUTLIVE_DEADLINE(noted = { "not retried: the next wait${it.asked()} would outlive the deadline" }),
    TIME_LIMIT(noted = { "not retried: the next wait would exceed retryTimeLimit" }),
    BUDGET(noted = { "retry budget exhausted" }),
    READMISSION(noted = { "not retried: the next attempt was refused a slot" }),
    FORCED_OPEN({ ForcedOpen(it.details("an operator refuses all calls")) }),
    BREAKER_OPEN({ BreakerOpen(it.details("the circuit breaker is open")) }),
    THROTTLED({ Throttled(it.details("the adaptive throttle refused the call")) }),
    RATE_LIMITED({ it.limited("the rate limit is used up", ::RateLimited) }),
    QUEUE_FULL({ it.full("all slots are taken, and so is the queue") }),
    ACQUIRE_TIMEOUT({ it.full("no slot came free within acquireTimeout") }),
    QUEUE_SHED({ it.full("the queue's delay was over target") }),
    DISPLACED({ it.full("a call of higher criticality took its place in the queue") }),
    HOLD_FULL({ HoldFull(it.details("too many calls are held already")) }),
    STORE_UNAVAILABLE({ StoreUnavailable(it.details("the shared store is gone")) }),
    DEADLINE_BEFORE({ DeadlineExceeded(it.details("the deadline had passed before the call began")) }),
    DEADLINE_QUEUED({ DeadlineExceeded(it.details("the deadline passed while the call was waiting")) }),
    COST_ABOVE_BURST({ it.limited("the call costs more than the rate limit can ever hold", ::CostAboveBurst) }),
    DEADLINE(
        { DeadlineExceeded(it.details("the deadline passed")) },
        { "the deadline passed while waiting for the next attempt" },
    ),
    CANCELLED,
    LOST,
    STALE,
    STALE_ROUTE,
    STREAM_STALLED({ StreamStalled(it.details("no piece of the body came for idleTimeout")) }),
    NO_TARGET({ NoTarget(it.details("no target of its group admits it")) }),
    OFFLINE(noted = { "not retried: the device was offline for longer than a retry may wait" }),
    COOLDOWN({ CoolingDown(it.details("too many requests: no attempt may start yet")) }),
    TARGETS_LIMITED({ TargetsLimited(it.details("each target of its group has used up its rate limit, or cools down")) }),
    ;

    /** Name in the telemetry of every language. */
    public val word: String = name.lowercase()

    /** Error of a call that ended with this verdict and has no result of its own. */
    internal fun error(of: Refused): TidegateException =
        refusal?.invoke(of) ?: CallLost(of.details("the call was given up: nothing was heard of it for too long"))

    /** Why there was no further attempt; null if nothing was held back. */
    internal fun note(of: Ended): String? = noted?.invoke(of)

    internal companion object {
        private val all = values()

        fun of(number: Int): Verdict = all[number]
    }
}

/** Numbers of a call's end, for its note. */
internal class Ended(val attempts: Int, val retryIn: Duration?, private val longest: () -> Duration?) {
    fun maxRetryAfter(): String = longest()?.let { " ${seconds(it)}" } ?: ""

    fun asked(): String = retryIn?.let { " (Retry-After ${seconds(it)})" } ?: ""
}

/** Quotes a text. It may come from outside, so characters that would control a terminal or a log are escaped. */
internal fun quoted(text: String): String = buildString {
    append('"')
    for (c in text) {
        val turns = c in '\u2028'..'\u202e' || c in '\u2066'..'\u2069' || c in "\u061c\u200e\u200f\ufeff"
        if (turns || c.isISOControl()) append("\\u").append(c.code.toString(16).padStart(4, '0')) else append(c)
    }
    append('"')
}

/** Details of a call that was refused or stopped. */
internal class Refused(
    private val reason: Verdict,
    private val core: Core,
    private val route: String,
    private val retryIn: Duration?,
    private val cause: Throwable?,
    private val call: Long,
) {
    fun details(text: String, numbers: String = ""): Details {
        val where = "policy \"${core.name}\", route ${quoted(route)}$numbers"
        return Details("$text ($where)", cause, reason, retryIn, core.name, route)
    }

    /** Makes the error of a call that a rate limit refused; it names the limit of a set. */
    fun <E> limited(text: String, make: (Details, Refusal?) -> E): E {
        val by = core.engine.native.engine.refusalOf(call.toULong())
        return make(details(text, by?.let { ", ${it.text}" } ?: ""), by)
    }

    fun full(text: String): BulkheadFull {
        val slots = core.count("bulkhead.max_concurrency")
        val queue = core.count("bulkhead.max_queue")
        val patience = core.span("bulkhead.acquire_timeout")
        val numbers = ", maxConcurrency $slots, maxQueue ${queue ?: "none"}, acquireTimeout ${patience?.let { seconds(it) } ?: "none"}"
        return BulkheadFull(details(text, numbers), slots, queue, patience)
    }
}

/** Formats a span: `120 s`, `0.25 s`. */
private fun seconds(span: Duration?): String {
    val ms = (span ?: 0.milliseconds).inWholeMilliseconds
    return if (ms % 1000 == 0L) "${ms / 1000} s" else "${ms / 1000.0} s"
}
