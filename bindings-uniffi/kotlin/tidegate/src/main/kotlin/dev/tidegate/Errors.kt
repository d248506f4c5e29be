package dev.tidegate

import java.io.IOException
import java.time.Instant
import kotlin.time.Duration
import kotlin.time.toJavaDuration

/**
 * Base of all errors of this library that a call can end with.
 *
 * The last response, or the original exception, is what a caller gets wherever there is one; these are for calls refused
 * before an attempt, and for attempts that we stopped ourselves. They are [IOException]s, because that is what callers of
 * OkHttp, Retrofit and Ktor expect of a request that came to nothing.
 *
 * @property reason The verdict of the engine, finer than the class.
 * @property retryIn After how long another try would make sense.
 * @property policy The policy's name.
 * @property route The route's key.
 */
public open class TidegateException internal constructor(
    message: String,
    cause: Throwable?,
    public val reason: Verdict?,
    public val retryIn: Duration?,
    public val policy: String?,
    public val route: String?,
) : IOException(message, cause) {
    /** The moment from which another try would make sense. */
    public val retryAt: Instant? = retryIn?.let { Instant.now().plusMillis(it.inWholeMilliseconds) }

    /** [retryIn] for Java. */
    public fun getRetryIn(): java.time.Duration? = retryIn?.toJavaDuration()

    /** The kind of error, the same in every language. */
    public open val code: String get() = "error"

    /** What an HTTP server would answer its own caller with. */
    public open val httpStatus: Int get() = 503
}

/** The call was refused before any attempt. */
public open class Rejected internal constructor(told: Told) : Ours(told) {
    override val code: String get() = "rejected"
}

/** The rate limit is used up. */
public class RateLimited internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "rate_limited"
    override val httpStatus: Int get() = 429
}

/**
 * No slot was free, or none came free in time.
 *
 * @property maxConcurrency Calls in flight at once.
 * @property maxQueue Waiting calls; null is unbounded.
 * @property acquireTimeout The patience of a waiting call; null is for ever.
 */
public class BulkheadFull internal constructor(
    told: Told,
    public val maxConcurrency: Int?,
    public val maxQueue: Int?,
    public val acquireTimeout: Duration?,
) : Rejected(told) {
    override val code: String get() = "bulkhead_full"

    /** [acquireTimeout] for Java. */
    public fun getAcquireTimeout(): java.time.Duration? = acquireTimeout?.toJavaDuration()
}

/** The circuit breaker is open. */
public class BreakerOpen internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "breaker_open"
}

/** The adaptive throttle refused the call. */
public class Throttled internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "throttled"
    override val httpStatus: Int get() = 429
}

/** An operator refuses all calls. */
public class ForcedOpen internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "forced_open"
}

/** Too many calls are held already. */
public class HoldFull internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "hold_full"
}

/** The shared store is gone, and the policy says to refuse. */
public class StoreUnavailable internal constructor(told: Told) : Rejected(told) {
    override val code: String get() = "store_unavailable"
}

/** The call costs more than the rate limit can ever hold. */
public class CostAboveBurst internal constructor(told: Told) : Ours(told) {
    override val code: String get() = "cost_above_burst"
}

/** The call was given up, because nothing was heard of it for so long. */
public class CallLost internal constructor(told: Told) : Ours(told) {
    override val code: String get() = "call_lost"
}

/** The last attempt ran out of `attemptTimeout`, and we stopped it. */
public class AttemptTimeout internal constructor(told: Told) : Ours(told) {
    override val code: String get() = "attempt_timeout"
    override val httpStatus: Int get() = 504
}

/** The deadline passed: before the call, while it waited, or during an attempt. */
public class DeadlineExceeded internal constructor(told: Told) : Ours(told) {
    override val code: String get() = "deadline_exceeded"
    override val httpStatus: Int get() = 504
}

/** What every error of ours tells. */
internal class Told(
    val message: String,
    val cause: Throwable?,
    val reason: Verdict?,
    val retryIn: Duration?,
    val policy: String,
    val route: String,
)

/** An error of ours that is made from what it tells. */
public abstract class Ours internal constructor(told: Told) :
    TidegateException(told.message, told.cause, told.reason, told.retryIn, told.policy, told.route)

/** One mistake in a policy: the [key], the [value] and the [rule] that it breaks. */
public class Mistake internal constructor(public val key: String, public val value: String, public val rule: String) {
    override fun equals(other: Any?): Boolean = other is Mistake && other.toString() == toString()

    override fun hashCode(): Int = toString().hashCode()

    override fun toString(): String = "$key = $value: $rule"
}

/** A policy that cannot be built, with every mistake there is. */
public class PolicyException internal constructor(
    /** Every mistake there is. */
    public val mistakes: List<Mistake>,
) : IllegalArgumentException(mistakes.joinToString("; "))
