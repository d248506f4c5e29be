// Generated from core/src/policy/components by `cargo xtask generate`; do not edit.

/** What goes by its name: a `Pool`. */
export interface Named {
  readonly name: string;
}

/** These keys of a table, given. */
type Given<T, K extends keyof T> = { [P in K]-?: Exclude<T[P], undefined> };

/** A name in `K`, from whose uses `K` is not inferred. */
type Declared<K extends string> = [K][K extends string ? 0 : never];

/** A key of a table, left out or with another value than this. */
type Not<T, K extends keyof T, W> = { [P in K]?: Exclude<T[P], W> };

/** The built-in policies that a policy may start from. */
export type Preset =
  | "http"
  | "httpware"
  | "transient"
  | "occ"
  | "graph"
  | "aws_standard"
  | "aws_2026"
  | "aws_adaptive"
  | "grpc"
  | "llm";

/** The classes that a kind of failure of your own can be based on. */
export type Base =
  | "transient"
  | "throttled"
  | "timeout"
  | "never_sent"
  | "conflict"
  | "permanent"
  | "ignored";

/** The methods that may be repeated without a key. */
export type Method = "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "QUERY" | "TRACE" | "POST" | "PATCH";

/** Failures that can be retried, by class or kind. */
export type Failure =
  | "transient"
  | "throttled"
  | "timeout"
  | "never_sent"
  | "conflict"
  | "infrastructure"
  | "concurrency";

/** Failures of any kind, by class or kind. */
export type AnyFailure =
  | "transient"
  | "throttled"
  | "timeout"
  | "never_sent"
  | "conflict"
  | "permanent"
  | "ignored"
  | "infrastructure"
  | "concurrency"
  | "quota_spent"
  | "unauthorized"
  | "too_long"
  | "content_refused";

/** When to try again. */
export interface Retry<K extends string = string> {
  /** Attempts in all; the first counts, 1 disables retries. 1 to 255; default: `3`. */
  maxAttempts?: number | undefined;
  /**
   * Classes and kinds of failure that are retried; infrastructure is transient and never_sent, concurrency is
   * conflict. One of transient, throttled, timeout, never_sent, conflict, infrastructure, concurrency, or a
   * name declared in kinds; default: `transient throttled timeout never_sent conflict`.
   */
  retryOn?: readonly (Failure | Declared<K>)[] | undefined;
  /** Elapsed time plus the next wait must fit into this. Milliseconds, 0 to 365 days; default: off. */
  retryTimeLimit?: number | undefined;
  /**
   * Methods that may be repeated without an idempotency key. One of GET, HEAD, OPTIONS, PUT, DELETE, QUERY,
   * TRACE, POST, PATCH; default: `GET HEAD OPTIONS PUT DELETE`.
   */
  methods?: readonly Method[] | undefined;
  /**
   * HTTP statuses that are retried. A status that can be retried: 408, 409, 429 or 500 to 599; default: `408
   * 429 502 503 504`.
   */
  statuses?: readonly number[] | undefined;
  /** Wait at least as long as the server's Retry-After says. True or false; default: `true`. */
  respectRetryAfter?: boolean | undefined;
  /**
   * What Retry-After r does: floor waits r plus up to 10 % and never less than the backoff, exact waits r,
   * clamp_5s keeps it within 5 s above the backoff. Floor, exact, clamp_5s, ignore; default: `floor`.
   */
  retryAfter?: "floor" | "exact" | "clamp_5s" | "ignore" | undefined;
  /**
   * A server that asks for a longer wait than this ends the call. Milliseconds, 0 to 365 days; default: that
   * of `retry.backoff.max`.
   */
  maxRetryAfter?: number | undefined;
  /**
   * HTTP statuses by which the server asks for less load. A status that can be retried: 408, 409, 429 or 500
   * to 599; default: `429`.
   */
  throttledStatuses?: readonly number[] | undefined;
  /**
   * Read why an answer failed, from its quota headers and up to 64 kB of its body, and wait for that at most
   * 1 s; adds the kinds quota_spent, unauthorized, too_long and content_refused. True or false; default:
   * `false`.
   */
  readErrors?: boolean | undefined;
  /**
   * While a throttled call waits, new calls to the same path, and to paths that begin alike, wait too. True
   * or false; default: `false`.
   */
  hold?: boolean | undefined;
  /** hold: calls that may wait so, per route. 1 to 1000000; default: `200`. */
  maxHeld?: number | undefined;
  /**
   * cubic: a throttle cuts the rate of attempts, which grows back along the curve of the AWS SDKs' adaptive
   * mode. None, cubic; default: `none`.
   */
  sendRate?: "none" | "cubic" | undefined;
  /** How long to wait before a retry. */
  backoff?: Backoff | undefined;
  /** What bounds the load that retries add, per route. `null` or `"none"` for none. */
  budget?: Budget | "none" | null | undefined;
}

/** The keys of a `Backoff`. */
export interface BackoffKeys {
  /**
   * How the delay before retry n grows: base·multiplier^(n−1), base, base·n, base·n^exponent. Exponential,
   * constant, linear, polynomial; default: `exponential`.
   */
  kind?: "exponential" | "constant" | "linear" | "polynomial" | undefined;
  /** The delay before the first retry, before jitter. Milliseconds, 0 to 365 days; default: `100ms`. */
  base?: number | undefined;
  /**
   * The base after a throttled outcome. Milliseconds, 0 to 365 days; default: that of `retry.backoff.base`.
   */
  throttledBase?: number | undefined;
  /** The power of polynomial growth. 1 to 8; default: required with `polynomial`. */
  exponent?: number | undefined;
  /** The growth from one retry to the next. 1 to 1000; default: `2`. */
  multiplier?: number | undefined;
  /** The longest computed delay, before jitter. Milliseconds, 0 to 365 days; default: `5s`. */
  max?: number | undefined;
  /**
   * How the delay d is spread: full_floor draws from [0.1·d, d], full from [0, d], equal from [d/2, d],
   * decorrelated from [base, 3·previous], bounded from [(1−j)·d, (1+j)·d]. Full_floor, none, full, equal,
   * decorrelated, bounded; default: `full_floor`.
   */
  jitter?: "full_floor" | "none" | "full" | "equal" | "decorrelated" | "bounded" | undefined;
  /** The j of bounded jitter. 0 to 1; default: required with `bounded`. */
  jitterRatio?: number | undefined;
}

type BackoffRule1 = Given<BackoffKeys, "exponent"> | Not<BackoffKeys, "kind", "polynomial">;

type BackoffRule2 = Given<BackoffKeys, "jitterRatio"> | Not<BackoffKeys, "jitter", "bounded">;

/** How long to wait before a retry. */
export type Backoff = BackoffKeys & BackoffRule1 & BackoffRule2;

/** The keys of a `Budget`. */
export interface BudgetKeys {
  /**
   * What bounds the added load: earned is what answered calls earn, window a share of recent calls plus a
   * floor, ratio a part of all calls, share a part of the calls in flight, tokens what successes earn, quota
   * what retries cost. Earned, window, ratio, share, tokens, quota, none; default: `earned`.
   */
  kind?: "earned" | "window" | "ratio" | "share" | "tokens" | "quota" | "none" | undefined;
  /**
   * A shared budget that is declared as a pool; its own keys stand there. The name of a `Pool`, or the pool
   * itself; default: off.
   */
  pool?: string | Named | undefined;
  /** How long a call or a retry counts. Milliseconds, 0.01 to 365 days; default: `10s`. */
  ttl?: number | undefined;
  /** Retries per second that are free of any ratio. At least 0; default: `10`. */
  minRetriesPerSec?: number | undefined;
  /** Retries allowed per recent call, as a fraction. At least 0; default: `0.2`. */
  percentCanRetry?: number | undefined;
  /** How the share of calls is rounded. Floor, ceil; default: `floor`. */
  rounding?: "floor" | "ceil" | undefined;
  /**
   * earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
   * earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
   * `tokens`.
   */
  ratio?: number | undefined;
  /**
   * earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0 to
   * 1000000000; default: off.
   */
  start?: number | undefined;
  /** ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`. */
  minThroughput?: number | undefined;
  /** share: retries in flight per call in flight. At least 0; default: `0.2`. */
  share?: number | undefined;
  /** share: retries in flight that are always allowed. 0 to 1000000000; default: `3`. */
  minRetries?: number | undefined;
  /** tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`. */
  max?: number | undefined;
  /** quota: tokens when full. 1 to 1000000000; default: `500`. */
  capacity?: number | undefined;
  /** quota: what a retry costs. 1 to 65535; default: `5`. */
  cost?: number | undefined;
  /** quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`. */
  timeoutCost?: number | undefined;
  /**
   * quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `retry.budget.cost`.
   */
  throttledCost?: number | undefined;
}

type BudgetRule1 = Given<BudgetKeys, "ratio"> | Not<BudgetKeys, "kind", "ratio">;

type BudgetRule2 = Given<BudgetKeys, "ratio" | "max"> | Not<BudgetKeys, "kind", "tokens">;

/** What bounds the load that retries add, per route. */
export type Budget = BudgetKeys & BudgetRule1 & BudgetRule2;

/** How long no attempt starts after one that was throttled, per route, and how few at first afterwards. */
export interface Cooldown {
  /**
   * How long no attempt starts after a throttled one whose server names no time; doubled for each such
   * closing in a row. Milliseconds, 0.001 to 365 days; default: `1s`.
   */
  base?: number | undefined;
  /**
   * The longest that no attempt starts, whatever time the server names. Milliseconds, 0.001 to 365 days;
   * default: that of `retry.maxRetryAfter`.
   */
  max?: number | undefined;
  /** Wait for the end of a cooldown instead of being refused. True or false; default: `false`. */
  wait?: boolean | undefined;
  /**
   * wait: the longest wait; without it there must be a deadline. Milliseconds, 0 to 365 days; default: off.
   */
  maxWait?: number | undefined;
  /** wait: calls that may wait. 1 to 10000000; default: `200`. */
  maxWaiters?: number | undefined;
  /**
   * How long no attempt starts after one whose quota is spent or whose key is not accepted (kinds quota_spent
   * and unauthorized), unless the server names a time. Absent: such an attempt changes nothing; a target has
   * 5 minutes. Milliseconds, 0.001 to 365 days; default: off.
   */
  quotaWait?: number | undefined;
  /**
   * fleet: a closing in one process closes all, through the store that the engine is attached to; each
   * process reopens with one attempt. Local, fleet; default: `local`.
   */
  store?: "local" | "fleet" | undefined;
}

/** The keys of a `RateLimit`. */
export interface RateLimitKeys {
  /** Calls that may start per span. 1 to 1000000000; default: required unless there is `pool`. */
  permits?: number | undefined;
  /** The span. Milliseconds, 0.001 to 365 days; default: required unless there is `pool`. */
  per?: number | undefined;
  /**
   * Calls that may start at once after a quiet time. 1 to 1000000000; default: that of `rateLimit.permits`.
   */
  burst?: number | undefined;
  /** What takes a token: the call, or each of its attempts. Call, attempt; default: `call`. */
  unit?: "call" | "attempt" | undefined;
  /** Wait for a token instead of being refused. True or false; default: `false`. */
  wait?: boolean | undefined;
  /**
   * wait: the longest wait; without it there must be a deadline. Milliseconds, 0 to 365 days; default: off.
   */
  maxWait?: number | undefined;
  /** wait: calls that may wait. 1 to 10000000; default: `1000`. */
  maxWaiters?: number | undefined;
  /**
   * A shared rate limit that is declared as a pool; permits, per and burst stand there. The name of a `Pool`,
   * or the pool itself; default: off.
   */
  pool?: string | Named | undefined;
  /**
   * Whose rate it is: each process's own, or the whole fleet's through the store that the engine is attached
   * to. Local, fleet; default: `local`.
   */
  store?: "local" | "fleet" | undefined;
  /**
   * fleet: tokens that a process takes from the store at a time; 1 asks for every call. Absent: what 50 ms of
   * the rate bring, at least 1, which is so below 40 a second. 1 to 1000000000; default: off.
   */
  lease?: number | undefined;
  /**
   * fleet: what holds while the store is gone: local is the process's share of the rate, open lets all calls
   * pass, closed refuses them. Local, open, closed; default: `local`.
   */
  onLoss?: "local" | "open" | "closed" | undefined;
  /**
   * Several limits by name, at most 4, that a call takes all at once or none: instead of permits, per and
   * burst. A limit with a weight counts the amount that each call names, such as tokens. Texts such as `tpm:
   * permits=200000 per=1m weight=tokens`, perhaps with burst, default and max_debt, or `usd: permits=5000000
   * per=24h weight=usd max_debt=none refill=window anchor=8h`, whose permits come back at once; a document
   * has a table for each; default: required with `estimateQuantile`.
   */
  limits?: readonly string[] | undefined;
  /**
   * limits: what an attempt counts that may have been served and of which no amount was settled: what it had
   * reserved, or nothing. Reservation, zero; default: `reservation`.
   */
  settleUnknown?: "reservation" | "zero" | undefined;
  /**
   * limits: what an answer's headers say is left of the service's own quota: down lowers a limit to it and
   * never raises one, none ignores it. None, down; default: `none`.
   */
  learn?: "none" | "down" | undefined;
  /**
   * limits: from 20 settled attempts on, what a call names of a weight is scaled by this quantile of what
   * attempts have used of it, between a 16th and 16 times. 0.001 to 0.999; default: off.
   */
  estimateQuantile?: number | undefined;
  /**
   * limits: the queue serves critical, normal, degraded and best-effort calls 64 to 16 to 4 to 1, and a full
   * one gives the place of a less critical call to a more critical one. True or false; default: `false`.
   */
  prioritized?: boolean | undefined;
  /**
   * limits, in a pool: key shares the limits among the route keys that wait, instead of serving calls in the
   * order in which they came. None, key; default: `none`.
   */
  fairBy?: "none" | "key" | undefined;
  /**
   * fairBy: how much some keys get, 1 to 1,000, where every other key gets 1. Texts such as `acme=4`, a route
   * key and its share from 1 to 1,000; a document may have a table; default: off.
   */
  shares?: readonly string[] | undefined;
}

type RateLimitRule1 =
  | Given<RateLimitKeys, "permits" | "per">
  | Given<RateLimitKeys, "pool">
  | Given<RateLimitKeys, "limits">;

type RateLimitRule2 = Given<RateLimitKeys, "limits"> | Not<RateLimitKeys, "estimateQuantile", number>;

/** How many calls may start per span, per route. */
export type RateLimit = RateLimitKeys & RateLimitRule1 & RateLimitRule2;

/** The keys of a `Bulkhead`. */
export interface BulkheadKeys {
  /**
   * What sets the limit of concurrent calls: fixed is maxConcurrency, aimd follows a latency threshold,
   * gradient2 the change of latency. Fixed, aimd, gradient2; default: `fixed`.
   */
  kind?: "fixed" | "aimd" | "gradient2" | undefined;
  /**
   * Calls in flight at once; for aimd and gradient2 the highest limit. 1 to 1000000000; default: required
   * unless there is `pool`.
   */
  maxConcurrency?: number | undefined;
  /**
   * Calls that may wait for a slot; 0 is no queue, none is unbounded. 0 to 10000000, or null; default: `0`.
   */
  maxQueue?: number | null | undefined;
  /**
   * How long a call waits for a slot; 0 fails fast, none waits for ever. Milliseconds, 0 to 365 days, or
   * null; default: `1s`.
   */
  acquireTimeout?: number | null | undefined;
  /**
   * What takes a slot: the call, or each of its attempts, which gives it back during backoff. Call, attempt;
   * default: `call`.
   */
  unit?: "call" | "attempt" | undefined;
  /** aimd, gradient2: the lowest limit. 1 to 1000000000; default: `1`. */
  minConcurrency?: number | undefined;
  /**
   * aimd: what cuts the limit: a latency above the threshold, loss (an answer that asks for fewer requests),
   * or both. Latency, loss, both; default: `latency`.
   */
  signal?: "latency" | "loss" | "both" | undefined;
  /**
   * aimd that follows latency: a completion within it raises the limit, one over it cuts it. Milliseconds,
   * 0.001 to 365 days; default: required with `aimd`, unless `signal` is `loss`.
   */
  latencyThreshold?: number | undefined;
  /** aimd: what a good completion adds, divided by the limit. At least 0.000001; default: `1`. */
  increaseStep?: number | undefined;
  /** aimd: what a cut multiplies the limit by. 0.01 to 0.999; default: `0.9`. */
  backoffRatio?: number | undefined;
  /** aimd: at most one cut per interval. Milliseconds, 0 to 365 days; default: `1s`. */
  cutInterval?: number | undefined;
  /**
   * aimd: compare this quantile of recent latencies with the threshold, instead of each one. 0.001 to 0.999;
   * default: off.
   */
  latencyQuantile?: number | undefined;
  /** gradient2: completions that the long-term latency looks back on. 2 to 1000000; default: `600`. */
  longWindow?: number | undefined;
  /** gradient2: how much longer than the long-term latency is still good. 1 to 100; default: `1.5`. */
  rttTolerance?: number | undefined;
  /** gradient2: how many more than now the limit reaches for. At least 0; default: `4`. */
  headroom?: number | undefined;
  /**
   * gradient2: steady decides once per round trip and comes back to what the server can take; guarded, plain
   * and netflix are older rules. Steady, guarded, plain, netflix; default: `steady`.
   */
  variant?: "steady" | "guarded" | "plain" | "netflix" | undefined;
  /**
   * Under sustained congestion a call waits no longer than this (CoDel); needs maxQueue. Milliseconds, 0.001
   * to 365 days; default: off.
   */
  queueTarget?: number | undefined;
  /**
   * How long a queue that never empties is not yet congested. Milliseconds, 0.001 to 365 days; default:
   * `100ms`.
   */
  queueInterval?: number | undefined;
  /** The control law behind queueTarget. Facebook, rfc8289; default: `facebook`. */
  codel?: "facebook" | "rfc8289" | undefined;
  /** While congested, the newest waiter goes first; needs maxQueue. True or false; default: `false`. */
  queueAdaptiveLifo?: boolean | undefined;
  /**
   * A full queue admits a call of higher criticality in place of the lowest; needs maxQueue. True or false;
   * default: `false`.
   */
  prioritized?: boolean | undefined;
  /**
   * A shared bulkhead that is declared as a pool; limit, queue and order stand there. The name of a `Pool`,
   * or the pool itself; default: off.
   */
  pool?: string | Named | undefined;
  /**
   * Whose slots they are: each process's own, or the whole fleet's through the store that the engine is
   * attached to. Local, fleet; default: `local`.
   */
  store?: "local" | "fleet" | undefined;
  /**
   * fleet: how long a slot stays taken whose process does not renew it. Milliseconds, 1000 to 365 days;
   * default: `30s`.
   */
  leaseTtl?: number | undefined;
  /**
   * fleet: what holds while the store is gone: local is the process's share of the slots, open is
   * maxConcurrency in each process, closed refuses calls. Local, open, closed; default: `local`.
   */
  onLoss?: "local" | "open" | "closed" | undefined;
  /**
   * aimd with latencyQuantile: fleet compares the quantile of all processes' latencies with the threshold.
   * Local, fleet; default: `local`.
   */
  latencyStore?: "local" | "fleet" | undefined;
}

type BulkheadRule1 = Given<BulkheadKeys, "maxConcurrency"> | Given<BulkheadKeys, "pool">;

type BulkheadRule2 =
  | Given<BulkheadKeys, "latencyThreshold">
  | Not<BulkheadKeys, "kind", "aimd">
  | { signal: "loss" };

/** How many calls may be in flight at once, per route. */
export type Bulkhead = BulkheadKeys & BulkheadRule1 & BulkheadRule2;

/** The keys of a `Breaker`. */
export interface BreakerKeys<K extends string = string> {
  /**
   * Failures among recent calls that open it, as a fraction. 0.000001 to 1; default: required unless there is
   * `consecutive`.
   */
  failureRatio?: number | undefined;
  /**
   * How long a call counts as recent. Milliseconds, 0.01 to 365 days; default: required with `failureRatio`.
   */
  window?: number | undefined;
  /**
   * Calls that the window must hold before the ratio counts. 1 to 1000000000; default: required with
   * `failureRatio`.
   */
  minThroughput?: number | undefined;
  /** sliding forgets by tenths of the window, tumbling all at once. Sliding, tumbling; default: `sliding`. */
  windowKind?: "sliding" | "tumbling" | undefined;
  /** Failures in a row that open it; instead of the ratio, or beside it. 1 to 1000000; default: off. */
  consecutive?: number | undefined;
  /** How long it stays open. Milliseconds, 1 to 365 days; default: required. */
  breakDuration?: number | undefined;
  /**
   * How much longer it stays open after each failed probe; 1 is neither growth nor jitter. 1 to 100; default:
   * `2`.
   */
  breakFactor?: number | undefined;
  /** The longest break; ten times breakDuration where absent. Milliseconds, 1 to 365 days; default: off. */
  maxBreakDuration?: number | undefined;
  /** Probes at once when a break has ended. 1 to 1000; default: `1`. */
  halfOpenMaxCalls?: number | undefined;
  /** Good probes that close it. 1 to 1000000; default: `1`. */
  successesToClose?: number | undefined;
  /**
   * Classes and kinds that count as failures, besides transient, timeout and never_sent. One of transient,
   * throttled, timeout, never_sent, conflict, permanent, ignored, infrastructure, concurrency, or a name
   * declared in kinds; default: off.
   */
  failureOn?: readonly (AnyFailure | Declared<K>)[] | undefined;
  /**
   * Classes and kinds that count neither way. One of transient, throttled, timeout, never_sent, conflict,
   * permanent, ignored, infrastructure, concurrency, or a name declared in kinds; default: off.
   */
  ignoreOn?: readonly (AnyFailure | Declared<K>)[] | undefined;
  /** What is counted: the call, or each of its attempts. Call, attempt; default: `call`. */
  unit?: "call" | "attempt" | undefined;
  /**
   * fleet: one process that trips opens the breaker for all, through the store that the engine is attached
   * to. Local, fleet; default: `local`.
   */
  store?: "local" | "fleet" | undefined;
  /**
   * fleet: processes that must trip within the window, or within breakDuration where there is none, before it
   * opens for all. 1 to 10000; default: `1`.
   */
  quorum?: number | undefined;
  /**
   * fleet: what holds while the store is gone: local is the process's own breaker, open lets all calls pass,
   * closed refuses them. Local, open, closed; default: `local`.
   */
  onLoss?: "local" | "open" | "closed" | undefined;
}

type BreakerRule1 = Given<BreakerKeys<string>, "failureRatio"> | Given<BreakerKeys<string>, "consecutive">;

type BreakerRule2 = Given<BreakerKeys<string>, "breakDuration">;

type BreakerRule3 =
  | Given<BreakerKeys<string>, "window" | "minThroughput">
  | Not<BreakerKeys<string>, "failureRatio", number>;

/** When to stop calling what fails. */
export type Breaker<K extends string = string> = BreakerKeys<K> & BreakerRule1 & BreakerRule2 & BreakerRule3;

/** Which part of the calls to refuse while a part of them fails. */
export interface Throttle {
  /** Requests per accepted one that are let through. At least 1; default: `2`. */
  k?: number | undefined;
  /** How long a call counts. Milliseconds, 0.01 to 365 days; default: `2m`. */
  window?: number | undefined;
  /** sliding forgets by tenths of the window, tumbling all at once. Sliding, tumbling; default: `sliding`. */
  windowKind?: "sliding" | "tumbling" | undefined;
  /** Calls that the window must hold before any is refused. 1 to 1000000000; default: `10`. */
  minThroughput?: number | undefined;
  /** The highest probability of a refusal. 0 to 1, or null; default: `0.9`. */
  maxReject?: number | null | undefined;
  /**
   * At least one call is let through per interval. Milliseconds, 0.001 to 365 days, or null; default: `1s`.
   */
  probeInterval?: number | null | undefined;
  /**
   * Calls of higher criticality are refused later: k times 0.625, 0.75, 1 and 2, at least 1.1. True or false;
   * default: `false`.
   */
  prioritized?: boolean | undefined;
  /** What is counted and refused: the call, or each of its attempts. Call, attempt; default: `call`. */
  unit?: "call" | "attempt" | undefined;
}

/** The keys of a `Hedge`. */
export interface HedgeKeys {
  /**
   * How long an answer may take before another attempt starts beside it. Milliseconds, 0 to 365 days;
   * default: required.
   */
  delay?: number | undefined;
  /** Attempts of one call that may run at once. 2 to 4; default: `2`. */
  maxAttempts?: number | undefined;
  /**
   * The delay is this quantile of recent latencies, once there are five. 0.001 to 0.999; default: required
   * with `delayMin` and with `delayMax`.
   */
  adaptiveDelayQuantile?: number | undefined;
  /** The shortest adaptive delay. Milliseconds, 0 to 365 days; default: off. */
  delayMin?: number | undefined;
  /** The longest adaptive delay. Milliseconds, 0.001 to 365 days; default: off. */
  delayMax?: number | undefined;
  /** What bounds the load that hedges add, per route. `null` or `"none"` for none. */
  budget?: HedgeBudget | "none" | null | undefined;
}

type HedgeRule1 = Given<HedgeKeys, "delay">;

type HedgeRule2 = Given<HedgeKeys, "adaptiveDelayQuantile"> | Not<HedgeKeys, "delayMin", number>;

type HedgeRule3 = Given<HedgeKeys, "adaptiveDelayQuantile"> | Not<HedgeKeys, "delayMax", number>;

/** When to send a second attempt beside a slow one. */
export type Hedge = HedgeKeys & HedgeRule1 & HedgeRule2 & HedgeRule3;

/** The keys of a `HedgeBudget`. */
export interface HedgeBudgetKeys {
  /**
   * What bounds the load that hedges add: shared is the retry budget, earned what answered calls earn, window
   * a share of recent calls plus a floor, ratio a part of all calls, share a part of the calls in flight,
   * tokens what successes earn, quota what retries cost. Shared, earned, window, ratio, share, tokens, quota,
   * none; default: `shared`.
   */
  kind?: "shared" | "earned" | "window" | "ratio" | "share" | "tokens" | "quota" | "none" | undefined;
  /** How long a call or a retry counts. Milliseconds, 0.01 to 365 days; default: `10s`. */
  ttl?: number | undefined;
  /** Retries per second that are free of any ratio. At least 0; default: `10`. */
  minRetriesPerSec?: number | undefined;
  /** Retries allowed per recent call, as a fraction. At least 0; default: `0.2`. */
  percentCanRetry?: number | undefined;
  /** How the share of calls is rounded. Floor, ceil; default: `floor`. */
  rounding?: "floor" | "ceil" | undefined;
  /**
   * earned: what a call that ends with an answer earns, in retries; 0.18 where absent. ratio: what a call
   * earns. tokens: what a success gives back. 0.000001 to 1; default: required with `ratio` and with
   * `tokens`.
   */
  ratio?: number | undefined;
  /**
   * earned: retries that a new budget has; where absent maxAttempts less 1, at most 4, and 2 in a pool. 0 to
   * 1000000000; default: off.
   */
  start?: number | undefined;
  /** ratio: retries are free until this many calls have been made. 0 to 1000000000; default: `0`. */
  minThroughput?: number | undefined;
  /** share: retries in flight per call in flight. At least 0; default: `0.2`. */
  share?: number | undefined;
  /** share: retries in flight that are always allowed. 0 to 1000000000; default: `3`. */
  minRetries?: number | undefined;
  /** tokens: tokens when full; retries need more than half. 1 to 1000; default: required with `tokens`. */
  max?: number | undefined;
  /** quota: tokens when full. 1 to 1000000000; default: `500`. */
  capacity?: number | undefined;
  /** quota: what a retry costs. 1 to 65535; default: `5`. */
  cost?: number | undefined;
  /** quota: what a retry after an attempt timeout costs. 1 to 65535; default: `10`. */
  timeoutCost?: number | undefined;
  /**
   * quota: what a retry after a throttled outcome costs. 1 to 65535; default: that of `hedge.budget.cost`.
   */
  throttledCost?: number | undefined;
}

type HedgeBudgetRule1 = Given<HedgeBudgetKeys, "ratio"> | Not<HedgeBudgetKeys, "kind", "ratio">;

type HedgeBudgetRule2 = Given<HedgeBudgetKeys, "ratio" | "max"> | Not<HedgeBudgetKeys, "kind", "tokens">;

/** What bounds the load that hedges add, per route. */
export type HedgeBudget = HedgeBudgetKeys & HedgeBudgetRule1 & HedgeBudgetRule2;

/**
 * The settings of a policy. `K` are the names of its own kinds; a list of failures may name no others.
 */
export interface Settings<K extends string = string> {
  /**
   * The built-in policy to start from. Http, httpware, transient, occ, graph, aws_standard, aws_2026,
   * aws_adaptive, grpc, llm; default: none.
   */
  preset?: Preset | undefined;
  /**
   * Time for the whole call: queueing, backoff, attempts and reading the body. Milliseconds, 0.001 to 365
   * days; default: off.
   */
  deadline?: number | undefined;
  /** Time for one attempt; running out of it is retryable. Milliseconds, 0.001 to 365 days; default: off. */
  attemptTimeout?: number | undefined;
  /** How long a streamed answer keeps its slot and its deadline. Body, headers; default: `body`. */
  slotUntil?: "body" | "headers" | undefined;
  /**
   * Kinds of failure of your own, each with the class that it is based on, at most 23; retryOn, failureOn and
   * ignoreOn may name them. Names of a to z, 0 to 9 and _, each with its class; default: off.
   */
  kinds?: Readonly<Record<K, Base>> | undefined;
  /**
   * Where a component is fleet-wide: how long a call waits for the store's answer, and the engine for any;
   * then onLoss holds. Milliseconds, 1 to 365 days; default: `50ms`.
   */
  storeTimeout?: number | undefined;
  /**
   * Where breaker or latencies are fleet-wide: how often they are exchanged, at most; an opening is written
   * at once. Milliseconds, 1 to 365 days; default: `250ms`.
   */
  storeExchange?: number | undefined;
  /**
   * Streams: time from an attempt's start to the first piece of its body that counts (a model's first token);
   * running out of it is retryable. Milliseconds, 0.001 to 365 days; default: off.
   */
  firstByteTimeout?: number | undefined;
  /**
   * Time without a piece of the body that counts; once the answer is delivered, running out of it ends the
   * call. Milliseconds, 0.001 to 365 days; default: off.
   */
  idleTimeout?: number | undefined;
  /**
   * Where the deadline ends: with the body, or where the answer is handed to the caller. Body, delivery;
   * default: `body`.
   */
  deadlineUntil?: "body" | "delivery" | undefined;
  /**
   * Which pieces of a body count: all bytes, or data of server-sent events, without comments and pings.
   * Bytes, sse_data; default: `bytes`.
   */
  counts?: "bytes" | "sse_data" | undefined;
  /** When to try again. */
  retry?: Retry<K> | undefined;
  /** How long no attempt starts after one that was throttled, per route, and how few at first afterwards. */
  cooldown?: Cooldown | undefined;
  /** How many calls may start per span, per route. */
  rateLimit?: RateLimit | undefined;
  /** How many calls may be in flight at once, per route. */
  bulkhead?: Bulkhead | undefined;
  /** When to stop calling what fails. */
  breaker?: Breaker<K> | undefined;
  /** Which part of the calls to refuse while a part of them fails. */
  throttle?: Throttle | undefined;
  /** When to send a second attempt beside a slow one. */
  hedge?: Hedge | undefined;
}

/**
 * The pair that says that a component is there where all its keys are left to core; not beside a preset where that sets keys
 * of it.
 */
export const PRESENCE: Readonly<Record<string, readonly [string, number | string, boolean]>> = {
  retry: ["max_attempts", 3, true],
  "retry.backoff": ["kind", "exponential", true],
  "retry.budget": ["kind", "earned", true],
  cooldown: ["max_waiters", 200, false],
  rate_limit: ["unit", "call", false],
  bulkhead: ["kind", "fixed", false],
  breaker: ["window_kind", "sliding", false],
  throttle: ["k", 2, false],
  hedge: ["max_attempts", 2, false],
  "hedge.budget": ["kind", "shared", false],
};

/** The kinds of pools, in the order of their numbers, and the tables of their keys. */
export const POOLS = {
  bulkhead: "bulkhead",
  rateLimit: "rate_limit",
  budget: "retry.budget",
} as const;
