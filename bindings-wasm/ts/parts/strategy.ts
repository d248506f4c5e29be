// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** Retry tokens: the standard retry interface of the Smithy SDKs. */

import type { Retry } from "../options_gen.js";
import { RetryQuota } from "./budgets.js";
import { Backoff } from "./delay.js";
import { load, say } from "./native.js";
import { handleOf, type May, made, maybe, Part, type Seed, seedOf, span } from "./part.js";

/** Properties of an error that decide about a retry. */
export interface ErrorInfo {
  /** Whether it may be retried; absent if unknown. */
  readonly isRetrySafe?: boolean | undefined;
  /** The wait that the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined;
  /** Whether the server asked for less load. */
  readonly isThrottlingError?: boolean | undefined;
  /** Whether it is the caller's own timeout. */
  readonly isTimeoutError?: boolean | undefined;
}

/** No further attempt is allowed. */
export class RetryError extends Error {
  override name = "RetryError";
  /** `attempts` (used up), `quota` (spent) or `not_safe` (unsafe, or unknown). */
  readonly reason: "attempts" | "quota" | "not_safe";
  /** With `quota`: the wait that the retry would have had, in milliseconds. */
  readonly retryDelay: number | undefined;

  constructor(reason: RetryError["reason"], retryDelay?: number) {
    super(`no further attempt: ${reason}`);
    this.reason = reason;
    this.retryDelay = retryDelay;
  }
}

function factsOf(error: ErrorInfo): [safe: number, after: number, throttling: number, timeout: number] {
  const { isRetrySafe: safe, retryAfter, isThrottlingError, isTimeoutError } = error;
  return [
    safe === undefined ? 2 : Number(safe),
    retryAfter === undefined ? Number.NaN : span("retryAfter", retryAfter),
    Number(isThrottlingError === true),
    Number(isTimeoutError === true),
  ];
}

function granted(token: RetryToken): RetryToken {
  const refused = (["attempts", "not_safe", "quota"] as const)[load().retry_token_refused(token.handle) - 1];
  if (refused === undefined) return token;
  const { retryDelay } = token;
  token.dispose();
  throw new RetryError(refused, refused === "quota" ? retryDelay : undefined);
}

/**
 * A strategy's permission for an attempt.
 *
 * It has the state of its call, so that the strategy keeps nothing of a call.
 */
export class RetryToken extends Part {
  /** Retries so far: 0 for the first attempt. */
  get retryCount(): number {
    return load().retry_token_retry_count(this.handle);
  }

  /** Milliseconds to wait before the attempt. The caller waits. */
  get retryDelay(): number {
    return load().retry_token_retry_delay(this.handle);
  }
}

/** Settings of a `RetryStrategy`. */
export type StrategyOptions =
  May<Retry, "maxAttempts"> &
  {
  /** The delay before each retry; `Backoff()` by default. */
  readonly backoff?: Backoff | undefined;
} &
  {
  /**
   * The quota of which every scope gets a copy; `RetryQuota()` by default, and there may be none. Null is
   * none.
   */
  readonly quota?: RetryQuota | null | undefined;
} &
  {
  /** Whether an error is retried that does not say if that is safe; no by default. */
  readonly retryUnknown?: boolean | undefined;
} &
  {
  /** Seed of all random draws, 64 bits; by default from the operating system. */
  readonly seed?: Seed | undefined;
};

/**
 * Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
 *
 * It keeps the quota of each scope, and never waits: the caller waits before the attempt.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const backoff = new parts.Backoff({ base: 25, jitter: "none" });
 * const strategy = new parts.RetryStrategy({ maxAttempts: 2, backoff });
 * const first = strategy.acquireInitialRetryToken("orders");
 * const next = strategy.refreshRetryTokenForRetry(first, { isRetrySafe: true, retryAfter: 3000 });
 * assert.deepEqual([next.retryCount, next.retryDelay], [1, 3000]);
 * assert.throws(() => strategy.refreshRetryTokenForRetry(next, { isRetrySafe: true }), parts.RetryError);
 * ```
 */
export class RetryStrategy extends Part {
  constructor(options: StrategyOptions = {}) {
    const { backoff = new Backoff(), quota = new RetryQuota(), retryUnknown, seed, ...rest } = options;
    const given = [handleOf("backoff", backoff, Backoff), quota === null ? -1 : handleOf("quota", quota, RetryQuota), retryUnknown ? 1 : 0, seedOf(seed)] as const;
    super(made("retry", rest, () => load().retry_strategy(...given)));
    if (options.backoff === undefined) backoff?.dispose(); // copied
    if (options.quota === undefined) quota?.dispose(); // copied
  }

  /** The token of a call's first attempt, without a wait. Each scope has a quota of its own. */
  acquireInitialRetryToken(scope = ""): RetryToken {
    return new RetryToken(load().retry_strategy_acquire_initial_retry_token(this.handle, say(scope)));
  }

  /**
   * The token of the next attempt, in exchange for that of the failed one.
   *
   * A `RetryError` says that attempts, quota or safety forbid a further attempt.
   *
   * @throws RangeError If the error's wait is not a span of 0 or more.
   */
  refreshRetryTokenForRetry(token: RetryToken, error: ErrorInfo): RetryToken {
    return granted(new RetryToken(load().retry_strategy_refresh_retry_token_for_retry(this.handle, handleOf("token", token, RetryToken), ...factsOf(error))));
  }

  /** A call has succeeded with this token: its scope gets the cost of the last retry back. */
  recordSuccess(token: RetryToken): void {
    load().retry_strategy_record_success(this.handle, handleOf("token", token, RetryToken));
  }

  /** Tokens left in a scope's quota; undefined without quotas. */
  available(scope = ""): number | undefined {
    return maybe(load().retry_strategy_available(this.handle, say(scope)));
  }
}
