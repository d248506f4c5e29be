/** What an engine looks like from outside. */

/** What has happened under a policy. */
export interface PolicyCounts {
  /** Attempts started. */
  readonly attempts: number;
  /** Those beyond the first of their call that are no hedges. */
  readonly retries: number;
  /** Those that started beside another. */
  readonly hedges: number;
  /** Calls ended, by verdict. */
  readonly ends: Readonly<Record<string, number>>;
  /** Errors that a fallback stood in for. */
  readonly fallbacks: number;
  /** Those for which it was to, and failed itself. */
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

/** One rate limit. */
export interface RateSnapshot {
  readonly tokens: number;
  readonly waiting: number;
}

/** One route: a component that the policy does not have, or that is in a shared pool, is null. Spans in milliseconds. */
export interface RouteSnapshot {
  readonly policy: string;
  readonly key: string;
  /** Calls in it. */
  readonly active: number;
  readonly forced: boolean;
  /** Retries that its budget has left. */
  readonly budget: number | null;
  readonly pool: BulkheadSnapshot | null;
  readonly rate: RateSnapshot | null;
  readonly send: { readonly rate: number | null; readonly waiting: number } | null;
  readonly breaker: {
    readonly state: "closed" | "open" | "half_open";
    readonly failures: number;
    readonly throughput: number;
    readonly retryIn: number | null;
  } | null;
  readonly throttle: {
    readonly requests: number;
    readonly accepts: number;
    readonly probability: number;
  } | null;
  readonly hedge: { readonly delay: number; readonly budget: number | null } | null;
  readonly hold: { readonly held: number; readonly holds: number } | null;
}

/** A pool that policies share. */
export interface PoolSnapshot {
  readonly kind: string;
  readonly budget: number | null;
  readonly pool: BulkheadSnapshot | null;
  readonly rate: RateSnapshot | null;
}

/** An engine at one moment. */
export interface Snapshot {
  /** Calls that have begun and not ended. */
  readonly live: number;
  /** Calls that have ended, while attempts of them are still out. */
  readonly lingering: number;
  /** Calls given up on whose host has not been told. */
  readonly lost: number;
  /** Calls that wait. */
  readonly waiting: number;
  readonly routeOverflows: number;
  readonly routeEvictions: number;
  readonly pathOverflows: number;
  readonly policies: Readonly<Record<string, PolicyCounts>>;
  readonly routes: readonly RouteSnapshot[];
  readonly pools: Readonly<Record<string, PoolSnapshot>>;
}
