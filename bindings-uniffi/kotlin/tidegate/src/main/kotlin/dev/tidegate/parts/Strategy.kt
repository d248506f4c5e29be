// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.Retry
import kotlin.time.Duration
import dev.tidegate.ffi.RetryToken as NativeRetryToken
import dev.tidegate.ffi.RetryStrategy as NativeRetryStrategy

/**
 * Known facts about a failure.
 *
 * @property isRetrySafe Whether the call may be repeated; null if the error does not say.
 * @property retryAfter Wait that the server asked for.
 * @property isThrottlingError Whether the server asked for less load.
 * @property isTimeoutError Whether the attempt ran out of time.
 */
public class ErrorInfo @JvmOverloads constructor(
    public val isRetrySafe: Boolean? = null,
    public val retryAfter: Duration? = null,
    public val isThrottlingError: Boolean = false,
    public val isTimeoutError: Boolean = false,
)

/**
 * The strategy does not allow a further attempt.
 *
 * @property reason `attempts`, `not_safe` or `quota`.
 * @property retryDelay With `quota`, the wait before the attempt that was not allowed.
 */
public class RetryException internal constructor(public val reason: String, public val retryDelay: Duration?) :
    Exception("no further attempt: $reason")

private fun after(error: ErrorInfo): ULong? = error.retryAfter?.let { span("retryAfter", it) }

private fun granted(token: NativeRetryToken): RetryToken = when (token.refused().toInt()) {
    0 -> RetryToken(token)
    1 -> throw RetryException("attempts", null)
    2 -> throw RetryException("not_safe", null)
    else -> throw RetryException("quota", wait(token.retryDelay()))
}

/**
 * A strategy's permission for an attempt.
 *
 * It has the state of its call, so that the strategy keeps nothing of a call.
 */
public class RetryToken internal constructor(internal val native: NativeRetryToken) {
    /** Retries so far: 0 for the first attempt. */
    public val retryCount: Int get() = native.retryCount().toInt()

    /** How long to wait before the attempt. The caller waits. */
    public val retryDelay: Duration get() = wait(native.retryDelay())

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RetryToken = RetryToken(native.copy())
}

/**
 * Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
 *
 * It keeps the quota of each scope, and never waits: the caller waits before the attempt.
 *
 * ```kotlin
 * val strategy = RetryStrategy(Backoff { base = 25.milliseconds; jitter = BackoffJitter.NONE }) { maxAttempts = 2 }
 * var token = strategy.acquireInitialRetryToken("orders")
 * token = strategy.refreshRetryTokenForRetry(token, ErrorInfo(isRetrySafe = true, retryAfter = 3.seconds))
 * token.retryDelay // 3s
 * ```
 */
public class RetryStrategy private constructor(internal val native: NativeRetryStrategy) {
    /**
     * One with the settings `maxAttempts`, all of which have defaults.
     *
     * @param backoff The delay before each retry; `Backoff()` by default.
     * @param quota The quota of which every scope gets a copy; `RetryQuota()` by default, and there may be none.
     * @param retryUnknown Whether an error is retried that does not say if that is safe; no by default.
     * @param seed Seed of all random draws, 64 bits; by default from the operating system.
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(backoff: Backoff = Backoff(), quota: RetryQuota? = RetryQuota(), retryUnknown: Boolean = false, seed: Long? = null,
        configure: Configure<Retry> = Configure { }) :
        this(made("retry", ::Retry, configure) { NativeRetryStrategy(it, backoff.native, quota?.native, retryUnknown, seed(seed)) })

    /** The token of a call's first attempt, without a wait. Each scope has a quota of its own. */
    @JvmOverloads
    public fun acquireInitialRetryToken(scope: String = ""): RetryToken = RetryToken(native.acquireInitialRetryToken(scope))

    /**
     * The token of the next attempt, in exchange for that of the failed one.
     *
     * A `RetryException` says that attempts, quota or safety forbid a further attempt.
     *
     * @throws IllegalArgumentException if the error's wait is not a span of 0 or more.
     */
    @Throws(RetryException::class)
    public fun refreshRetryTokenForRetry(token: RetryToken, error: ErrorInfo): RetryToken =
        granted(native.refreshRetryTokenForRetry(token.native, error.isRetrySafe, after(error), error.isThrottlingError, error.isTimeoutError))

    /** A call has succeeded with this token: its scope gets the cost of the last retry back. */
    public fun recordSuccess(token: RetryToken): Unit = native.recordSuccess(token.native)

    /** Tokens left in a scope's quota; null without quotas. */
    @JvmOverloads
    public fun available(scope: String = ""): Int? = native.available(scope)?.toInt()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RetryStrategy = RetryStrategy(native.copy())
}
