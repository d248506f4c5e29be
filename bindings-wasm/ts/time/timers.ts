/**
 * One timer per moment, for Cloudflare Workers: there a timer belongs to the request that set it, ends with that request, and cannot
 * wake calls of other requests.
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

  /** `now` returns microseconds. */
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

  /** Does nothing: the platform ends a request's timers once it has been answered. */
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
        this.#start(place, kept); // it fired early, or the wait is longer than the longest timer
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
      // a timer of another request, which the platform ends with that request
    }
  }
}
