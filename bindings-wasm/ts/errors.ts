/** What a call can end with besides its own result or its own error. */

/** What every error of ours tells. */
export interface Told {
  /** The verdict of the engine, finer than `code`. */
  reason?: string | undefined;
  /** Milliseconds after which another try would make sense. */
  retryIn?: number | undefined;
  /** The policy's name. */
  policy?: string | undefined;
  /** The route's key. */
  route?: string | undefined;
  /** What was under way when we stopped it, or the last failure. */
  cause?: unknown;
}

/**
 * Base of all errors of this library.
 *
 * The last response, or the original error, is what a caller gets wherever there is one; these errors are for calls refused
 * before an attempt, and for attempts that we stopped ourselves.
 */
export class TidegateError extends Error {
  override name = "TidegateError";
  /** The kind of error, the same in every language. */
  readonly code: string = "error";
  /** What an HTTP server would answer its own caller with. */
  readonly httpStatus: number = 503;
  /** The verdict of the engine, finer than `code`: a bulkhead refuses with `queue_full` or `acquire_timeout`. */
  readonly reason: string | undefined;
  /** Milliseconds after which another try would make sense. */
  readonly retryIn: number | undefined;
  /** The wall-clock moment from which another try would make sense. */
  readonly retryAt: Date | undefined;
  /** The policy's name. */
  readonly policy: string | undefined;
  /** The route's key. */
  readonly route: string | undefined;

  constructor(message: string, told: Told = {}) {
    super(message, told.cause === undefined ? undefined : { cause: told.cause });
    this.reason = told.reason;
    this.retryIn = told.retryIn;
    this.retryAt = told.retryIn === undefined ? undefined : new Date(Date.now() + told.retryIn);
    this.policy = told.policy;
    this.route = told.route;
  }
}

/** The call was refused before any attempt. */
export class Rejected extends TidegateError {
  override name = "Rejected";
  override readonly code: string = "rejected";
}

/** The rate limit is used up. */
export class RateLimited extends Rejected {
  override name = "RateLimited";
  override readonly code = "rate_limited";
  override readonly httpStatus = 429;
}

/** The limits that a bulkhead has. */
export interface Limits {
  /** Calls in flight at once. */
  maxConcurrency: number | null;
  /** Waiting calls; null is unbounded. */
  maxQueue: number | null;
  /** The patience of a waiting call, in milliseconds; null is for ever. */
  acquireTimeout: number | null;
}

/** No slot was free, or none came free in time. */
export class BulkheadFull extends Rejected {
  override name = "BulkheadFull";
  override readonly code = "bulkhead_full";
  /** The configured limits. */
  readonly limits: Limits | undefined;

  constructor(message: string, told: Told & { limits?: Limits } = {}) {
    super(message, told);
    this.limits = told.limits;
  }
}

/** The circuit breaker is open. */
export class BreakerOpen extends Rejected {
  override name = "BreakerOpen";
  override readonly code = "breaker_open";
}

/** The adaptive throttle refused the call. */
export class Throttled extends Rejected {
  override name = "Throttled";
  override readonly code = "throttled";
  override readonly httpStatus = 429;
}

/** An operator refuses all calls. */
export class ForcedOpen extends Rejected {
  override name = "ForcedOpen";
  override readonly code = "forced_open";
}

/** Too many calls are held already. */
export class HoldFull extends Rejected {
  override name = "HoldFull";
  override readonly code = "hold_full";
}

/** The shared store is gone, and the policy says to refuse. */
export class StoreUnavailable extends Rejected {
  override name = "StoreUnavailable";
  override readonly code = "store_unavailable";
}

/** The call costs more than the rate limit can ever hold. */
export class CostAboveBurst extends TidegateError {
  override name = "CostAboveBurst";
  override readonly code = "cost_above_burst";
}

/** The call was given up, because nothing was heard of it for so long. */
export class CallLost extends TidegateError {
  override name = "CallLost";
  override readonly code = "call_lost";
}

/** The last attempt ran out of `attemptTimeout`, and we stopped it. */
export class AttemptTimeout extends TidegateError {
  override name = "AttemptTimeout";
  override readonly code = "attempt_timeout";
  override readonly httpStatus = 504;
}

/** The deadline passed: before the call, while it waited, or during an attempt. */
export class DeadlineExceeded extends TidegateError {
  override name = "DeadlineExceeded";
  override readonly code = "deadline_exceeded";
  override readonly httpStatus = 504;
}

/** One mistake in a policy: the key, the value and the rule that it breaks. */
export interface Mistake {
  readonly key: string;
  readonly value: string;
  readonly rule: string;
}

/** A policy that cannot be built, with every mistake there is. */
export class PolicyError extends TidegateError {
  override name = "PolicyError";
  override readonly code = "policy";
  /** Every mistake there is. */
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(mistakes.map(({ key, value, rule }) => `${key} = ${value}: ${rule}`).join("; "));
    this.mistakes = mistakes;
  }
}
