/** Retry tokens. */

import type { Retry } from "../options_gen.js";
import { RetryQuota } from "./budgets.js";
import { Backoff } from "./delay.js";
import { load, say } from "./native.js";
import { handleOf, type May, made, maybe, Part, type Seed, seedOf, span } from "./part.js";

/** What an error says about itself. */
export interface ErrorInfo {
  /** May it be retried? Left out where the error does not say. */
  readonly isRetrySafe?: boolean | undefined;
  /** The wait that the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined;
  /** Did the server ask for less load? */
  readonly isThrottlingError?: boolean | undefined;
  /** Did our own timeout end it? */
  readonly isTimeoutError?: boolean | undefined;
}

/** There is no further attempt. */
export class RetryError extends Error {
  override name = "RetryError";
  /** `attempts` (used up), `quota` (spent), or `not_safe` (or not known to be). */
  readonly reason: "attempts" | "quota" | "not_safe";
  /** With `quota`, the milliseconds that the wait would have had. */
  readonly retryDelay: number | undefined;

  constructor(reason: RetryError["reason"], retryDelay?: number) {
    super(`no further attempt: ${reason}`);
    this.reason = reason;
    this.retryDelay = retryDelay;
  }
}

/** What a strategy hands out for an attempt. */
export class RetryToken extends Part {
  /** Attempts made so far, the first one aside: 0 for the first. */
  get retryCount(): number {
    return load().token_count(this.handle);
  }

  /** Milliseconds to wait before the attempt. */
  get retryDelay(): number {
    return load().token_delay(this.handle);
  }
}

/** How a `RetryStrategy` is made. */
export interface StrategyOptions extends May<Retry, "maxAttempts"> {
  /** The delay before each retry; `new Backoff()` if left out. It is copied. */
  readonly backoff?: Backoff | undefined;
  /** The quota that every scope gets one like; `new RetryQuota()` if left out, null for no quota. */
  readonly quota?: RetryQuota | null | undefined;
  /** Is an error that does not say whether it is safe taken as safe? Not by default. */
  readonly retryUnknown?: boolean | undefined;
  /** All the randomness there is; drawn from the platform where it is left out. */
  readonly seed?: Seed | undefined;
}

/**
 * Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
 *
 * A token carries what an attempt needs to know; the strategy keeps the quota of each scope. It waits for nobody:
 * `retryDelay` is the caller's to wait. By default 3 attempts, the first one counts.
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
    const { backoff = new Backoff(), quota = new RetryQuota(), retryUnknown, seed, ...settings } = options;
    const drawn = seedOf(seed);
    const unknown = retryUnknown === true ? 1 : 0;
    const delays = handleOf("backoff", backoff, Backoff);
    const quotas = quota === null ? -1 : handleOf("quota", quota, RetryQuota);
    super(made("retry", settings, () => load().strategy(drawn, delays, quotas, unknown)));
    if (options.backoff === undefined) backoff.dispose();
    if (options.quota === undefined) quota?.dispose();
  }

  /** The token of a call's first attempt: no retry yet, no wait. A scope has a quota of its own. */
  acquireInitialRetryToken(scope = ""): RetryToken {
    const { handle } = this;
    say(scope);
    return new RetryToken(load().strategy_acquire(handle));
  }

  /**
   * The token of the next attempt, after one that failed.
   *
   * @throws RetryError If attempts, quota or safety forbid one.
   * @throws RangeError If the error's `retryAfter` is no span of 0 or more.
   */
  refreshRetryTokenForRetry(token: RetryToken, error: ErrorInfo): RetryToken {
    const { isRetrySafe: safe, retryAfter, isThrottlingError, isTimeoutError } = error;
    const answer = load().strategy_refresh(
      this.handle,
      handleOf("token", token, RetryToken),
      safe === undefined ? 2 : Number(safe),
      retryAfter === undefined ? Number.NaN : span("retryAfter", retryAfter),
      Number(isThrottlingError === true),
      Number(isTimeoutError === true),
    );
    if (answer >= 0) return new RetryToken(answer);
    if (answer === -1) throw new RetryError("attempts");
    if (answer === -2) throw new RetryError("not_safe");
    throw new RetryError("quota", -answer - 3);
  }

  /** A call has succeeded with this token: the cost of its last retry goes back to its scope. */
  recordSuccess(token: RetryToken): void {
    load().strategy_success(this.handle, handleOf("token", token, RetryToken));
  }

  /** Tokens left in a scope's quota; undefined without quotas. */
  available(scope = ""): number | undefined {
    const { handle } = this;
    say(scope);
    return maybe(load().strategy_available(handle));
  }
}
