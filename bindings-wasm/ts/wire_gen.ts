// Generated from core/src/wire.rs by `cargo xtask generate`; do not edit.

/** The words of the numeric border, as `core/src/wire.rs` lays them out (pinned by `tests/vectors/wire`). */

// Steps.
/** What a step asks for: bits 0 and 1. */
export const DONE = 0;
export const ATTEMPT = 1;
export const WAIT = 2;
/** Other calls can go on. */
export const WAKES = 4;
/** Commands for a store are waiting. */
export const COMMANDS = 8;
/** The attempt goes to a target: the engine says to which. */
export const TARGET = 2097152;
/** One of a step's span: 0 none, else 1 + d; microseconds, or milliseconds where the step is Done. */
export const SPAN = 4194304;
/** "Start attempt 1" with nothing beside it and no timer: the happy path's first answer. */
export const FIRST = 4097;
/** Done, ok, with the answer of attempt 1: the happy path's last answer. */
export const OK_1 = 2097152;
/** "Wait until the body has been read". */
export const WAIT_BODY = 24578;

// Events.
export const TIMER = 0;
export const POLL = 1;
export const CANCEL = 2;
export const HEADERS = 3;
export const FINISHED = 4;
/** Attempt 1 ended well. */
export const FINISHED_1 = 12;
/** The last piece of an attempt's body came so long ago. */
export const PROGRESS = 5;
/** One microsecond of that age. */
export const AGE_UNIT = 2048;
/** The largest age, in microseconds. */
export const LONGEST_AGE = 4398046511103;
/** One of an event's number of the attempt. */
export const ATTEMPT_UNIT = 8;
/** One of an outcome's kind. */
export const KIND_UNIT = 2048;
/** One of an outcome's opinion. */
export const OPINION_UNIT = 65536;
/** Opinion "do not" at its place in an outcome. */
export const DO_NOT = 131072;
export const OPINION_MASK = 196608;
/** One of an outcome's `Retry-After`: 0 none, else 1 + milliseconds. */
export const RETRY_AFTER_UNIT = 262144;

// Requests.
export const REPLAYABLE = 4;
export const IDEMPOTENT = 8;
export const ABORTABLE = 16;
export const MAY_PARK = 32;
export const SLOT_UNTIL_BODY = 64;
export const COST_UNIT = 128;
export const SOLO = 8388608;
/** The answer is a stream. */
export const STREAM = 16777216;
/** Criticality normal, cost 1. */
export const PLAIN = 130;

// Answers.
/** Most bytes of a failed answer's body that are judged. */
export const READ_AT_MOST = 65536;
/** How long a host waits for them, in microseconds. */
export const READ_FOR = 1000000;
/** Most bytes that a host keeps until a stream is delivered. */
export const HELD_AT_MOST = 65536;

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
  "stream_stalled",
  "no_target",
  "offline",
  "cooldown",
  "targets_limited",
] as const;

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

export const CRITICALITIES = ["best_effort", "degraded", "normal", "critical"] as const;

/** How much a call matters to a queue. */
export type Criticality = (typeof CRITICALITIES)[number];

export const OPINIONS = ["none", "retry", "do_not"] as const;

/** What is said about another attempt. */
export type Opinion = (typeof OPINIONS)[number];
