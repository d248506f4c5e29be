/** Judgement of errors of plain functions (semantics 1.5): core's table, built on the first failure. */

import { shared } from "../engine/shared.js";
import {
  KIND_UNIT,
  KINDS,
  OPINION_UNIT,
  packOutcome,
  RETRY_AFTER_UNIT,
  type Verdict,
} from "../engine/wire.js";
import type { Core } from "../run/core.js";
import type { Scope } from "../run/scope.js";
import { Rejected, TidegateError } from "./errors.js";
import { DEEPEST, HEADER_PATHS, NAMES, NOTE, STATUS_PATHS, WRAPS } from "./errors_gen.js";

/** A class of errors, for `on`. */
export type ErrorClass = abstract new (...args: never[]) => unknown;

/** Permanent, because the error is unknown; a note tells the caller. */
export const UNLISTED = -3;
/** Permanent by its status, or an error of ours; needs no note. */
export const SAID = -4;

const TRANSIENT = 1;
const THROTTLED = 2;
const TIMEOUT = 3;
const CONFLICT = 5;
const PERMANENT = 6;
const MEMBERS = 8;
/** Added to the class of a name that marks a wrapper. */
const WRAPPER = 16;

/** Messages of browsers when a connection fails. Only the message distinguishes such a `TypeError` from a mistake. */
const NETWORK =
  /^(?:Failed to fetch|Load failed|NetworkError when attempting to fetch resource\.|The network connection was lost\.|Network request failed|terminated|network error|The Internet connection appears to be offline\.)/i;

/** Tables of words by class, as a map from each word to the number of its class. */
export function words(...tables: [Readonly<Record<string, string>>, number][]): Map<string, number> {
  const map = new Map<string, number>();
  for (const [table, more] of tables) {
    for (const [name, list] of Object.entries(table)) {
      const number = KINDS.indexOf(name as (typeof KINDS)[number]) + more;
      for (const word of list.split(" ")) map.set(word, number);
    }
  }
  return map;
}

/** Errors that occur on servers; pages do not load them (`errors_server_gen.ts`). */
export interface ServerTable {
  readonly NAMES: Readonly<Record<string, string>>;
  readonly WRAPS: Readonly<Record<string, string>>;
  readonly THROTTLING: string;
}

/** Steps of a judgement for errors that occur on servers (`steps.ts`). */
export interface Steps {
  /** The outcome of a code of gRPC or a SQLSTATE, before the error's name is looked up. */
  coded(error: object, core: Core | undefined, code: unknown): number | undefined;
  /** The outcome of an error of which no other step says anything. */
  last(error: object): number | undefined;
}

let server: ServerTable = { NAMES: {}, WRAPS: {}, THROTTLING: "" };
let names: Map<string, number> | undefined;
let throttling: Set<unknown> | undefined;
let statuses: string[][] | undefined;

/** Judgements that are left for the call around. */
export interface Marks {
  /** Leaves a judgement for the call around; false if there is none. */
  leave(around: Scope, value: unknown, outcome: number): boolean;
  /** The judgement that was left for the innermost call of a scope. It counts once, so it is taken, unless `keep` is true. */
  find(scope: Scope, value: unknown, keep: boolean): number | undefined;
  /** Whether one was left with what a function of the scope has returned. It looks nothing up where there is none in the process. */
  has(scope: Scope, value: unknown): boolean;
}

let marks: Marks | undefined;
let steps: Steps | undefined;

/** Adds the errors of servers to the table, what knows the call around, and more steps; entries for servers call it. */
export function teach(table: ServerTable, known: Marks, more: Steps): void {
  server = table;
  marks = known;
  steps = more;
  names = throttling = undefined;
}

/** Reads a property; one that throws counts as absent. */
export function read(value: unknown, name: string): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function paths(text: string): string[][] {
  return text.split(" ").map((path) => path.split("."));
}

/** The number of the class or kind of an outcome. */
export function kindOf(outcome: number): number {
  return Math.floor(outcome / KIND_UNIT) % 32;
}

/** The opinion in an outcome. Words are longer than the 32 bits of bit operators. */
export function opinionIn(outcome: number): number {
  return Math.floor(outcome / OPINION_UNIT) % 4;
}

/** Replaces the opinion of an outcome. */
function withOpinion(outcome: number, opinion: number): number {
  return outcome + (opinion - opinionIn(outcome)) * OPINION_UNIT;
}

function mayPass(outcome: number): boolean {
  return outcome >= 0 && kindOf(outcome) >= TRANSIENT && kindOf(outcome) <= CONFLICT;
}

/** The judgement that an inner call has left with an error, or with `status 503` (semantics 1.6.7). */
export type LeftWith = (result: unknown) => number | undefined;

/** The outcome of an error under a policy, or `UNLISTED`. Without a policy a status has no meaning. */
export function judge(error: unknown, core: Core | undefined, left?: LeftWith): number {
  let outcome = left?.(error);
  if (outcome === undefined) {
    try {
      outcome = chain(error, core, left, []);
    } catch {} // an error whose properties cannot be read says nothing
    if (outcome === undefined || outcome === PERMANENT * KIND_UNIT) outcome = UNLISTED;
    else if (outcome === SAID) outcome = PERMANENT * KIND_UNIT;
  }
  return core?.on?.some((kind) => isA(error, kind)) === true ? wanted(outcome) : outcome;
}

/** The outcome of an error that `on` names. */
function wanted(outcome: number): number {
  return mayPass(outcome) ? withOpinion(outcome, 0) : TRANSIENT * KIND_UNIT;
}

function isA(error: unknown, kind: ErrorClass): boolean {
  try {
    return error instanceof kind;
  } catch {
    return false;
  }
}

/** The outcome of an error, else of its cause, else of its members; undefined if none is known. */
function chain(
  error: unknown,
  core: Core | undefined,
  left: LeftWith | undefined,
  seen: unknown[],
  grouped = false,
): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  if (seen.length >= DEEPEST || seen.includes(error)) return undefined;
  seen.push(error);
  // `judge` has asked for what is left with the first error.
  const said = (seen.length > 1 ? left?.(error) : undefined) ?? says(error, core, left);
  if (said !== undefined && (said < 0 || kindOf(said) < WRAPPER)) return said;
  const inner =
    chain(read(error, "cause"), core, left, seen, grouped) ?? group(error, core, left, seen, grouped);
  return inner ?? (said === undefined ? undefined : said - WRAPPER * KIND_UNIT);
}

/** The outcome of a group, which may be repeated if each of its first members may (semantics 1.5.14). It has the class of the first. */
function group(
  error: unknown,
  core: Core | undefined,
  left: LeftWith | undefined,
  seen: unknown[],
  grouped: boolean,
): number | undefined {
  const members = read(error, "errors");
  if (!Array.isArray(members) || members.length === 0 || grouped) return undefined;
  const outcomes = members.slice(0, MEMBERS).map((member) => chain(member, core, left, [...seen], true));
  if (!outcomes.every((outcome) => outcome !== undefined && mayPass(outcome))) return undefined;
  const first = outcomes[0] as number;
  return outcomes.some((outcome) => opinionIn(outcome as number) === DO_NOT)
    ? withOpinion(first, DO_NOT)
    : first;
}

/** The outcome of this error alone, with `WRAPPER` added to its class if a cause takes precedence. */
function says(error: object, core: Core | undefined, left: LeftWith | undefined): number | undefined {
  if (error instanceof TidegateError) return ofOurs(error);
  const code = read(error, "code");
  const name = read(error, "name");
  const known = (core && status(error, core, left, code, name)) ?? steps?.coded(error, core, code);
  if (known !== undefined) return known;
  names ??= words([NAMES, 0], [server.NAMES, 0], [WRAPS, WRAPPER], [server.WRAPS, WRAPPER]);
  let row = names.get(code as string) ?? names.get(name as string);
  for (
    let kind = Object.getPrototypeOf(error), deep = 0;
    row === undefined && kind !== null && deep < DEEPEST;
    deep += 1
  ) {
    row = names.get(read(read(kind, "constructor"), "name") as string);
    kind = Object.getPrototypeOf(kind);
  }
  if (row !== undefined) return row * KIND_UNIT;
  // A number of the system that is not listed decides (semantics 1.5.9), whatever caused it.
  if (typeof code === "string" && typeof read(error, "syscall") === "string") return PERMANENT * KIND_UNIT;
  const message = read(error, "message");
  if (name === "TypeError" && read(error, "cause") === undefined && NETWORK.test(String(message))) {
    return TRANSIENT * KIND_UNIT;
  }
  return steps?.last(error);
}

/** The outcome of an inner policy's error: a refusal is retryable, and no evidence about the server (semantics 1.4). */
function ofOurs(error: TidegateError): number {
  if (error.httpStatus === 429) return packOutcome(THROTTLED, 0, error.retryIn);
  if (error instanceof Rejected) return CONFLICT * KIND_UNIT;
  return error.httpStatus === 504 ? TIMEOUT * KIND_UNIT : SAID;
}

/** The outcome of a status or code on the error, judged like a response. */
function status(
  error: object,
  core: Core,
  left: LeftWith | undefined,
  code: unknown,
  name: unknown,
): number | undefined {
  throttling ??= new Set(server.THROTTLING.match(/\S+/g));
  if (throttling.has(name) || throttling.has(code) || throttling.has(read(error, "Code"))) {
    return answer(error, core, 429);
  }
  const found = statusOf(error);
  return found === undefined ? undefined : (left?.(`status ${found}`) ?? answer(error, core, found));
}

/** The status of a failure that a result has. */
export function statusOf(of: unknown): number | undefined {
  statuses ??= paths(STATUS_PATHS);
  let before: string | undefined;
  let first: unknown;
  for (const path of statuses) {
    // Neighbours begin alike: a property that most errors lack is read once for all of them.
    if (path[0] !== before) {
      before = path[0] as string;
      first = read(of, before);
    }
    if (first === undefined) continue;
    const found = path.slice(1).reduce(read, first);
    if (Number.isInteger(found) && (found as number) >= 400 && (found as number) < 600)
      return found as number;
  }
  return undefined;
}

function answer(error: object, core: Core, found: number): number {
  for (const path of paths(HEADER_PATHS)) {
    const headers = path.reduce(read, error as unknown);
    if (headers !== undefined && headers !== null) return byStatus(core, found, headers);
  }
  return byStatus(core, found, undefined);
}

export function byStatus(core: Core, found: number, headers: unknown): number {
  const bare = () => core.engine.classify(core.number, found, undefined);
  let outcome: number;
  try {
    outcome = core.engine.classify(core.number, found, listed(headers));
  } catch {
    outcome = bare(); // headers that cannot be read count as absent
  }
  return outcome === PERMANENT * KIND_UNIT ? SAID : outcome;
}

/** @internal Headers of any library, in the form that the engine reads. */
export function listed(headers: unknown): Headers | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  const pairs = Symbol.iterator in headers ? (headers as Iterable<unknown>) : undefined;
  if (pairs === undefined && typeof read(headers, "forEach") === "function") return headers as Headers;
  const forEach = (each: (value: string, name: string) => void) => {
    for (const pair of pairs ?? Object.entries(headers)) {
      if (!Array.isArray(pair)) continue;
      for (const value of [pair[1]].flat()) if (value !== undefined) each(String(value), String(pair[0]));
    }
  };
  return { forEach } as unknown as Headers;
}

/** The note for an error that is unknown. */
export function noteOfUnlisted(error: unknown): string {
  const own = read(read(error, "constructor"), "name");
  const name = typeof own === "string" && own !== "" ? own : typeof error;
  return NOTE.replace("{error}", name).replace("{on}", `on: [${name}]`);
}

// Judgements that a call, when it does not retry, leaves on its result for the call around it (semantics 1.6).

const RETRY = 1;
export const DO_NOT = 2;
/** The verdicts that leave a judgement, and whether the outer call may repeat. */
const STEPS_BACK: Partial<Record<Verdict, number>> = {
  nested: RETRY,
  method: DO_NOT,
  one_shot_body: DO_NOT,
  opinion: DO_NOT,
};
/** Where no call around is known, an error has its judgement for whichever call gets it. */
const judgements = shared("judged", () => new WeakMap<object, number>());

/** Stores a call's judgement with its result, for the call around. */
export function leave(
  value: unknown,
  ok: boolean,
  verdict: Verdict,
  outcome: number,
  core: Core,
  around: Scope | undefined,
): void {
  const opinion = STEPS_BACK[verdict];
  if (opinion === undefined || outcome < 0) return;
  let kind = kindOf(outcome);
  if (kind >= KINDS.length) {
    // Kinds of another policy have other numbers.
    const base = core.declaredKinds()[kind - KINDS.length]?.[1];
    kind = KINDS.indexOf(base as (typeof KINDS)[number]);
  }
  const wait = Math.floor(outcome / RETRY_AFTER_UNIT) * RETRY_AFTER_UNIT;
  const word = wait + kind * KIND_UNIT + opinion * OPINION_UNIT;
  if (around !== undefined && marks?.leave(around, value, word) === true) return;
  if (!ok && typeof value === "object" && value !== null) judgements.set(value, word);
}

/** The judgement that was left with a result for the innermost call of a scope. It counts once, unless it is kept. */
export function taken(value: unknown, scope: Scope | undefined, keep = false): number | undefined {
  const outcome = scope && marks?.find(scope, value, keep);
  if (outcome !== undefined || typeof value !== "object" || value === null) return outcome;
  const known = judgements.get(value);
  if (!keep && known !== undefined) judgements.delete(value);
  return known;
}

/** Whether a result that is no failure by itself has a judgement for the call of a scope. */
export function isJudged(value: unknown, scope: Scope): boolean {
  return marks?.has(scope, value) === true;
}

/** The outcome of an answer that is no error: its own, or what an inner call has left with it. */
export function ofAnswered(own: number, left: number | undefined): number {
  return left !== undefined && (own > 0 || opinionIn(left) === RETRY) ? left : own;
}
