/** What errors of plain functions mean (semantics 1.5): core's table, looked up by the first failure. */

import { isWorker } from "./engine/platform.js";
import {
  KIND_UNIT,
  KINDS,
  OPINION_UNIT,
  packOutcome,
  RETRY_AFTER_UNIT,
  type Verdict,
} from "./engine/wire.js";
import { Rejected, TidegateError } from "./errors.js";
import { DEEPEST, HEADER_PATHS, NAMES, NOTE, STATUS_PATHS, WRAPS } from "./errors_gen.js";
import type { Core } from "./run/core.js";

/** A class of errors, for `on`. */
export type ErrorClass = abstract new (...args: never[]) => unknown;

/** Permanent, because nothing is known of the error: its note says so. */
export const UNLISTED = -3;
/** Permanent by a status or by an end of our own: no note is needed. */
const SAID = -4;

const TRANSIENT = 1;
const THROTTLED = 2;
const TIMEOUT = 3;
const CONFLICT = 5;
const PERMANENT = 6;
const MEMBERS = 8;
/** Added to the class of a name that a wrapper has. */
const WRAPPER = 16;

/** What browsers say when a connection fails: `TypeError`s that are told from mistakes by their words alone. */
const NETWORK =
  /^(?:Failed to fetch|Load failed|NetworkError when attempting to fetch resource\.|The network connection was lost\.|Network request failed|terminated|network error|The Internet connection appears to be offline\.)/i;

/** Tables of words by class, as a map from each word to the number of its class. */
function words(...tables: [Readonly<Record<string, string>>, number][]): Map<string, number> {
  const map = new Map<string, number>();
  for (const [table, more] of tables) {
    for (const [name, list] of Object.entries(table)) {
      const number = KINDS.indexOf(name as (typeof KINDS)[number]) + more;
      for (const word of list.split(" ")) map.set(word, number);
    }
  }
  return map;
}

/** What servers meet, which pages do not load (`errors_server_gen.ts`). */
export interface ServerTable {
  readonly NAMES: Readonly<Record<string, string>>;
  readonly WRAPS: Readonly<Record<string, string>>;
  readonly SQLSTATES: Readonly<Record<string, string>>;
  readonly THROTTLING: string;
  readonly GRPC: string;
}

let server: ServerTable = { NAMES: {}, WRAPS: {}, SQLSTATES: {}, THROTTLING: "", GRPC: "" };
let names: Map<string, number> | undefined;
let states: Map<string, number> | undefined;

/** Entries for servers teach the rest of the table. */
export function teach(table: ServerTable): void {
  server = table;
  names = states = undefined;
}

/** A property, or undefined: what throws counts as absent. */
function read(value: unknown, name: string): unknown {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return undefined;
  try {
    return (value as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function at(value: unknown, path: string): unknown {
  return path.split(".").reduce(read, value);
}

/** The number of the class or kind of an outcome. */
function kindOf(outcome: number): number {
  return Math.floor(outcome / KIND_UNIT) % 32;
}

/** The outcome with another opinion. Words are longer than what bit operators keep. */
function withOpinion(outcome: number, opinion: number): number {
  return outcome + (opinion - (Math.floor(outcome / OPINION_UNIT) % 4)) * OPINION_UNIT;
}

function mayPass(outcome: number): boolean {
  return outcome >= 0 && kindOf(outcome) >= TRANSIENT && kindOf(outcome) <= CONFLICT;
}

/** The outcome of an error under a policy (without one a status says nothing), or `UNLISTED`. */
export function judge(error: unknown, core: Core | undefined): number {
  let outcome = taken(error);
  if (outcome === undefined) {
    try {
      outcome = chain(error, core, []);
    } catch {} // what cannot be looked at says nothing
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

/** What an error says, else its cause, else its members; undefined if none of them says anything. */
function chain(error: unknown, core: Core | undefined, seen: unknown[], grouped = false): number | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  if (seen.length >= DEEPEST || seen.includes(error)) return undefined;
  seen.push(error);
  const said = says(error, core);
  if (said !== undefined && (said < 0 || kindOf(said) < WRAPPER)) return said;
  const inner = chain(read(error, "cause"), core, seen, grouped) ?? group(error, core, seen, grouped);
  return inner ?? (said === undefined ? undefined : said - WRAPPER * KIND_UNIT);
}

/** A group may be repeated if each of its first members may (semantics 1.5.14). */
function group(
  error: unknown,
  core: Core | undefined,
  seen: unknown[],
  grouped: boolean,
): number | undefined {
  const members = read(error, "errors");
  if (!Array.isArray(members) || members.length === 0 || grouped) return undefined;
  const outcomes = members.slice(0, MEMBERS).map((member) => chain(member, core, [...seen], true));
  return outcomes.every((outcome) => outcome !== undefined && mayPass(outcome)) ? outcomes[0] : undefined;
}

/** What this error says of itself: an outcome, with `WRAPPER` added to its class where a cause goes before it. */
function says(error: object, core: Core | undefined): number | undefined {
  if (error instanceof TidegateError) return ofOurs(error);
  const code = read(error, "code");
  const name = read(error, "name");
  const known = core === undefined ? undefined : status(error, core, code, name);
  if (known !== undefined) return known;
  const state = read(error, "sqlState") ?? (read(error, "severity") === undefined ? undefined : code);
  if (typeof state === "string" && state.length === 5) {
    states ??= words([server.SQLSTATES, 0]);
    return (states.get(state) ?? states.get(state.slice(0, 2)) ?? PERMANENT) * KIND_UNIT;
  }
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
  const message = read(error, "message");
  if (name === "TypeError" && read(error, "cause") === undefined && NETWORK.test(String(message))) {
    return TRANSIENT * KIND_UNIT;
  }
  // A Cloudflare Worker's lost connection is an `Error` that says this, and not where it was overload.
  const passes = read(error, "retryable") === true && read(error, "overloaded") !== true && isWorker();
  return passes ? TRANSIENT * KIND_UNIT : undefined;
}

/** An inner policy's end: a refusal is retryable, and no evidence about the far side (semantics 1.4). */
function ofOurs(error: TidegateError): number {
  if (error.httpStatus === 429) return packOutcome(THROTTLED, 0, error.retryIn);
  if (error instanceof Rejected) return CONFLICT * KIND_UNIT;
  return error.httpStatus === 504 ? TIMEOUT * KIND_UNIT : SAID;
}

/** A status or a code on the error, judged as an answer. */
function status(error: object, core: Core, code: unknown, name: unknown): number | undefined {
  const throttled = [name, code, read(error, "Code")].some(
    (word) => typeof word === "string" && ` ${server.THROTTLING} `.includes(` ${word} `),
  );
  if (throttled) return answer(error, core, 429);
  for (const path of STATUS_PATHS.split(" ")) {
    const found = at(error, path);
    if (Number.isInteger(found) && (found as number) >= 400 && (found as number) < 600) {
      return answer(error, core, found as number);
    }
  }
  const metadata = read(error, "metadata");
  if (typeof code !== "number" || metadata === undefined) return undefined;
  const meaning = server.GRPC.split(" ")[code];
  if (meaning === undefined) return undefined;
  const kind = KINDS.indexOf(meaning as (typeof KINDS)[number]);
  if (kind >= 0) return kind * KIND_UNIT;
  let map: unknown;
  try {
    map = (metadata as { getMap(): unknown }).getMap();
  } catch {}
  return judged(core, Number(meaning), map);
}

function answer(error: object, core: Core, found: number): number {
  for (const path of HEADER_PATHS.split(" ")) {
    const headers = at(error, path);
    if (headers !== undefined && headers !== null) return judged(core, found, headers);
  }
  return judged(core, found, undefined);
}

function judged(core: Core, found: number, headers: unknown): number {
  const bare = () => core.engine.classify(core.number, found, undefined);
  let outcome: number;
  try {
    outcome = core.engine.classify(core.number, found, listed(headers));
  } catch {
    outcome = bare(); // headers that cannot be read are none
  }
  return outcome === PERMANENT * KIND_UNIT ? SAID : outcome;
}

/** Headers of any library, as the engine asks for them. */
function listed(headers: unknown): Headers | undefined {
  if (typeof headers !== "object" || headers === null) return undefined;
  if (!Array.isArray(headers) && typeof read(headers, "forEach") === "function") return headers as Headers;
  const pairs: unknown[] = Array.isArray(headers) ? headers : Object.entries(headers);
  const forEach = (each: (value: string, name: string) => void) => {
    for (const pair of pairs) if (Array.isArray(pair)) each(String(pair[1]), String(pair[0]));
  };
  return { forEach } as unknown as Headers;
}

/** The note of an error that nothing is known of. */
export function noteOfUnlisted(error: unknown): string {
  const own = read(read(error, "constructor"), "name");
  const name = typeof own === "string" && own !== "" ? own : typeof error;
  return NOTE.replace("{error}", name).replace("{on}", `on: [${name}]`);
}

// Judgements that calls leave for the call around them when they step back from a retry (semantics 1.6).

const RETRY = 1;
const DO_NOT = 2;
/** The verdicts that leave a judgement, and whether the call around may repeat. */
const STEPS_BACK: Partial<Record<Verdict, number>> = {
  nested: RETRY,
  method: DO_NOT,
  one_shot_body: DO_NOT,
  opinion: DO_NOT,
};
const left = new WeakMap<object, number>();
let anyAnswer = false;

/** Leaves what a call has judged with its result, for the next call around it. */
export function leave(value: unknown, ok: boolean, verdict: Verdict, outcome: number, core: Core): void {
  const opinion = STEPS_BACK[verdict];
  if (opinion === undefined || outcome < 0 || typeof value !== "object" || value === null) return;
  if (ok && opinion === DO_NOT) return;
  let kind = kindOf(outcome);
  if (kind >= KINDS.length) {
    // The kinds of another policy have other numbers.
    const base = core.engine.declaredKinds(core.number)[kind - KINDS.length]?.[1];
    kind = KINDS.indexOf(base as (typeof KINDS)[number]);
  }
  const wait = Math.floor(outcome / RETRY_AFTER_UNIT) * RETRY_AFTER_UNIT;
  left.set(value, wait + kind * KIND_UNIT + opinion * OPINION_UNIT);
  anyAnswer ||= ok;
}

/** Was something left with this answer? */
export function isLeft(value: unknown): boolean {
  return anyAnswer && typeof value === "object" && value !== null && left.has(value);
}

/** Takes what was left with a result: it counts once. */
export function taken(value: unknown): number | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const outcome = left.get(value);
  if (outcome !== undefined) left.delete(value);
  return outcome;
}
