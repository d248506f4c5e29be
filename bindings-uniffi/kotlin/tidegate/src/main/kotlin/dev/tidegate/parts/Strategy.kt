package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.Retry
import dev.tidegate.ffi.Refreshed
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import dev.tidegate.ffi.RetryStrategy as NativeStrategy
import dev.tidegate.ffi.RetryToken as NativeToken

/** Token that a strategy issues for an attempt. */
public class RetryToken internal constructor(internal val native: NativeToken) {
    /** Number of attempts so far, without the first. */
    public val retryCount: Int get() = native.retryCount().toInt()

    /** Wait before the attempt. */
    public val retryDelay: Duration get() = native.retryDelay().toLong().microseconds
}

/**
 * Known facts about a failure.
 *
 * @property isRetrySafe Whether the call may be repeated; null if the error does not say.
 * @property retryAfter Wait that the server asked for.
 * @property isThrottling Whether the server asked for less load.
 * @property isTimeout Whether the attempt ran out of time.
 */
public class ErrorInfo @JvmOverloads constructor(
    public val isRetrySafe: Boolean? = null,
    public val retryAfter: Duration? = null,
    public val isThrottling: Boolean = false,
    public val isTimeout: Boolean = false,
)

/**
 * The strategy does not allow a further attempt.
 *
 * @property reason `attempts`, `not_safe` or `quota`.
 * @property retryDelay Wait before the attempt that was not allowed, if known.
 */
public class RetryException internal constructor(public val reason: String, public val retryDelay: Duration?) :
    Exception("no further attempt: $reason")

/**
 * Retry tokens with a quota for each scope: the retry strategy of the Smithy SDKs (`docs/spec.md`, 2.13). A token carries the state that an
 * attempt needs. The strategy does not wait: the caller waits for [RetryToken.retryDelay].
 *
 * ```kotlin
 * val strategy = RetryStrategy(Backoff { base = 25.milliseconds; jitter = BackoffJitter.NONE }) { maxAttempts = 2 }
 * var token = strategy.acquire("orders")
 * token = strategy.refresh(token, ErrorInfo(isRetrySafe = true, retryAfter = 3.seconds))
 * token.retryDelay // 3s
 * ```
 */
public class RetryStrategy private constructor(private val native: NativeStrategy) {
    /**
     * Makes a strategy.
     *
     * @param backoff Delay before each retry.
     * @param quota Quota of which every scope gets one; null for no quota.
     * @param retryUnknown Whether an error counts as safe that does not say whether it is.
     * @param seed Source of all randomness; a random seed if null.
     * @param configure `maxAttempts`, 1 to 255, by default 3, including the first attempt.
     * @throws dev.tidegate.PolicyException if a setting is outside its range.
     */
    @JvmOverloads
    public constructor(
        backoff: Backoff = Backoff(),
        quota: RetryQuota? = RetryQuota(),
        retryUnknown: Boolean = false,
        seed: Long? = null,
        configure: Configure<Retry> = Configure { },
    ) : this(made("retry", ::Retry, configure) { NativeStrategy(it, seed(seed), backoff.native, quota?.native, retryUnknown) })

    /** Token of a call's first attempt: no retry yet, no wait. */
    @JvmOverloads
    public fun acquire(scope: String = ""): RetryToken = RetryToken(native.acquire(scope))

    /**
     * Token of the next attempt, after a failed one.
     *
     * @throws RetryException if attempts, quota or safety forbid a further attempt.
     */
    @Throws(RetryException::class)
    public fun refresh(token: RetryToken, error: ErrorInfo): RetryToken {
        val after = error.retryAfter?.let { span("retryAfter", it) }
        val next = native.refresh(token.native, error.isRetrySafe, after, error.isThrottling, error.isTimeout)
        return when (next) {
            is Refreshed.Next -> RetryToken(next.token)
            is Refreshed.Refused -> throw RetryException(next.why, next.waitUs?.toLong()?.microseconds)
        }
    }

    /** Records that a call has succeeded with this token. The cost of its last retry is refunded to its scope. */
    public fun recordSuccess(token: RetryToken): Unit = native.recordSuccess(token.native)

    /** Tokens left in a scope's quota; null without quotas. */
    @JvmOverloads
    public fun available(scope: String = ""): Int? = native.available(scope)?.toInt()

    /** Copy with the same state. */
    public fun copy(): RetryStrategy = RetryStrategy(native.copy())
}
