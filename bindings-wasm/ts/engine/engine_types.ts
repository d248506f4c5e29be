/** Types of the options and results of an engine. */

import type { Clock } from "../time/clock.js";

/** State of the device's link to its networks: see `Engine.setLink`. */
export type Link = "ok" | "metered" | "offline";

/** The states in the order of their numbers. */
export const LINKS: readonly Link[] = ["ok", "metered", "offline"];

/** Options of an engine. */
export interface EngineOptions {
  /** The seed of all randomness, 0 to 2^53 − 1; random if absent. */
  readonly seed?: number | undefined;
  /** A clock that replaces `performance.now()`: `FakeClock` of `tidegate/testing`. */
  readonly clock?: Clock | undefined;
  /** Number of routes to keep state for, 1 to 524,288; 10,000 by default. */
  readonly maxRoutes?: number | undefined;
  /**
   * Whether a call knows the call that it is made in. The default is true if the platform has `AsyncLocalStorage`. `false` saves about
   * 0.1 µs per promise on Node 20 and 22 and 0.15 µs per call on newer versions, but then retries within retries multiply.
   */
  readonly nesting?: boolean | undefined;
  /**
   * Whether calls may wait in queues. The default is true except on Cloudflare Workers, where one request cannot settle a promise of
   * another.
   */
  readonly queues?: boolean | undefined;
  /**
   * Whether the engine records all its inputs, for `journal`, `replay`, and `explain` of calls that have ended. Off by default: until
   * it is taken, a journal grows by about 80 bytes per event, up to 100,000 inputs.
   */
  readonly journal?: boolean | undefined;
  /**
   * Number of records that the engine keeps about calls that were retried, refused or failed, for `explain`; 512 by default, about 70 kB.
   * A call takes two to five. 0 turns it off.
   */
  readonly history?: number | undefined;
}

/** The result of `Engine.save`: plain JSON. */
export interface SavedState {
  /** When it was saved, in milliseconds since the epoch. */
  readonly at: number;
  /** The learned state. */
  readonly state: unknown;
}

/** The result of `Engine.restore`. */
export interface Restored {
  /** Number of routes restored. */
  readonly routes: number;
  /** Number of routes left out for lack of room. */
  readonly leftOut: number;
  /** Policies and pools of the saved state that this engine lacks: make them before `restore`. */
  readonly unknown: readonly (readonly [what: string, name: string])[];
  /** Components that start fresh because their settings have changed. */
  readonly dropped: readonly (readonly [what: string, name: string, component: string])[];
}

/** A 64-bit seed: the upper half, and a whole number whose lower 32 bits are the lower half. */
export type Halves = readonly [high: number, low: number];

/** A waiting call that the engine can wake. */
export interface Waiter {
  wake(): void;
}
