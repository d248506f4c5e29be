/** Texts for verdicts: the error of each refusal, and the note that says why no further attempt was made. */

import { shared } from "../engine/shared.js";
import type { Verdict } from "../engine/wire.js";
import * as errors from "../errors/errors.js";

type Kind = new (
  message: string,
  details: errors.Details & { limits?: errors.Limits },
) => errors.TidegateError;

/** The error of each verdict that refuses a call. */
const REFUSALS: Readonly<Record<string, readonly [Kind, string]>> = {
  forced_open: [errors.ForcedOpen, "an operator refuses all calls"],
  throttled: [errors.Throttled, "the adaptive throttle refused the call"],
  queue_shed: [errors.BulkheadFull, "the queue's delay was over target"],
  displaced: [errors.BulkheadFull, "a call of higher criticality took its place in the queue"],
  hold_full: [errors.HoldFull, "too many calls are held already"],
  cooldown: [errors.CoolingDown, "too many requests: no attempt may start yet"],
  store_unavailable: [errors.StoreUnavailable, "the shared store is gone"],
  no_target: [errors.NoTarget, "no target of its group admits it"],
  targets_limited: [
    errors.TargetsLimited,
    "each target of its group has used up its rate limit, or cools down",
  ],
  breaker_open: [errors.BreakerOpen, "the circuit breaker is open"],
  rate_limited: [errors.RateLimited, "the rate limit is used up"],
  queue_full: [errors.BulkheadFull, "all slots are taken, and so is the queue"],
  acquire_timeout: [errors.BulkheadFull, "no slot came free within acquireTimeout"],
  deadline_before: [errors.DeadlineExceeded, "the deadline had passed before the call began"],
  deadline_queued: [errors.DeadlineExceeded, "the deadline passed while the call was waiting"],
  deadline: [errors.DeadlineExceeded, "the deadline passed"],
  cost_above_burst: [errors.CostAboveBurst, "the call costs more than the rate limit can ever hold"],
  stream_stalled: [errors.StreamStalled, "no piece of the body came for idleTimeout"],
  attempt_timeout: [errors.AttemptTimeout, "the attempt ran out of attemptTimeout"],
};
const LOST = [errors.CallLost, "the call was given up: nothing was heard of it for too long"] as const;

/** A span for people: `120 s`, `0.25 s`. */
function seconds(ms: number): string {
  return `${ms / 1000} s`;
}

const NOTES: Readonly<Record<string, string>> = {
  method: "not retried: a repeat could happen twice (not idempotent, and no idempotency key)",
  one_shot_body: "body cannot be replayed",
  opinion: "not retried: the policy's statuses, its predicate or the server said not to",
  nested: "not retried: a call around this one retries already",
  time_limit: "not retried: the next wait would exceed retryTimeLimit",
  budget: "retry budget exhausted",
  readmission: "not retried: the next attempt was refused a slot",
  offline: "not retried: the device was offline for longer than a retry may wait",
  deadline: "the deadline passed while waiting for the next attempt",
};

/** The note that says why no further attempt was made, or undefined if the policy did not hold one back. */
export function noteOf(
  verdict: Verdict,
  attempts: number,
  retryIn: number | undefined,
  maxRetryAfter: () => number | null,
): string | undefined {
  if (verdict === "attempts") return attempts === 1 ? undefined : `gave up after ${attempts} attempts`;
  if (verdict === "retry_after_too_long") {
    const most = maxRetryAfter();
    const bound = most === null ? "" : ` ${seconds(most)}`;
    return `Retry-After ${seconds(retryIn ?? 0)} exceeds maxRetryAfter${bound}`;
  }
  if (verdict === "would_outlive_deadline") {
    const asked = retryIn === undefined ? "" : ` (Retry-After ${seconds(retryIn)})`;
    return `not retried: the next wait${asked} would outlive the deadline`;
  }
  return NOTES[verdict];
}

/** The properties of a policy that a refusal names. */
export interface Refused {
  readonly name: string;
  limits(): errors.Limits;
}

/** Quotes a text. It may come from outside, so characters that control a terminal or a log are escaped. */
function quoted(text: string): string {
  const hidden = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  return JSON.stringify(text).replace(hidden, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The error of a call that has no result of its own. */
export function refusal(
  verdict: string,
  policy: Refused,
  route: string,
  retryIn: number | undefined,
  cause: unknown,
  by: readonly string[] = [],
): errors.TidegateError {
  const [kind, text] =
    REFUSALS[verdict] ??
    (verdict in NOTES
      ? [
          verdict === "readmission" ? errors.Rejected : errors.TidegateError,
          `the answer of the last attempt has been closed, and cannot be returned; ${NOTES[verdict]}`,
        ]
      : LOST);
  const details = { reason: verdict, retryIn, policy: policy.name, route, cause };
  const where = `policy ${JSON.stringify(policy.name)}, route ${quoted(route)}`;
  if (kind !== errors.BulkheadFull) {
    const [words, limit, weight, amount] = by;
    if (words === undefined) return new kind(`${text} (${where})`, details);
    const named = { limit, weight, amount: amount === undefined ? amount : Number(amount) };
    return new kind(`${text} (${where}, ${words})`, { ...details, ...named });
  }
  const limits = policy.limits();
  const queue = limits.maxQueue ?? "none";
  const patience = limits.acquireTimeout === null ? "none" : seconds(limits.acquireTimeout);
  const numbers = `maxConcurrency ${limits.maxConcurrency}, maxQueue ${queue}, acquireTimeout ${patience}`;
  return new kind(`${text} (${where}, ${numbers})`, { ...details, limits });
}

/** What became of a call, stored for its response or its error. */
export interface Report {
  /** Number of attempts made. */
  readonly attempts: number;
  /** The verdict that ended the call. */
  readonly reason: Verdict;
  /** Why no further attempt was made, in words. */
  readonly note: string | undefined;
  /** When another try makes sense. */
  readonly retryAt: Date | undefined;
}

const reports = shared("reports", () => new WeakMap<object, Report>());

/** Stores what became of a call for its response or error, without changing that object. */
export function report(value: unknown, report: Report): void {
  if ((typeof value === "object" && value !== null) || typeof value === "function")
    reports.set(value, report);
}

/**
 * What became of the call that returned this response or error: attempts, verdict, and a note that says why no further attempt was
 * made. Undefined for values that no policy has delivered after a failure, and for `run` calls that succeeded at the first attempt.
 */
export function reportOf(value: unknown): Report | undefined {
  return reports.get(value as object);
}
