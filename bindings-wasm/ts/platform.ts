/**
 * What the platform gives: looked up when it is needed and never kept, so that the fake timers of a test framework are
 * in force with no set-up.
 */

/** A store that follows asynchronous work, as `AsyncLocalStorage` of `node:async_hooks`. */
export interface Storage<T> {
  getStore(): T | undefined;
  run<R, A extends unknown[]>(store: T, work: (...args: A) => R, ...args: A): R;
  /** Changes what is around the code that runs; undefined where the platform has it not, or not for certain. */
  enterWith?: ((store: T | undefined) => void) | undefined;
}

/** Runs work in what was around when this was made. */
export type Surroundings = <R>(work: () => R) => R;

interface StorageClass {
  new (): Storage<unknown>;
  /** Keeps what is around the code that runs, for later. */
  snapshot?(): Surroundings;
}

let storage: StorageClass | undefined;
let looked = false;
let enters = false;
let keep: (() => Surroundings) | undefined;

/** Says which class follows asynchronous work, that it can be entered, and how to keep what is around; the entry for Node does. */
export function provideStorage(kind: StorageClass, keeps: () => Surroundings): void {
  storage = kind;
  looked = true;
  enters = true;
  keep = keeps;
}

/** A store that follows asynchronous work, or undefined where the platform has none (browsers). */
export function newStorage<T>(): Storage<T> | undefined {
  if (!looked) {
    looked = true;
    type Host = { getBuiltinModule?: (name: string) => { AsyncLocalStorage?: StorageClass } | undefined };
    const host = (globalThis as { process?: Host }).process;
    try {
      storage = host?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
    } catch {
      storage = undefined; // it is not for us to have
    }
  }
  if (storage === undefined) return undefined;
  const made = new storage() as Storage<T>;
  if (!enters) made.enterWith = undefined; // Workers have one that throws
  return made;
}

/** What is around the code that runs, everybody's stores with it, for work that is done later from elsewhere. */
export function surroundings(): Surroundings | undefined {
  return keep === undefined ? storage?.snapshot?.() : keep();
}

/** Is this a page, or a worker of one? */
export function isBrowser(): boolean {
  // A Cloudflare Worker has the class that workers of pages have.
  return "document" in globalThis || ("WorkerGlobalScope" in globalThis && !isWorker());
}

/** Is this a Cloudflare Worker, where a promise of one request cannot be settled by another? */
export function isWorker(): boolean {
  return globalThis.navigator?.userAgent === "Cloudflare-Workers";
}

/** 32 random bits from the platform, twice. */
export function randomSeed(): [high: number, low: number] {
  const words = new Uint32Array(2);
  globalThis.crypto.getRandomValues(words);
  return [words[0] as number, words[1] as number];
}
