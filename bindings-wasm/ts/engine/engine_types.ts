/** What an engine is made with, and what it gives. */

import type { Clock } from "../time/clock.js";

/** How an engine is made. */
export interface EngineOptions {
  /** All the randomness there is, 0 to 2^53 − 1; drawn from the platform where it is left out. */
  readonly seed?: number | undefined;
  /** A `FakeClock` of `tidegate/testing` in the place of `performance.now()`. */
  readonly clock?: Clock | undefined;
  /** How many routes it keeps state for, 1 to 524,288; 10,000 by default. */
  readonly maxRoutes?: number | undefined;
  /**
   * Do calls know the call that they are made in? By default where the platform has `AsyncLocalStorage`; `false` saves what
   * that costs, about 0.1 µs for each promise on Node 20 and 22 and 0.15 µs for each call on newer ones, and lets retries within
   * retries multiply.
   */
  readonly nesting?: boolean | undefined;
  /**
   * May calls wait in queues? By default everywhere but on Cloudflare Workers, where a promise of one request cannot be
   * settled by another.
   */
  readonly queues?: boolean | undefined;
  /**
   * Does it write down everything that is put into it: for `journal`, `replay`, and `explain` of calls that have ended? Not by
   * default: a journal grows by about 80 bytes an event, until it is taken, up to 100,000 inputs.
   */
  readonly journal?: boolean | undefined;
}

/** What `Engine.save` gives: plain JSON. */
export interface SavedState {
  /** When it was saved, in milliseconds of the epoch. */
  readonly at: number;
  /** What the engine has learned. */
  readonly state: unknown;
}

/** What a restore has done. */
export interface Restored {
  /** Routes that go on. */
  readonly routes: number;
  /** Routes for which there was no room. */
  readonly leftOut: number;
  /** Policies and pools of the saved state that this engine does not have: make them first, then restore. */
  readonly unknown: readonly (readonly [what: string, name: string])[];
  /** Components that have started fresh because their settings are others now. */
  readonly dropped: readonly (readonly [what: string, name: string, component: string])[];
}

/** A seed of 64 bits: its upper half, and a whole number that has the lower one. */
export type Halves = readonly [high: number, low: number];

/** Something that waits, and can go on now. */
export interface Waiter {
  wake(): void;
}
