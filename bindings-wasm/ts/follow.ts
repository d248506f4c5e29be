/** What follows asynchronous work on this platform: `AsyncLocalStorage`, where there is one. */

import type { Storage } from "./platform.js";
import type { Scope } from "./scope.js";

interface StorageClass {
  new (): Storage<unknown>;
  /** Keeps what is around the code that runs, for later. */
  snapshot?(): <R>(work: () => R) => R;
}

let kind: StorageClass | undefined;
let looked = false;
let enters = false;
let store: Storage<Scope> | undefined;
let made = false;

/** Says which class follows asynchronous work, and that it can be entered; the entry for Node does. */
export function provideStorage(wanted: StorageClass): void {
  kind = wanted;
  looked = true;
  enters = true;
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
export function surroundings(): (<R>(work: () => R) => R) | undefined {
  return kind?.snapshot?.();
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
  if (!enters) made.enterWith = undefined; // Workers have one that throws
  return made;
}
