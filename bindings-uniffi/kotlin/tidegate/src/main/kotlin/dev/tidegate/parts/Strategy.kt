package dev.tidegate.parts

import dev.tidegate.Configure
import dev.tidegate.Retry
import dev.tidegate.ffi.Refreshed
import kotlin.time.Duration
import kotlin.time.Duration.Companion.microseconds
import dev.tidegate.ffi.RetryStrategy as NativeStrategy
import dev.tidegate.ffi.RetryToken as NativeToken

/** What a strategy hands out for an attempt. */
public class RetryToken internal constructor(internal val native: NativeToken) {
    /** Attempts made so far, the first one aside. */
    public val retryCount: Int get() = native.retryCount().toInt()

    /** How long to wait before the attempt. */
    public val retryDelay: Duration get() = native.retryDelay().toLong().microseconds
}

/**
 * What is known of a failure.
 *
 * @property isRetrySafe May the call be repeated? Null where the error does not say.
 * @property retryAfter How long the other side asked us to wait.
 * @property isThrottling Did the other side ask for less load?
 * @property isTimeout Did the attempt run out of its time?
 */
public class ErrorInfo @JvmOverloads constructor(
    public val isRetrySafe: Boolean? = null,
    public val retryAfter: Duration? = null,
    public val isThrottling: Boolean = false,
    public val isTimeout: Boolean = false,
)

/**
 * There is no further attempt.
 *
 * @property reason `attempts`, `not_safe` or `quota`.
 * @property retryDelay The wait there would have been, where that is known.
 */
public class RetryException internal constructor(public val reason: String, public val retryDelay: Duration?) :
    Exception("no further attempt: $reason")

/**
 * Retry tokens, each scope with a quota of its own: the retry strategy of the Smithy SDKs (`docs/spec.md`, 2.13). A token carries
 * what an attempt needs to know. It waits for nobody: [RetryToken.retryDelay] is the caller's to wait.
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
     * A new one.
     *
     * @param backoff The delay before each retry.
     * @param quota The quota that every scope gets one like; null for no quota.
     * @param retryUnknown Is an error that does not say whether it is safe taken as safe?
     * @param seed All the randomness there is; drawn where it is null.
     * @param configure `maxAttempts`, 1 to 255, by default 3; the first one counts.
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

    /** The token of a call's first attempt: no retry yet, no wait. */
    @JvmOverloads
    public fun acquire(scope: String = ""): RetryToken = RetryToken(native.acquire(scope))

    /**
     * The token of the next attempt, after one that failed.
     *
     * @throws RetryException if attempts, quota or safety forbid one.
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

    /** A call has succeeded with this token: the cost of its last retry goes back to its scope. */
    public fun recordSuccess(token: RetryToken): Unit = native.recordSuccess(token.native)

    /** Tokens left in a scope's quota; null without quotas. */
    @JvmOverloads
    public fun available(scope: String = ""): Int? = native.available(scope)?.toInt()

    /** Another of the same state. */
    public fun copy(): RetryStrategy = RetryStrategy(native.copy())
}
