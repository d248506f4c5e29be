/**
 * Judgements that calls leave with their results for the call around them (semantics 1.6), and for no other call: a value such as `false`, or
 * an error that is thrown again and again, is the result of many. Pages do without, because they do not know the call around.
 */

import type { Engine } from "../engine/engine.js";
import { shared } from "../engine/shared.js";
import type { Scope } from "../run/scope.js";
import { DO_NOT, type Marks, opinionIn, statusOf } from "./judge.js";

/** The judgements of one result by the ids of the calls around. */
type Calls = Map<number, number>;

/** What has been left for the calls of an engine. */
interface Left {
  readonly objects: WeakMap<object, Calls>;
  readonly values: Map<unknown, Calls>;
}

/** Most judgements of one result: a call that never asks for its judgement leaves it behind. */
const MOST = 1000;
/** Most results that are no objects. The map keeps them alive, and a text may be long. */
const MOST_VALUES = 64;

/** What has been left, and whether any of it is no error: before that, results of functions need not be looked up. */
const all = shared("marks", () => ({ engines: new WeakMap<Engine, Left>(), answers: false }));

function isError(value: unknown): boolean {
  try {
    return value instanceof Error;
  } catch {
    return false; // a proxy that throws
  }
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

/** Puts an entry last, and removes the first one where there are too many. */
function put<K, V>(map: Map<K, V>, key: K, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > most) map.delete(map.keys().next().value as K);
}

/** The innermost call around, of any engine. */
function callAround(scope: Scope): Scope | undefined {
  let level: Scope | undefined = scope;
  while (level !== undefined && level.engine === undefined) level = level.around;
  return level;
}

function callsOf(left: Left, value: unknown): Calls | undefined {
  return isObject(value) ? left.objects.get(value) : left.values.get(value);
}

function add(left: Left, value: unknown, call: number, outcome: number): void {
  const calls: Calls = callsOf(left, value) ?? new Map();
  put(calls, call, outcome, MOST);
  if (isObject(value)) left.objects.set(value, calls);
  else put(left.values, value, calls, MOST_VALUES);
}

/** The judgement of a result for a call, which is taken unless it is kept. */
function found(left: Left, value: unknown, call: number, keep: boolean): number | undefined {
  const calls = callsOf(left, value);
  const outcome = calls?.get(call);
  if (outcome === undefined || keep) return outcome;
  calls?.delete(call);
  if (calls?.size === 0) left.values.delete(value);
  return outcome;
}

/** How many results that are no objects an engine keeps, for tests. */
export function valuesLeft(engine: Engine): number {
  return all.engines.get(engine)?.values.size ?? 0;
}

function contextOf(value: unknown): unknown {
  try {
    return isObject(value) ? (value as { context?: unknown }).context : undefined;
  } catch {
    return undefined; // a getter that throws
  }
}

export const marks: Marks = {
  leave(scope, value, outcome) {
    const level = callAround(scope);
    if (level?.engine === undefined) return false;
    // A function without a result returns undefined, whatever the inner call has returned.
    if (value === undefined || value === null) return true;
    let left = all.engines.get(level.engine);
    if (left === undefined) {
      left = { objects: new WeakMap(), values: new Map() };
      all.engines.set(level.engine, left);
    }
    add(left, value, level.call, outcome);
    // Clients make errors of their own from an answer, which have only its status.
    const status = opinionIn(outcome) === DO_NOT ? statusOf(value) : undefined;
    if (status !== undefined) add(left, `status ${status}`, level.call, outcome);
    all.answers ||= !isError(value);
    return true;
  },
  has: (scope, value) => (all.answers || isError(value)) && marks.find(scope, value, true) !== undefined,
  find(scope, value, keep) {
    const level = callAround(scope);
    const left = level?.engine === undefined ? undefined : all.engines.get(level.engine);
    if (level === undefined || left === undefined) return undefined;
    const outcome = found(left, value, level.call, keep);
    if (outcome !== undefined || !all.answers || !isObject(value)) return outcome;
    // undici gives its caller an object with the context in place of the result.
    const context = contextOf(value);
    return isObject(context) ? found(left, context, level.call, keep) : undefined;
  },
};
