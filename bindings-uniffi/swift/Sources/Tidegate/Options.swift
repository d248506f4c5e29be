// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

/// The built-in policy to start from.
public enum Preset: String, Sendable, Hashable, CaseIterable {
    case http
    case httpware
    case transient
    case occ
    case graph
    case awsStandard = "aws_standard"
    case aws2026 = "aws_2026"
    case awsAdaptive = "aws_adaptive"
    case grpc
    case llm
}

/// How long a streamed answer keeps its slot and its deadline.
public enum SlotUntil: String, Sendable, Hashable, CaseIterable {
    case body
    case headers
}

/// Where the deadline ends: with the body, or where the answer is handed to the caller.
public enum DeadlineUntil: String, Sendable, Hashable, CaseIterable {
    case body
    case delivery
}

/// Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.
public enum Counts: String, Sendable, Hashable, CaseIterable {
    case bytes
    case sseData = "sse_data"
}

/// The classes that a kind of failure of your own can be based on.
public enum Base: String, Sendable, Hashable, CaseIterable {
    case transient
    case throttled
    case timeout
    case neverSent = "never_sent"
    case conflict
    case permanent
    case ignored
}

/// When to try again.
public struct Retry: Sendable, Hashable {
    /// What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r,
    /// clamp_5s keeps it within 5 s above the backoff.
    public enum RetryAfter: String, Sendable, Hashable, CaseIterable {
        case floor
        case exact
        case clamp5s = "clamp_5s"
        case ignore
    }

    /// cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs'
    /// adaptive mode.
    public enum SendRate: String, Sendable, Hashable, CaseIterable {
        case off = "none"
        case cubic
    }

    /// Attempts in all; the first counts, 1 disables retries. 1 to 255; default: `3`.
    public var maxAttempts: Int?
    /// Classes and kinds of failure that are retried; infrastructure is transient and never_sent, concurrency
    /// is conflict. One of transient, throttled, timeout, never_sent, conflict, infrastructure, concurrency,
    /// or a name declared in kinds; default: `transient throttled timeout never_sent conflict`.
    public var retryOn: [String]?
    /// Elapsed time plus the next wait must fit into this. 0 to 365 days; default: off.
    public var retryTimeLimit: Duration?
    /// Methods that may be repeated without an idempotency key. One of GET, HEAD, OPTIONS, PUT, DELETE,
    /// QUERY, TRACE, POST, PATCH; default: `GET HEAD OPTIONS PUT DELETE`.
    public var methods: [String]?
    /// HTTP statuses that are retried. A status that can be retried: 408, 409, 429 or 500 to 599; default:
    /// `408 429 502 503 504`.
    public var statuses: [Int]?
    /// Wait at least as long as the server's Retry-After says. True or false; default: `true`.
    public var respectRetryAfter: Bool?
    /// What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r,
    /// clamp_5s keeps it within 5 s above the backoff. `.floor`, `.exact`, `.clamp5s`, `.ignore`; default:
    /// `.floor`.
    public var retryAfter: RetryAfter?
    /// A server that asks for a longer wait than this ends the call. 0 to 365 days; default: that of
    /// `retry.backoff.max`.
    public var maxRetryAfter: Duration?
    /// HTTP statuses by which the server asks for less load. A status that can be retried: 408, 409, 429 or
    /// 500 to 599; default: `429`.
    public var throttledStatuses: [Int]?
    /// Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait for that at
    /// most 1 s; adds the kinds quota_spent, unauthorized, too_long and content_refused. True or false;
    /// default: `false`.
    public var readErrors: Bool?
    /// While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too.
    /// True or false; default: `false`.
    public var hold: Bool?
    /// hold: calls that may wait so, per route. 1 to 1000000; default: `200`.
    public var maxHeld: Int?
    /// cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs'
    /// adaptive mode. `.off`, `.cubic`; default: `.off`.
    public var sendRate: SendRate?
    /// How long to wait before a retry.
    public var backoff: Backoff?
    /// What bounds the load that retries add, per route.
    public var budget: Budget?

    /// What is left out is left to core.
    public init(
        maxAttempts: Int? = nil,
        retryOn: [String]? = nil,
        retryTimeLimit: Duration? = nil,
        methods: [String]? = nil,
        statuses: [Int]? = nil,
        respectRetryAfter: Bool? = nil,
        retryAfter: RetryAfter? = nil,
        maxRetryAfter: Duration? = nil,
        throttledStatuses: [Int]? = nil,
        readErrors: Bool? = nil,
        hold: Bool? = nil,
        maxHeld: Int? = nil,
        sendRate: SendRate? = nil,
        backoff: Backoff? = nil,
        budget: Budget? = nil
    ) {
        self.maxAttempts = maxAttempts
        self.retryOn = retryOn
        self.retryTimeLimit = retryTimeLimit
        self.methods = methods
        self.statuses = statuses
        self.respectRetryAfter = respectRetryAfter
        self.retryAfter = retryAfter
        self.maxRetryAfter = maxRetryAfter
        self.throttledStatuses = throttledStatuses
        self.readErrors = readErrors
        self.hold = hold
        self.maxHeld = maxHeld
        self.sendRate = sendRate
        self.backoff = backoff
        self.budget = budget
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("retry.max_attempts", maxAttempts)
        pairs.add("retry.retry_on", retryOn)
        pairs.add("retry.retry_time_limit", retryTimeLimit)
        pairs.add("retry.methods", methods)
        pairs.add("retry.statuses", statuses)
        pairs.add("retry.respect_retry_after", respectRetryAfter)
        pairs.add("retry.retry_after", retryAfter)
        pairs.add("retry.max_retry_after", maxRetryAfter)
        pairs.add("retry.throttled_statuses", throttledStatuses)
        pairs.add("retry.read_errors", readErrors)
        pairs.add("retry.hold", hold)
        pairs.add("retry.max_held", maxHeld)
        pairs.add("retry.send_rate", sendRate)
        backoff?.write(&pairs)
        budget?.write(&pairs)
        pairs.present(since: before, "retry.max_attempts", .number(value: 3), inPresets: true)
    }
}

/// How long to wait before a retry.
public struct Backoff: Sendable, Hashable {
    /// How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case exponential
        case constant
        case linear
        case polynomial
    }

    /// How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d],
    /// decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d].
    public enum Jitter: String, Sendable, Hashable, CaseIterable {
        case fullFloor = "full_floor"
        case off = "none"
        case full
        case equal
        case decorrelated
        case bounded
    }

    /// How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent.
    /// `.exponential`, `.constant`, `.linear`, `.polynomial`; default: `.exponential`.
    public var kind: Kind?
    /// The delay before the first retry, before jitter. 0 to 365 days; default: `100ms`.
    public var base: Duration?
    /// The base after a throttled outcome. 0 to 365 days; default: that of `retry.backoff.base`.
    public var throttledBase: Duration?
    /// The power of polynomial growth. 1 to 8; default: required with `polynomial`.
    public var exponent: Int?
    /// The growth from one retry to the next. 1 to 1000; default: `2`.
    public var multiplier: Double?
    /// The longest computed delay, before jitter. 0 to 365 days; default: `5s`.
    public var max: Duration?
    /// How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d],
    /// decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]. `.fullFloor`, `.off`, `.full`,
    /// `.equal`, `.decorrelated`, `.bounded`; default: `.fullFloor`.
    public var jitter: Jitter?
    /// The j of bounded jitter. 0 to 1; default: required with `bounded`.
    public var jitterRatio: Double?

    /// What is left out is left to core.
    public init(
        kind: Kind? = nil,
        base: Duration? = nil,
        throttledBase: Duration? = nil,
        exponent: Int? = nil,
        multiplier: Double? = nil,
        max: Duration? = nil,
        jitter: Jitter? = nil,
        jitterRatio: Double? = nil
    ) {
        self.kind = kind
        self.base = base
        self.throttledBase = throttledBase
        self.exponent = exponent
        self.multiplier = multiplier
        self.max = max
        self.jitter = jitter
        self.jitterRatio = jitterRatio
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("retry.backoff.kind", kind)
        pairs.add("retry.backoff.base", base)
        pairs.add("retry.backoff.throttled_base", throttledBase)
        pairs.add("retry.backoff.exponent", exponent)
        pairs.add("retry.backoff.multiplier", multiplier)
        pairs.add("retry.backoff.max", max)
        pairs.add("retry.backoff.jitter", jitter)
        pairs.add("retry.backoff.jitter_ratio", jitterRatio)
        pairs.present(since: before, "retry.backoff.kind", .word(value: "exponential"), inPresets: true)
    }
}

/// What bounds the load that retries add, per route.
public struct Budget: Sendable, Hashable {
    /// What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
    /// floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn,
    /// quota what retries cost.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case earned
        case window
        case ratio
        case share
        case tokens
        case quota
        case off = "none"
    }

    /// How the share of calls is rounded.
    public enum Rounding: String, Sendable, Hashable, CaseIterable {
        case floor
        case ceil
    }

    /// What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
    /// floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn,
    /// quota what retries cost. `.earned`, `.window`, `.ratio`, `.share`, `.tokens`, `.quota`, `.off`;
    /// default: `.earned`.
    public var kind: Kind?
    /// A shared budget that is declared as a pool; its own keys stand there. The name of a `Pool`; default:
    /// off.
    public var pool: String?
    /// How long a call or a retry counts. 10 µs to 365 days; default: `10s`.
    public var ttl: Duration?
    /// Retries per second that are free of any ratio. At least 0; default: `10`.
    public var minRetriesPerSec: Double?
    /// Retries allowed per recent call, as a fraction. At least 0; default: `0.2`.
    public var percentCanRetry: Double?
    /// How the share of calls is rounded. `.floor`, `.ceil`; default: `.floor`.
    public var rounding: Rounding?
    /// earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
    /// earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
    /// `tokens`.
    public var ratio: Double?
    /// earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0
    /// to 1000000000; default: off.
    public var start: Int?
    /// ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`.
    public var minThroughput: Int?
    /// share: retries in flight per call in flight. At least 0; default: `0.2`.
    public var share: Double?
    /// share: retries in flight that are always allowed. 0 to 1000000000; default: `3`.
    public var minRetries: Int?
    /// tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`.
    public var max: Int?
    /// quota: tokens when full. 1 to 1000000000; default: `500`.
    public var capacity: Int?
    /// quota: what a retry costs. 1 to 65535; default: `5`.
    public var cost: Int?
    /// quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`.
    public var timeoutCost: Int?
    /// quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `retry.budget.cost`.
    public var throttledCost: Int?

    /// What is left out is left to core.
    public init(
        kind: Kind? = nil,
        pool: String? = nil,
        ttl: Duration? = nil,
        minRetriesPerSec: Double? = nil,
        percentCanRetry: Double? = nil,
        rounding: Rounding? = nil,
        ratio: Double? = nil,
        start: Int? = nil,
        minThroughput: Int? = nil,
        share: Double? = nil,
        minRetries: Int? = nil,
        max: Int? = nil,
        capacity: Int? = nil,
        cost: Int? = nil,
        timeoutCost: Int? = nil,
        throttledCost: Int? = nil
    ) {
        self.kind = kind
        self.pool = pool
        self.ttl = ttl
        self.minRetriesPerSec = minRetriesPerSec
        self.percentCanRetry = percentCanRetry
        self.rounding = rounding
        self.ratio = ratio
        self.start = start
        self.minThroughput = minThroughput
        self.share = share
        self.minRetries = minRetries
        self.max = max
        self.capacity = capacity
        self.cost = cost
        self.timeoutCost = timeoutCost
        self.throttledCost = throttledCost
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("retry.budget.kind", kind)
        pairs.add("retry.budget.pool", pool)
        pairs.add("retry.budget.ttl", ttl)
        pairs.add("retry.budget.min_retries_per_sec", minRetriesPerSec)
        pairs.add("retry.budget.percent_can_retry", percentCanRetry)
        pairs.add("retry.budget.rounding", rounding)
        pairs.add("retry.budget.ratio", ratio)
        pairs.add("retry.budget.start", start)
        pairs.add("retry.budget.min_throughput", minThroughput)
        pairs.add("retry.budget.share", share)
        pairs.add("retry.budget.min_retries", minRetries)
        pairs.add("retry.budget.max", max)
        pairs.add("retry.budget.capacity", capacity)
        pairs.add("retry.budget.cost", cost)
        pairs.add("retry.budget.timeout_cost", timeoutCost)
        pairs.add("retry.budget.throttled_cost", throttledCost)
        pairs.present(since: before, "retry.budget.kind", .word(value: "earned"), inPresets: true)
    }
}

/// How long no attempt starts after one that was throttled, per route, and how few at first afterwards.
public struct Cooldown: Sendable, Hashable {
    /// fleet: a closing in one process closes all, through the store that the engine is attached to; each
    /// process reopens with one attempt.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        case local
        case fleet
    }

    /// How long no attempt starts after a throttled one whose server names no time; doubled for each such
    /// closing in a row. 1 µs to 365 days; default: `1s`.
    public var base: Duration?
    /// The longest that no attempt starts, whatever time the server names. 1 µs to 365 days; default: that of
    /// `retry.maxRetryAfter`.
    public var max: Duration?
    /// Wait for the end of a cooldown instead of being refused. True or false; default: `false`.
    public var wait: Bool?
    /// wait: the longest wait; without it there must be a deadline. 0 to 365 days; default: off.
    public var maxWait: Duration?
    /// wait: calls that may wait. 1 to 10000000; default: `200`.
    public var maxWaiters: Int?
    /// How long no attempt starts after one whose quota is spent or whose key is not accepted (kinds
    /// quota_spent and unauthorized), unless the server names a time. Absent: such an attempt changes
    /// nothing; a target has 5 minutes. 1 µs to 365 days; default: off.
    public var quotaWait: Duration?
    /// fleet: a closing in one process closes all, through the store that the engine is attached to; each
    /// process reopens with one attempt. `.local`, `.fleet`; default: `.local`.
    public var store: Store?

    /// What is left out is left to core.
    public init(
        base: Duration? = nil,
        max: Duration? = nil,
        wait: Bool? = nil,
        maxWait: Duration? = nil,
        maxWaiters: Int? = nil,
        quotaWait: Duration? = nil,
        store: Store? = nil
    ) {
        self.base = base
        self.max = max
        self.wait = wait
        self.maxWait = maxWait
        self.maxWaiters = maxWaiters
        self.quotaWait = quotaWait
        self.store = store
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("cooldown.base", base)
        pairs.add("cooldown.max", max)
        pairs.add("cooldown.wait", wait)
        pairs.add("cooldown.max_wait", maxWait)
        pairs.add("cooldown.max_waiters", maxWaiters)
        pairs.add("cooldown.quota_wait", quotaWait)
        pairs.add("cooldown.store", store)
        pairs.present(since: before, "cooldown.max_waiters", .number(value: 200), inPresets: false)
    }
}

/// How many calls may start per span, per route.
public struct RateLimit: Sendable, Hashable {
    /// What takes a token: the call, or each of its attempts.
    public enum Unit: String, Sendable, Hashable, CaseIterable {
        case call
        case attempt
    }

    /// Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        case local
        case fleet
    }

    /// fleet: what holds while the store is gone: local is the process's share of the rate, open lets all
    /// calls pass, closed refuses them.
    public enum OnLoss: String, Sendable, Hashable, CaseIterable {
        case local
        case open
        case closed
    }

    /// limits: what an attempt counts that may have been served and of which no amount was settled: what it
    /// had reserved, or nothing.
    public enum SettleUnknown: String, Sendable, Hashable, CaseIterable {
        case reservation
        case zero
    }

    /// limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
    /// never raises one, none ignores it.
    public enum Learn: String, Sendable, Hashable, CaseIterable {
        case off = "none"
        case down
    }

    /// limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in
    /// the order in which they came.
    public enum FairBy: String, Sendable, Hashable, CaseIterable {
        case off = "none"
        case key
    }

    /// Calls that may start per span. 1 to 1000000000; default: required unless there is `pool`.
    public var permits: Int?
    /// The span. 1 µs to 365 days; default: required unless there is `pool`.
    public var per: Duration?
    /// Calls that may start at once after a quiet time. 1 to 1000000000; default: that of
    /// `rateLimit.permits`.
    public var burst: Int?
    /// What takes a token: the call, or each of its attempts. `.call`, `.attempt`; default: `.call`.
    public var unit: Unit?
    /// Wait for a token instead of being refused. True or false; default: `false`.
    public var wait: Bool?
    /// wait: the longest wait; without it there must be a deadline. 0 to 365 days; default: off.
    public var maxWait: Duration?
    /// wait: calls that may wait. 1 to 10000000; default: `1000`.
    public var maxWaiters: Int?
    /// A shared rate limit that is declared as a pool; permits, per and burst stand there. The name of a
    /// `Pool`; default: off.
    public var pool: String?
    /// Whose rate it is: each process's own, or the whole fleet's through the store that the engine is
    /// attached to. `.local`, `.fleet`; default: `.local`.
    public var store: Store?
    /// fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms
    /// of the rate bring, at least 1, which is so below 40 a second. 1 to 1000000000; default: off.
    public var lease: Int?
    /// fleet: what holds while the store is gone: local is the process's share of the rate, open lets all
    /// calls pass, closed refuses them. `.local`, `.open`, `.closed`; default: `.local`.
    public var onLoss: OnLoss?
    /// Several limits by name, at most 4, that a call takes all at once or none: instead of permits, per and
    /// burst. A limit with a weight counts the amount that each call names, such as tokens. Texts such as
    /// `tpm: permits=200000 per=1m weight=tokens`, perhaps with burst, default and max_debt, or `usd:
    /// permits=5000000 per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits come back at
    /// once; a document has a table for each; default: required with `estimateQuantile`.
    public var limits: [String]?
    /// limits: what an attempt counts that may have been served and of which no amount was settled: what it
    /// had reserved, or nothing. `.reservation`, `.zero`; default: `.reservation`.
    public var settleUnknown: SettleUnknown?
    /// limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
    /// never raises one, none ignores it. `.off`, `.down`; default: `.off`.
    public var learn: Learn?
    /// limits: from 20 settled attempts on, what a call names of a weight is scaled by this quantile of what
    /// attempts have used of it, between a 16th and 16 times. 0.001 to 0.999; default: off.
    public var estimateQuantile: Double?
    /// limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4 to 1, and a
    /// full one gives the place of a less critical call to a more critical one. True or false; default:
    /// `false`.
    public var prioritized: Bool?
    /// limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in
    /// the order in which they came. `.off`, `.key`; default: `.off`.
    public var fairBy: FairBy?
    /// fairBy: how much some keys get, 1 to 1,000, where every other key gets 1. Texts such as `acme=4`, a
    /// route key and its share from 1 to 1,000; a document may have a table; default: off.
    public var shares: [String]?

    /// What is left out is left to core.
    public init(
        permits: Int? = nil,
        per: Duration? = nil,
        burst: Int? = nil,
        unit: Unit? = nil,
        wait: Bool? = nil,
        maxWait: Duration? = nil,
        maxWaiters: Int? = nil,
        pool: String? = nil,
        store: Store? = nil,
        lease: Int? = nil,
        onLoss: OnLoss? = nil,
        limits: [String]? = nil,
        settleUnknown: SettleUnknown? = nil,
        learn: Learn? = nil,
        estimateQuantile: Double? = nil,
        prioritized: Bool? = nil,
        fairBy: FairBy? = nil,
        shares: [String]? = nil
    ) {
        self.permits = permits
        self.per = per
        self.burst = burst
        self.unit = unit
        self.wait = wait
        self.maxWait = maxWait
        self.maxWaiters = maxWaiters
        self.pool = pool
        self.store = store
        self.lease = lease
        self.onLoss = onLoss
        self.limits = limits
        self.settleUnknown = settleUnknown
        self.learn = learn
        self.estimateQuantile = estimateQuantile
        self.prioritized = prioritized
        self.fairBy = fairBy
        self.shares = shares
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("rate_limit.permits", permits)
        pairs.add("rate_limit.per", per)
        pairs.add("rate_limit.burst", burst)
        pairs.add("rate_limit.unit", unit)
        pairs.add("rate_limit.wait", wait)
        pairs.add("rate_limit.max_wait", maxWait)
        pairs.add("rate_limit.max_waiters", maxWaiters)
        pairs.add("rate_limit.pool", pool)
        pairs.add("rate_limit.store", store)
        pairs.add("rate_limit.lease", lease)
        pairs.add("rate_limit.on_loss", onLoss)
        pairs.add("rate_limit.limits", limits)
        pairs.add("rate_limit.settle_unknown", settleUnknown)
        pairs.add("rate_limit.learn", learn)
        pairs.add("rate_limit.estimate_quantile", estimateQuantile)
        pairs.add("rate_limit.prioritized", prioritized)
        pairs.add("rate_limit.fair_by", fairBy)
        pairs.add("rate_limit.shares", shares)
        pairs.present(since: before, "rate_limit.unit", .word(value: "call"), inPresets: false)
    }
}

/// How many calls may be in flight at once, per route.
public struct Bulkhead: Sendable, Hashable {
    /// What sets the limit of concurrent calls: fixed is max_concurrency, aimd follows a latency threshold,
    /// gradient2 the change of latency.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case fixed
        case aimd
        case gradient2
    }

    /// What takes a slot: the call, or each of its attempts, which gives it back during backoff.
    public enum Unit: String, Sendable, Hashable, CaseIterable {
        case call
        case attempt
    }

    /// aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer
    /// requests), or both.
    public enum Signal: String, Sendable, Hashable, CaseIterable {
        case latency
        case loss
        case both
    }

    /// gradient2: steady decides once per round trip and comes back to what the server can take; guarded,
    /// plain and netflix are older rules.
    public enum Variant: String, Sendable, Hashable, CaseIterable {
        case steady
        case guarded
        case plain
        case netflix
    }

    /// The control law behind queue_target.
    public enum Codel: String, Sendable, Hashable, CaseIterable {
        case facebook
        case rfc8289
    }

    /// Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
    /// attached to.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        case local
        case fleet
    }

    /// fleet: what holds while the store is gone: local is the process's share of the slots, open is
    /// max_concurrency in each process, closed refuses calls.
    public enum OnLoss: String, Sendable, Hashable, CaseIterable {
        case local
        case open
        case closed
    }

    /// aimd with latency_quantile: fleet compares the quantile of all processes' latencies with the
    /// threshold.
    public enum LatencyStore: String, Sendable, Hashable, CaseIterable {
        case local
        case fleet
    }

    /// What sets the limit of concurrent calls: fixed is maxConcurrency, aimd follows a latency threshold,
    /// gradient2 the change of latency. `.fixed`, `.aimd`, `.gradient2`; default: `.fixed`.
    public var kind: Kind?
    /// Calls in flight at once; for aimd and gradient2 the highest limit. 1 to 1000000000; default: required
    /// unless there is `pool`.
    public var maxConcurrency: Int?
    /// Calls that may wait for a slot; 0 is no queue, none is unbounded. 0 to 10000000, or `.unbounded`;
    /// default: `0`.
    public var maxQueue: Bound<Int>?
    /// How long a call waits for a slot; 0 fails fast, none waits for ever. 0 to 365 days, or `.unbounded`;
    /// default: `1s`.
    public var acquireTimeout: Bound<Duration>?
    /// What takes a slot: the call, or each of its attempts, which gives it back during backoff. `.call`,
    /// `.attempt`; default: `.call`.
    public var unit: Unit?
    /// aimd, gradient2: the lowest limit. 1 to 1000000000; default: `1`.
    public var minConcurrency: Int?
    /// aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer
    /// requests), or both. `.latency`, `.loss`, `.both`; default: `.latency`.
    public var signal: Signal?
    /// aimd that follows latency: a completion within it raises the limit, one over it cuts it. 1 µs to 365
    /// days; default: required with `aimd`, unless `signal` is `loss`.
    public var latencyThreshold: Duration?
    /// aimd: what a good completion adds, divided by the limit. At least 0.000001; default: `1`.
    public var increaseStep: Double?
    /// aimd: what a cut multiplies the limit by. 0.01 to 0.999; default: `0.9`.
    public var backoffRatio: Double?
    /// aimd: at most one cut per interval. 0 to 365 days; default: `1s`.
    public var cutInterval: Duration?
    /// aimd: compare this quantile of recent latencies with the threshold, instead of each one. 0.001 to
    /// 0.999; default: off.
    public var latencyQuantile: Double?
    /// gradient2: completions that the long-term latency looks back on. 2 to 1000000; default: `600`.
    public var longWindow: Int?
    /// gradient2: how much longer than the long-term latency is still good. 1 to 100; default: `1.5`.
    public var rttTolerance: Double?
    /// gradient2: how many more than now the limit reaches for. At least 0; default: `4`.
    public var headroom: Double?
    /// gradient2: steady decides once per round trip and comes back to what the server can take; guarded,
    /// plain and netflix are older rules. `.steady`, `.guarded`, `.plain`, `.netflix`; default: `.steady`.
    public var variant: Variant?
    /// Under sustained congestion a call waits no longer than this (CoDel); needs maxQueue. 1 µs to 365 days;
    /// default: off.
    public var queueTarget: Duration?
    /// How long a queue that never empties is not yet congested. 1 µs to 365 days; default: `100ms`.
    public var queueInterval: Duration?
    /// The control law behind queueTarget. `.facebook`, `.rfc8289`; default: `.facebook`.
    public var codel: Codel?
    /// While congested, the newest waiter goes first; needs maxQueue. True or false; default: `false`.
    public var queueAdaptiveLifo: Bool?
    /// A full queue admits a call of higher criticality in place of the lowest; needs maxQueue. True or
    /// false; default: `false`.
    public var prioritized: Bool?
    /// A shared bulkhead that is declared as a pool; limit, queue and order stand there. The name of a
    /// `Pool`; default: off.
    public var pool: String?
    /// Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
    /// attached to. `.local`, `.fleet`; default: `.local`.
    public var store: Store?
    /// fleet: how long a slot stays taken whose process does not renew it. 1 s to 365 days; default: `30s`.
    public var leaseTtl: Duration?
    /// fleet: what holds while the store is gone: local is the process's share of the slots, open is
    /// maxConcurrency in each process, closed refuses calls. `.local`, `.open`, `.closed`; default: `.local`.
    public var onLoss: OnLoss?
    /// aimd with latencyQuantile: fleet compares the quantile of all processes' latencies with the threshold.
    /// `.local`, `.fleet`; default: `.local`.
    public var latencyStore: LatencyStore?

    /// What is left out is left to core.
    public init(
        kind: Kind? = nil,
        maxConcurrency: Int? = nil,
        maxQueue: Bound<Int>? = nil,
        acquireTimeout: Bound<Duration>? = nil,
        unit: Unit? = nil,
        minConcurrency: Int? = nil,
        signal: Signal? = nil,
        latencyThreshold: Duration? = nil,
        increaseStep: Double? = nil,
        backoffRatio: Double? = nil,
        cutInterval: Duration? = nil,
        latencyQuantile: Double? = nil,
        longWindow: Int? = nil,
        rttTolerance: Double? = nil,
        headroom: Double? = nil,
        variant: Variant? = nil,
        queueTarget: Duration? = nil,
        queueInterval: Duration? = nil,
        codel: Codel? = nil,
        queueAdaptiveLifo: Bool? = nil,
        prioritized: Bool? = nil,
        pool: String? = nil,
        store: Store? = nil,
        leaseTtl: Duration? = nil,
        onLoss: OnLoss? = nil,
        latencyStore: LatencyStore? = nil
    ) {
        self.kind = kind
        self.maxConcurrency = maxConcurrency
        self.maxQueue = maxQueue
        self.acquireTimeout = acquireTimeout
        self.unit = unit
        self.minConcurrency = minConcurrency
        self.signal = signal
        self.latencyThreshold = latencyThreshold
        self.increaseStep = increaseStep
        self.backoffRatio = backoffRatio
        self.cutInterval = cutInterval
        self.latencyQuantile = latencyQuantile
        self.longWindow = longWindow
        self.rttTolerance = rttTolerance
        self.headroom = headroom
        self.variant = variant
        self.queueTarget = queueTarget
        self.queueInterval = queueInterval
        self.codel = codel
        self.queueAdaptiveLifo = queueAdaptiveLifo
        self.prioritized = prioritized
        self.pool = pool
        self.store = store
        self.leaseTtl = leaseTtl
        self.onLoss = onLoss
        self.latencyStore = latencyStore
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("bulkhead.kind", kind)
        pairs.add("bulkhead.max_concurrency", maxConcurrency)
        pairs.add("bulkhead.max_queue", maxQueue)
        pairs.add("bulkhead.acquire_timeout", acquireTimeout)
        pairs.add("bulkhead.unit", unit)
        pairs.add("bulkhead.min_concurrency", minConcurrency)
        pairs.add("bulkhead.signal", signal)
        pairs.add("bulkhead.latency_threshold", latencyThreshold)
        pairs.add("bulkhead.increase_step", increaseStep)
        pairs.add("bulkhead.backoff_ratio", backoffRatio)
        pairs.add("bulkhead.cut_interval", cutInterval)
        pairs.add("bulkhead.latency_quantile", latencyQuantile)
        pairs.add("bulkhead.long_window", longWindow)
        pairs.add("bulkhead.rtt_tolerance", rttTolerance)
        pairs.add("bulkhead.headroom", headroom)
        pairs.add("bulkhead.variant", variant)
        pairs.add("bulkhead.queue_target", queueTarget)
        pairs.add("bulkhead.queue_interval", queueInterval)
        pairs.add("bulkhead.codel", codel)
        pairs.add("bulkhead.queue_adaptive_lifo", queueAdaptiveLifo)
        pairs.add("bulkhead.prioritized", prioritized)
        pairs.add("bulkhead.pool", pool)
        pairs.add("bulkhead.store", store)
        pairs.add("bulkhead.lease_ttl", leaseTtl)
        pairs.add("bulkhead.on_loss", onLoss)
        pairs.add("bulkhead.latency_store", latencyStore)
        pairs.present(since: before, "bulkhead.kind", .word(value: "fixed"), inPresets: false)
    }
}

/// When to stop calling what fails.
public struct Breaker: Sendable, Hashable {
    /// sliding forgets by tenths of the window, tumbling all at once.
    public enum WindowKind: String, Sendable, Hashable, CaseIterable {
        case sliding
        case tumbling
    }

    /// What is counted: the call, or each of its attempts.
    public enum Unit: String, Sendable, Hashable, CaseIterable {
        case call
        case attempt
    }

    /// fleet: one process that trips opens the breaker for all, through the store that the engine is attached
    /// to.
    public enum Store: String, Sendable, Hashable, CaseIterable {
        case local
        case fleet
    }

    /// fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls
    /// pass, closed refuses them.
    public enum OnLoss: String, Sendable, Hashable, CaseIterable {
        case local
        case open
        case closed
    }

    /// Failures among recent calls that open it, as a fraction. 0.000001 to 1; default: required unless there
    /// is `consecutive`.
    public var failureRatio: Double?
    /// How long a call counts as recent. 10 µs to 365 days; default: required with `failureRatio`.
    public var window: Duration?
    /// Calls that the window must hold before the ratio counts. 1 to 1000000000; default: required with
    /// `failureRatio`.
    public var minThroughput: Int?
    /// sliding forgets by tenths of the window, tumbling all at once. `.sliding`, `.tumbling`; default:
    /// `.sliding`.
    public var windowKind: WindowKind?
    /// Failures in a row that open it; instead of the ratio, or beside it. 1 to 1000000; default: off.
    public var consecutive: Int?
    /// How long it stays open. 0.001 s to 365 days; default: required.
    public var breakDuration: Duration?
    /// How much longer it stays open after each failed probe; 1 is neither growth nor jitter. 1 to 100;
    /// default: `2`.
    public var breakFactor: Double?
    /// The longest break; ten times breakDuration where absent. 0.001 s to 365 days; default: off.
    public var maxBreakDuration: Duration?
    /// Probes at once when a break has ended. 1 to 1000; default: `1`.
    public var halfOpenMaxCalls: Int?
    /// Good probes that close it. 1 to 1000000; default: `1`.
    public var successesToClose: Int?
    /// Classes and kinds that count as failures, besides transient, timeout and never_sent. One of transient,
    /// throttled, timeout, never_sent, conflict, permanent, ignored, infrastructure, concurrency, or a name
    /// declared in kinds; default: off.
    public var failureOn: [String]?
    /// Classes and kinds that count neither way. One of transient, throttled, timeout, never_sent, conflict,
    /// permanent, ignored, infrastructure, concurrency, or a name declared in kinds; default: off.
    public var ignoreOn: [String]?
    /// What is counted: the call, or each of its attempts. `.call`, `.attempt`; default: `.call`.
    public var unit: Unit?
    /// fleet: one process that trips opens the breaker for all, through the store that the engine is attached
    /// to. `.local`, `.fleet`; default: `.local`.
    public var store: Store?
    /// fleet: processes that must trip within the window, or within breakDuration where there is none, before
    /// it opens for all. 1 to 10000; default: `1`.
    public var quorum: Int?
    /// fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls
    /// pass, closed refuses them. `.local`, `.open`, `.closed`; default: `.local`.
    public var onLoss: OnLoss?

    /// What is left out is left to core.
    public init(
        failureRatio: Double? = nil,
        window: Duration? = nil,
        minThroughput: Int? = nil,
        windowKind: WindowKind? = nil,
        consecutive: Int? = nil,
        breakDuration: Duration? = nil,
        breakFactor: Double? = nil,
        maxBreakDuration: Duration? = nil,
        halfOpenMaxCalls: Int? = nil,
        successesToClose: Int? = nil,
        failureOn: [String]? = nil,
        ignoreOn: [String]? = nil,
        unit: Unit? = nil,
        store: Store? = nil,
        quorum: Int? = nil,
        onLoss: OnLoss? = nil
    ) {
        self.failureRatio = failureRatio
        self.window = window
        self.minThroughput = minThroughput
        self.windowKind = windowKind
        self.consecutive = consecutive
        self.breakDuration = breakDuration
        self.breakFactor = breakFactor
        self.maxBreakDuration = maxBreakDuration
        self.halfOpenMaxCalls = halfOpenMaxCalls
        self.successesToClose = successesToClose
        self.failureOn = failureOn
        self.ignoreOn = ignoreOn
        self.unit = unit
        self.store = store
        self.quorum = quorum
        self.onLoss = onLoss
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("breaker.failure_ratio", failureRatio)
        pairs.add("breaker.window", window)
        pairs.add("breaker.min_throughput", minThroughput)
        pairs.add("breaker.window_kind", windowKind)
        pairs.add("breaker.consecutive", consecutive)
        pairs.add("breaker.break_duration", breakDuration)
        pairs.add("breaker.break_factor", breakFactor)
        pairs.add("breaker.max_break_duration", maxBreakDuration)
        pairs.add("breaker.half_open_max_calls", halfOpenMaxCalls)
        pairs.add("breaker.successes_to_close", successesToClose)
        pairs.add("breaker.failure_on", failureOn)
        pairs.add("breaker.ignore_on", ignoreOn)
        pairs.add("breaker.unit", unit)
        pairs.add("breaker.store", store)
        pairs.add("breaker.quorum", quorum)
        pairs.add("breaker.on_loss", onLoss)
        pairs.present(since: before, "breaker.window_kind", .word(value: "sliding"), inPresets: false)
    }
}

/// Which part of the calls to refuse while a part of them fails.
public struct Throttle: Sendable, Hashable {
    /// sliding forgets by tenths of the window, tumbling all at once.
    public enum WindowKind: String, Sendable, Hashable, CaseIterable {
        case sliding
        case tumbling
    }

    /// What is counted and refused: the call, or each of its attempts.
    public enum Unit: String, Sendable, Hashable, CaseIterable {
        case call
        case attempt
    }

    /// Requests per accepted one that are let through. At least 1; default: `2`.
    public var k: Double?
    /// How long a call counts. 10 µs to 365 days; default: `2m`.
    public var window: Duration?
    /// sliding forgets by tenths of the window, tumbling all at once. `.sliding`, `.tumbling`; default:
    /// `.sliding`.
    public var windowKind: WindowKind?
    /// Calls that the window must hold before any is refused. 1 to 1000000000; default: `10`.
    public var minThroughput: Int?
    /// The highest probability of a refusal. 0 to 1, or `.unbounded`; default: `0.9`.
    public var maxReject: Bound<Double>?
    /// At least one call is let through per interval. 1 µs to 365 days, or `.unbounded`; default: `1s`.
    public var probeInterval: Bound<Duration>?
    /// Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least 1.1. True or
    /// false; default: `false`.
    public var prioritized: Bool?
    /// What is counted and refused: the call, or each of its attempts. `.call`, `.attempt`; default: `.call`.
    public var unit: Unit?

    /// What is left out is left to core.
    public init(
        k: Double? = nil,
        window: Duration? = nil,
        windowKind: WindowKind? = nil,
        minThroughput: Int? = nil,
        maxReject: Bound<Double>? = nil,
        probeInterval: Bound<Duration>? = nil,
        prioritized: Bool? = nil,
        unit: Unit? = nil
    ) {
        self.k = k
        self.window = window
        self.windowKind = windowKind
        self.minThroughput = minThroughput
        self.maxReject = maxReject
        self.probeInterval = probeInterval
        self.prioritized = prioritized
        self.unit = unit
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("throttle.k", k)
        pairs.add("throttle.window", window)
        pairs.add("throttle.window_kind", windowKind)
        pairs.add("throttle.min_throughput", minThroughput)
        pairs.add("throttle.max_reject", maxReject)
        pairs.add("throttle.probe_interval", probeInterval)
        pairs.add("throttle.prioritized", prioritized)
        pairs.add("throttle.unit", unit)
        pairs.present(since: before, "throttle.k", .number(value: 2), inPresets: false)
    }
}

/// When to send a second attempt beside a slow one.
public struct Hedge: Sendable, Hashable {
    /// How long an answer may take before another attempt starts beside it. 0 to 365 days; default: required.
    public var delay: Duration?
    /// Attempts of one call that may run at once. 2 to 4; default: `2`.
    public var maxAttempts: Int?
    /// The delay is this quantile of recent latencies, once there are five. 0.001 to 0.999; default: required
    /// with `delayMin` and with `delayMax`.
    public var adaptiveDelayQuantile: Double?
    /// The shortest adaptive delay. 0 to 365 days; default: off.
    public var delayMin: Duration?
    /// The longest adaptive delay. 1 µs to 365 days; default: off.
    public var delayMax: Duration?
    /// What bounds the load that hedges add, per route.
    public var budget: HedgeBudget?

    /// What is left out is left to core.
    public init(
        delay: Duration? = nil,
        maxAttempts: Int? = nil,
        adaptiveDelayQuantile: Double? = nil,
        delayMin: Duration? = nil,
        delayMax: Duration? = nil,
        budget: HedgeBudget? = nil
    ) {
        self.delay = delay
        self.maxAttempts = maxAttempts
        self.adaptiveDelayQuantile = adaptiveDelayQuantile
        self.delayMin = delayMin
        self.delayMax = delayMax
        self.budget = budget
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("hedge.delay", delay)
        pairs.add("hedge.max_attempts", maxAttempts)
        pairs.add("hedge.adaptive_delay_quantile", adaptiveDelayQuantile)
        pairs.add("hedge.delay_min", delayMin)
        pairs.add("hedge.delay_max", delayMax)
        budget?.write(&pairs)
        pairs.present(since: before, "hedge.max_attempts", .number(value: 2), inPresets: false)
    }
}

/// What bounds the load that hedges add, per route.
public struct HedgeBudget: Sendable, Hashable {
    /// What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn,
    /// window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in
    /// flight, tokens what successes earn, quota what retries cost.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        case shared
        case earned
        case window
        case ratio
        case share
        case tokens
        case quota
        case off = "none"
    }

    /// How the share of calls is rounded.
    public enum Rounding: String, Sendable, Hashable, CaseIterable {
        case floor
        case ceil
    }

    /// What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn,
    /// window a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in
    /// flight, tokens what successes earn, quota what retries cost. `.shared`, `.earned`, `.window`,
    /// `.ratio`, `.share`, `.tokens`, `.quota`, `.off`; default: `.shared`.
    public var kind: Kind?
    /// How long a call or a retry counts. 10 µs to 365 days; default: `10s`.
    public var ttl: Duration?
    /// Retries per second that are free of any ratio. At least 0; default: `10`.
    public var minRetriesPerSec: Double?
    /// Retries allowed per recent call, as a fraction. At least 0; default: `0.2`.
    public var percentCanRetry: Double?
    /// How the share of calls is rounded. `.floor`, `.ceil`; default: `.floor`.
    public var rounding: Rounding?
    /// earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
    /// earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
    /// `tokens`.
    public var ratio: Double?
    /// earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0
    /// to 1000000000; default: off.
    public var start: Int?
    /// ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`.
    public var minThroughput: Int?
    /// share: retries in flight per call in flight. At least 0; default: `0.2`.
    public var share: Double?
    /// share: retries in flight that are always allowed. 0 to 1000000000; default: `3`.
    public var minRetries: Int?
    /// tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`.
    public var max: Int?
    /// quota: tokens when full. 1 to 1000000000; default: `500`.
    public var capacity: Int?
    /// quota: what a retry costs. 1 to 65535; default: `5`.
    public var cost: Int?
    /// quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`.
    public var timeoutCost: Int?
    /// quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `hedge.budget.cost`.
    public var throttledCost: Int?

    /// What is left out is left to core.
    public init(
        kind: Kind? = nil,
        ttl: Duration? = nil,
        minRetriesPerSec: Double? = nil,
        percentCanRetry: Double? = nil,
        rounding: Rounding? = nil,
        ratio: Double? = nil,
        start: Int? = nil,
        minThroughput: Int? = nil,
        share: Double? = nil,
        minRetries: Int? = nil,
        max: Int? = nil,
        capacity: Int? = nil,
        cost: Int? = nil,
        timeoutCost: Int? = nil,
        throttledCost: Int? = nil
    ) {
        self.kind = kind
        self.ttl = ttl
        self.minRetriesPerSec = minRetriesPerSec
        self.percentCanRetry = percentCanRetry
        self.rounding = rounding
        self.ratio = ratio
        self.start = start
        self.minThroughput = minThroughput
        self.share = share
        self.minRetries = minRetries
        self.max = max
        self.capacity = capacity
        self.cost = cost
        self.timeoutCost = timeoutCost
        self.throttledCost = throttledCost
    }

    func write(_ pairs: inout Pairs) {
        let before = pairs.count
        pairs.add("hedge.budget.kind", kind)
        pairs.add("hedge.budget.ttl", ttl)
        pairs.add("hedge.budget.min_retries_per_sec", minRetriesPerSec)
        pairs.add("hedge.budget.percent_can_retry", percentCanRetry)
        pairs.add("hedge.budget.rounding", rounding)
        pairs.add("hedge.budget.ratio", ratio)
        pairs.add("hedge.budget.start", start)
        pairs.add("hedge.budget.min_throughput", minThroughput)
        pairs.add("hedge.budget.share", share)
        pairs.add("hedge.budget.min_retries", minRetries)
        pairs.add("hedge.budget.max", max)
        pairs.add("hedge.budget.capacity", capacity)
        pairs.add("hedge.budget.cost", cost)
        pairs.add("hedge.budget.timeout_cost", timeoutCost)
        pairs.add("hedge.budget.throttled_cost", throttledCost)
        pairs.present(since: before, "hedge.budget.kind", .word(value: "shared"), inPresets: false)
    }
}

/// The settings of a policy. What is left out is left to core's one table of keys.
public struct Settings: Sendable, Hashable {
    /// The built-in policy to start from. `.http`, `.httpware`, `.transient`, `.occ`, `.graph`,
    /// `.awsStandard`, `.aws2026`, `.awsAdaptive`, `.grpc`, `.llm`; default: none.
    public var preset: Preset?
    /// Time for the whole call: queueing, backoff, attempts and reading the body. 1 µs to 365 days; default:
    /// off.
    public var deadline: Duration?
    /// Time for one attempt; running out of it is retryable. 1 µs to 365 days; default: off.
    public var attemptTimeout: Duration?
    /// How long a streamed answer keeps its slot and its deadline. `.body`, `.headers`; default: `.body`.
    public var slotUntil: SlotUntil?
    /// Kinds of failure of your own, each with the class that it is based on, at most 23; retryOn, failureOn
    /// and ignoreOn may name them. Names of a to z, 0 to 9 and _, each with its class; default: off.
    public var kinds: [String: Base]?
    /// Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any;
    /// then onLoss holds. 0.001 s to 365 days; default: `50ms`.
    public var storeTimeout: Duration?
    /// Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is
    /// written at once. 0.001 s to 365 days; default: `250ms`.
    public var storeExchange: Duration?
    /// Streams: time from an attempt's start to the first piece of its body that counts (a model's first
    /// token); running out of it is retryable. 1 µs to 365 days; default: off.
    public var firstByteTimeout: Duration?
    /// Time without a piece of the body that counts; once the answer is delivered, running out of it ends the
    /// call. 1 µs to 365 days; default: off.
    public var idleTimeout: Duration?
    /// Where the deadline ends: with the body, or where the answer is handed to the caller. `.body`,
    /// `.delivery`; default: `.body`.
    public var deadlineUntil: DeadlineUntil?
    /// Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.
    /// `.bytes`, `.sseData`; default: `.bytes`.
    public var counts: Counts?
    /// When to try again.
    public var retry: Retry?
    /// How long no attempt starts after one that was throttled, per route, and how few at first afterwards.
    public var cooldown: Cooldown?
    /// How many calls may start per span, per route.
    public var rateLimit: RateLimit?
    /// How many calls may be in flight at once, per route.
    public var bulkhead: Bulkhead?
    /// When to stop calling what fails.
    public var breaker: Breaker?
    /// Which part of the calls to refuse while a part of them fails.
    public var throttle: Throttle?
    /// When to send a second attempt beside a slow one.
    public var hedge: Hedge?

    /// What is left out is left to core.
    public init(
        preset: Preset? = nil,
        deadline: Duration? = nil,
        attemptTimeout: Duration? = nil,
        slotUntil: SlotUntil? = nil,
        kinds: [String: Base]? = nil,
        storeTimeout: Duration? = nil,
        storeExchange: Duration? = nil,
        firstByteTimeout: Duration? = nil,
        idleTimeout: Duration? = nil,
        deadlineUntil: DeadlineUntil? = nil,
        counts: Counts? = nil,
        retry: Retry? = nil,
        cooldown: Cooldown? = nil,
        rateLimit: RateLimit? = nil,
        bulkhead: Bulkhead? = nil,
        breaker: Breaker? = nil,
        throttle: Throttle? = nil,
        hedge: Hedge? = nil
    ) {
        self.preset = preset
        self.deadline = deadline
        self.attemptTimeout = attemptTimeout
        self.slotUntil = slotUntil
        self.kinds = kinds
        self.storeTimeout = storeTimeout
        self.storeExchange = storeExchange
        self.firstByteTimeout = firstByteTimeout
        self.idleTimeout = idleTimeout
        self.deadlineUntil = deadlineUntil
        self.counts = counts
        self.retry = retry
        self.cooldown = cooldown
        self.rateLimit = rateLimit
        self.bulkhead = bulkhead
        self.breaker = breaker
        self.throttle = throttle
        self.hedge = hedge
    }

    func write(_ pairs: inout Pairs) {
        pairs.add("preset", preset)
        pairs.add("deadline", deadline)
        pairs.add("attempt_timeout", attemptTimeout)
        pairs.add("slot_until", slotUntil)
        pairs.add("kinds", kinds)
        pairs.add("store_timeout", storeTimeout)
        pairs.add("store_exchange", storeExchange)
        pairs.add("first_byte_timeout", firstByteTimeout)
        pairs.add("idle_timeout", idleTimeout)
        pairs.add("deadline_until", deadlineUntil)
        pairs.add("counts", counts)
        retry?.write(&pairs)
        cooldown?.write(&pairs)
        rateLimit?.write(&pairs)
        bulkhead?.write(&pairs)
        breaker?.write(&pairs)
        throttle?.write(&pairs)
        hedge?.write(&pairs)
    }
}

extension Policy {
    /// A policy with these settings.
    ///
    /// - Parameters:
    ///   - on: Types of errors to repeat, beside those that may pass: `on: [ShopError.self]`.
    ///   - classify: Judges each attempt, before `on` and the rule for errors.
    ///   - onRetry: Called before each wait for a further attempt.
    ///   - metering: How the weights of HTTP requests are known.
    /// - Throws: `PolicyError` with every mistake there is: the key, the value and the rule.
    public convenience init(
        _ name: String? = nil,
        preset: Preset? = nil,
        deadline: Duration? = nil,
        attemptTimeout: Duration? = nil,
        slotUntil: SlotUntil? = nil,
        kinds: [String: Base]? = nil,
        storeTimeout: Duration? = nil,
        storeExchange: Duration? = nil,
        firstByteTimeout: Duration? = nil,
        idleTimeout: Duration? = nil,
        deadlineUntil: DeadlineUntil? = nil,
        counts: Counts? = nil,
        retry: Retry? = nil,
        cooldown: Cooldown? = nil,
        rateLimit: RateLimit? = nil,
        bulkhead: Bulkhead? = nil,
        breaker: Breaker? = nil,
        throttle: Throttle? = nil,
        hedge: Hedge? = nil,
        on: [any Error.Type] = [],
        classify: Classify? = nil,
        onRetry: OnRetry? = nil,
        metering: Metering? = nil,
        engine: Engine = .shared,
        fileID: StaticString = #fileID,
        line: UInt = #line
    ) throws {
        let settings = Settings(
            preset: preset,
            deadline: deadline,
            attemptTimeout: attemptTimeout,
            slotUntil: slotUntil,
            kinds: kinds,
            storeTimeout: storeTimeout,
            storeExchange: storeExchange,
            firstByteTimeout: firstByteTimeout,
            idleTimeout: idleTimeout,
            deadlineUntil: deadlineUntil,
            counts: counts,
            retry: retry,
            cooldown: cooldown,
            rateLimit: rateLimit,
            bulkhead: bulkhead,
            breaker: breaker,
            throttle: throttle,
            hedge: hedge
        )
        try self.init(
            name, settings, on: on, classify: classify, onRetry: onRetry, metering: metering, engine: engine,
            fileID: fileID, line: line
        )
    }
}

/// Names that are others in Swift.
let camelCased: [String: String] = [
    "acquire_timeout": "acquireTimeout",
    "adaptive_delay_quantile": "adaptiveDelayQuantile",
    "attempt_timeout": "attemptTimeout",
    "backoff_ratio": "backoffRatio",
    "break_duration": "breakDuration",
    "break_factor": "breakFactor",
    "cut_interval": "cutInterval",
    "deadline_until": "deadlineUntil",
    "delay_max": "delayMax",
    "delay_min": "delayMin",
    "estimate_quantile": "estimateQuantile",
    "failover_on": "failoverOn",
    "failure_on": "failureOn",
    "failure_ratio": "failureRatio",
    "fair_by": "fairBy",
    "first_byte_timeout": "firstByteTimeout",
    "half_open_max_calls": "halfOpenMaxCalls",
    "idle_timeout": "idleTimeout",
    "ignore_on": "ignoreOn",
    "increase_step": "increaseStep",
    "jitter_ratio": "jitterRatio",
    "latency_quantile": "latencyQuantile",
    "latency_store": "latencyStore",
    "latency_threshold": "latencyThreshold",
    "lease_ttl": "leaseTtl",
    "long_window": "longWindow",
    "max_attempts": "maxAttempts",
    "max_break_duration": "maxBreakDuration",
    "max_concurrency": "maxConcurrency",
    "max_held": "maxHeld",
    "max_queue": "maxQueue",
    "max_reject": "maxReject",
    "max_retry_after": "maxRetryAfter",
    "max_wait": "maxWait",
    "max_waiters": "maxWaiters",
    "min_concurrency": "minConcurrency",
    "min_retries": "minRetries",
    "min_retries_per_sec": "minRetriesPerSec",
    "min_throughput": "minThroughput",
    "on_loss": "onLoss",
    "percent_can_retry": "percentCanRetry",
    "probe_interval": "probeInterval",
    "queue_adaptive_lifo": "queueAdaptiveLifo",
    "queue_interval": "queueInterval",
    "queue_target": "queueTarget",
    "quota_wait": "quotaWait",
    "rate_limit": "rateLimit",
    "read_errors": "readErrors",
    "respect_retry_after": "respectRetryAfter",
    "retry_after": "retryAfter",
    "retry_on": "retryOn",
    "retry_time_limit": "retryTimeLimit",
    "rtt_tolerance": "rttTolerance",
    "send_rate": "sendRate",
    "settle_unknown": "settleUnknown",
    "slot_until": "slotUntil",
    "store_exchange": "storeExchange",
    "store_timeout": "storeTimeout",
    "successes_to_close": "successesToClose",
    "throttled_base": "throttledBase",
    "throttled_cost": "throttledCost",
    "throttled_statuses": "throttledStatuses",
    "timeout_cost": "timeoutCost",
    "window_kind": "windowKind",
]

/// A component that policies share.
public enum PoolSettings: Sendable, Hashable {
    case bulkhead(Bulkhead)
    case rateLimit(RateLimit)
    case budget(Budget)

    var parts: (kind: String, table: String, pairs: Pairs) {
        var pairs = Pairs(preset: false)
        switch self {
        case .bulkhead(let settings):
            settings.write(&pairs)
            return ("bulkhead", "bulkhead.", pairs)
        case .rateLimit(let settings):
            settings.write(&pairs)
            return ("rate_limit", "rate_limit.", pairs)
        case .budget(let settings):
            settings.write(&pairs)
            return ("budget", "retry.budget.", pairs)
        }
    }
}
