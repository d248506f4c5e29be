/**
 * How the typed options of a policy become the pairs that core checks.
 *
 * No default and no range stands here: both are in core's one table of keys (`core/src/policy/table.rs`), and what is left
 * out is left to it.
 */

import { type Mistake, PolicyError } from "./errors.js";
import type { Pair } from "./native.js";
import { FLAGS, LISTS, NAMES, POOLS, PRESENCE, PRESET_TABLES, SPANS } from "./options_gen.js";

/** The kinds of pools. */
export type PoolKind = keyof typeof POOLS;

/** Whether spans are numbers of milliseconds, as in options, or texts with a unit, as in documents. */
export type Form = "options" | "document";

/** `maxAttempts` as core has it: `max_attempts`. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** `max_attempts` as JavaScript has it, wherever it stands in a text. */
function camel(text: string): string {
  return text.replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) =>
    NAMES.has(name) ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name,
  );
}

/** Mistakes as core tells them, in the names that the author has used. */
export function mistakesOf(texts: readonly string[], form: Form): Mistake[] {
  const list: [string, string, string][] = [];
  const told = texts.map(spelled);
  for (let at = 0; at < told.length; at += 3) list.push(told.slice(at, at + 3) as [string, string, string]);
  return named(list, form);
}

/** Mistakes by key, value and rule. */
export function named(list: readonly (readonly [string, string, string])[], form: Form): Mistake[] {
  const name = form === "options" ? camel : (words: string) => words;
  return list.map(([key, value, rule]) => ({ key: name(key), value, rule: name(rule) }));
}

/** The small module leaves it to us to write numbers: what it tells are their bits. */
function spelled(text: string): string {
  return text.replace(/\ue000([0-9a-f]{16})/g, (_, bits: string) => {
    const number = new DataView(new ArrayBuffer(8));
    number.setBigUint64(0, BigInt(`0x${bits}`));
    return String(number.getFloat64(0));
  });
}

/** The pairs of a policy's options. */
export function pairsOf(settings: object, form: Form = "options"): Pair[] {
  const pairs: Pair[] = [];
  const preset = "preset" in settings && settings.preset !== undefined;
  for (const [key, value] of Object.entries(settings)) {
    flatten(form === "options" ? snake(key) : key, value, pairs, preset, form);
  }
  return pairs;
}

/** The pairs of a pool's options, which are those of its component, without the name of its table. */
export function pairsOfPool(kind: PoolKind, options: object, form: Form = "options"): Pair[] {
  const table = POOLS[kind];
  const pairs: Pair[] = [];
  flatten(table, options, pairs, false, form);
  return pairs.map(([key, value]) => [key.slice(table.length + 1), value]);
}

function flatten(path: string, given: unknown, pairs: Pair[], preset: boolean, form: Form): void {
  let value = given;
  if (value === undefined) return;
  const presence = PRESENCE[path];
  if (presence !== undefined) {
    if (value === null || value === "none") value = { kind: "none" };
    if (!isTable(value)) {
      throw new PolicyError([
        { key: camel(path), value: shown(value), rule: "must be an object of its options" },
      ]);
    }
    const before = pairs.length;
    for (const [key, item] of Object.entries(value)) {
      flatten(`${path}.${form === "options" ? snake(key) : key}`, item, pairs, preset, form);
    }
    if (pairs.length === before && !(preset && PRESET_TABLES.has(path))) pairs.push(presence);
  } else if (path === "kinds" && isTable(value)) {
    const kinds = Object.entries(value);
    for (const [name, base] of kinds) pairs.push([path, `${name}=${String(base)}`]);
    if (kinds.length === 0) pairs.push([path, ""]);
  } else if (LISTS.has(path) && Array.isArray(value)) {
    const items: unknown[] = value.length > 0 ? value : [""];
    for (const item of items) pairs.push([path, plain(path, item, form)]);
  } else if (isTable(value) && !(path.endsWith(".pool") && typeof value["name"] === "string")) {
    const items = Object.entries(value);
    if (items.length === 0) pairs.push([path, "{}"]);
    for (const [key, item] of items) {
      flatten(`${path}.${form === "options" ? snake(key) : key}`, item, pairs, preset, form);
    }
  } else {
    pairs.push([path, plain(path, value, form)]);
  }
}

/** A value as core takes it: a number or a word. Core names the mistake in what is neither. */
function plain(path: string, value: unknown, form: Form): number | string {
  if (value === null) return "none";
  if (typeof value === "object" && "name" in value && typeof value.name === "string") return value.name;
  if (typeof value === "boolean") return FLAGS.has(path) ? Number(value) : String(value);
  if (typeof value === "number" && !FLAGS.has(path)) {
    if (!SPANS.has(path)) return value;
    if (form === "document") return `${value}`;
    return Number.isFinite(value) ? Math.round(value * 1000) : value;
  }
  if (typeof value === "string") return form === "document" && SPANS.has(path) ? span(value) : value;
  return shown(value);
}

const UNITS: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };

/** Microseconds of a span such as `250ms`; what is none is left to core, which tells what is wrong with it. */
export function span(text: string): number | string {
  const found = /^([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)$/.exec(text);
  if (found === null) return text;
  const us = Number(found[1]) * (UNITS[found[2] as string] as number);
  // A product of decimals is off by a rounding error at most; a fraction of a microsecond is a mistake.
  const whole = Math.round(us);
  return Math.abs(us - whole) <= 1e-6 * Math.max(1, whole * 1e-6) ? whole : text;
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
