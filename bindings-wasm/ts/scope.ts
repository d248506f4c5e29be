/** What calls inherit from around them: deadlines, criticality, and the call they are nested in. */

import type { Clock } from "./clock.js";
import type { Engine } from "./engine.js";
import { TidegateError } from "./errors.js";
import { newStorage, type Storage } from "./platform.js";
import { CRITICALITIES, type Criticality, packRemaining } from "./wire.js";

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

let storage: Storage<Scope> | undefined;
let made = false;

/** The store that follows asynchronous work; undefined where the platform has none. */
export function scopes(): Storage<Scope> | undefined {
  if (!made) {
    made = true;
    storage = newStorage<Scope>();
  }
  return storage;
}

const clocks = new Set<WeakRef<Clock>>();

/** A clock of a test exists from now on. */
export function addClock(clock: Clock): void {
  clocks.add(new WeakRef(clock));
}

/** What `begin` takes from around it. */
export interface Inherited {
  /** Time left, as `begin` takes it; 0 none. */
  limit: number;
  /** The call that it is nested in; 0 none. */
  parent: number;
  criticality: number | undefined;
}

/** What a call of this engine inherits. */
export function inherited(scope: Scope, engine: Engine): Inherited {
  const found: Inherited = { limit: 0, parent: 0, criticality: undefined };
  let ends: Scope["ends"];
  for (let level: Scope | undefined = scope; level !== undefined; level = level.around) {
    ends ??= level.ends;
    found.criticality ??= level.criticality;
    if (found.parent === 0 && level.engine === engine) found.parent = level.call;
  }
  if (ends !== undefined) {
    const { clock } = engine;
    const end = clock === undefined ? undefined : ends.tests.get(clock);
    if (clock === undefined) found.limit = packRemaining(ends.real - globalThis.performance.now());
    else if (end !== undefined) found.limit = packRemaining((end - clock.us()) / 1000);
  }
  return found;
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
 * @throws TidegateError where the platform has nothing that follows asynchronous work (browsers): give the deadline to
 * the call itself there, `policy.run(work, { deadline })`.
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
      else
        tests.set(
          clock,
          Math.min(tests.get(clock) ?? Number.POSITIVE_INFINITY, clock.us() + deadline * 1000),
        );
    }
    ends = {
      real: Math.min(ends?.real ?? Number.POSITIVE_INFINITY, globalThis.performance.now() + deadline),
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

/** Makes sure that a deadline is one. */
export function checkDeadline(deadline: unknown): asserts deadline is number {
  if (typeof deadline !== "number" || Number.isNaN(deadline)) {
    throw new RangeError(`deadline = ${String(deadline)}: must be a number of milliseconds`);
  }
}

/** The number of a criticality. */
export function criticalityOf(name: Criticality): number {
  const number = CRITICALITIES.indexOf(name);
  if (number < 0) {
    throw new RangeError(`criticality = ${String(name)}: must be one of ${CRITICALITIES.join(", ")}`);
  }
  return number;
}
