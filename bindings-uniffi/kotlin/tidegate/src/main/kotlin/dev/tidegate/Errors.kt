package dev.tidegate

import dev.tidegate.ffi.Refusal
import java.io.IOException
import java.io.Serializable
import java.time.Instant
import kotlin.time.Duration
import kotlin.time.toJavaDuration
import kotlin.time.toKotlinDuration

/**
 * Base of all errors of Tidegate that a call can end with.
 *
 * The caller gets the last response, or the original exception, wherever there is one. Tidegate's own errors are for calls that were
 * refused before an attempt, and for attempts that Tidegate stopped. They are [IOException]s, because callers of OkHttp, Retrofit and Ktor
 * expect those for a failed request.
 *
 * @property reason Verdict of the engine, finer than the class.
 * @property policy Name of the policy.
 * @property route Key of the route.
 */
public open class TidegateException internal constructor(
    message: String,
    cause: Throwable?,
    public val reason: Verdict?,
    retryIn: Duration?,
    public val policy: String?,
    public val route: String?,
) : IOException(message, cause) {
    // Kotlin's Duration cannot be serialized, as exceptions must be.
    private val wait: java.time.Duration? = retryIn?.toJavaDuration()

    /** Time after which another try makes sense. */
    public val retryIn: Duration? get() = wait?.toKotlinDuration()

    /** Report of the call that was refused or stopped. */
    @Transient internal var made: Report? = null

    /** Moment from which another try makes sense. */
    public val retryAt: Instant? = retryIn?.let { Instant.now().plusMillis(it.inWholeMilliseconds) }

    /** [retryIn] for Java. */
    public fun getRetryIn(): java.time.Duration? = wait

    /** The kind of error, the same in every language. */
    public open val code: String get() = "error"

    /** Status that an HTTP server would return to its own client. */
    public open val httpStatus: Int get() = 503
}

/** The call was refused before any attempt. */
public open class Rejected internal constructor(details: Details) : Ours(details) {
    override val code: String get() = "rejected"
}

/**
 * The rate limit is used up.
 *
 * @property limit Name of the limit that refused the call: of several that lack tokens the one that frees last. Null for a rate limit
 *   without `limits`.
 * @property weight Weight that this limit counts; null for a limit that counts calls.
 * @property amount The call's amount of that weight; null without a weight.
 */
public class RateLimited internal constructor(details: Details, by: Refusal?) : Rejected(details) {
    public val limit: String? = by?.limit
    public val weight: String? = by?.weight
    public val amount: Long? = by?.amount?.toLong()
    override val code: String get() = "rate_limited"
    override val httpStatus: Int get() = 429
}

/**
 * No slot was free, or none became free in time.
 *
 * @property maxConcurrency Limit of calls in flight.
 * @property maxQueue Limit of waiting calls; null if unbounded.
 */
public class BulkheadFull internal constructor(
    details: Details,
    public val maxConcurrency: Int?,
    public val maxQueue: Int?,
    acquireTimeout: Duration?,
) : Rejected(details) {
    private val patience: java.time.Duration? = acquireTimeout?.toJavaDuration()

    /** Longest wait of a call; null if unbounded. */
    public val acquireTimeout: Duration? get() = patience?.toKotlinDuration()
    override val code: String get() = "bulkhead_full"

    /** [acquireTimeout] for Java. */
    public fun getAcquireTimeout(): java.time.Duration? = acquireTimeout?.toJavaDuration()
}

/** The circuit breaker is open. */
public class BreakerOpen internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "breaker_open"
}

/** The adaptive throttle refused the call. */
public class Throttled internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "throttled"
    override val httpStatus: Int get() = 429
}

/** An operator refuses all calls. */
public class ForcedOpen internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "forced_open"
}

/** Too many calls are held already. */
public class HoldFull internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "hold_full"
}

/** The server has said that there are too many requests; no attempt starts until [retryAt]. */
public class CoolingDown internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "cooling_down"
    override val httpStatus: Int get() = 429
}

/** The shared store is unreachable, and the policy refuses calls without it. */
public class StoreUnavailable internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "store_unavailable"
}

/** No target of its group admits the call's attempt: each is open, out of tokens or full. */
public open class NoTarget internal constructor(details: Details) : Rejected(details) {
    override val code: String get() = "no_target"
}

/** No target of its group admits the call's attempt: each has used up its rate limit, or cools down. */
public class TargetsLimited internal constructor(details: Details) : NoTarget(details) {
    override val code: String get() = "targets_limited"
    override val httpStatus: Int get() = 429
}

/**
 * The call costs more than the rate limit can ever hold.
 *
 * @property limit Name of the limit that never holds so much. Null for a rate limit without `limits`.
 * @property weight Weight that this limit counts; null for a limit that counts calls.
 * @property amount The call's amount of that weight; null without a weight.
 */
public class CostAboveBurst internal constructor(details: Details, by: Refusal?) : Ours(details) {
    public val limit: String? = by?.limit
    public val weight: String? = by?.weight
    public val amount: Long? = by?.amount?.toLong()
    override val code: String get() = "cost_above_burst"
}

/** The call was abandoned: the engine received no event of it for too long. */
public class CallLost internal constructor(details: Details) : Ours(details) {
    override val code: String get() = "call_lost"
}

/** The last attempt exceeded `attemptTimeout`, and Tidegate stopped it. */
public class AttemptTimeout internal constructor(details: Details) : Ours(details) {
    override val code: String get() = "attempt_timeout"
    override val httpStatus: Int get() = 504
}

/** No piece of the answer's body that counts came for `idleTimeout`. The connection is closed. */
public class StreamStalled internal constructor(details: Details) : Ours(details) {
    override val code: String get() = "stream_stalled"
    override val httpStatus: Int get() = 504
}

/** The deadline passed: before the call, while it waited, or during an attempt. */
public class DeadlineExceeded internal constructor(details: Details) : Ours(details) {
    override val code: String get() = "deadline_exceeded"
    override val httpStatus: Int get() = 504
}

/** Details that all errors of Tidegate have. */
internal class Details(
    val message: String,
    val cause: Throwable?,
    val reason: Verdict?,
    val retryIn: Duration?,
    val policy: String,
    val route: String,
)

/** Base of the errors that Tidegate makes from such details. */
public abstract class Ours internal constructor(details: Details) :
    TidegateException(details.message, details.cause, details.reason, details.retryIn, details.policy, details.route)

/** One mistake in a policy: the [key], the [value] and the [rule] that it breaks. */
public class Mistake internal constructor(public val key: String, public val value: String, public val rule: String) : Serializable {
    override fun equals(other: Any?): Boolean = other is Mistake && other.toString() == toString()

    override fun hashCode(): Int = toString().hashCode()

    override fun toString(): String = "$key = $value: $rule"
}

/** An invalid policy, with all its mistakes. */
public class PolicyException internal constructor(
    /** All mistakes of the policy. */
    public val mistakes: List<Mistake>,
) : IllegalArgumentException(mistakes.joinToString("; "))
