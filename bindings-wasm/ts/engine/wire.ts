/** Encoding and decoding of the words that cross as numbers. Core generates their bit positions and names (`wire_gen.ts`). */

import {
  AGE_UNIT,
  ATTEMPT_UNIT,
  DONE,
  FINISHED,
  KIND_UNIT,
  LONGEST_AGE,
  OPINION_UNIT,
  PROGRESS,
  RETRY_AFTER_UNIT,
  SPAN,
  VERDICTS,
} from "../wire_gen.js";

export * from "../wire_gen.js";

/** Bits 0, 1 and 12 to 15 of a step: the reason of the wait. */
export const WAIT_MASK = 0xf003;

const LONGEST_MS = 2 ** 31 - 2;
const LONGEST_US = 2 ** 53 - 2;

/** Encodes an outcome at its position in a Finished event; `retryAfter` in milliseconds, rounded up. What is no number counts as none. */
export function packOutcome(kind: number, opinion = 0, retryAfter?: number | null): number {
  const word = kind * KIND_UNIT + opinion * OPINION_UNIT;
  if (typeof retryAfter !== "number" || Number.isNaN(retryAfter)) return word;
  return word + (1 + Math.min(Math.ceil(Math.max(retryAfter, 0)), LONGEST_MS)) * RETRY_AFTER_UNIT;
}

/** Encodes a Finished event with this outcome. */
export function finished(attempt: number, outcome: number): number {
  return FINISHED + attempt * ATTEMPT_UNIT + outcome;
}

/** Encodes a Progress event: reads of this attempt's body have waited for so many microseconds. */
export function progress(attempt: number, age: number): number {
  return PROGRESS + attempt * ATTEMPT_UNIT + Math.min(age, LONGEST_AGE) * AGE_UNIT;
}

/** The span of a step, in its unit; negative if it has none. */
export function spanOf(step: number): number {
  return Math.floor(step / SPAN) - 1;
}

/** Encodes the time left to a deadline, given in milliseconds, for `begin`. */
export function packRemaining(ms: number): number {
  return 1 + Math.min(Math.max(Math.round(ms * 1000), 0), LONGEST_US);
}

/** Whether a call ended at once because its route was evicted. */
export function isStaleRoute(step: number): boolean {
  return (step & 3) === DONE && VERDICTS[(step >>> 12) & 63] === "stale_route";
}
