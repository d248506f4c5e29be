/** Retry tokens. */

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

/** A token for one attempt, made by a strategy. */
export class RetryToken extends Part {
  /** Number of retries so far: 0 for the first attempt. */
  get retryCount(): number {
    return load().token_count(this.handle);
  }

  /** Milliseconds to wait before the attempt. */
  get retryDelay(): number {
    return load().token_delay(this.handle);
  }
}

/** Options of a `RetryStrategy`. */
export interface StrategyOptions extends May<Retry, "maxAttempts"> {
  /** The delay before each retry; `new Backoff()` by default. The strategy copies it. */
  readonly backoff?: Backoff | undefined;
  /** The quota that is copied for each scope; `new RetryQuota()` by default, null for no quota. */
  readonly quota?: RetryQuota | null | undefined;
  /** Whether to retry errors that do not say if a retry is safe. False by default. */
  readonly retryUnknown?: boolean | undefined;
  /** The seed of all randomness; random if absent. */
  readonly seed?: Seed | undefined;
}

/**
 * Retry tokens: the standard retry interface of the Smithy SDKs (`docs/spec.md`, 2.18).
 *
 * A token holds the state of an attempt, and the strategy holds the quota of each scope. The strategy never sleeps: the caller waits
 * `retryDelay`. By default a call makes 3 attempts, including the first.
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

  /** The token of a call's first attempt, without a wait. Each scope has its own quota. */
  acquireInitialRetryToken(scope = ""): RetryToken {
    const { handle } = this;
    say(scope);
    return new RetryToken(load().strategy_acquire(handle));
  }

  /**
   * The token of the next attempt, after one that failed.
   *
   * @throws RetryError If attempts, quota or safety forbid another attempt.
   * @throws RangeError If the error's `retryAfter` is not a span of 0 or more.
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

  /** Records that a call succeeded with this token: the scope's quota gets the cost of its last retry back. */
  recordSuccess(token: RetryToken): void {
    load().strategy_success(this.handle, handleOf("token", token, RetryToken));
  }

  /** Tokens left in a scope's quota; undefined if the strategy has no quota. */
  available(scope = ""): number | undefined {
    const { handle } = this;
    say(scope);
    return maybe(load().strategy_available(handle));
  }
}
