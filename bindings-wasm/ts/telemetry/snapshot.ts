/** Types of the snapshots of an engine. */

/** Counts of a policy. */
export interface PolicyCounts {
  /** Attempts started. */
  readonly attempts: number;
  /** Attempts after the first of their call, without hedges. */
  readonly retries: number;
  /** Attempts started beside another one. */
  readonly hedges: number;
  /** Calls ended, by verdict. */
  readonly ends: Readonly<Record<string, number>>;
  /** Errors for which a fallback returned a value. */
  readonly fallbacks: number;
  /** Errors for which the fallback failed too. */
  readonly fallbackFailures: number;
}

/** One bulkhead. */
export interface BulkheadSnapshot {
  readonly limit: number;
  readonly kind: "fixed" | "aimd" | "gradient2";
  readonly inFlight: number;
  readonly waiting: number;
  readonly maxQueue: number;
}

/** One limit of a set. */
export interface LimitSnapshot {
  /** The weight that it counts; null if it counts calls. */
  readonly weight: string | null;
  /** Tokens in it; below 0 while it is in debt. */
  readonly tokens: number;
  readonly burst: number;
  /** Tokens that attempts have reserved so far. */
  readonly reserved: number;
  /** Tokens that attempts that have ended used. */
  readonly settled: number;
  /** Tokens used beyond the largest debt. */
  readonly forgiven: number;
}

/** One rate limit. */
export interface RateSnapshot {
  readonly tokens: number;
  readonly waiting: number;
  /** The limits of a set by name; empty for a single rate. */
  readonly limits: Readonly<Record<string, LimitSnapshot>>;
}

/** One circuit breaker. While it is open, `retryIn` is the rest of the break. */
export interface BreakerSnapshot {
  readonly state: "closed" | "open" | "half_open";
  readonly failures: number;
  readonly throughput: number;
  readonly retryIn: number | null;
}

/** One route. A component is null if the policy does not have it or it is in a shared pool. Spans are in milliseconds. */
export interface RouteSnapshot {
  readonly policy: string;
  readonly key: string;
  /** Calls in progress. */
  readonly active: number;
  readonly forced: boolean;
  /** Retries left in its budget. */
  readonly budget: number | null;
  readonly pool: BulkheadSnapshot | null;
  readonly rate: RateSnapshot | null;
  readonly send: { readonly rate: number | null; readonly waiting: number } | null;
  readonly breaker: BreakerSnapshot | null;
  readonly throttle: {
    readonly requests: number;
    readonly accepts: number;
    readonly probability: number;
  } | null;
  readonly hedge: { readonly delay: number; readonly budget: number | null } | null;
  readonly hold: { readonly held: number; readonly holds: number } | null;
  readonly cooldown: {
    readonly state: "open" | "closed" | "reopening";
    readonly retryIn: number | null;
    readonly places: number;
    readonly taken: number;
    readonly waiting: number;
  } | null;
}

/** A pool that policies share. */
export interface PoolSnapshot {
  readonly kind: string;
  readonly budget: number | null;
  readonly pool: BulkheadSnapshot | null;
  readonly rate: RateSnapshot | null;
}

/** One target of a group. A component is null if the target does not have it. */
export interface TargetSnapshot {
  /** The name of its group. */
  readonly group: string;
  readonly name: string;
  /** Whether all attempts at it are refused by `forceTarget`. */
  readonly forced: boolean;
  /** Attempts that have gone to it so far. */
  readonly attempts: number;
  /** Choices so far in which it did not admit the attempt. */
  readonly skipped: number;
  /** Attempts that have not been reported. */
  readonly inFlight: number;
  /** Moving average of the time to the delivery of an answer, in milliseconds; null before the first one. */
  readonly estimate: number | null;
  readonly pool: BulkheadSnapshot | null;
  readonly rate: RateSnapshot | null;
  readonly breaker: BreakerSnapshot | null;
}

/** The state of an engine at one moment. */
export interface Snapshot {
  /** Calls that have begun and not ended. */
  readonly live: number;
  /** Calls that have ended while some of their attempts are still running. */
  readonly lingering: number;
  /** Abandoned calls whose host has not been notified yet. */
  readonly lost: number;
  /** Waiting calls. */
  readonly waiting: number;
  readonly routeOverflows: number;
  readonly routeEvictions: number;
  readonly pathOverflows: number;
  /** Settlements that came after the end of their attempt. */
  readonly lateSettlements: number;
  readonly policies: Readonly<Record<string, PolicyCounts>>;
  readonly routes: readonly RouteSnapshot[];
  readonly pools: Readonly<Record<string, PoolSnapshot>>;
  /** The targets of all groups, in the order of the groups' names and of their members. */
  readonly targets: readonly TargetSnapshot[];
}
