/** One timer for all calls of an engine: moments in a heap, and one `setTimeout`. */

import { complain } from "../classify.js";
import { isBrowser } from "../engine/platform.js";
import type { Clock, Due } from "./clock.js";

/** What is due at a moment. */
export interface Timed {
  /** Its moment has come. */
  tick(): void;
}

/** `setTimeout` takes no more: 2^31 − 1 ms. Longer waits are cut, and the engine asked again. */
export const LONGEST = 2 ** 31 - 1;

/** Keeps moments, and tells their owners when they come. */
export interface Moments {
  /** How many are kept. */
  readonly size: number;
  /** Keeps a moment (µs) for its owner; the place it is kept at, for the others. */
  add(owner: Timed, due: number): number;
  /** Changes a moment; Infinity for never. */
  set(place: number, due: number): void;
  /** From now on this moment does not keep the process alive. */
  weaken(place: number): void;
  /** Forgets a moment. */
  drop(place: number): void;
}

/** A timer, as Node has them; a browser's are numbers. */
type Timer = { ref?: () => void; unref?: () => void } | undefined;

export class Ticker implements Due, Moments {
  readonly #now: () => number;
  readonly #clock: Clock | undefined;
  /** The moment of each place. */
  #dues = new Float64Array(16);
  /** A binary heap of the places that are kept, the earliest moment first; and where in it each place is. */
  #heap = new Int32Array(16);
  #at = new Int32Array(16);
  #owners: (Timed | undefined)[] = [];
  #free: number[] = [];
  #kept = 0;
  /** Places that do not keep a process alive. */
  #weak = new Set<number>();
  #firing = false;
  /** The next moment that somebody looks. */
  next = Infinity;
  #timer: Timer;
  /** Has the timer been told not to keep a process alive? */
  #loose = false;
  #with: unknown;
  readonly #fire = () => this.fire();

  /** `now` tells microseconds. */
  constructor(now: () => number, clock: Clock | undefined) {
    this.#now = now;
    this.#clock = clock;
    clock?.watch(this);
  }

  /** How many moments are kept. */
  get size(): number {
    return this.#kept;
  }

  /** Keeps a moment (µs) for its owner; the place it is kept at, for `set` and `drop`. */
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

  /** Sees to it that somebody looks at this moment. */
  #look(due: number): void {
    if (this.#firing) return;
    // A timer that was made by fake timers which are gone would never fire, so one made by another function is no timer.
    if (due < this.next || (this.#with !== globalThis.setTimeout && due < Infinity)) {
      this.#schedule(Math.min(due, this.next));
    }
  }

  /** From now on this moment does not keep the process alive: somebody may have thrown a body away unread. */
  weaken(place: number): void {
    this.#weak.add(place);
    this.#hold();
  }

  /** The timer keeps a process alive while somebody waits for it. */
  #hold(): void {
    const loose = this.#weak.size === this.#kept;
    if (loose === this.#loose) return;
    this.#loose = loose;
    if (loose) this.#timer?.unref?.();
    else this.#timer?.ref?.();
  }

  /** Forgets a moment. With the last one the timer goes too. */
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
   * Nobody waits. A timer costs more to make than a call, so it is left to run out where it keeps nothing alive: the next call
   * finds it. Tests that count timers find none.
   */
  #stays(): boolean {
    const { setTimeout } = globalThis;
    return (
      this.#with === setTimeout && !isFake(setTimeout) && (this.#timer?.unref !== undefined || isBrowser())
    );
  }

  /** Looks at everything that is due now. */
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
      // Those of one moment in the order of their places.
      due.sort((one, other) => one[2] - other[2] || one[1] - other[1]);
      for (const [owner, place] of due) {
        // Another one that was due may have dropped it, or given it another moment.
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

  /** Moves a place up in the heap, as far as its moment is earlier than those above it. */
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

  /** Moves a place down in the heap, as far as its moment is later than those below it. */
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
    // Up to whole milliseconds: a timer that is early has to be set again.
    const ms = Math.min(Math.max(Math.ceil((due - this.#now()) / 1000), 0), LONGEST);
    this.#timer = globalThis.setTimeout(this.#fire, ms) as Timer;
    this.#loose = false;
    this.#hold();
  }

  #clear(): void {
    // Timers of one kind are cleared by their own: what another made is not ours to clear.
    if (this.#with === globalThis.setTimeout) globalThis.clearTimeout(this.#timer as never);
    this.#timer = undefined;
  }
}

/** Tells an owner that its moment has come. An owner that throws keeps nobody else from theirs. */
export function ticked(owner: Timed): void {
  try {
    owner.tick();
  } catch (error) {
    complain("a timer failed", error, "error");
  }
}

/** Is it a timer of a test? Those of sinon, vitest and jest know their clock. */
function isFake(timer: unknown): boolean {
  return (timer as { clock?: unknown }).clock !== undefined;
}
