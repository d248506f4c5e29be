/**
 * Conversion of a policy's typed options into the pairs that core checks.
 *
 * This file has no defaults and no ranges: both are in core's one table of keys (`core/src/policy/components`), and core fills in
 * absent options.
 */

import { type Mistake, snake, wrong } from "../errors/errors.js";
import type { Settings } from "../options_gen.js";
import { POOLS, PRESENCE } from "../options_gen.js";
import { about, type Pair } from "./native.js";

/** The kinds of pools. */
export type PoolKind = keyof typeof POOLS;

// The answers of `about`.
const NOTHING = 0;
const SPAN = 3;
const FLAG = 4;
const LIST = 5;

/** A notation for settings. */
export interface Form {
  /** Core's name of a key. */
  key(name: string): string;
  /** A key of core's, or a text of core's that names keys, in the author's notation. */
  inAuthorsWords(text: string, isKey: boolean): string;
  /** A span in microseconds. An invalid span is passed on as it is, and core reports the mistake. */
  span(value: number | string): number | string;
  /** What a text is in core's table of keys. */
  about(text: string): number;
}

/** The notation of JavaScript: `maxAttempts`, and spans in milliseconds. */
export const OPTIONS: Form = {
  key: snake,
  inAuthorsWords(text, isKey) {
    return text.replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) =>
      isKey || this.about(name) !== NOTHING
        ? name.replace(/_./g, (letter) => letter.slice(1).toUpperCase())
        : name,
    );
  },
  span: (value) => (typeof value === "number" && Number.isFinite(value) ? Math.round(value * 1000) : value),
  about,
};

/** Mistakes from core's texts (key, value, rule, key, …), in the names and units that the author of these pairs has used. */
export function mistakesOf(texts: readonly string[], form: Form, pairs: readonly Pair[] = []): Mistake[] {
  const list: Mistake[] = [];
  const plain = texts.map(spelled);
  for (let at = 0; at + 2 < plain.length; at += 3) {
    const [key, value, rule] = plain.slice(at) as [string, string, string];
    const given = form.about(key) === SPAN ? pairs.find(([name]) => name === key)?.[1] : undefined;
    const written = typeof given === "number" ? `${Number.isFinite(given) ? given / 1000 : given} ms` : value;
    const hint = typeof given === "string" ? "; in code a span is a number of milliseconds" : "";
    list.push({
      key: form.inAuthorsWords(key, true),
      value: written,
      rule: form.inAuthorsWords(rule, false) + hint,
    });
  }
  return list;
}

/**
 * Tables, and words and keys of other tables, that only the full module knows. This guess saves a page a round trip; the small module
 * has the final say. `tests/small.test.ts` compares the two, key by key.
 */
const FULL_TABLES = ["hedge", "throttle", "cooldown", "kinds"];
const FULL_WORDS =
  /:"(?:graph|aws_\w+|grpc|llm|ratio|share|tokens|quota|cubic|aimd|gradient2|fleet)"|"(?:pool|limits|hold|readErrors|throttledStatuses|prioritized|queueTarget|queueAdaptiveLifo|firstByteTimeout|idleTimeout|deadlineUntil|counts|settleUnknown|learn|estimateQuantile|failoverOn|targets)":|"statuses":\[[^\]]*\b409\b/;

/** Whether a policy needs the full module. */
export function needsFull(settings: object): boolean {
  if (FULL_TABLES.some((name) => (settings as Record<string, unknown>)[name] !== undefined)) return true;
  try {
    // A pool is an instance of a class. Only the full module has pools.
    const namePools = (_: string, value: unknown) =>
      typeof value === "object" && value !== null && !Array.isArray(value) && !isPlain(value)
        ? "pool"
        : value;
    return FULL_WORDS.test(JSON.stringify(settings, namePools));
  } catch {
    return false; // the engine reports the mistake
  }
}

/** A copy of settings as their author wrote them, for later use. */
export function asWritten(settings: Settings): Settings {
  const copied = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(copied);
    if (typeof value !== "object" || value === null || !isPlain(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copied(each)]));
  };
  return copied(settings) as Settings;
}

function isPlain(value: object): boolean {
  const made = Object.getPrototypeOf(value) as unknown;
  return made === null || made === Object.prototype;
}

/** Replaces encoded numbers in a text. The small module has no code to print numbers and writes their bits. */
function spelled(text: string): string {
  return text.replace(/\ue000([0-9a-f]{16})/g, (_, bits: string) => {
    const number = new DataView(new ArrayBuffer(8));
    number.setBigUint64(0, BigInt(`0x${bits}`));
    return String(number.getFloat64(0));
  });
}

/** Converts a policy's options to pairs. */
export function pairsOf(settings: { readonly preset?: unknown }, form: Form = OPTIONS): Pair[] {
  return flattened("", settings, settings.preset !== undefined, form);
}

/** Converts a pool's options to pairs: the keys of its component without the name of the table. */
export function pairsOfPool(kind: PoolKind, options: object, form: Form = OPTIONS): Pair[] {
  const table = POOLS[kind];
  return flattened(table, options, false, form).map(([key, value]) => [key.slice(table.length + 1), value]);
}

/** The pairs of the table at this path; the empty path is the policy itself. */
function flattened(path: string, settings: object, preset: boolean, form: Form): Pair[] {
  const pairs: Pair[] = [];
  const below = (above: string, table: object) => {
    for (const [name, value] of Object.entries(table)) flatten(above + form.key(name), value);
  };
  const flatten = (path: string, value: unknown): void => {
    if (value === undefined) return;
    const presence = Object.hasOwn(PRESENCE, path) ? PRESENCE[path] : undefined;
    let table =
      isTable(value) && !(path.endsWith(".pool") && typeof value["name"] === "string") ? value : undefined;
    if (presence !== undefined) {
      if (value === null || value === "none") table = { kind: "none" };
      if (table === undefined)
        wrong(form.inAuthorsWords(path, true), shown(value), "must be an object of its options");
    }
    const before = pairs.length;
    if (table === undefined) {
      const items = Array.isArray(value) && form.about(path) === LIST ? value : [value];
      for (const item of items.length > 0 ? items : [""]) pairs.push([path, plain(path, item, form)]);
    } else if (path === "kinds") {
      for (const [name, base] of Object.entries(table)) pairs.push([path, `${name}=${String(base)}`]);
      if (pairs.length === before) pairs.push([path, ""]);
    } else {
      below(`${path}.`, table);
      const [key, by, ofPreset] = presence ?? [];
      if (pairs.length === before && !(preset && ofPreset)) {
        pairs.push(key === undefined ? [path, "{}"] : [`${path}.${key}`, by as string | number]);
      }
    }
  };
  if (path === "") below("", settings);
  else flatten(path, settings);
  return pairs;
}

/** Converts a value for core: a number or a word. Other values become text, and core reports the mistake. */
function plain(path: string, value: unknown, form: Form): number | string {
  if (value === null) return "none";
  if (typeof value === "object" && "name" in value && typeof value.name === "string") return value.name;
  const what = form.about(path);
  if (typeof value === "boolean" && what === FLAG) return Number(value);
  if (typeof value === "string" || (typeof value === "number" && what !== FLAG)) {
    return what === SPAN ? form.span(value) : value;
  }
  return shown(value);
}

function isTable(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}
