/** Tracking of asynchronous work by `AsyncLocalStorage`, if the platform has it. */

import type { Storage } from "../engine/platform.js";
import { shared } from "../engine/shared.js";
import type { Scope } from "./scope.js";

/** Runs work in the async context in which it was captured. */
export type Surroundings = <R>(work: () => R) => R;

interface StorageClass {
  new (): Storage<unknown>;
  readonly prototype: object;
  /** Captures the current async context. */
  snapshot?(): Surroundings;
}

let kind: StorageClass | undefined;
let looked = false;
let enters = false;
let resources: ResourceClass | undefined;
const kept = shared("scopes", (): { store?: Storage<Scope> | undefined } => ({}));

/** `AsyncResource` of `node:async_hooks`: captures the async context in which it is created, and runs work in it. */
type ResourceClass = new (
  type: string,
  options?: { requireManualDestroy: boolean },
) => { runInAsyncScope<T, A extends unknown[], R>(work: (this: T, ...args: A) => R, on?: T, ...args: A): R };

/** Sets the class that tracks asynchronous work, and allows `enterWith`. The entry for Node calls it. */
export function provideStorage(wanted: StorageClass, made: ResourceClass): void {
  kind = wanted;
  looked = true;
  resources = made;
  // Without promise hooks (Node 24 and newer), entering a store creates a new map, and so does leaving it. Restoring through a resource
  // is cheaper than that. On Node 20 a resource would do too, but there entering only sets a field, which is cheaper still.
  enters = "_propagate" in wanted.prototype;
}

/** The store of scopes; undefined if the platform has none. */
export function scopes(): Storage<Scope> | undefined {
  if (!("store" in kept)) kept.store = newStore();
  return kept.store;
}

/** Captures the current async context, including the stores of other libraries, for work that runs later from elsewhere. */
export function surroundings(): Surroundings | undefined {
  if (resources === undefined) return kind?.snapshot?.();
  // The function that `snapshot` returns takes 13 µs on Node 20, because it deprecates a property each time.
  const resource = new resources("tidegate", { requireManualDestroy: true });
  return (work) => resource.runInAsyncScope(work);
}

function newStore(): Storage<Scope> | undefined {
  if (!looked) {
    looked = true;
    type Host = { getBuiltinModule?: (name: string) => { AsyncLocalStorage?: StorageClass } | undefined };
    const host = globalThis as { process?: Host; AsyncLocalStorage?: StorageClass };
    try {
      // The Edge Runtime of Next.js has the class as a global.
      kind =
        host.process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage ?? host.AsyncLocalStorage;
    } catch {
      kind = undefined; // the host forbids access
    }
  }
  if (kind === undefined) return undefined;
  const made = new kind() as Storage<Scope>;
  if (enters) return made;
  // Workers have an `enterWith` that throws. It is left on the object, because `run` may use it.
  const run = resources === undefined ? made.run.bind(made) : throughResource(made, resources);
  return { getStore: () => made.getStore(), run };
}

/** Runs work in a store through a resource, which restores the context afterwards: this creates one map instead of two. */
export function throughResource(store: Storage<Scope>, Resource: ResourceClass): Storage<Scope>["run"] {
  const enterWith = store.enterWith as NonNullable<typeof store.enterWith>;
  function entered<R, A extends unknown[]>(
    this: Storage<Scope>,
    scope: Scope,
    work: (...args: A) => R,
    ...args: A
  ): R {
    enterWith.call(this, scope);
    return work(...args);
  }
  return (scope, work, ...args) =>
    new Resource("tidegate").runInAsyncScope(entered, store, scope, work, ...args);
}
