// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

package dev.tidegate

import dev.tidegate.internal.Table
import kotlin.time.Duration
import kotlin.time.toKotlinDuration

/** The built-in policies that a policy may start from. */
public enum class Preset {
    HTTP,
    HTTPWARE,
    TRANSIENT,
    OCC,
    GRAPH,
    AWS_STANDARD,
    AWS_2026,
    AWS_ADAPTIVE,
    GRPC,
    LLM,
}

/** The classes that a kind of failure of your own can be based on. */
public enum class FailureBase {
    TRANSIENT,
    THROTTLED,
    TIMEOUT,
    NEVER_SENT,
    CONFLICT,
    PERMANENT,
    IGNORED,
}

/** How long a streamed answer keeps its slot and its deadline. */
public enum class SlotUntil {
    BODY,
    HEADERS,
}

/** Where the deadline ends: with the body, or where the answer is handed to the caller. */
public enum class DeadlineUntil {
    BODY,
    DELIVERY,
}

/** Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings. */
public enum class Counts {
    BYTES,
    SSE_DATA,
}

/**
 * What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r,
 * clamp_5s keeps it within 5 s above the backoff.
 */
public enum class RetryAfter {
    FLOOR,
    EXACT,
    CLAMP_5S,
    IGNORE,
}

/**
 * cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive
 * mode.
 */
public enum class RetrySendRate {
    NONE,
    CUBIC,
}

/** How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent. */
public enum class BackoffKind {
    EXPONENTIAL,
    CONSTANT,
    LINEAR,
    POLYNOMIAL,
}

/**
 * How the delay d is spread: full_floor draws from \[0.1·d, d], full from \[0, d], equal from \[d/2, d],
 * decorrelated from \[base, 3·previous], bounded from \[(1−j)·d, (1+j)·d].
 */
public enum class BackoffJitter {
    FULL_FLOOR,
    NONE,
    FULL,
    EQUAL,
    DECORRELATED,
    BOUNDED,
}

/**
 * What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
 * floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota
 * what retries cost.
 */
public enum class BudgetKind {
    EARNED,
    WINDOW,
    RATIO,
    SHARE,
    TOKENS,
    QUOTA,
    NONE,
}

/** How the share of calls is rounded. */
public enum class BudgetRounding {
    FLOOR,
    CEIL,
}

/**
 * fleet: a closing in one process closes all, through the store that the engine is attached to; each process
 * reopens with one attempt.
 */
public enum class CooldownStore {
    LOCAL,
    FLEET,
}

/** What takes a token: the call, or each of its attempts. */
public enum class RateLimitUnit {
    CALL,
    ATTEMPT,
}

/**
 * Whose rate it is: each process's own, or the whole fleet's through the store that the engine is attached
 * to.
 */
public enum class RateLimitStore {
    LOCAL,
    FLEET,
}

/**
 * fleet: what holds while the store is gone: local is the process's share of the rate, open lets all calls
 * pass, closed refuses them.
 */
public enum class RateLimitOnLoss {
    LOCAL,
    OPEN,
    CLOSED,
}

/**
 * limits: what an attempt counts that may have been served and of which no amount was settled: what it had
 * reserved, or nothing.
 */
public enum class RateLimitSettleUnknown {
    RESERVATION,
    ZERO,
}

/**
 * limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
 * never raises one, none ignores it.
 */
public enum class RateLimitLearn {
    NONE,
    DOWN,
}

/**
 * limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in the
 * order in which they came.
 */
public enum class RateLimitFairBy {
    NONE,
    KEY,
}

/**
 * What sets the limit of concurrent calls: fixed is maxConcurrency, aimd follows a latency threshold,
 * gradient2 the change of latency.
 */
public enum class BulkheadKind {
    FIXED,
    AIMD,
    GRADIENT2,
}

/** What takes a slot: the call, or each of its attempts, which gives it back during backoff. */
public enum class BulkheadUnit {
    CALL,
    ATTEMPT,
}

/**
 * aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer requests), or
 * both.
 */
public enum class BulkheadSignal {
    LATENCY,
    LOSS,
    BOTH,
}

/**
 * gradient2: steady decides once per round trip and comes back to what the server can take; guarded, plain
 * and netflix are older rules.
 */
public enum class BulkheadVariant {
    STEADY,
    GUARDED,
    PLAIN,
    NETFLIX,
}

/** The control law behind queueTarget. */
public enum class BulkheadCodel {
    FACEBOOK,
    RFC8289,
}

/**
 * Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
 * attached to.
 */
public enum class BulkheadStore {
    LOCAL,
    FLEET,
}

/**
 * fleet: what holds while the store is gone: local is the process's share of the slots, open is
 * maxConcurrency in each process, closed refuses calls.
 */
public enum class BulkheadOnLoss {
    LOCAL,
    OPEN,
    CLOSED,
}

/** aimd with latencyQuantile: fleet compares the quantile of all processes' latencies with the threshold. */
public enum class BulkheadLatencyStore {
    LOCAL,
    FLEET,
}

/** sliding forgets by tenths of the window, tumbling all at once. */
public enum class BreakerWindowKind {
    SLIDING,
    TUMBLING,
}

/** What is counted: the call, or each of its attempts. */
public enum class BreakerUnit {
    CALL,
    ATTEMPT,
}

/**
 * fleet: one process that trips opens the breaker for all, through the store that the engine is attached to.
 */
public enum class BreakerStore {
    LOCAL,
    FLEET,
}

/**
 * fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls pass,
 * closed refuses them.
 */
public enum class BreakerOnLoss {
    LOCAL,
    OPEN,
    CLOSED,
}

/** sliding forgets by tenths of the window, tumbling all at once. */
public enum class ThrottleWindowKind {
    SLIDING,
    TUMBLING,
}

/** What is counted and refused: the call, or each of its attempts. */
public enum class ThrottleUnit {
    CALL,
    ATTEMPT,
}

/**
 * What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn, window a
 * share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight, tokens
 * what successes earn, quota what retries cost.
 */
public enum class HedgeBudgetKind {
    SHARED,
    EARNED,
    WINDOW,
    RATIO,
    SHARE,
    TOKENS,
    QUOTA,
    NONE,
}

/** How the share of calls is rounded. */
public enum class HedgeBudgetRounding {
    FLOOR,
    CEIL,
}

/** When to try again. */
@TidegateDsl
public class Retry internal constructor(settings: Table) : Options(settings) {
    /** Attempts in all; the first counts, 1 disables retries. 1 to 255; default: `3`. */
    public var maxAttempts: Int?
        get() = settings.count("retry.max_attempts")
        set(value) = settings.put("retry.max_attempts", value)

    /**
     * Classes and kinds of failure that are retried; infrastructure is transient and never_sent, concurrency
     * is conflict. One of transient, throttled, timeout, never_sent, conflict, infrastructure, concurrency,
     * or a name declared in kinds; default: `transient throttled timeout never_sent conflict`.
     */
    public var retryOn: List<String>?
        get() = settings.list("retry.retry_on")
        set(value) = settings.put("retry.retry_on", value)

    /** Elapsed time plus the next wait must fit into this. 0 µs to 365 days; default: off. */
    public var retryTimeLimit: Duration?
        get() = settings.span("retry.retry_time_limit")
        set(value) = settings.put("retry.retry_time_limit", value)

    /** [retryTimeLimit] for Java. */
    public fun setRetryTimeLimit(value: java.time.Duration?): Unit =
        settings.put("retry.retry_time_limit", value?.toKotlinDuration())

    /**
     * Methods that may be repeated without an idempotency key. One of GET, HEAD, OPTIONS, PUT, DELETE, QUERY,
     * TRACE, POST, PATCH; default: `GET HEAD OPTIONS PUT DELETE`.
     */
    public var methods: List<String>?
        get() = settings.list("retry.methods")
        set(value) = settings.put("retry.methods", value)

    /**
     * HTTP statuses that are retried. A status that can be retried: 408, 409, 429 or 500 to 599; default:
     * `408 429 502 503 504`.
     */
    public var statuses: List<Int>?
        get() = settings.list("retry.statuses")
        set(value) = settings.put("retry.statuses", value)

    /** Wait at least as long as the server's Retry-After says. True or false; default: `true`. */
    public var respectRetryAfter: Boolean?
        get() = settings.flag("retry.respect_retry_after")
        set(value) = settings.put("retry.respect_retry_after", value)

    /**
     * What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r,
     * clamp_5s keeps it within 5 s above the backoff. Floor, exact, clamp_5s, ignore; default: `floor`.
     */
    public var retryAfter: RetryAfter?
        get() = settings.choice<RetryAfter>("retry.retry_after")
        set(value) = settings.put("retry.retry_after", value)

    /**
     * A server that asks for a longer wait than this ends the call. 0 µs to 365 days; default: that of
     * `retry.backoff.max`.
     */
    public var maxRetryAfter: Duration?
        get() = settings.span("retry.max_retry_after")
        set(value) = settings.put("retry.max_retry_after", value)

    /** [maxRetryAfter] for Java. */
    public fun setMaxRetryAfter(value: java.time.Duration?): Unit =
        settings.put("retry.max_retry_after", value?.toKotlinDuration())

    /**
     * HTTP statuses by which the server asks for less load. A status that can be retried: 408, 409, 429 or
     * 500 to 599; default: `429`.
     */
    public var throttledStatuses: List<Int>?
        get() = settings.list("retry.throttled_statuses")
        set(value) = settings.put("retry.throttled_statuses", value)

    /**
     * Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait for that at
     * most 1 s; adds the kinds quota_spent, unauthorized, too_long and content_refused. True or false;
     * default: `false`.
     */
    public var readErrors: Boolean?
        get() = settings.flag("retry.read_errors")
        set(value) = settings.put("retry.read_errors", value)

    /**
     * While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too. True
     * or false; default: `false`.
     */
    public var hold: Boolean?
        get() = settings.flag("retry.hold")
        set(value) = settings.put("retry.hold", value)

    /** hold: calls that may wait so, per route. 1 to 1000000; default: `200`. */
    public var maxHeld: Int?
        get() = settings.count("retry.max_held")
        set(value) = settings.put("retry.max_held", value)

    /**
     * cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive
     * mode. None, cubic; default: `none`.
     */
    public var sendRate: RetrySendRate?
        get() = settings.choice<RetrySendRate>("retry.send_rate")
        set(value) = settings.put("retry.send_rate", value)

    /** How long to wait before a retry. */
    public fun backoff(configure: Configure<Backoff>): Unit =
        settings.within("retry.backoff", Backoff(settings), configure)

    /** What bounds the load that retries add, per route. */
    public fun budget(configure: Configure<Budget>): Unit =
        settings.within("retry.budget", Budget(settings), configure)
}

/** How long to wait before a retry. */
@TidegateDsl
public class Backoff internal constructor(settings: Table) : Options(settings) {
    /**
     * How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent. Exponential,
     * constant, linear, polynomial; default: `exponential`.
     */
    public var kind: BackoffKind?
        get() = settings.choice<BackoffKind>("retry.backoff.kind")
        set(value) = settings.put("retry.backoff.kind", value)

    /** The delay before the first retry, before jitter. 0 µs to 365 days; default: `100ms`. */
    public var base: Duration?
        get() = settings.span("retry.backoff.base")
        set(value) = settings.put("retry.backoff.base", value)

    /** [base] for Java. */
    public fun setBase(value: java.time.Duration?): Unit =
        settings.put("retry.backoff.base", value?.toKotlinDuration())

    /** The base after a throttled outcome. 0 µs to 365 days; default: that of `retry.backoff.base`. */
    public var throttledBase: Duration?
        get() = settings.span("retry.backoff.throttled_base")
        set(value) = settings.put("retry.backoff.throttled_base", value)

    /** [throttledBase] for Java. */
    public fun setThrottledBase(value: java.time.Duration?): Unit =
        settings.put("retry.backoff.throttled_base", value?.toKotlinDuration())

    /** The power of polynomial growth. 1 to 8; default: required with `polynomial`. */
    public var exponent: Int?
        get() = settings.count("retry.backoff.exponent")
        set(value) = settings.put("retry.backoff.exponent", value)

    /** The growth from one retry to the next. 1 to 1000; default: `2`. */
    public var multiplier: Double?
        get() = settings.real("retry.backoff.multiplier")
        set(value) = settings.put("retry.backoff.multiplier", value)

    /** The longest computed delay, before jitter. 0 µs to 365 days; default: `5s`. */
    public var max: Duration?
        get() = settings.span("retry.backoff.max")
        set(value) = settings.put("retry.backoff.max", value)

    /** [max] for Java. */
    public fun setMax(value: java.time.Duration?): Unit =
        settings.put("retry.backoff.max", value?.toKotlinDuration())

    /**
     * How the delay d is spread: full_floor draws from \[0.1·d, d], full from \[0, d], equal from \[d/2, d],
     * decorrelated from \[base, 3·previous], bounded from \[(1−j)·d, (1+j)·d]. Full_floor, none, full, equal,
     * decorrelated, bounded; default: `full_floor`.
     */
    public var jitter: BackoffJitter?
        get() = settings.choice<BackoffJitter>("retry.backoff.jitter")
        set(value) = settings.put("retry.backoff.jitter", value)

    /** The j of bounded jitter. 0 to 1; default: required with `bounded`. */
    public var jitterRatio: Double?
        get() = settings.real("retry.backoff.jitter_ratio")
        set(value) = settings.put("retry.backoff.jitter_ratio", value)
}

/** What bounds the load that retries add, per route. */
@TidegateDsl
public class Budget internal constructor(settings: Table) : Options(settings) {
    /**
     * What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
     * floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn,
     * quota what retries cost. Earned, window, ratio, share, tokens, quota, none; default: `earned`.
     */
    public var kind: BudgetKind?
        get() = settings.choice<BudgetKind>("retry.budget.kind")
        set(value) = settings.put("retry.budget.kind", value)

    /** A shared budget that is declared as a pool; its own keys stand there. A [Pool]; default: off. */
    public var pool: Pool?
        get() = settings.pool("retry.budget.pool")
        set(value) = settings.put("retry.budget.pool", value)

    /** How long a call or a retry counts. 10 µs to 365 days; default: `10s`. */
    public var ttl: Duration?
        get() = settings.span("retry.budget.ttl")
        set(value) = settings.put("retry.budget.ttl", value)

    /** [ttl] for Java. */
    public fun setTtl(value: java.time.Duration?): Unit =
        settings.put("retry.budget.ttl", value?.toKotlinDuration())

    /** Retries per second that are free of any ratio. At least 0; default: `10`. */
    public var minRetriesPerSec: Double?
        get() = settings.real("retry.budget.min_retries_per_sec")
        set(value) = settings.put("retry.budget.min_retries_per_sec", value)

    /** Retries allowed per recent call, as a fraction. At least 0; default: `0.2`. */
    public var percentCanRetry: Double?
        get() = settings.real("retry.budget.percent_can_retry")
        set(value) = settings.put("retry.budget.percent_can_retry", value)

    /** How the share of calls is rounded. Floor, ceil; default: `floor`. */
    public var rounding: BudgetRounding?
        get() = settings.choice<BudgetRounding>("retry.budget.rounding")
        set(value) = settings.put("retry.budget.rounding", value)

    /**
     * earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
     * earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
     * `tokens`.
     */
    public var ratio: Double?
        get() = settings.real("retry.budget.ratio")
        set(value) = settings.put("retry.budget.ratio", value)

    /**
     * earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0
     * to 1000000000; default: off.
     */
    public var start: Int?
        get() = settings.count("retry.budget.start")
        set(value) = settings.put("retry.budget.start", value)

    /** ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`. */
    public var minThroughput: Int?
        get() = settings.count("retry.budget.min_throughput")
        set(value) = settings.put("retry.budget.min_throughput", value)

    /** share: retries in flight per call in flight. At least 0; default: `0.2`. */
    public var share: Double?
        get() = settings.real("retry.budget.share")
        set(value) = settings.put("retry.budget.share", value)

    /** share: retries in flight that are always allowed. 0 to 1000000000; default: `3`. */
    public var minRetries: Int?
        get() = settings.count("retry.budget.min_retries")
        set(value) = settings.put("retry.budget.min_retries", value)

    /** tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`. */
    public var max: Int?
        get() = settings.count("retry.budget.max")
        set(value) = settings.put("retry.budget.max", value)

    /** quota: tokens when full. 1 to 1000000000; default: `500`. */
    public var capacity: Int?
        get() = settings.count("retry.budget.capacity")
        set(value) = settings.put("retry.budget.capacity", value)

    /** quota: what a retry costs. 1 to 65535; default: `5`. */
    public var cost: Int?
        get() = settings.count("retry.budget.cost")
        set(value) = settings.put("retry.budget.cost", value)

    /** quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`. */
    public var timeoutCost: Int?
        get() = settings.count("retry.budget.timeout_cost")
        set(value) = settings.put("retry.budget.timeout_cost", value)

    /**
     * quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `retry.budget.cost`.
     */
    public var throttledCost: Int?
        get() = settings.count("retry.budget.throttled_cost")
        set(value) = settings.put("retry.budget.throttled_cost", value)
}

/** How long no attempt starts after one that was throttled, per route, and how few at first afterwards. */
@TidegateDsl
public class Cooldown internal constructor(settings: Table) : Options(settings) {
    /**
     * How long no attempt starts after a throttled one whose server names no time; doubled for each such
     * closing in a row. 1 µs to 365 days; default: `1s`.
     */
    public var base: Duration?
        get() = settings.span("cooldown.base")
        set(value) = settings.put("cooldown.base", value)

    /** [base] for Java. */
    public fun setBase(value: java.time.Duration?): Unit =
        settings.put("cooldown.base", value?.toKotlinDuration())

    /**
     * The longest that no attempt starts, whatever time the server names. 1 µs to 365 days; default: that of
     * `retry.maxRetryAfter`.
     */
    public var max: Duration?
        get() = settings.span("cooldown.max")
        set(value) = settings.put("cooldown.max", value)

    /** [max] for Java. */
    public fun setMax(value: java.time.Duration?): Unit =
        settings.put("cooldown.max", value?.toKotlinDuration())

    /** Wait for the end of a cooldown instead of being refused. True or false; default: `false`. */
    public var wait: Boolean?
        get() = settings.flag("cooldown.wait")
        set(value) = settings.put("cooldown.wait", value)

    /** wait: the longest wait; without it there must be a deadline. 0 µs to 365 days; default: off. */
    public var maxWait: Duration?
        get() = settings.span("cooldown.max_wait")
        set(value) = settings.put("cooldown.max_wait", value)

    /** [maxWait] for Java. */
    public fun setMaxWait(value: java.time.Duration?): Unit =
        settings.put("cooldown.max_wait", value?.toKotlinDuration())

    /** wait: calls that may wait. 1 to 10000000; default: `200`. */
    public var maxWaiters: Int?
        get() = settings.count("cooldown.max_waiters")
        set(value) = settings.put("cooldown.max_waiters", value)

    /**
     * How long no attempt starts after one whose quota is spent or whose key is not accepted (kinds
     * quota_spent and unauthorized), unless the server names a time. Absent: such an attempt changes nothing;
     * a target has 5 minutes. 1 µs to 365 days; default: off.
     */
    public var quotaWait: Duration?
        get() = settings.span("cooldown.quota_wait")
        set(value) = settings.put("cooldown.quota_wait", value)

    /** [quotaWait] for Java. */
    public fun setQuotaWait(value: java.time.Duration?): Unit =
        settings.put("cooldown.quota_wait", value?.toKotlinDuration())

    /**
     * fleet: a closing in one process closes all, through the store that the engine is attached to; each
     * process reopens with one attempt. Local, fleet; default: `local`.
     */
    public var store: CooldownStore?
        get() = settings.choice<CooldownStore>("cooldown.store")
        set(value) = settings.put("cooldown.store", value)
}

/** How many calls may start per span, per route. */
@TidegateDsl
public class RateLimit internal constructor(settings: Table) : Options(settings) {
    /** Calls that may start per span. 1 to 1000000000; default: required unless there is `pool`. */
    public var permits: Int?
        get() = settings.count("rate_limit.permits")
        set(value) = settings.put("rate_limit.permits", value)

    /** The span. 1 µs to 365 days; default: required unless there is `pool`. */
    public var per: Duration?
        get() = settings.span("rate_limit.per")
        set(value) = settings.put("rate_limit.per", value)

    /** [per] for Java. */
    public fun setPer(value: java.time.Duration?): Unit =
        settings.put("rate_limit.per", value?.toKotlinDuration())

    /**
     * Calls that may start at once after a quiet time. 1 to 1000000000; default: that of `rateLimit.permits`.
     */
    public var burst: Int?
        get() = settings.count("rate_limit.burst")
        set(value) = settings.put("rate_limit.burst", value)

    /** What takes a token: the call, or each of its attempts. Call, attempt; default: `call`. */
    public var unit: RateLimitUnit?
        get() = settings.choice<RateLimitUnit>("rate_limit.unit")
        set(value) = settings.put("rate_limit.unit", value)

    /** Wait for a token instead of being refused. True or false; default: `false`. */
    public var wait: Boolean?
        get() = settings.flag("rate_limit.wait")
        set(value) = settings.put("rate_limit.wait", value)

    /** wait: the longest wait; without it there must be a deadline. 0 µs to 365 days; default: off. */
    public var maxWait: Duration?
        get() = settings.span("rate_limit.max_wait")
        set(value) = settings.put("rate_limit.max_wait", value)

    /** [maxWait] for Java. */
    public fun setMaxWait(value: java.time.Duration?): Unit =
        settings.put("rate_limit.max_wait", value?.toKotlinDuration())

    /** wait: calls that may wait. 1 to 10000000; default: `1000`. */
    public var maxWaiters: Int?
        get() = settings.count("rate_limit.max_waiters")
        set(value) = settings.put("rate_limit.max_waiters", value)

    /**
     * A shared rate limit that is declared as a pool; permits, per and burst stand there. A [Pool]; default:
     * off.
     */
    public var pool: Pool?
        get() = settings.pool("rate_limit.pool")
        set(value) = settings.put("rate_limit.pool", value)

    /**
     * Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
     * attached to. Local, fleet; default: `local`.
     */
    public var store: RateLimitStore?
        get() = settings.choice<RateLimitStore>("rate_limit.store")
        set(value) = settings.put("rate_limit.store", value)

    /**
     * fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms
     * of the rate bring, at least 1, which is so below 40 a second. 1 to 1000000000; default: off.
     */
    public var lease: Int?
        get() = settings.count("rate_limit.lease")
        set(value) = settings.put("rate_limit.lease", value)

    /**
     * fleet: what holds while the store is gone: local is the process's share of the rate, open lets all
     * calls pass, closed refuses them. Local, open, closed; default: `local`.
     */
    public var onLoss: RateLimitOnLoss?
        get() = settings.choice<RateLimitOnLoss>("rate_limit.on_loss")
        set(value) = settings.put("rate_limit.on_loss", value)

    /**
     * Several limits by name, at most 4, that a call takes all at once or none: instead of permits, per and
     * burst. A limit with a weight counts the amount that each call names, such as tokens. Texts such as
     * `tpm: permits=200000 per=1m weight=tokens`, perhaps with burst, default and max_debt, or `usd:
     * permits=5000000 per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits come back at
     * once; a document has a table for each; default: required with `estimateQuantile`.
     */
    public var limits: List<String>?
        get() = settings.list("rate_limit.limits")
        set(value) = settings.put("rate_limit.limits", value)

    /**
     * limits: what an attempt counts that may have been served and of which no amount was settled: what it
     * had reserved, or nothing. Reservation, zero; default: `reservation`.
     */
    public var settleUnknown: RateLimitSettleUnknown?
        get() = settings.choice<RateLimitSettleUnknown>("rate_limit.settle_unknown")
        set(value) = settings.put("rate_limit.settle_unknown", value)

    /**
     * limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
     * never raises one, none ignores it. None, down; default: `none`.
     */
    public var learn: RateLimitLearn?
        get() = settings.choice<RateLimitLearn>("rate_limit.learn")
        set(value) = settings.put("rate_limit.learn", value)

    /**
     * limits: from 20 settled attempts on, what a call names of a weight is scaled by this quantile of what
     * attempts have used of it, between a 16th and 16 times. 0.001 to 0.999; default: off.
     */
    public var estimateQuantile: Double?
        get() = settings.real("rate_limit.estimate_quantile")
        set(value) = settings.put("rate_limit.estimate_quantile", value)

    /**
     * limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4 to 1, and a
     * full one gives the place of a less critical call to a more critical one. True or false; default:
     * `false`.
     */
    public var prioritized: Boolean?
        get() = settings.flag("rate_limit.prioritized")
        set(value) = settings.put("rate_limit.prioritized", value)

    /**
     * limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in
     * the order in which they came. None, key; default: `none`.
     */
    public var fairBy: RateLimitFairBy?
        get() = settings.choice<RateLimitFairBy>("rate_limit.fair_by")
        set(value) = settings.put("rate_limit.fair_by", value)

    /**
     * fairBy: how much some keys get, 1 to 1,000, where every other key gets 1. Texts such as `acme=4`, a
     * route key and its share from 1 to 1,000; a document may have a table; default: off.
     */
    public var shares: List<String>?
        get() = settings.list("rate_limit.shares")
        set(value) = settings.put("rate_limit.shares", value)
}

/** How many calls may be in flight at once, per route. */
@TidegateDsl
public class Bulkhead internal constructor(settings: Table) : Options(settings) {
    /**
     * What sets the limit of concurrent calls: fixed is maxConcurrency, aimd follows a latency threshold,
     * gradient2 the change of latency. Fixed, aimd, gradient2; default: `fixed`.
     */
    public var kind: BulkheadKind?
        get() = settings.choice<BulkheadKind>("bulkhead.kind")
        set(value) = settings.put("bulkhead.kind", value)

    /**
     * Calls in flight at once; for aimd and gradient2 the highest limit. 1 to 1000000000; default: required
     * unless there is `pool`.
     */
    public var maxConcurrency: Int?
        get() = settings.count("bulkhead.max_concurrency")
        set(value) = settings.put("bulkhead.max_concurrency", value)

    /**
     * Calls that may wait for a slot; 0 is no queue, none is unbounded. 0 to 10000000, or null; default: `0`.
     */
    public var maxQueue: Int?
        get() = settings.count("bulkhead.max_queue")
        set(value) = settings.put("bulkhead.max_queue", value ?: NONE)

    /**
     * How long a call waits for a slot; 0 fails fast, none waits for ever. 0 µs to 365 days, or null;
     * default: `1s`.
     */
    public var acquireTimeout: Duration?
        get() = settings.span("bulkhead.acquire_timeout")
        set(value) = settings.put("bulkhead.acquire_timeout", value ?: NONE)

    /** [acquireTimeout] for Java. */
    public fun setAcquireTimeout(value: java.time.Duration?): Unit =
        settings.put("bulkhead.acquire_timeout", value?.toKotlinDuration() ?: NONE)

    /**
     * What takes a slot: the call, or each of its attempts, which gives it back during backoff. Call,
     * attempt; default: `call`.
     */
    public var unit: BulkheadUnit?
        get() = settings.choice<BulkheadUnit>("bulkhead.unit")
        set(value) = settings.put("bulkhead.unit", value)

    /** aimd, gradient2: the lowest limit. 1 to 1000000000; default: `1`. */
    public var minConcurrency: Int?
        get() = settings.count("bulkhead.min_concurrency")
        set(value) = settings.put("bulkhead.min_concurrency", value)

    /**
     * aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer
     * requests), or both. Latency, loss, both; default: `latency`.
     */
    public var signal: BulkheadSignal?
        get() = settings.choice<BulkheadSignal>("bulkhead.signal")
        set(value) = settings.put("bulkhead.signal", value)

    /**
     * aimd that follows latency: a completion within it raises the limit, one over it cuts it. 1 µs to 365
     * days; default: required with `aimd`, unless `signal` is `loss`.
     */
    public var latencyThreshold: Duration?
        get() = settings.span("bulkhead.latency_threshold")
        set(value) = settings.put("bulkhead.latency_threshold", value)

    /** [latencyThreshold] for Java. */
    public fun setLatencyThreshold(value: java.time.Duration?): Unit =
        settings.put("bulkhead.latency_threshold", value?.toKotlinDuration())

    /** aimd: what a good completion adds, divided by the limit. At least 0.000001; default: `1`. */
    public var increaseStep: Double?
        get() = settings.real("bulkhead.increase_step")
        set(value) = settings.put("bulkhead.increase_step", value)

    /** aimd: what a cut multiplies the limit by. 0.01 to 0.999; default: `0.9`. */
    public var backoffRatio: Double?
        get() = settings.real("bulkhead.backoff_ratio")
        set(value) = settings.put("bulkhead.backoff_ratio", value)

    /** aimd: at most one cut per interval. 0 µs to 365 days; default: `1s`. */
    public var cutInterval: Duration?
        get() = settings.span("bulkhead.cut_interval")
        set(value) = settings.put("bulkhead.cut_interval", value)

    /** [cutInterval] for Java. */
    public fun setCutInterval(value: java.time.Duration?): Unit =
        settings.put("bulkhead.cut_interval", value?.toKotlinDuration())

    /**
     * aimd: compare this quantile of recent latencies with the threshold, instead of each one. 0.001 to
     * 0.999; default: off.
     */
    public var latencyQuantile: Double?
        get() = settings.real("bulkhead.latency_quantile")
        set(value) = settings.put("bulkhead.latency_quantile", value)

    /** gradient2: completions that the long-term latency looks back on. 2 to 1000000; default: `600`. */
    public var longWindow: Int?
        get() = settings.count("bulkhead.long_window")
        set(value) = settings.put("bulkhead.long_window", value)

    /** gradient2: how much longer than the long-term latency is still good. 1 to 100; default: `1.5`. */
    public var rttTolerance: Double?
        get() = settings.real("bulkhead.rtt_tolerance")
        set(value) = settings.put("bulkhead.rtt_tolerance", value)

    /** gradient2: how many more than now the limit reaches for. At least 0; default: `4`. */
    public var headroom: Double?
        get() = settings.real("bulkhead.headroom")
        set(value) = settings.put("bulkhead.headroom", value)

    /**
     * gradient2: steady decides once per round trip and comes back to what the server can take; guarded,
     * plain and netflix are older rules. Steady, guarded, plain, netflix; default: `steady`.
     */
    public var variant: BulkheadVariant?
        get() = settings.choice<BulkheadVariant>("bulkhead.variant")
        set(value) = settings.put("bulkhead.variant", value)

    /**
     * Under sustained congestion a call waits no longer than this (CoDel); needs maxQueue. 1 µs to 365 days;
     * default: off.
     */
    public var queueTarget: Duration?
        get() = settings.span("bulkhead.queue_target")
        set(value) = settings.put("bulkhead.queue_target", value)

    /** [queueTarget] for Java. */
    public fun setQueueTarget(value: java.time.Duration?): Unit =
        settings.put("bulkhead.queue_target", value?.toKotlinDuration())

    /** How long a queue that never empties is not yet congested. 1 µs to 365 days; default: `100ms`. */
    public var queueInterval: Duration?
        get() = settings.span("bulkhead.queue_interval")
        set(value) = settings.put("bulkhead.queue_interval", value)

    /** [queueInterval] for Java. */
    public fun setQueueInterval(value: java.time.Duration?): Unit =
        settings.put("bulkhead.queue_interval", value?.toKotlinDuration())

    /** The control law behind queueTarget. Facebook, rfc8289; default: `facebook`. */
    public var codel: BulkheadCodel?
        get() = settings.choice<BulkheadCodel>("bulkhead.codel")
        set(value) = settings.put("bulkhead.codel", value)

    /** While congested, the newest waiter goes first; needs maxQueue. True or false; default: `false`. */
    public var queueAdaptiveLifo: Boolean?
        get() = settings.flag("bulkhead.queue_adaptive_lifo")
        set(value) = settings.put("bulkhead.queue_adaptive_lifo", value)

    /**
     * A full queue admits a call of higher criticality in place of the lowest; needs maxQueue. True or false;
     * default: `false`.
     */
    public var prioritized: Boolean?
        get() = settings.flag("bulkhead.prioritized")
        set(value) = settings.put("bulkhead.prioritized", value)

    /**
     * A shared bulkhead that is declared as a pool; limit, queue and order stand there. A [Pool]; default:
     * off.
     */
    public var pool: Pool?
        get() = settings.pool("bulkhead.pool")
        set(value) = settings.put("bulkhead.pool", value)

    /**
     * Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
     * attached to. Local, fleet; default: `local`.
     */
    public var store: BulkheadStore?
        get() = settings.choice<BulkheadStore>("bulkhead.store")
        set(value) = settings.put("bulkhead.store", value)

    /**
     * fleet: how long a slot stays taken whose process does not renew it. 1000000 µs to 365 days; default:
     * `30s`.
     */
    public var leaseTtl: Duration?
        get() = settings.span("bulkhead.lease_ttl")
        set(value) = settings.put("bulkhead.lease_ttl", value)

    /** [leaseTtl] for Java. */
    public fun setLeaseTtl(value: java.time.Duration?): Unit =
        settings.put("bulkhead.lease_ttl", value?.toKotlinDuration())

    /**
     * fleet: what holds while the store is gone: local is the process's share of the slots, open is
     * maxConcurrency in each process, closed refuses calls. Local, open, closed; default: `local`.
     */
    public var onLoss: BulkheadOnLoss?
        get() = settings.choice<BulkheadOnLoss>("bulkhead.on_loss")
        set(value) = settings.put("bulkhead.on_loss", value)

    /**
     * aimd with latencyQuantile: fleet compares the quantile of all processes' latencies with the threshold.
     * Local, fleet; default: `local`.
     */
    public var latencyStore: BulkheadLatencyStore?
        get() = settings.choice<BulkheadLatencyStore>("bulkhead.latency_store")
        set(value) = settings.put("bulkhead.latency_store", value)
}

/** When to stop calling what fails. */
@TidegateDsl
public class Breaker internal constructor(settings: Table) : Options(settings) {
    /**
     * Failures among recent calls that open it, as a fraction. 0.000001 to 1; default: required unless there
     * is `consecutive`.
     */
    public var failureRatio: Double?
        get() = settings.real("breaker.failure_ratio")
        set(value) = settings.put("breaker.failure_ratio", value)

    /** How long a call counts as recent. 10 µs to 365 days; default: required with `failureRatio`. */
    public var window: Duration?
        get() = settings.span("breaker.window")
        set(value) = settings.put("breaker.window", value)

    /** [window] for Java. */
    public fun setWindow(value: java.time.Duration?): Unit =
        settings.put("breaker.window", value?.toKotlinDuration())

    /**
     * Calls that the window must hold before the ratio counts. 1 to 1000000000; default: required with
     * `failureRatio`.
     */
    public var minThroughput: Int?
        get() = settings.count("breaker.min_throughput")
        set(value) = settings.put("breaker.min_throughput", value)

    /**
     * sliding forgets by tenths of the window, tumbling all at once. Sliding, tumbling; default: `sliding`.
     */
    public var windowKind: BreakerWindowKind?
        get() = settings.choice<BreakerWindowKind>("breaker.window_kind")
        set(value) = settings.put("breaker.window_kind", value)

    /** Failures in a row that open it; instead of the ratio, or beside it. 1 to 1000000; default: off. */
    public var consecutive: Int?
        get() = settings.count("breaker.consecutive")
        set(value) = settings.put("breaker.consecutive", value)

    /** How long it stays open. 1000 µs to 365 days; default: required. */
    public var breakDuration: Duration?
        get() = settings.span("breaker.break_duration")
        set(value) = settings.put("breaker.break_duration", value)

    /** [breakDuration] for Java. */
    public fun setBreakDuration(value: java.time.Duration?): Unit =
        settings.put("breaker.break_duration", value?.toKotlinDuration())

    /**
     * How much longer it stays open after each failed probe; 1 is neither growth nor jitter. 1 to 100;
     * default: `2`.
     */
    public var breakFactor: Double?
        get() = settings.real("breaker.break_factor")
        set(value) = settings.put("breaker.break_factor", value)

    /** The longest break; ten times breakDuration where absent. 1000 µs to 365 days; default: off. */
    public var maxBreakDuration: Duration?
        get() = settings.span("breaker.max_break_duration")
        set(value) = settings.put("breaker.max_break_duration", value)

    /** [maxBreakDuration] for Java. */
    public fun setMaxBreakDuration(value: java.time.Duration?): Unit =
        settings.put("breaker.max_break_duration", value?.toKotlinDuration())

    /** Probes at once when a break has ended. 1 to 1000; default: `1`. */
    public var halfOpenMaxCalls: Int?
        get() = settings.count("breaker.half_open_max_calls")
        set(value) = settings.put("breaker.half_open_max_calls", value)

    /** Good probes that close it. 1 to 1000000; default: `1`. */
    public var successesToClose: Int?
        get() = settings.count("breaker.successes_to_close")
        set(value) = settings.put("breaker.successes_to_close", value)

    /**
     * Classes and kinds that count as failures, besides transient, timeout and never_sent. One of transient,
     * throttled, timeout, never_sent, conflict, permanent, ignored, infrastructure, concurrency, or a name
     * declared in kinds; default: off.
     */
    public var failureOn: List<String>?
        get() = settings.list("breaker.failure_on")
        set(value) = settings.put("breaker.failure_on", value)

    /**
     * Classes and kinds that count neither way. One of transient, throttled, timeout, never_sent, conflict,
     * permanent, ignored, infrastructure, concurrency, or a name declared in kinds; default: off.
     */
    public var ignoreOn: List<String>?
        get() = settings.list("breaker.ignore_on")
        set(value) = settings.put("breaker.ignore_on", value)

    /** What is counted: the call, or each of its attempts. Call, attempt; default: `call`. */
    public var unit: BreakerUnit?
        get() = settings.choice<BreakerUnit>("breaker.unit")
        set(value) = settings.put("breaker.unit", value)

    /**
     * fleet: one process that trips opens the breaker for all, through the store that the engine is attached
     * to. Local, fleet; default: `local`.
     */
    public var store: BreakerStore?
        get() = settings.choice<BreakerStore>("breaker.store")
        set(value) = settings.put("breaker.store", value)

    /**
     * fleet: processes that must trip within the window, or within breakDuration where there is none, before
     * it opens for all. 1 to 10000; default: `1`.
     */
    public var quorum: Int?
        get() = settings.count("breaker.quorum")
        set(value) = settings.put("breaker.quorum", value)

    /**
     * fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls
     * pass, closed refuses them. Local, open, closed; default: `local`.
     */
    public var onLoss: BreakerOnLoss?
        get() = settings.choice<BreakerOnLoss>("breaker.on_loss")
        set(value) = settings.put("breaker.on_loss", value)
}

/** Which part of the calls to refuse while a part of them fails. */
@TidegateDsl
public class Throttle internal constructor(settings: Table) : Options(settings) {
    /** Requests per accepted one that are let through. At least 1; default: `2`. */
    public var k: Double?
        get() = settings.real("throttle.k")
        set(value) = settings.put("throttle.k", value)

    /** How long a call counts. 10 µs to 365 days; default: `2m`. */
    public var window: Duration?
        get() = settings.span("throttle.window")
        set(value) = settings.put("throttle.window", value)

    /** [window] for Java. */
    public fun setWindow(value: java.time.Duration?): Unit =
        settings.put("throttle.window", value?.toKotlinDuration())

    /**
     * sliding forgets by tenths of the window, tumbling all at once. Sliding, tumbling; default: `sliding`.
     */
    public var windowKind: ThrottleWindowKind?
        get() = settings.choice<ThrottleWindowKind>("throttle.window_kind")
        set(value) = settings.put("throttle.window_kind", value)

    /** Calls that the window must hold before any is refused. 1 to 1000000000; default: `10`. */
    public var minThroughput: Int?
        get() = settings.count("throttle.min_throughput")
        set(value) = settings.put("throttle.min_throughput", value)

    /** The highest probability of a refusal. 0 to 1, or null; default: `0.9`. */
    public var maxReject: Double?
        get() = settings.real("throttle.max_reject")
        set(value) = settings.put("throttle.max_reject", value ?: NONE)

    /** At least one call is let through per interval. 1 µs to 365 days, or null; default: `1s`. */
    public var probeInterval: Duration?
        get() = settings.span("throttle.probe_interval")
        set(value) = settings.put("throttle.probe_interval", value ?: NONE)

    /** [probeInterval] for Java. */
    public fun setProbeInterval(value: java.time.Duration?): Unit =
        settings.put("throttle.probe_interval", value?.toKotlinDuration() ?: NONE)

    /**
     * Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least 1.1. True or
     * false; default: `false`.
     */
    public var prioritized: Boolean?
        get() = settings.flag("throttle.prioritized")
        set(value) = settings.put("throttle.prioritized", value)

    /** What is counted and refused: the call, or each of its attempts. Call, attempt; default: `call`. */
    public var unit: ThrottleUnit?
        get() = settings.choice<ThrottleUnit>("throttle.unit")
        set(value) = settings.put("throttle.unit", value)
}

/** When to send a second attempt beside a slow one. */
@TidegateDsl
public class Hedge internal constructor(settings: Table) : Options(settings) {
    /**
     * How long an answer may take before another attempt starts beside it. 0 µs to 365 days; default:
     * required.
     */
    public var delay: Duration?
        get() = settings.span("hedge.delay")
        set(value) = settings.put("hedge.delay", value)

    /** [delay] for Java. */
    public fun setDelay(value: java.time.Duration?): Unit =
        settings.put("hedge.delay", value?.toKotlinDuration())

    /** Attempts of one call that may run at once. 2 to 4; default: `2`. */
    public var maxAttempts: Int?
        get() = settings.count("hedge.max_attempts")
        set(value) = settings.put("hedge.max_attempts", value)

    /**
     * The delay is this quantile of recent latencies, once there are five. 0.001 to 0.999; default: required
     * with `delayMin` and with `delayMax`.
     */
    public var adaptiveDelayQuantile: Double?
        get() = settings.real("hedge.adaptive_delay_quantile")
        set(value) = settings.put("hedge.adaptive_delay_quantile", value)

    /** The shortest adaptive delay. 0 µs to 365 days; default: off. */
    public var delayMin: Duration?
        get() = settings.span("hedge.delay_min")
        set(value) = settings.put("hedge.delay_min", value)

    /** [delayMin] for Java. */
    public fun setDelayMin(value: java.time.Duration?): Unit =
        settings.put("hedge.delay_min", value?.toKotlinDuration())

    /** The longest adaptive delay. 1 µs to 365 days; default: off. */
    public var delayMax: Duration?
        get() = settings.span("hedge.delay_max")
        set(value) = settings.put("hedge.delay_max", value)

    /** [delayMax] for Java. */
    public fun setDelayMax(value: java.time.Duration?): Unit =
        settings.put("hedge.delay_max", value?.toKotlinDuration())

    /** What bounds the load that hedges add, per route. */
    public fun budget(configure: Configure<HedgeBudget>): Unit =
        settings.within("hedge.budget", HedgeBudget(settings), configure)
}

/** What bounds the load that hedges add, per route. */
@TidegateDsl
public class HedgeBudget internal constructor(settings: Table) : Options(settings) {
    /**
     * What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn,
     * window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in
     * flight, tokens what successes earn, quota what retries cost. Shared, earned, window, ratio, share,
     * tokens, quota, none; default: `shared`.
     */
    public var kind: HedgeBudgetKind?
        get() = settings.choice<HedgeBudgetKind>("hedge.budget.kind")
        set(value) = settings.put("hedge.budget.kind", value)

    /** How long a call or a retry counts. 10 µs to 365 days; default: `10s`. */
    public var ttl: Duration?
        get() = settings.span("hedge.budget.ttl")
        set(value) = settings.put("hedge.budget.ttl", value)

    /** [ttl] for Java. */
    public fun setTtl(value: java.time.Duration?): Unit =
        settings.put("hedge.budget.ttl", value?.toKotlinDuration())

    /** Retries per second that are free of any ratio. At least 0; default: `10`. */
    public var minRetriesPerSec: Double?
        get() = settings.real("hedge.budget.min_retries_per_sec")
        set(value) = settings.put("hedge.budget.min_retries_per_sec", value)

    /** Retries allowed per recent call, as a fraction. At least 0; default: `0.2`. */
    public var percentCanRetry: Double?
        get() = settings.real("hedge.budget.percent_can_retry")
        set(value) = settings.put("hedge.budget.percent_can_retry", value)

    /** How the share of calls is rounded. Floor, ceil; default: `floor`. */
    public var rounding: HedgeBudgetRounding?
        get() = settings.choice<HedgeBudgetRounding>("hedge.budget.rounding")
        set(value) = settings.put("hedge.budget.rounding", value)

    /**
     * earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
     * earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
     * `tokens`.
     */
    public var ratio: Double?
        get() = settings.real("hedge.budget.ratio")
        set(value) = settings.put("hedge.budget.ratio", value)

    /**
     * earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0
     * to 1000000000; default: off.
     */
    public var start: Int?
        get() = settings.count("hedge.budget.start")
        set(value) = settings.put("hedge.budget.start", value)

    /** ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`. */
    public var minThroughput: Int?
        get() = settings.count("hedge.budget.min_throughput")
        set(value) = settings.put("hedge.budget.min_throughput", value)

    /** share: retries in flight per call in flight. At least 0; default: `0.2`. */
    public var share: Double?
        get() = settings.real("hedge.budget.share")
        set(value) = settings.put("hedge.budget.share", value)

    /** share: retries in flight that are always allowed. 0 to 1000000000; default: `3`. */
    public var minRetries: Int?
        get() = settings.count("hedge.budget.min_retries")
        set(value) = settings.put("hedge.budget.min_retries", value)

    /** tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`. */
    public var max: Int?
        get() = settings.count("hedge.budget.max")
        set(value) = settings.put("hedge.budget.max", value)

    /** quota: tokens when full. 1 to 1000000000; default: `500`. */
    public var capacity: Int?
        get() = settings.count("hedge.budget.capacity")
        set(value) = settings.put("hedge.budget.capacity", value)

    /** quota: what a retry costs. 1 to 65535; default: `5`. */
    public var cost: Int?
        get() = settings.count("hedge.budget.cost")
        set(value) = settings.put("hedge.budget.cost", value)

    /** quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`. */
    public var timeoutCost: Int?
        get() = settings.count("hedge.budget.timeout_cost")
        set(value) = settings.put("hedge.budget.timeout_cost", value)

    /**
     * quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `hedge.budget.cost`.
     */
    public var throttledCost: Int?
        get() = settings.count("hedge.budget.throttled_cost")
        set(value) = settings.put("hedge.budget.throttled_cost", value)
}

/** The settings of a policy. */
@TidegateDsl
public abstract class PolicySettings internal constructor(settings: Table) : Options(settings) {
    /**
     * The built-in policy to start from. Http, httpware, transient, occ, graph, aws_standard, aws_2026,
     * aws_adaptive, grpc, llm; default: none.
     */
    public var preset: Preset?
        get() = settings.choice<Preset>("preset")
        set(value) = settings.put("preset", value)

    /**
     * Time for the whole call: queueing, backoff, attempts and reading the body. 1 µs to 365 days; default:
     * off.
     */
    public var deadline: Duration?
        get() = settings.span("deadline")
        set(value) = settings.put("deadline", value)

    /** [deadline] for Java. */
    public fun setDeadline(value: java.time.Duration?): Unit =
        settings.put("deadline", value?.toKotlinDuration())

    /** Time for one attempt; running out of it is retryable. 1 µs to 365 days; default: off. */
    public var attemptTimeout: Duration?
        get() = settings.span("attempt_timeout")
        set(value) = settings.put("attempt_timeout", value)

    /** [attemptTimeout] for Java. */
    public fun setAttemptTimeout(value: java.time.Duration?): Unit =
        settings.put("attempt_timeout", value?.toKotlinDuration())

    /** How long a streamed answer keeps its slot and its deadline. Body, headers; default: `body`. */
    public var slotUntil: SlotUntil?
        get() = settings.choice<SlotUntil>("slot_until")
        set(value) = settings.put("slot_until", value)

    /**
     * Kinds of failure of your own, each with the class that it is based on, at most 23; retryOn, failureOn
     * and ignoreOn may name them. Names of a to z, 0 to 9 and _, each with its class; default: off.
     */
    public var kinds: Map<String, FailureBase>?
        get() = settings.map("kinds")
        set(value) = settings.put("kinds", value)

    /**
     * Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any;
     * then onLoss holds. 1000 µs to 365 days; default: `50ms`.
     */
    public var storeTimeout: Duration?
        get() = settings.span("store_timeout")
        set(value) = settings.put("store_timeout", value)

    /** [storeTimeout] for Java. */
    public fun setStoreTimeout(value: java.time.Duration?): Unit =
        settings.put("store_timeout", value?.toKotlinDuration())

    /**
     * Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written
     * at once. 1000 µs to 365 days; default: `250ms`.
     */
    public var storeExchange: Duration?
        get() = settings.span("store_exchange")
        set(value) = settings.put("store_exchange", value)

    /** [storeExchange] for Java. */
    public fun setStoreExchange(value: java.time.Duration?): Unit =
        settings.put("store_exchange", value?.toKotlinDuration())

    /**
     * Streams: time from an attempt's start to the first piece of its body that counts (a model's first
     * token); running out of it is retryable. 1 µs to 365 days; default: off.
     */
    public var firstByteTimeout: Duration?
        get() = settings.span("first_byte_timeout")
        set(value) = settings.put("first_byte_timeout", value)

    /** [firstByteTimeout] for Java. */
    public fun setFirstByteTimeout(value: java.time.Duration?): Unit =
        settings.put("first_byte_timeout", value?.toKotlinDuration())

    /**
     * Time without a piece of the body that counts; once the answer is delivered, running out of it ends the
     * call. 1 µs to 365 days; default: off.
     */
    public var idleTimeout: Duration?
        get() = settings.span("idle_timeout")
        set(value) = settings.put("idle_timeout", value)

    /** [idleTimeout] for Java. */
    public fun setIdleTimeout(value: java.time.Duration?): Unit =
        settings.put("idle_timeout", value?.toKotlinDuration())

    /**
     * Where the deadline ends: with the body, or where the answer is handed to the caller. Body, delivery;
     * default: `body`.
     */
    public var deadlineUntil: DeadlineUntil?
        get() = settings.choice<DeadlineUntil>("deadline_until")
        set(value) = settings.put("deadline_until", value)

    /**
     * Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.
     * Bytes, sse_data; default: `bytes`.
     */
    public var counts: Counts?
        get() = settings.choice<Counts>("counts")
        set(value) = settings.put("counts", value)

    /** When to try again. */
    public fun retry(configure: Configure<Retry>): Unit =
        settings.within("retry", Retry(settings), configure)

    /**
     * How long no attempt starts after one that was throttled, per route, and how few at first afterwards.
     */
    public fun cooldown(configure: Configure<Cooldown>): Unit =
        settings.within("cooldown", Cooldown(settings), configure)

    /** How many calls may start per span, per route. */
    public fun rateLimit(configure: Configure<RateLimit>): Unit =
        settings.within("rate_limit", RateLimit(settings), configure)

    /** How many calls may be in flight at once, per route. */
    public fun bulkhead(configure: Configure<Bulkhead>): Unit =
        settings.within("bulkhead", Bulkhead(settings), configure)

    /** When to stop calling what fails. */
    public fun breaker(configure: Configure<Breaker>): Unit =
        settings.within("breaker", Breaker(settings), configure)

    /** Which part of the calls to refuse while a part of them fails. */
    public fun throttle(configure: Configure<Throttle>): Unit =
        settings.within("throttle", Throttle(settings), configure)

    /** When to send a second attempt beside a slow one. */
    public fun hedge(configure: Configure<Hedge>): Unit =
        settings.within("hedge", Hedge(settings), configure)
}

internal object Facts {
    /** The components of which presets set keys. */
    val presetTables: Set<String> = setOf(
        "retry",
        "retry.backoff",
        "retry.budget",
    )

    /** The pair that says that a component is there where all its keys are left to core. */
    val presence: Map<String, Pair<String, Any>> = mapOf(
        "retry" to Pair("retry.max_attempts", 3.0),
        "retry.backoff" to Pair("retry.backoff.kind", "exponential"),
        "retry.budget" to Pair("retry.budget.kind", "earned"),
        "cooldown" to Pair("cooldown.max_waiters", 200.0),
        "rate_limit" to Pair("rate_limit.unit", "call"),
        "bulkhead" to Pair("bulkhead.kind", "fixed"),
        "breaker" to Pair("breaker.window_kind", "sliding"),
        "throttle" to Pair("throttle.k", 2.0),
        "hedge" to Pair("hedge.max_attempts", 2.0),
        "hedge.budget" to Pair("hedge.budget.kind", "shared"),
    )

    /** By kind of pool: the table of its keys. */
    val pools: Map<String, String> = mapOf(
        "bulkhead" to "bulkhead",
        "rate_limit" to "rate_limit",
        "budget" to "retry.budget",
    )
}
