/** What became of an attempt: errors and results as outcomes (semantics 1.4). */

import { type Class, OPINION_MASK, OPINIONS, packOutcome } from "./engine/wire.js";
import { outOfRange } from "./errors.js";
import { judge, UNLISTED } from "./judge.js";
import type { Core } from "./run/core.js";

// Classes (`KINDS`) at their place in an outcome.
export const TRANSIENT = 1 << 11;
export const TIMEOUT = 3 << 11;
export const NEVER_SENT = 4 << 11;
export const CONFLICT = 5 << 11;
export const PERMANENT = 6 << 11;
export const IGNORED = 7 << 11;
export const CANCELLED = 8 << 11;

/** What a `classify` function can answer where a name says too little. */
export interface Outcome {
  /** The class of the outcome, or the name of a kind that the policy declares. */
  readonly kind: string;
  /** Whether to retry, whatever the class; left out, the class decides. */
  readonly opinion?: "retry" | "do_not" | undefined;
  /** Milliseconds that the other side asked us to wait. */
  readonly retryAfter?: number | undefined;
}

/**
 * Told the result or the error of an attempt, answers the name of a class or of one of the policy's `kinds`, an `Outcome`,
 * or nothing for the default.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing has no opinion
export type Classify = (resultOrError: unknown) => Class | (string & {}) | Outcome | null | undefined | void;

/** The outcome of an error, where no policy is there to judge its status. */
export function ofError(error: unknown, core?: Core): number {
  const outcome = judge(error, core);
  return outcome === UNLISTED ? PERMANENT : outcome;
}

/** Told the answer or the error of an attempt, says whether to try again; undefined is no opinion. */
export type Predicate = (answerOrError: unknown) => boolean | undefined;

const warned = new WeakSet<object>();

/** Tells of a user's function that is broken, once. */
export function warn(broken: object, what: string, error: unknown, then = "is ignored"): void {
  if (warned.has(broken)) return;
  warned.add(broken);
  complain(`${what} failed, and ${then} where it does`, error);
}

/** Warns of an error that is nobody's result. One that cannot be printed breaks nothing. */
export function complain(text: string, error: unknown, level: "warn" | "error" = "warn"): void {
  try {
    console[level](`tidegate: ${text}:`, error);
  } catch {
    console[level](`tidegate: ${text}`);
  }
}

/** Tells the platform of a mistake that nobody is there to catch, as of any error in a program. */
export function reported(error: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError !== undefined) reportError(error);
  else complain("a policy has mistakes", error, "error");
}

/** The outcome with what the request's own predicate thinks; a broken one has no opinion. */
export function opinionOf(predicate: Predicate, subject: unknown, outcome: number): number {
  let again: boolean | undefined;
  try {
    again = predicate(subject);
  } catch (error) {
    warn(predicate, "predicate", error);
  }
  if (again === undefined || again === null) return outcome;
  if (!again && outcome === 0) return outcome;
  return ((outcome === 0 ? TRANSIENT : outcome) & ~OPINION_MASK) | ((again ? 1 : 2) << 16);
}

/** The outcome that the user's `classify` names; `otherwise` where it has no opinion or is broken. */
export function by(
  classify: Classify,
  subject: unknown,
  otherwise: number,
  kinds: readonly string[],
): number {
  try {
    const answer = classify(subject);
    if (answer === undefined || answer === null) return otherwise;
    if (typeof answer === "string") return packOutcome(numberOf(answer, kinds));
    const opinion = answer.opinion === undefined ? 0 : OPINIONS.indexOf(answer.opinion);
    if (opinion < 0) outOfRange("opinion", answer.opinion, "retry or do_not");
    return packOutcome(numberOf(answer.kind, kinds), opinion, answer.retryAfter);
  } catch (error) {
    warn(classify, "classify", error);
    return otherwise;
  }
}

function numberOf(name: string, kinds: readonly string[]): number {
  const number = kinds.indexOf(name);
  if (number < 0) {
    throw new RangeError(
      `${JSON.stringify(name)} is no class, and no kind that the policy declares; there are ${kinds.join(", ")}`,
    );
  }
  return number;
}
