// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

package dev.tidegate.parts

import dev.tidegate.Budget
import dev.tidegate.Configure
import kotlin.time.Duration
import dev.tidegate.ffi.EarnedBudget as NativeEarnedBudget
import dev.tidegate.ffi.RetryBudget as NativeRetryBudget
import dev.tidegate.ffi.RatioBudget as NativeRatioBudget
import dev.tidegate.ffi.ShareBudget as NativeShareBudget
import dev.tidegate.ffi.TokenBudget as NativeTokenBudget
import dev.tidegate.ffi.RetryQuota as NativeRetryQuota

/**
 * The default budget of a policy: each call that ends with an answer earns a part of a retry.
 *
 * Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start` (`docs/spec.md`, 2.20). It bounds attempts ≤ (1 +
 * ratio)·calls + start: there is no floor per second, so a server that is down is asked less and less.
 *
 * ```kotlin
 * val budget = EarnedBudget { ratio = 0.25; start = 1 }
 * List(2) { budget.tryWithdraw(now = Duration.ZERO) } // true, false
 * repeat(4) {
 *     budget.onCall(now = 1.seconds)
 *     budget.onAnswer(now = 1.seconds)
 * }
 * budget.balance(now = 1.seconds) // 1
 * ```
 */
public class EarnedBudget private constructor(internal val native: NativeEarnedBudget) {
    /**
     * One with the settings `ratio`, `start`, all of which have defaults.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "earned")) { NativeEarnedBudget(it) })

    /** Counts one call, which has started, however many attempts it makes. */
    public fun onCall(now: Duration): Unit = native.onCall(moment(now))

    /** Reports an answer: a success or a permanent error. At most once per call. */
    public fun onAnswer(now: Duration): Unit = native.onAnswer(moment(now))

    /** Takes one retry, if one is available. */
    public fun tryWithdraw(now: Duration): Boolean = native.tryWithdraw(moment(now))

    /** Refunds a retry that was withdrawn and never started. */
    public fun refund(now: Duration): Unit = native.refund(moment(now))

    /** Whole retries that could be taken now. */
    public fun balance(now: Duration): Long = native.balance(moment(now)).toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): EarnedBudget = EarnedBudget(native.copy())
}

/**
 * A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
 *
 * Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percentCanRetry) + floor(minRetriesPerSec·ttl). Ten
 * slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It bounds attempts ≤ (1 + percent)·calls + minRetriesPerSec·(seconds +
 * 1.1·ttl) (`docs/spec.md`, 2.10).
 *
 * ```kotlin
 * val budget = RetryBudget { ttl = 10.seconds; minRetriesPerSec = 0.0; percentCanRetry = 0.2 }
 * repeat(10) { budget.deposit(now = Duration.ZERO) }
 * List(3) { budget.tryWithdraw(now = 1.seconds) } // true, true, false
 * ```
 */
public class RetryBudget private constructor(internal val native: NativeRetryBudget) {
    /**
     * One with the settings `ttl`, `minRetriesPerSec`, `percentCanRetry`, `rounding`, all of which have defaults.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "window")) { NativeRetryBudget(it) })

    /** Counts one call, however many attempts it makes. */
    public fun deposit(now: Duration): Unit = native.deposit(moment(now))

    /** Takes one retry, if one is available. */
    public fun tryWithdraw(now: Duration): Boolean = native.tryWithdraw(moment(now))

    /** Refunds a retry withdrawn at the moment `withdrawn` that was never started. */
    public fun refund(withdrawn: Duration, now: Duration): Unit = native.refund(moment(withdrawn, "withdrawn"), moment(now))

    /** Retries that could be taken now. */
    public fun balance(now: Duration): Long = native.balance(moment(now)).toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RetryBudget = RetryBudget(native.copy())
}

/**
 * Each call earns a part of a retry, up to max(1, `minThroughput`·`ratio`); no clock.
 *
 * In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 + ratio)·calls + minThroughput·(maxAttempts
 * − 1) (`docs/spec.md`, 2.11).
 *
 * ```kotlin
 * val budget = RatioBudget { ratio = 0.1; minThroughput = 0 }
 * repeat(10) { budget.onCall() }
 * List(2) { budget.tryWithdraw() } // true, false
 * ```
 */
public class RatioBudget private constructor(internal val native: NativeRatioBudget) {
    /**
     * One with the settings `ratio`, `minThroughput`.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(configure: Configure<Budget>) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "ratio")) { NativeRatioBudget(it) })

    /** Counts one call, however many attempts it makes. */
    public fun onCall(): Unit = native.onCall()

    /** Takes one retry, if it is free or one is available. */
    public fun tryWithdraw(): Boolean = native.tryWithdraw()

    /** Refunds a retry that was paid for and never started; not one that was free. */
    public fun refund(): Unit = native.refund()

    /** Whether a retry would be free now, because there have been few calls. */
    public val isFree: Boolean get() = native.isFree()

    /** Whole retries that could be taken now. */
    public val balance: Long get() = native.balance().toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RatioBudget = RatioBudget(native.copy())
}

/**
 * Retries in flight ≤ max(`minRetries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
 *
 * A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass (`docs/spec.md`, 2.12).
 *
 * ```kotlin
 * val budget = ShareBudget { share = 0.2; minRetries = 0 }
 * budget.tryAcquire(calls = 10) // true
 * budget.onEnd()
 * ```
 */
public class ShareBudget private constructor(internal val native: NativeShareBudget) {
    /**
     * One with the settings `share`, `minRetries`, all of which have defaults.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "share")) { NativeShareBudget(it) })

    /** Takes one retry, while `calls` are in flight (0 to 2^31 − 1). */
    public fun tryAcquire(calls: Int): Boolean = native.tryAcquire(count("calls", calls))

    /** A retry that was taken has ended, or will not start. */
    public fun onEnd(): Unit = native.onEnd()

    /** Retries that could be taken now, while `calls` are in flight. */
    public fun balance(calls: Int): Long = native.balance(count("calls", calls)).toLong()

    /** Retries in flight. */
    public val inFlight: Int get() = native.inFlight().toInt()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): ShareBudget = ShareBudget(native.copy())
}

/**
 * Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
 *
 * Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).
 *
 * ```kotlin
 * val budget = TokenBudget { max = 10; ratio = 0.1 }
 * repeat(5) { budget.onFailure() }
 * budget.allows // false
 * ```
 */
public class TokenBudget private constructor(internal val native: NativeTokenBudget) {
    /**
     * One with the settings `max`, `ratio`.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    public constructor(configure: Configure<Budget>) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "tokens")) { NativeTokenBudget(it) })

    /** A retryable failure, first attempts included. */
    public fun onFailure(): Unit = native.onFailure()

    /** A success. */
    public fun onSuccess(): Unit = native.onSuccess()

    /** Whether a retry is allowed now. */
    public val allows: Boolean get() = native.allows()

    /** Failures until retries are refused. */
    public val balance: Long get() = native.balance().toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): TokenBudget = TokenBudget(native.copy())
}

/**
 * Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
 *
 * Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1 (`docs/spec.md`, 2.14).
 *
 * ```kotlin
 * val quota = RetryQuota { capacity = 14; cost = 14 }
 * val cost = quota.tryAcquire() // 14
 * quota.tryAcquire() // null
 * ```
 */
public class RetryQuota private constructor(internal val native: NativeRetryQuota) {
    /**
     * One with the settings `capacity`, `cost`, `timeoutCost`, `throttledCost`, all of which have defaults.
     *
     * @throws dev.tidegate.PolicyException if a setting is outside its range: the key, the value and the rule.
     */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) :
        this(made("retry.budget", ::Budget, configure, mapOf("kind" to "quota")) { NativeRetryQuota(it) })

    /** Pays for a retry after a failure of this kind: the cost, or null if the tokens are too few. */
    @JvmOverloads
    public fun tryAcquire(kind: String = "transient"): Int? = argued { native.tryAcquire(kind) }?.toInt()

    /** Reports a success of a call whose last retry cost `cost`: 0 if it had none. */
    @JvmOverloads
    public fun onSuccess(cost: Int = 0): Unit = native.onSuccess(within("cost", cost, 0, 65535).toUShort())

    /** Refunds the charge of a retry that was never started; 0 to 65,535. */
    public fun refund(cost: Int): Unit = native.refund(within("cost", cost, 0, 65535).toUShort())

    /** Tokens left. */
    public val available: Int get() = native.available().toInt()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RetryQuota = RetryQuota(native.copy())
}
