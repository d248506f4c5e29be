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
