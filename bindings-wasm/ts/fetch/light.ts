/**
 * Signals for Node's own `fetch`. It follows a signal by one listener; making an `AbortController`, and adding the listener to it, takes
 * most of what a signal costs a request (docs/adr/0068-what-an-http-client-pays.md). Other functions get a signal of the platform.
 */

import type { Lane } from "../run/lane.js";

type Listener = (this: unknown) => void;

/** A signal and its controller in one. Only Node's own `fetch` may get it, because the platform cannot combine it with other signals. */
class Light {
  aborted = false;
  reason: unknown = undefined;
  /** Read by Node's `getMaxListeners`; any number but the default, which makes undici raise it. */
  readonly _maxListeners = 0;
  #listener: Listener | undefined;
  #others: Set<Listener> | undefined;

  get signal(): AbortSignal {
    return this as unknown as AbortSignal;
  }

  addEventListener(_type: "abort", listener: Listener): void {
    if (this.#listener === undefined) this.#listener = listener;
    else {
      this.#others ??= new Set();
      this.#others.add(listener);
    }
  }

  removeEventListener(_type: "abort", listener: Listener): void {
    if (this.#listener === listener) this.#listener = undefined;
    else this.#others?.delete(listener);
  }

  /** Exists for Node's `getMaxListeners`. */
  getMaxListeners(): number {
    return this._maxListeners;
  }

  /** Exists for Node's `getEventListeners`. */
  listeners(): readonly Listener[] {
    return [];
  }

  abort(reason: unknown = new DOMException("This operation was aborted", "AbortError")): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const all = [this.#listener, ...(this.#others ?? [])];
    for (const listener of all) listener?.call(this);
  }
}

/** The function that was last examined, and whether it takes these signals. */
let known: unknown;
let takes = false;

/** Whether this is Node's own `fetch`, whose requests follow these signals. */
function isTaken(fetch: unknown): boolean {
  if (fetch === known) return takes;
  known = fetch;
  takes = false;
  // Only a function of Node itself can load this module, so a function that wraps Node's does not have the text.
  if (!Function.prototype.toString.call(fetch).includes("require('internal/deps/undici/undici')"))
    return false;
  try {
    const light = new Light();
    const { signal } = new Request("http://localhost", { signal: light.signal });
    const before = signal.aborted;
    light.abort();
    takes = !before && signal.aborted && signal.reason === light.reason;
  } catch {
    // this version of Node takes its own signals only
  }
  return takes;
}

/** Gives an attempt such a signal if the global `fetch` takes it. */
export function lighten(lane: Lane): void {
  if (lane.controller === undefined && !lane.stopped && isTaken(globalThis.fetch))
    lane.controller = new Light();
}

// Requests check that a signal is an `AbortSignal`.
Object.setPrototypeOf(Light.prototype, AbortSignal.prototype);
