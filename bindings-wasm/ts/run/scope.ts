/** What calls inherit from around them: deadlines, criticality, and the call they are nested in. */

import type { Engine } from "../engine/engine.js";
import { type Criticality, packRemaining } from "../engine/wire.js";
import { TidegateError } from "../errors.js";
import type { Clock } from "../time/clock.js";
import { checkDeadline, criticalityOf, least } from "./call.js";
import { scopes } from "./follow.js";

/** What `begin` takes from around it. */
export interface Inherited {
  readonly flags: number;
  /** Time left, as `begin` takes it; 0 none. */
  readonly limit: number;
  /** The call that it is nested in; 0 none. */
  readonly parent: number;
}

/** One level of what is around the code that runs. */
export interface Scope {
  /** The engine whose call runs here, if this level is one. */
  readonly engine: Engine | undefined;
  /** That call's id. */
  readonly call: number;
  /** When everything inside has to end: on the platform's clock (ms), and on those of tests (µs). */
  readonly ends: { readonly real: number; readonly tests: ReadonlyMap<Clock, number> } | undefined;
  readonly criticality: number | undefined;
  readonly around: Scope | undefined;
}

const clocks = new Set<WeakRef<Clock>>();

/** A clock of a test exists from now on. */
export function addClock(clock: Clock): void {
  clocks.add(new WeakRef(clock));
}

/** What a call of this engine takes from around it; `own` if it says itself how much it matters. */
export function inherited(
  engine: Engine,
  scope: Scope,
  flags: number,
  limit: number,
  own: boolean,
): Inherited {
  let ends: Scope["ends"];
  let criticality: number | undefined;
  let parent = 0;
  for (let level: Scope | undefined = scope; level !== undefined; level = level.around) {
    ends ??= level.ends;
    criticality ??= level.criticality;
    if (parent === 0 && level.engine === engine) parent = level.call;
  }
  const { clock } = engine;
  let left = 0;
  if (ends !== undefined) {
    const end = clock === undefined ? undefined : ends.tests.get(clock);
    if (clock === undefined) left = packRemaining(ends.real - globalThis.performance.now());
    else if (end !== undefined) left = packRemaining((end - clock.us()) / 1000);
  }
  return {
    flags: criticality === undefined || own ? flags : (flags & ~3) | criticality,
    limit: least(limit, left),
    parent,
  };
}

/** What holds for every call inside `within`. */
export interface Bounds {
  /** Milliseconds in which everything inside has to end; the earlier of nested deadlines wins. */
  readonly deadline?: number | undefined;
  /** How much the calls inside matter to queues. */
  readonly criticality?: Criticality | undefined;
}

/**
 * Runs `work`; every call made inside it, in whatever policy, ends by the deadline and has the criticality.
 *
 * It follows asynchronous work through `AsyncLocalStorage` (Node, Deno, Bun, Workers with `nodejs_compat`).
 *
 * @throws RangeError if a bound is out of range.
 * @throws TidegateError where nothing follows asynchronous work (browsers): give the deadline to the call
 * itself there, `policy.run(work, { deadline })`.
 * @example
 * ```ts
 * const charge = policy({ retry: {} });
 * await within({ deadline: 2000 }, () => charge.run(() => "charged"));
 * ```
 */
export function within<T>(bounds: Bounds, work: () => T): T {
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
