/** What follows asynchronous work on this platform: `AsyncLocalStorage`, where there is one. */

import type { Storage } from "../engine/platform.js";
import type { Scope } from "./scope.js";

/** Runs work in what was around when this was made. */
export type Surroundings = <R>(work: () => R) => R;

interface StorageClass {
  new (): Storage<unknown>;
  readonly prototype: object;
  /** Keeps what is around the code that runs, for later. */
  snapshot?(): Surroundings;
}

let kind: StorageClass | undefined;
let looked = false;
let enters = false;
let resources: ResourceClass | undefined;
let store: Storage<Scope> | undefined;
let made = false;

/** `AsyncResource` of `node:async_hooks`: what is around the code that makes one is around what runs in it. */
type ResourceClass = new (
  type: string,
  options?: { requireManualDestroy: boolean },
) => { runInAsyncScope<T, A extends unknown[], R>(work: (this: T, ...args: A) => R, on?: T, ...args: A): R };

/** Says which class follows asynchronous work, and that it can be entered; the entry for Node does. */
export function provideStorage(wanted: StorageClass, made: ResourceClass): void {
  kind = wanted;
  looked = true;
  resources = made;
  // Where no hooks on promises follow (from Node 24 on), what is entered is a new map, and so is what is left. A resource goes back
  // for less, and is that on Node 20 already, but there a field is set, which is less still.
  enters = "_propagate" in wanted.prototype;
}

/** The store of scopes; undefined where the platform has none. */
export function scopes(): Storage<Scope> | undefined {
  if (!made) {
    made = true;
    store = newStore();
  }
  return store;
}

/** What is around the code that runs, everybody's stores with it, for work that is done later from elsewhere. */
export function surroundings(): Surroundings | undefined {
  if (resources === undefined) return kind?.snapshot?.();
  // What `snapshot` gives takes 13 µs on Node 20: each time it has a property deprecated.
  const resource = new resources("tidegate", { requireManualDestroy: true });
  return (work) => resource.runInAsyncScope(work);
}

function newStore(): Storage<Scope> | undefined {
  if (!looked) {
    looked = true;
    type Host = { getBuiltinModule?: (name: string) => { AsyncLocalStorage?: StorageClass } | undefined };
    const host = (globalThis as { process?: Host }).process;
    try {
      kind = host?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
    } catch {
      kind = undefined; // it is not for us to have
    }
  }
  if (kind === undefined) return undefined;
  const made = new kind() as Storage<Scope>;
  if (enters) return made;
  // Workers have an `enterWith` that throws. It stays where it is: `run` may want it.
  const run = resources === undefined ? made.run.bind(made) : throughResource(made, resources);
  return { getStore: () => made.getStore(), run };
}

/** `run` of a store by a resource, which brings back what was around: one map is made for it and not two. */
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
