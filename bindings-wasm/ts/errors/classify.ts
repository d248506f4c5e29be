/** Classification of attempts: errors and results become outcomes (semantics 1.4). */

import {
  type Class,
  OPINION_MASK,
  OPINION_UNIT,
  OPINIONS,
  type Opinion,
  packOutcome,
  RETRY_AFTER_UNIT,
} from "../engine/wire.js";
import type { Core } from "../run/core.js";
import { checkWhole, outOfRange } from "./errors.js";
import { judge, kindOf, type LeftWith, listed, UNLISTED } from "./judge.js";

// Numbers of the classes (`KINDS`), shifted to their place in an outcome.
export const TRANSIENT = 1 << 11;
export const TIMEOUT = 3 << 11;
export const NEVER_SENT = 4 << 11;
export const CONFLICT = 5 << 11;
export const PERMANENT = 6 << 11;
export const IGNORED = 7 << 11;
export const CANCELLED = 8 << 11;

/** A detailed answer of a `classify` function, if the name of a class is not enough. */
export interface Outcome {
  /** The class of the outcome, or the name of a kind that the policy declares. */
  readonly kind: string;
  /** Whether to retry, regardless of the class. If absent, the class decides. */
  readonly opinion?: "retry" | "do_not" | undefined;
  /** The wait that the server asked for, in milliseconds. */
  readonly retryAfter?: number | undefined;
}

/**
 * Classifies an attempt by its result or error. Returns the name of a class or of one of the policy's `kinds`, an `Outcome`, or nothing
 * for the default.
 */
// biome-ignore lint/suspicious/noConfusingVoidType: a function that returns nothing has no opinion
export type Classify = (resultOrError: unknown) => Class | (string & {}) | Outcome | null | undefined | void;

/**
 * Headers of an HTTP answer: a `Headers`, pairs of names and values, or an object (`IncomingHttpHeaders` of Node). Names in any case.
 */
export type AnswerHeaders =
  | { forEach(each: (value: string, name: string) => void): void }
  | Iterable<readonly [name: string, value: string]>
  | Readonly<Record<string, string | number | readonly string[] | undefined>>;

/** The outcome of an HTTP answer under a policy, as `classify` may return it. */
export function ofAnswer(core: Core, status: number, headers: AnswerHeaders | null | undefined): Outcome {
  checkWhole("status", status, 100, 999);
  const word = status < 400 ? 0 : core.engine.classify(core.number, status, listed(headers));
  const opinion = OPINIONS[Math.floor(word / OPINION_UNIT) % 4] as Opinion;
  const retryAfter = Math.floor(word / RETRY_AFTER_UNIT) - 1;
  return {
    kind: core.kinds[kindOf(word)] as string,
    ...(opinion !== "none" && { opinion }),
    ...(retryAfter >= 0 && { retryAfter }),
  };
}

/** The outcome of an error; `core` is the policy that judges a status, if there is one. */
export function ofError(error: unknown, core?: Core, left?: LeftWith): number {
  const outcome = judge(error, core, left);
  return outcome === UNLISTED ? PERMANENT : outcome;
}

/** Decides by the response or error of an attempt whether to try again; undefined is no opinion. */
export type Predicate = (answerOrError: unknown) => boolean | undefined;

/**
 * The answer of a hook that cannot be async, because a call does not wait for it.
 *
 * @throws TypeError If it is a promise, whose own error is left out.
 */
export function atOnce<T>(answer: T, hook = "it"): T {
  if (typeof (answer as { then?: unknown } | null | undefined)?.then !== "function") return answer;
  Promise.resolve(answer).catch(() => undefined);
  throw new TypeError(`${hook} returned a promise: it must not be async`);
}

const warned = new WeakSet<object>();

/** Warns once that a function of the user has thrown. */
export function warn(broken: object, what: string, error: unknown, then = "is ignored"): void {
  if (warned.has(broken)) return;
  warned.add(broken);
  complain(`${what} failed, and ${then} where it does`, error);
}

/** Logs an error that no call returns. An error that cannot be printed is left out. */
export function complain(text: string, error: unknown, level: "warn" | "error" = "warn"): void {
  try {
    console[level](`tidegate: ${text}:`, error);
  } catch {
    console[level](`tidegate: ${text}`);
  }
}

/** Reports an error that no caller can catch to the platform (`reportError`, else the console). */
export function reported(error: unknown): void {
  const { reportError } = globalThis as { reportError?: (error: unknown) => void };
  if (reportError !== undefined) reportError(error);
  else complain("a policy has mistakes", error, "error");
}

/** The outcome, changed by the request's own predicate; a predicate that throws has no opinion. */
export function opinionOf(predicate: Predicate, subject: unknown, outcome: number): number {
  let again: boolean | undefined;
  try {
    again = atOnce(predicate(subject));
  } catch (error) {
    warn(predicate, "predicate", error);
  }
  if (again === undefined || again === null) return outcome;
  if (!again && outcome === 0) return outcome;
  return ((outcome === 0 ? TRANSIENT : outcome) & ~OPINION_MASK) | ((again ? 1 : 2) << 16);
}

/** The outcome that the user's `classify` names; `otherwise` if it has no opinion or throws. */
export function by(
  classify: Classify,
  subject: unknown,
  otherwise: number,
  kinds: readonly string[],
): number {
  try {
    const answer = atOnce(classify(subject));
    if (answer === undefined || answer === null) return otherwise;
    if (typeof answer === "string") return packOutcome(numberOf(answer, kinds));
    const { opinion = "none", retryAfter } = answer;
    const number = OPINIONS.indexOf(opinion);
    if (number < 0) outOfRange("opinion", opinion, "retry or do_not");
    if (typeof (retryAfter ?? 0) !== "number")
      outOfRange("retryAfter", retryAfter, "a number of milliseconds");
    return packOutcome(numberOf(answer.kind, kinds), number, retryAfter);
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
