package dev.tidegate.parts

import dev.tidegate.Budget
import dev.tidegate.BudgetKind
import dev.tidegate.Configure
import dev.tidegate.ffi.Pair
import kotlin.time.Duration
import dev.tidegate.ffi.EarnedBudget as NativeEarned
import dev.tidegate.ffi.RatioBudget as NativeRatio
import dev.tidegate.ffi.RetryBudget as NativeWindow
import dev.tidegate.ffi.RetryQuota as NativeQuota
import dev.tidegate.ffi.ShareBudget as NativeShare
import dev.tidegate.ffi.TokenBudget as NativeTokens

private fun <R> budget(kind: BudgetKind, configure: Configure<Budget>, make: (List<Pair>) -> R): R =
    made("retry.budget", ::Budget, configure, mapOf("kind" to kind), make)

/**
 * What calls that end with an answer earn: the default retry budget of a policy (`docs/spec.md`, 2.20).
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
public class EarnedBudget private constructor(private val native: NativeEarned) {
    /** One with the settings `ratio` and `start`, which have defaults. */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) : this(budget(BudgetKind.EARNED, configure) { NativeEarned(it) })

    /** Counts one call, which has started, however many attempts it makes. */
    public fun onCall(now: Duration): Unit = native.onCall(moment(now))

    /** A call has ended with an answer, good or permanent; at most once per call. */
    public fun onAnswer(now: Duration): Unit = native.onAnswer(moment(now))

    /** Takes one retry, if there is one to take. */
    public fun tryWithdraw(now: Duration): Boolean = native.tryWithdraw(moment(now))

    /** Gives back a retry that was withdrawn and never started. */
    public fun refund(now: Duration): Unit = native.refund(moment(now))

    /** Whole retries that could be taken now. */
    public fun balance(now: Duration): Long = native.balance(moment(now)).toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): EarnedBudget = EarnedBudget(native.copy())
}

/**
 * A share of recent calls plus a floor, Finagle's retry budget (`docs/spec.md`, 2.10).
 *
 * ```kotlin
 * val budget = RetryBudget { ttl = 10.seconds; minRetriesPerSec = 0.0; percentCanRetry = 0.2 }
 * repeat(10) { budget.deposit(now = Duration.ZERO) }
 * List(3) { budget.tryWithdraw(now = 1.seconds) } // true, true, false
 * ```
 */
public class RetryBudget private constructor(private val native: NativeWindow) {
    /** One with the settings `ttl`, `minRetriesPerSec`, `percentCanRetry` and `rounding`, all of which have defaults. */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) : this(budget(BudgetKind.WINDOW, configure) { NativeWindow(it) })

    /** Counts one call, however many attempts it makes. */
    public fun deposit(now: Duration): Unit = native.deposit(moment(now))

    /** Takes one retry, if there is one to take. */
    public fun tryWithdraw(now: Duration): Boolean = native.tryWithdraw(moment(now))

    /** Gives back a retry that was withdrawn at the moment [withdrawn] and never started. */
    public fun refund(withdrawn: Duration, now: Duration): Unit = native.refund(moment(withdrawn, "withdrawn"), moment(now))

    /** Retries that could be taken now. */
    public fun balance(now: Duration): Long = native.balance(moment(now)).toLong()

    /** Another of the same state; the two then go their own ways. */
    public fun copy(): RetryBudget = RetryBudget(native.copy())
}

/**
 * A part of all calls that there ever were (`docs/spec.md`, 2.11).
 *
 * ```kotlin
 * val budget = RatioBudget { ratio = 0.1; minThroughput = 0 }
 * repeat(10) { budget.onCall() }
 * List(2) { budget.tryWithdraw() } // true, false
 * ```
 */
public class RatioBudget private constructor(private val native: NativeRatio) {
    /** One with the settings `ratio` and `minThroughput`. */
    public constructor(configure: Configure<Budget>) : this(budget(BudgetKind.RATIO, configure) { NativeRatio(it) })

    /** Counts one call. */
    public fun onCall(): Unit = native.onCall()

    /** Takes one retry, if it is free or there is one to take. */
    public fun tryWithdraw(): Boolean = native.tryWithdraw()

    /** Gives back a retry that was paid for and never started. */
    public fun refund(): Unit = native.refund()

    /** Would a retry be free now? */
    public val isFree: Boolean get() = native.isFree()

    /** Whole retries that could be taken now. */
    public val balance: Long get() = native.balance().toLong()

    /** Another of the same state. */
    public fun copy(): RatioBudget = RatioBudget(native.copy())
}

/**
 * A part of the calls in flight (`docs/spec.md`, 2.12).
 *
 * ```kotlin
 * val budget = ShareBudget { share = 0.2; minRetries = 0 }
 * budget.tryAcquire(calls = 10) // true
 * budget.onEnd()
 * ```
 */
public class ShareBudget private constructor(private val native: NativeShare) {
    /** One with the settings `share` and `minRetries`, which have defaults. */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) : this(budget(BudgetKind.SHARE, configure) { NativeShare(it) })

    /** Takes one retry, while this many [calls] are in flight. */
    public fun tryAcquire(calls: Int): Boolean = native.tryAcquire(count("calls", calls))

    /** A retry has ended, or will not start. */
    public fun onEnd(): Unit = native.onEnd()

    /** Retries that could be taken now, while this many [calls] are in flight. */
    public fun balance(calls: Int): Long = native.balance(count("calls", calls)).toLong()

    /** Retries in flight. */
    public val inFlight: Int get() = native.inFlight().toInt()

    /** Another of the same state. */
    public fun copy(): ShareBudget = ShareBudget(native.copy())
}

/**
 * What successes earn and failures cost: the retry throttling of gRPC (proposal A6; `docs/spec.md`, 2.13).
 *
 * ```kotlin
 * val budget = TokenBudget { max = 10; ratio = 0.1 }
 * repeat(5) { budget.onFailure() }
 * budget.allows // false
 * ```
 */
public class TokenBudget private constructor(private val native: NativeTokens) {
    /** One with the settings `max` and `ratio`. */
    public constructor(configure: Configure<Budget>) : this(budget(BudgetKind.TOKENS, configure) { NativeTokens(it) })

    /** A retryable failure: one token less. */
    public fun onFailure(): Unit = native.onFailure()

    /** A success: `ratio` tokens more. */
    public fun onSuccess(): Unit = native.onSuccess()

    /** May there be a retry now? */
    public val allows: Boolean get() = native.allows()

    /** Failures that would still leave retries allowed. */
    public val balance: Long get() = native.balance().toLong()

    /** Another of the same state. */
    public fun copy(): TokenBudget = TokenBudget(native.copy())
}

/**
 * What retries cost, by the kind of the failure: the retry quota of the AWS SDKs (`docs/spec.md`, 2.13).
 *
 * ```kotlin
 * val quota = RetryQuota { capacity = 14; cost = 14 }
 * val cost = quota.tryAcquire() // 14
 * quota.tryAcquire() // null
 * ```
 */
public class RetryQuota private constructor(internal val native: NativeQuota) {
    /** One with the settings `capacity`, `cost`, `timeoutCost` and `throttledCost`, all of which have defaults. */
    @JvmOverloads
    public constructor(configure: Configure<Budget> = Configure { }) : this(budget(BudgetKind.QUOTA, configure) { NativeQuota(it) })

    /** Pays for a retry after a failure of this [kind], `transient`, `timeout` or `throttled`: the cost, or null where there is not enough. */
    @JvmOverloads
    public fun tryAcquire(kind: String = "transient"): Int? = argued { native.tryAcquire(kind) }?.toInt()

    /** A call has succeeded, whose last retry cost [cost], 0 to 65,535; none where it is 0. */
    @JvmOverloads
    public fun onSuccess(cost: Int = 0): Unit = native.onSuccess(cost(cost))

    /** Gives a charge back. */
    public fun refund(cost: Int): Unit = native.refund(cost(cost))

    /** Tokens left. */
    public val available: Int get() = native.available().toInt()

    /** Another of the same state. */
    public fun copy(): RetryQuota = RetryQuota(native.copy())

    private fun cost(cost: Int): UShort {
        require(cost in 0..0xffff) { "cost = $cost: must be from 0 to 65535" }
        return cost.toUShort()
    }
}
