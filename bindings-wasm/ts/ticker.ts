/** One timer for all calls of an engine: moments in a typed array, and one `setTimeout`. */

import { complain } from "./classify.js";
import type { Clock, Due } from "./clock.js";
import { isBrowser } from "./platform.js";

/** What is due at a moment. */
export interface Timed {
  /** Its moment has come. */
  tick(): void;
}

/** `setTimeout` takes no more: 2^31 − 1 ms. Longer waits are cut, and the engine asked again. */
export const LONGEST = 2 ** 31 - 1;
/** Milliseconds between two firings for each moment kept: with many calls the timer takes a part of the thread only. */
const COALESCE = 1e-3;

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
  #dues = new Float64Array(16).fill(Infinity);
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
    if (place >= this.#dues.length) {
      const more = new Float64Array(place * 2).fill(Infinity);
      more.set(this.#dues);
      this.#dues = more;
    }
    this.#owners[place] = owner;
    this.#kept += 1;
    this.set(place, due);
    this.#hold();
    return place;
  }

  /** Changes a moment; Infinity for never. */
  set(place: number, due: number): void {
    this.#dues[place] = due;
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
    this.#dues[place] = Infinity;
    this.#owners[place] = undefined;
    this.#kept -= 1;
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
      const count = this.#owners.length;
      for (let place = 0; place < count; place += 1) {
        if ((this.#dues[place] as number) <= now) {
          this.#dues[place] = Infinity;
          const owner = this.#owners[place];
          if (owner !== undefined) ticked(owner);
        }
      }
    } finally {
      this.#firing = false;
      this.#again();
    }
  }

  /** Sets the timer for the earliest moment. */
  #again(): void {
    let next = Infinity;
    for (const due of this.#dues) if (due < next) next = due;
    if (next < Infinity) this.#schedule(Math.max(next, this.#now() + COALESCE * 1000 * this.#owners.length));
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
