/** One timer for all calls of an engine: a heap of moments, and one `setTimeout`. */

import { isBrowser } from "../engine/platform.js";
import { complain } from "../errors/classify.js";
import type { Clock, Due } from "./clock.js";

/** The owner of a moment. */
export interface Timed {
  /** Called when its moment has come. */
  tick(): void;
}

/** The longest wait of `setTimeout`: 2^31 − 1 ms. Longer waits are cut, and the engine is polled again. */
export const LONGEST = 2 ** 31 - 1;

/** Stores moments, and calls their owners when they come. */
export interface Moments {
  /** Number of moments stored. */
  readonly size: number;
  /** Stores a moment (µs) for its owner, and returns its place for the other methods. */
  add(owner: Timed, due: number): number;
  /** Changes a moment; Infinity for never. */
  set(place: number, due: number): void;
  /** Stops this moment from keeping the process alive. */
  weaken(place: number): void;
  /** Removes a moment. */
  drop(place: number): void;
}

/** A timer, as Node has them; a browser's are numbers. */
type Timer = { ref?: () => void; unref?: () => void } | undefined;

export class Ticker implements Due, Moments {
  readonly #now: () => number;
  readonly #clock: Clock | undefined;
  /** The moment at each place. */
  #dues = new Float64Array(16);
  /** A binary heap of the places in use, earliest moment first, and the index of each place in the heap. */
  #heap = new Int32Array(16);
  #at = new Int32Array(16);
  #owners: (Timed | undefined)[] = [];
  #free: number[] = [];
  #kept = 0;
  /** Places that do not keep the process alive. */
  #weak = new Set<number>();
  #firing = false;
  /** When the timer fires next. */
  next = Infinity;
  #timer: Timer;
  /** Whether the timer is unreferenced, so that it does not keep the process alive. */
  #loose = false;
  #with: unknown;
  readonly #fire = () => this.fire();

  /** `now` returns microseconds. */
  constructor(now: () => number, clock: Clock | undefined) {
    this.#now = now;
    this.#clock = clock;
    clock?.watch(this);
  }

  /** Number of moments stored. */
  get size(): number {
    return this.#kept;
  }

  /** Stores a moment (µs) for its owner, and returns its place for `set` and `drop`. */
  add(owner: Timed, due: number): number {
    const place = this.#free.pop() ?? this.#owners.length;
    if (place >= this.#dues.length) this.#grow(place * 2);
    this.#owners[place] = owner;
    this.#dues[place] = due;
    this.#at[place] = this.#kept;
    this.#kept += 1;
    this.#rise(place);
    this.#look(due);
    this.#hold();
    return place;
  }

  /** Changes a moment; Infinity for never. */
  set(place: number, due: number): void {
    const before = this.#dues[place] as number;
    this.#dues[place] = due;
    if (due < before) this.#rise(place);
    else this.#sink(place);
    this.#look(due);
  }

  /** Sets the timer if it would fire after this moment. */
  #look(due: number): void {
    if (this.#firing) return;
    // A timer made by fake timers that have since been removed never fires. So a timer of another `setTimeout` counts as none.
    if (due < this.next || (this.#with !== globalThis.setTimeout && due < Infinity)) {
      this.#schedule(Math.min(due, this.next));
    }
  }

  /** Stops this moment from keeping the process alive: the caller may have dropped a body without reading it. */
  weaken(place: number): void {
    this.#weak.add(place);
    this.#hold();
  }

  /** Keeps the process alive exactly while a moment needs it. */
  #hold(): void {
    const loose = this.#weak.size === this.#kept;
    if (loose === this.#loose) return;
    this.#loose = loose;
    if (loose) this.#timer?.unref?.();
    else this.#timer?.ref?.();
  }

  /** Removes a moment, and the timer with the last one. */
  drop(place: number): void {
    this.#owners[place] = undefined;
    this.#kept -= 1;
    const last = this.#heap[this.#kept] as number;
    if (last !== place) {
      this.#at[last] = this.#at[place] as number;
      if ((this.#dues[last] as number) < (this.#dues[place] as number)) this.#rise(last);
      else this.#sink(last);
    }
    this.#weak.delete(place);
    this.#free.push(place);
    if (this.#kept === 0 && !this.#stays()) {
      this.next = Infinity;
      this.#clear();
    }
    this.#hold();
  }

  /**
   * Whether the timer may run out when no moment is left. Making a timer costs more than a call, so it stays for the next call if it
   * does not keep the process alive. With the fake timers of a test framework it is removed, because tests count timers.
   */
  #stays(): boolean {
    const { setTimeout } = globalThis;
    return (
      this.#with === setTimeout && !isFake(setTimeout) && (this.#timer?.unref !== undefined || isBrowser())
    );
  }

  /** Fires all that is due now. */
  fire(): void {
    this.#timer = undefined;
    this.next = Infinity;
    this.#firing = true;
    try {
      const now = this.#now();
      const due: [owner: Timed, place: number, at: number][] = [];
      for (;;) {
        const place = this.#heap[0] as number;
        const at = this.#dues[place] as number;
        if (this.#kept === 0 || at > now || at === Infinity) break;
        due.push([this.#owners[place] as Timed, place, at]);
        this.set(place, Infinity);
      }
      // Owners of the same moment are called in the order of their places.
      due.sort((one, other) => one[2] - other[2] || one[1] - other[1]);
      for (const [owner, place] of due) {
        // An owner called before may have removed this one, or moved it.
        if (this.#owners[place] === owner && this.#dues[place] === Infinity) ticked(owner);
      }
    } finally {
      this.#firing = false;
      this.#again();
    }
  }

  /** Sets the timer for the earliest moment. */
  #again(): void {
    const next = this.#kept === 0 ? Infinity : (this.#dues[this.#heap[0] as number] as number);
    if (next < Infinity) this.#schedule(next);
  }

  #grow(length: number): void {
    const dues = new Float64Array(length);
    const heap = new Int32Array(length);
    const at = new Int32Array(length);
    dues.set(this.#dues);
    heap.set(this.#heap);
    at.set(this.#at);
    [this.#dues, this.#heap, this.#at] = [dues, heap, at];
  }

  #put(at: number, place: number): void {
    this.#heap[at] = place;
    this.#at[place] = at;
  }

  /** Moves a place up the heap while its moment is earlier than its parent's. */
  #rise(place: number): void {
    const due = this.#dues[place] as number;
    let at = this.#at[place] as number;
    while (at > 0) {
      const above = this.#heap[(at - 1) >> 1] as number;
      if ((this.#dues[above] as number) <= due) break;
      this.#put(at, above);
      at = (at - 1) >> 1;
    }
    this.#put(at, place);
  }

  /** Moves a place down the heap while its moment is later than a child's. */
  #sink(place: number): void {
    const due = this.#dues[place] as number;
    let at = this.#at[place] as number;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= this.#kept) break;
      const right = this.#heap[below + 1] as number;
      const left = this.#heap[below] as number;
      if (below + 1 < this.#kept && (this.#dues[right] as number) < (this.#dues[left] as number)) below += 1;
      const earliest = this.#heap[below] as number;
      if ((this.#dues[earliest] as number) >= due) break;
      this.#put(at, earliest);
      at = below;
    }
    this.#put(at, place);
  }

  #schedule(due: number): void {
    this.next = due;
    if (this.#clock !== undefined) {
      this.#clock.changed();
      return;
    }
    this.#clear();
    this.#with = globalThis.setTimeout;
    // Rounded up to whole milliseconds, because a timer that fires early must be set again.
    const ms = Math.min(Math.max(Math.ceil((due - this.#now()) / 1000), 0), LONGEST);
    this.#timer = globalThis.setTimeout(this.#fire, ms) as Timer;
    this.#loose = false;
    this.#hold();
  }

  #clear(): void {
    // A timer of another `setTimeout` cannot be cleared with the current `clearTimeout`.
    if (this.#with === globalThis.setTimeout) globalThis.clearTimeout(this.#timer as never);
    this.#timer = undefined;
  }
}

/** Calls an owner. An error that it throws does not affect the other owners. */
export function ticked(owner: Timed): void {
  try {
    owner.tick();
  } catch (error) {
    complain("a timer failed", error, "error");
  }
}

/** Whether a timer function is a test framework's. Those of sinon, vitest and jest have a property `clock`. */
function isFake(timer: unknown): boolean {
  return (timer as { clock?: unknown }).clock !== undefined;
}
