// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** How many retries: the budgets, of every kind. */

import type { BudgetKeys } from "../options_gen.js";
import { load } from "./native.js";
import { type May, made, maybe, moment, type Needs, PAID_FOR, Part, placeOf, U16, U32, whole } from "./part.js";

/** Settings of a `EarnedBudget`. */
export type EarnedSettings =
  May<BudgetKeys, "ratio" | "start">;

/**
 * The default budget of a policy: each call that ends with an answer earns a part of a retry.
 *
 * Keeps at most what the calls of the last 14 s could earn, and at least 4 or `start` (`docs/spec.md`, 2.20).
 * It bounds attempts ≤ (1 + ratio)·calls + start: there is no floor per second, so a server that is down is
 * asked less and less.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const budget = new parts.EarnedBudget({ ratio: 0.25, start: 1 });
 * assert.deepEqual([1, 2].map(() => budget.tryWithdraw(0)), [true, false]);
 * for (let n = 0; n < 4; n += 1) {
 *   budget.onCall(1000);
 *   budget.onAnswer(1000);
 * }
 * assert.equal(budget.balance(1000), 1);
 * ```
 */
export class EarnedBudget extends Part {
  constructor(settings: EarnedSettings = {}) {
    super(made("retry.budget", { kind: "earned", ...settings }, () => load().earned_budget()));
  }

  /** Counts one call, which has started, however many attempts it makes. */
  onCall(now: number): void {
    load().earned_budget_on_call(this.handle, moment(now));
  }

  /** Reports an answer: a success or a permanent error. At most once per call. */
  onAnswer(now: number): void {
    load().earned_budget_on_answer(this.handle, moment(now));
  }

  /** Takes one retry, if one is available. */
  tryWithdraw(now: number): boolean {
    return load().earned_budget_try_withdraw(this.handle, moment(now)) === 1;
  }

  /** Refunds a retry that was withdrawn and never started. */
  refund(now: number): void {
    load().earned_budget_refund(this.handle, moment(now));
  }

  /** Whole retries that could be taken now. */
  balance(now: number): number {
    return load().earned_budget_balance(this.handle, moment(now));
  }
}

/** Settings of a `RetryBudget`. */
export type WindowSettings =
  May<BudgetKeys, "ttl" | "minRetriesPerSec" | "percentCanRetry" | "rounding">;

/**
 * A budget over a sliding window: a share of recent calls, plus a floor (Finagle's `RetryBudget`).
 *
 * Every call deposits, every retry withdraws; refused when withdrawn ≥ round(deposits·percentCanRetry) +
 * floor(minRetriesPerSec·ttl). Ten slices: an entry counts for 0.9 to 1 `ttl`; memory is constant. It bounds
 * attempts ≤ (1 + percent)·calls + minRetriesPerSec·(seconds + 1.1·ttl) (`docs/spec.md`, 2.10).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const budget = new parts.RetryBudget({ ttl: 10_000, minRetriesPerSec: 0, percentCanRetry: 0.2 });
 * for (let n = 0; n < 10; n += 1) budget.deposit(0);
 * assert.deepEqual([1, 2, 3].map(() => budget.tryWithdraw(1000)), [true, true, false]);
 * ```
 */
export class RetryBudget extends Part {
  constructor(settings: WindowSettings = {}) {
    super(made("retry.budget", { kind: "window", ...settings }, () => load().retry_budget()));
  }

  /** Counts one call, however many attempts it makes. */
  deposit(now: number): void {
    load().retry_budget_deposit(this.handle, moment(now));
  }

  /** Takes one retry, if one is available. */
  tryWithdraw(now: number): boolean {
    return load().retry_budget_try_withdraw(this.handle, moment(now)) === 1;
  }

  /** Refunds a retry withdrawn at the moment `withdrawn` that was never started. */
  refund(withdrawn: number, now: number): void {
    load().retry_budget_refund(this.handle, moment(withdrawn, "withdrawn"), moment(now));
  }

  /** Retries that could be taken now. */
  balance(now: number): number {
    return load().retry_budget_balance(this.handle, moment(now));
  }
}

/** Settings of a `RatioBudget`. */
export type RatioSettings =
  Needs<BudgetKeys, "ratio"> &
  May<BudgetKeys, "minThroughput">;

/**
 * Each call earns a part of a retry, up to max(1, `minThroughput`·`ratio`); no clock.
 *
 * In whole micro-tokens: with 0.1 the first retry is earned by call 10. It bounds attempts ≤ (1 +
 * ratio)·calls + minThroughput·(maxAttempts − 1) (`docs/spec.md`, 2.11).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const budget = new parts.RatioBudget({ ratio: 0.5 });
 * budget.onCall();
 * assert.equal(budget.tryWithdraw(), false);
 * budget.onCall();
 * assert.equal(budget.tryWithdraw(), true);
 * ```
 */
export class RatioBudget extends Part {
  constructor(settings: RatioSettings) {
    super(made("retry.budget", { kind: "ratio", ...settings }, () => load().ratio_budget()));
  }

  /** Counts one call, however many attempts it makes. */
  onCall(): void {
    load().ratio_budget_on_call(this.handle);
  }

  /** Takes one retry, if it is free or one is available. */
  tryWithdraw(): boolean {
    return load().ratio_budget_try_withdraw(this.handle) === 1;
  }

  /** Refunds a retry that was paid for and never started; not one that was free. */
  refund(): void {
    load().ratio_budget_refund(this.handle);
  }

  /** Whether a retry would be free now, because there have been few calls. */
  get isFree(): boolean {
    return load().ratio_budget_is_free(this.handle) === 1;
  }

  /** Whole retries that could be taken now. */
  get balance(): number {
    return load().ratio_budget_balance(this.handle);
  }
}

/** Settings of a `ShareBudget`. */
export type ShareSettings =
  May<BudgetKeys, "share" | "minRetries">;

/**
 * Retries in flight ≤ max(`minRetries`, `share`·calls in flight); no clock (Envoy's `retry_budget`).
 *
 * A retry that waits in its backoff is in flight: a thousand simultaneous failures must not all pass
 * (`docs/spec.md`, 2.12).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const budget = new parts.ShareBudget({ share: 0.2, minRetries: 1 });
 * assert.deepEqual([1, 2, 3].map(() => budget.tryAcquire(10)), [true, true, false]);
 * budget.onEnd();
 * assert.equal(budget.inFlight, 1);
 * ```
 */
export class ShareBudget extends Part {
  constructor(settings: ShareSettings = {}) {
    super(made("retry.budget", { kind: "share", ...settings }, () => load().share_budget()));
  }

  /** Takes one retry, while `calls` are in flight (0 to 2^32 − 1). */
  tryAcquire(calls: number): boolean {
    return load().share_budget_try_acquire(this.handle, whole("calls", calls, 0, U32)) === 1;
  }

  /** A retry that was taken has ended, or will not start. */
  onEnd(): void {
    load().share_budget_on_end(this.handle);
  }

  /** Retries that could be taken now, while `calls` are in flight. */
  balance(calls: number): number {
    return load().share_budget_balance(this.handle, whole("calls", calls, 0, U32));
  }

  /** Retries in flight. */
  get inFlight(): number {
    return load().share_budget_in_flight(this.handle);
  }
}

/** Settings of a `TokenBudget`. */
export type TokenSettings =
  Needs<BudgetKeys, "max" | "ratio">;

/**
 * Failures take a token, successes give a part of one, and half must be left; no clock (gRPC A6).
 *
 * Starts full and stays within 0 and `max`; a retry is allowed above half of `max` (`docs/spec.md`, 2.13).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const budget = new parts.TokenBudget({ max: 4, ratio: 0.1 });
 * budget.onFailure();
 * assert.equal(budget.allows, true);
 * budget.onFailure();
 * assert.equal(budget.allows, false);
 * ```
 */
export class TokenBudget extends Part {
  constructor(settings: TokenSettings) {
    super(made("retry.budget", { kind: "tokens", ...settings }, () => load().token_budget()));
  }

  /** A retryable failure, first attempts included. */
  onFailure(): void {
    load().token_budget_on_failure(this.handle);
  }

  /** A success. */
  onSuccess(): void {
    load().token_budget_on_success(this.handle);
  }

  /** Whether a retry is allowed now. */
  get allows(): boolean {
    return load().token_budget_allows(this.handle) === 1;
  }

  /** Failures until retries are refused. */
  get balance(): number {
    return load().token_budget_balance(this.handle);
  }
}

/** Settings of a `RetryQuota`. */
export type QuotaSettings =
  May<BudgetKeys, "capacity" | "cost" | "timeoutCost" | "throttledCost">;

/**
 * Retries cost, successes refund; no clock (the retry quota of the AWS SDKs' standard mode).
 *
 * Starts full. A success refunds the cost of the call's last retry only; one at the first try gives 1
 * (`docs/spec.md`, 2.14).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const quota = new parts.RetryQuota({ capacity: 12 });
 * assert.deepEqual([quota.tryAcquire(), quota.tryAcquire("timeout"), quota.available], [5, undefined, 7]);
 * quota.onSuccess(5);
 * assert.equal(quota.available, 12);
 * ```
 */
export class RetryQuota extends Part {
  constructor(settings: QuotaSettings = {}) {
    super(made("retry.budget", { kind: "quota", ...settings }, () => load().retry_quota()));
  }

  /** Pays for a retry after a failure of this kind: the cost, or undefined if the tokens are too few. */
  tryAcquire(kind: (typeof PAID_FOR)[number] = "transient"): number | undefined {
    return maybe(load().retry_quota_try_acquire(this.handle, placeOf("kind", kind, PAID_FOR)));
  }

  /** Reports a success of a call whose last retry cost `cost`: 0 if it had none. */
  onSuccess(cost = 0): void {
    load().retry_quota_on_success(this.handle, whole("cost", cost, 0, U16));
  }

  /** Refunds the charge of a retry that was never started; 0 to 65,535. */
  refund(cost: number): void {
    load().retry_quota_refund(this.handle, whole("cost", cost, 0, U16));
  }

  /** Tokens left. */
  get available(): number {
    return load().retry_quota_available(this.handle);
  }
}
