/**
 * A timer for each moment, for Cloudflare Workers: a timer belongs to the request that has set it, ends with it, and can
 * wake nobody else's call.
 */

import { LONGEST, type Moments, type Timed, ticked } from "./ticker.js";

interface Kept {
  readonly owner: Timed;
  due: number;
  timer: unknown;
}

export class Timers implements Moments {
  readonly #now: () => number;
  readonly #kept = new Map<number, Kept>();
  #last = -1;

  /** `now` tells microseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get size(): number {
    return this.#kept.size;
  }

  add(owner: Timed, due: number): number {
    this.#last += 1;
    this.#kept.set(this.#last, { owner, due: Infinity, timer: undefined });
    this.set(this.#last, due);
    return this.#last;
  }

  set(place: number, due: number): void {
    const kept = this.#kept.get(place);
    if (kept === undefined) return;
    kept.due = due;
    this.#clear(kept);
    if (due < Infinity) this.#start(place, kept);
  }

  /** A request that has been answered ends its timers itself. */
  weaken(_place: number): void {}

  drop(place: number): void {
    const kept = this.#kept.get(place);
    if (kept === undefined) return;
    this.#kept.delete(place);
    this.#clear(kept);
  }

  #start(place: number, kept: Kept): void {
    const ms = Math.min(Math.max(Math.ceil((kept.due - this.#now()) / 1000), 0), LONGEST);
    kept.timer = globalThis.setTimeout(() => {
      if (this.#kept.get(place) !== kept) return;
      kept.timer = undefined;
      if (this.#now() < kept.due) {
        this.#start(place, kept); // it was early, or the wait longer than a timer takes
        return;
      }
      kept.due = Infinity;
      ticked(kept.owner);
    }, ms);
  }

  #clear(kept: Kept): void {
    const { timer } = kept;
    kept.timer = undefined;
    try {
      if (timer !== undefined) globalThis.clearTimeout(timer as never);
    } catch {
      // another request's, which it ends with
    }
  }
}
