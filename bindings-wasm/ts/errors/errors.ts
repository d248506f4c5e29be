/** The errors of this library. */

import { type CallExplanation, explain } from "../telemetry/explain.js";

/** Details that every error of this library can carry. */
export interface Details {
  /** The verdict of the engine, finer than `code`. */
  reason?: string | undefined;
  /** Milliseconds after which another try makes sense. */
  retryIn?: number | undefined;
  /** The policy's name. */
  policy?: string | undefined;
  /** The route's key. */
  route?: string | undefined;
  /** What was in progress when we stopped the call, or the last failure. */
  cause?: unknown;
  /** The limits of a bulkhead. */
  limits?: Limits | undefined;
  /** The limit of a set that refused the call. */
  limit?: string | undefined;
  /** The weight that it counts. */
  weight?: string | undefined;
  /** The call's amount of that weight. */
  amount?: number | undefined;
}

/** The identity of an error class; by default `code` is the name in snake case, and `httpStatus` 503. */
type Kind = readonly [name: string, httpStatus?: number, code?: string];

/**
 * The key under which a class keeps its kind. All copies of this package in a process share it: `import` and `require` each load their
 * own classes, and an error of one copy is an `instanceof` the same class of the other copy.
 */
const KIND = Symbol.for("tidegate/0.1/error");

/**
 * Base of all errors of this library.
 *
 * If there is a last response or an original error, the caller gets that. These errors are for calls that were refused before an
 * attempt, and for attempts that we stopped.
 */
export class TidegateError extends Error {
  /** @internal Minifiers rename the classes themselves. */
  static [KIND]: Kind = ["TidegateError", 503, "error"];
  /** The kind of error, the same in every language. */
  readonly code!: string;
  /** The status with which an HTTP server would answer its own caller. */
  readonly httpStatus!: number;
  /** The verdict of the engine, finer than `code`: a bulkhead refuses with `queue_full` or `acquire_timeout`. */
  readonly reason: string | undefined;
  /** Milliseconds after which another try makes sense. */
  readonly retryIn: number | undefined;
  /** The wall-clock moment after which another try makes sense. */
  readonly retryAt: Date | undefined;
  /** The policy's name. */
  readonly policy: string | undefined;
  /** The route's key. */
  readonly route: string | undefined;

  constructor(message: string, { cause, ...details }: Details = {}) {
    super(message, cause === undefined ? undefined : { cause });
    const [name, httpStatus = 503, code = snake(name).slice(1)] = new.target[KIND];
    const { retryIn } = details;
    const retryAt = retryIn === undefined ? undefined : new Date(Date.now() + retryIn);
    Object.assign(this, { name, code, httpStatus, retryAt }, details);
  }

  /**
   * Explains why the call ended as it did, with the numbers that decided; for errors of others and for responses there is
   * `explain(error)`.
   */
  explain(): CallExplanation | undefined {
    return explain(this);
  }

  /** @internal */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore lint/complexity/noThisInStatic: it is the class on the right of `instanceof`, which may be one of its heirs
    return isOf(this, value);
  }
}

/** Whether a value is an error of this class, or of the same class in another copy of this package. */
function isOf(asked: typeof TidegateError, value: unknown): boolean {
  if (Function.prototype[Symbol.hasInstance].call(asked, value)) return true;
  if (!(value instanceof Error) || !Object.hasOwn(asked, KIND)) return false;
  let its: unknown = value.constructor;
  while (typeof its === "function" && KIND in its) {
    if (Object.hasOwn(its, KIND) && (its as typeof TidegateError)[KIND][0] === asked[KIND][0]) return true;
    its = Object.getPrototypeOf(its);
  }
  return false;
}

/** The call was refused before any attempt. This class itself: a further attempt was refused, and the answer of the last one is closed. */
export class Rejected extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["Rejected"];
  declare readonly code: string;
}

/** The rate limit has no tokens left. */
export class RateLimited extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["RateLimited", 429];
  declare readonly code: "rate_limited";
  declare readonly httpStatus: 429;
  /**
   * The name of the limit that refused the call: of several that lack tokens the one that frees last. Undefined for a rate limit without
   * `limits`.
   */
  declare readonly limit: string | undefined;
  /** The weight that this limit counts; undefined for a limit that counts calls. */
  declare readonly weight: string | undefined;
  /** The call's amount of that weight; undefined without a weight. */
  declare readonly amount: number | undefined;
}

/** The settings of a bulkhead. */
export interface Limits {
  /** Calls in flight at once. */
  maxConcurrency: number | null;
  /** Most calls in its queue; null is unbounded. */
  maxQueue: number | null;
  /** Longest wait for a slot, in milliseconds; null is unbounded. */
  acquireTimeout: number | null;
}

/** No slot was free, or none became free in time. */
export class BulkheadFull extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["BulkheadFull"];
  declare readonly code: "bulkhead_full";
  /** The configured limits. */
  declare readonly limits: Limits | undefined;
}

/** The circuit breaker is open. */
export class BreakerOpen extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["BreakerOpen"];
  declare readonly code: "breaker_open";
}

/** The adaptive throttle refused the call. */
export class Throttled extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["Throttled", 429];
  declare readonly code: "throttled";
  declare readonly httpStatus: 429;
}

/** An operator has forced the policy or route open, so it refuses all calls. */
export class ForcedOpen extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["ForcedOpen"];
  declare readonly code: "forced_open";
}

/** The hold for retries is full. */
export class HoldFull extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["HoldFull"];
  declare readonly code: "hold_full";
}

/** The server has said that there are too many requests; no attempt starts until `retryAt`. */
export class CoolingDown extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["CoolingDown", 429];
  declare readonly code: "cooling_down";
  declare readonly httpStatus: 429;
}

/** The shared store is unreachable, and the policy refuses calls then. */
export class StoreUnavailable extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["StoreUnavailable"];
  declare readonly code: "store_unavailable";
}

/** No target of its group admits the call's attempt: each is open, out of tokens or full. */
export class NoTarget extends Rejected {
  /** @internal */
  static override [KIND]: Kind = ["NoTarget"];
  declare readonly code: "no_target" | "targets_limited";
}

/** No target of its group admits the call's attempt: each has used up its rate limit, or cools down. */
export class TargetsLimited extends NoTarget {
  /** @internal */
  static override [KIND]: Kind = ["TargetsLimited", 429];
  declare readonly code: "targets_limited";
  declare readonly httpStatus: 429;
}

/** The call costs more than the rate limit can ever hold. */
export class CostAboveBurst extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["CostAboveBurst"];
  declare readonly code: "cost_above_burst";
  /** The name of the limit that never holds so much. Undefined for a rate limit without `limits`. */
  declare readonly limit: string | undefined;
  /** The weight that this limit counts; undefined for a limit that counts calls. */
  declare readonly weight: string | undefined;
  /** The call's amount of that weight; undefined without a weight. */
  declare readonly amount: number | undefined;
}

/** The call was abandoned, because the engine had no event of it for too long. */
export class CallLost extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["CallLost"];
  declare readonly code: "call_lost";
}

/** The last attempt exceeded `attemptTimeout` and was stopped. */
export class AttemptTimeout extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["AttemptTimeout", 504];
  declare readonly code: "attempt_timeout";
  declare readonly httpStatus: 504;
}

/** A stream sent nothing that counts for `idleTimeout` after it was delivered. */
export class StreamStalled extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["StreamStalled", 504];
  declare readonly code: "stream_stalled";
  declare readonly httpStatus: 504;
}

/** The deadline passed: before the call, while it waited, or during an attempt. */
export class DeadlineExceeded extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["DeadlineExceeded", 504];
  declare readonly code: "deadline_exceeded";
  declare readonly httpStatus: 504;
}

/** The engine's WebAssembly module cannot be loaded. */
export class ModuleUnavailable extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["ModuleUnavailable"];
  declare readonly code: "module_unavailable";
}

/** A synchronous method was called before the engine's WebAssembly module was loaded: `await ready()` first. */
export class NotReady extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["NotReady"];
  declare readonly code: "not_ready";
}

/** One mistake in a policy: the key, the value and the rule that it breaks. */
export interface Mistake {
  readonly key: string;
  readonly value: string;
  readonly rule: string;
}

/** A policy that cannot be built, with all its mistakes. */
export class PolicyError extends TidegateError {
  /** @internal */
  static override [KIND]: Kind = ["PolicyError", 503, "policy"];
  declare readonly code: "policy";
  /** All mistakes. */
  readonly mistakes: readonly Mistake[];

  constructor(mistakes: readonly Mistake[]) {
    super(mistakes.map(({ key, value, rule }) => `${key} = ${value}: ${rule}`).join("; "));
    this.mistakes = mistakes;
  }
}

/** Throws a mistake that is found before core checks the settings. */
export function wrong(key: string, value: unknown, rule: string): never {
  throw new PolicyError([{ key, value: String(value), rule }]);
}

/**
 * Throws for a value out of range.
 *
 * @throws RangeError Always.
 */
export function outOfRange(key: string, value: unknown, rule: string): never {
  throw new RangeError(`${key} = ${String(value)}: must be ${rule}`);
}

/** Checks that a value is a whole number in its range. */
export function checkWhole(
  key: string,
  value: unknown,
  least: number,
  most: number,
  highest = String(most),
): void {
  if (!(Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most)) {
    outOfRange(key, value, `a whole number from ${least} to ${highest}`);
  }
}

/**
 * Checks that options have no names but these, which are separated by spaces: a misspelt one would have no effect.
 *
 * @throws TypeError If one has.
 */
export function checkNames(what: string, options: object, names: string): void {
  const known = names.split(" ");
  for (const name of Object.keys(options)) {
    if (!known.includes(name))
      throw new TypeError(`${name}: ${what} has no such option; it has ${known.join(", ")}`);
  }
}

/** Core's notation of a name: `max_attempts` for `maxAttempts`. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
