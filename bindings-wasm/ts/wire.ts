/** The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`). */

// What a step asks for: bits 0 and 1.
export const DONE = 0;
export const ATTEMPT = 1;
export const WAIT = 2;

export const WAKES = 4;
export const COMMANDS = 8;
/** Bits 22 to 52 of a step: 0 none, else 1 + d; microseconds, or milliseconds where the step is Done. */
export const SPAN = 2 ** 22;
/** "Start attempt 1" with nothing beside it and no timer: the happy path's first answer. */
export const FIRST = ATTEMPT | (1 << 12);
/** Done, ok, with the answer of attempt 1: the happy path's last answer. */
export const OK_1 = 8 << 18;
/** Bits 0 and 1 and 12 to 15 of "wait until the body has been read". */
export const WAIT_BODY = WAIT | (6 << 12);
export const WAIT_MASK = 0xf003;

// Events.
export const TIMER = 0;
export const POLL = 1;
export const CANCEL = 2;
export const HEADERS = 3;
export const FINISHED = 4;
/** Attempt 1 ended well. */
export const FINISHED_1 = FINISHED | (1 << 3);
export const ATTEMPT_UNIT = 8;

export const VERDICTS = [
  "ok",
  "not_retryable",
  "attempts",
  "method",
  "one_shot_body",
  "opinion",
  "nested",
  "retry_after_too_long",
  "would_outlive_deadline",
  "time_limit",
  "budget",
  "readmission",
  "forced_open",
  "breaker_open",
  "throttled",
  "rate_limited",
  "queue_full",
  "acquire_timeout",
  "queue_shed",
  "displaced",
  "hold_full",
  "store_unavailable",
  "deadline_before",
  "deadline_queued",
  "cost_above_burst",
  "deadline",
  "cancelled",
  "lost",
  "stale",
  "stale_route",
] as const;

/** Has a call ended at once because its route was evicted? */
export function isStaleRoute(step: number): boolean {
  return (step & 3) === DONE && VERDICTS[(step >>> 12) & 63] === "stale_route";
}

/** Why a call ended as it did. */
export type Verdict = (typeof VERDICTS)[number];

export const KINDS = [
  "ok",
  "transient",
  "throttled",
  "timeout",
  "never_sent",
  "conflict",
  "permanent",
  "ignored",
  "cancelled",
] as const;

/** The classes of an outcome. */
export type Class = (typeof KINDS)[number];

export const OPINIONS = ["none", "retry", "do_not"] as const;
export const CRITICALITIES = ["best_effort", "degraded", "normal", "critical"] as const;

/** How much a call matters to a queue. */
export type Criticality = (typeof CRITICALITIES)[number];

// Request flags.
export const REPLAYABLE = 1 << 2;
export const IDEMPOTENT = 1 << 3;
export const ABORTABLE = 1 << 4;
export const MAY_PARK = 1 << 5;
export const SLOT_UNTIL_BODY = 1 << 6;
export const COST_UNIT = 1 << 7;
export const SOLO = 1 << 23;
/** Criticality normal, cost 1. */
export const PLAIN = 2 | COST_UNIT;

/** Opinion "do not" at its place in an outcome. */
export const DO_NOT = 2 << 16;
export const OPINION_MASK = 3 << 16;

const LONGEST_MS = 2 ** 31 - 2;
const LONGEST_US = 2 ** 53 - 2;

/** An outcome at its place in a Finished event; `retryAfter` in milliseconds, rounded up. */
export function packOutcome(kind: number, opinion = 0, retryAfter?: number | null): number {
  const word = (kind << 11) | (opinion << 16);
  if (retryAfter === undefined || retryAfter === null || Number.isNaN(retryAfter)) return word;
  return word + (1 + Math.min(Math.ceil(Math.max(retryAfter, 0)), LONGEST_MS)) * 2 ** 18;
}

/** A Finished event of an outcome. */
export function finished(attempt: number, outcome: number): number {
  return FINISHED + attempt * ATTEMPT_UNIT + outcome;
}

/** The span of a step, in its unit; below 0 where it has none. */
export function spanOf(step: number): number {
  return Math.floor(step / SPAN) - 1;
}

/** Time left of a deadline, in milliseconds, as `begin` takes it. */
export function packRemaining(ms: number): number {
  return 1 + Math.min(Math.max(Math.round(ms * 1000), 0), LONGEST_US);
}
