/**
 * Features of the platform. They are looked up on each use and never cached, so that the fake timers of a test framework work without
 * set-up.
 */

import type { CompiledModule } from "./global_types.js";

/** A store that follows asynchronous work, like `AsyncLocalStorage` of `node:async_hooks`. */
export interface Storage<T> {
  getStore(): T | undefined;
  run<R, A extends unknown[]>(store: T, work: (...args: A) => R, ...args: A): R;
  /** Sets the current scope. Undefined if the platform lacks it or does not support it reliably. */
  enterWith?: ((store: T | undefined) => void) | undefined;
}

/** Whether this is a page, or a worker of one. */
export function isBrowser(): boolean {
  // Cloudflare Workers have the class `WorkerGlobalScope` too.
  return "document" in globalThis || ("WorkerGlobalScope" in globalThis && !isWorker());
}

/** Whether this is a Cloudflare Worker, where one request cannot settle a promise of another. */
export function isWorker(): boolean {
  return globalThis.navigator?.userAgent === "Cloudflare-Workers";
}

/** A reference that may be weak. */
export interface Weak<T> {
  deref(): T | undefined;
}

/** A weak reference; a strong one where there are none, as on Workers with a compatibility date before May 2025. */
export function weak<T extends object>(it: T): Weak<T> {
  return typeof WeakRef === "undefined" ? { deref: () => it } : new WeakRef(it);
}

/** Two random numbers of 32 bits from the platform. */
export function randomSeed(): [high: number, low: number] {
  const words = new Uint32Array(2);
  try {
    globalThis.crypto.getRandomValues(words);
  } catch {
    // Cloudflare Workers refuse it while a script is loaded, which is when most policies are made.
    words.set([Math.random() * 2 ** 32, Math.random() * 2 ** 32]);
  }
  return [words[0] as number, words[1] as number];
}

/** Whether this is a compiled module, also one of another realm, as the Edge Runtime of Next.js passes them. */
export function isModule(code: object): code is CompiledModule {
  return Object.prototype.toString.call(code) === "[object WebAssembly.Module]";
}
