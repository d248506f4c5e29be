/**
 * Judgements that calls leave with their results for the call around them (semantics 1.6), and for no other call: a value such as `false`, or
 * an error that is thrown again and again, is the result of many. Pages do without, because they do not know the call around.
 */

import type { Engine } from "../engine/engine.js";
import { shared } from "../engine/shared.js";
import type { Scope } from "../run/scope.js";
import type { Marks } from "./judge.js";

/** The judgements of one result by the ids of the calls around. */
type Calls = Map<number, number>;

/** What has been left for the calls of an engine. */
interface Left {
  readonly objects: WeakMap<object, Calls>;
  readonly values: Map<unknown, Calls>;
}

/** Most judgements of one result, and most values: a call that never asks for its judgement leaves it behind. */
const MOST = 1000;

const engines = shared("marks", () => new WeakMap<Engine, Left>());

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}

function bound(map: Map<unknown, unknown>): void {
  if (map.size > MOST) map.delete(map.keys().next().value);
}

/** The innermost call around, of any engine. */
function callAround(scope: Scope): Scope | undefined {
  let level: Scope | undefined = scope;
  while (level !== undefined && level.engine === undefined) level = level.around;
  return level;
}

/** The same for a result and for what undici gives its caller in place of the result: an object with its context. */
function found(left: Left, value: unknown, call: number, keep: boolean): number | undefined {
  const calls = isObject(value) ? left.objects.get(value) : left.values.get(value);
  const outcome = calls?.get(call);
  if (outcome !== undefined && !keep) calls?.delete(call);
  return outcome;
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
    let left = engines.get(level.engine);
    if (left === undefined) {
      left = { objects: new WeakMap(), values: new Map() };
      engines.set(level.engine, left);
    }
    const calls: Calls = (isObject(value) ? left.objects.get(value) : left.values.get(value)) ?? new Map();
    calls.set(level.call, outcome);
    bound(calls);
    if (isObject(value)) left.objects.set(value, calls);
    else {
      left.values.set(value, calls);
      bound(left.values);
    }
    return true;
  },
  find(scope, value, keep) {
    const level = callAround(scope);
    const left = level?.engine === undefined ? undefined : engines.get(level.engine);
    if (level === undefined || left === undefined) return undefined;
    const outcome = found(left, value, level.call, keep);
    if (outcome !== undefined || !isObject(value)) return outcome;
    const context = contextOf(value);
    return isObject(context) ? found(left, context, level.call, keep) : undefined;
  },
};
