/** What calls inherit from the scope around them: deadline, criticality, and the call in which they are nested. */

import type { Engine } from "../engine/engine.js";
import { type Weak, weak } from "../engine/platform.js";
import { shared } from "../engine/shared.js";
import { type Criticality, packRemaining } from "../engine/wire.js";
import { checkNames, TidegateError } from "../errors/errors.js";
import type { Clock } from "../time/clock.js";
import { checkDeadline, criticalityOf, least } from "./call.js";
import { scopes } from "./follow.js";

/** Inherited arguments of `begin`. */
export interface Inherited {
  readonly flags: number;
  /** Time left to the deadline, encoded for `begin`; 0 for none. */
  readonly limit: number;
  /** The call in which it is nested; 0 for none. */
  readonly parent: number;
}

/** One scope around the running code. */
export interface Scope {
  /** The engine of the call that runs here; undefined for a scope of `within`. */
  readonly engine: Engine | undefined;
  /** The id of that call. */
  readonly call: number;
  /** The deadline for everything inside: on the platform's clock (ms), and on the clocks of tests (µs). */
  readonly ends: { readonly real: number; readonly tests: ReadonlyMap<Clock, number> } | undefined;
  readonly criticality: number | undefined;
  readonly around: Scope | undefined;
  /** The target of the attempt that runs here. */
  readonly target?: string | undefined;
}

const clocks = shared("clocks", () => new Set<Weak<Clock>>());

/** Registers the clock of a test. */
export function addClock(clock: Clock): void {
  clocks.add(weak(clock));
}

/**
 * What a call of this engine inherits; `own`: it states its own criticality. The engine itself knows the deadline of the call of its own in
 * which it is nested. That of another engine's call holds too if both read the same clock (semantics 7.3.3).
 */
export function inherited(
  engine: Engine,
  scope: Scope,
  flags: number,
  limit: number,
  own: boolean,
): Inherited {
  const { clock } = engine;
  let ends: Scope["ends"];
  let criticality: number | undefined;
  let parent = 0;
  let left = 0;
  for (let level: Scope | undefined = scope; level !== undefined; level = level.around) {
    ends ??= level.ends;
    criticality ??= level.criticality;
    const other = level.engine;
    if (other === engine) parent ||= level.call;
    else if (other !== undefined && other.clock === clock) left = least(left, leftOf(other, level.call));
  }
  if (ends !== undefined) {
    const end = clock === undefined ? undefined : ends.tests.get(clock);
    if (clock === undefined) left = least(left, packRemaining(ends.real - globalThis.performance.now()));
    else if (end !== undefined) left = least(left, packRemaining((end - clock.us()) / 1000));
  }
  return {
    flags: criticality === undefined || own ? flags : (flags & ~3) | criticality,
    limit: least(limit, left),
    parent,
  };
}

/** The time left of a call, encoded for `begin`; 0 if it has no deadline, or has ended. */
function leftOf(engine: Engine, call: number): number {
  const us = engine.native.time_left(engine.handle, call, engine.moment());
  return us < 0 ? 0 : packRemaining(us / 1000);
}

/** Limits for every call inside `within`. */
export interface Bounds {
  /** The deadline for everything inside, in milliseconds; the earliest of nested deadlines applies. */
  readonly deadline?: number | undefined;
  /** The priority of the calls inside in queues. */
  readonly criticality?: Criticality | undefined;
}

/**
 * Runs `work`. Every call made inside, of any policy, gets this deadline and criticality.
 *
 * Inheritance follows asynchronous work through `AsyncLocalStorage` (Node, Deno, Bun, Workers with `nodejs_compat`).
 *
 * @throws RangeError If a bound is out of range.
 * @throws TidegateError On platforms without `AsyncLocalStorage` (browsers): give the deadline to the call itself there,
 * `policy.run(work, { deadline })`.
 * @example
 * ```ts
 * const charge = policy({ retry: {} });
 * await within({ deadline: 2000 }, () => charge.run(() => "charged"));
 * ```
 */
export function within<T>(bounds: Bounds, work: () => T): T {
  checkNames("within", bounds, "deadline criticality");
  const store = scopes();
  if (store === undefined) {
    throw new TidegateError(
      "within needs AsyncLocalStorage, which this platform has not: give the deadline to the call, policy.run(work, { deadline })",
    );
  }
  const { deadline, criticality } = bounds;
  const around = store.getStore();
  let ends = deepest(around);
  if (deadline !== undefined) {
    checkDeadline(deadline);
    const tests = new Map(ends?.tests);
    for (const ref of clocks) {
      const clock = ref.deref();
      if (clock === undefined) clocks.delete(ref);
      else tests.set(clock, Math.min(tests.get(clock) ?? Infinity, clock.us() + deadline * 1000));
    }
    ends = {
      real: Math.min(ends?.real ?? Infinity, globalThis.performance.now() + deadline),
      tests,
    };
  }
  const level = criticality === undefined ? undefined : criticalityOf(criticality);
  return store.run({ engine: undefined, call: 0, ends, criticality: level, around }, work);
}

function deepest(scope: Scope | undefined): Scope["ends"] {
  for (let level = scope; level !== undefined; level = level.around)
    if (level.ends !== undefined) return level.ends;
  return undefined;
}
