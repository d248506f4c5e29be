/** Clocks that replace the platform's clock. */

/** A clock that does not advance by itself, like `FakeClock` of `tidegate/testing`. */
export interface Clock {
  /** Microseconds since its origin. */
  us(): number;
  /** Registers an engine's ticker. */
  watch(ticker: Due): void;
  /** Called when the next due moment has changed. */
  changed(): void;
}

/** The interface of a ticker for a clock. */
export interface Due {
  /** The next due moment, in microseconds; Infinity for none. */
  readonly next: number;
  /** Fires all that is due now. */
  fire(): void;
}

/** A stopped clock, for an engine rebuilt from its journal. */
export class Standing implements Clock {
  /** Its time, in microseconds. */
  at = 0;

  us(): number {
    return this.at;
  }

  watch(_ticker: Due): void {}

  changed(): void {}
}

/** The function that reads the platform's clock, the offset of our time from it, and the last reading, in whole microseconds. */
let reads: (() => number) | undefined;
let ahead = 0;
let latest = 0;

/**
 * The platform's time in microseconds. When fake timers of a test framework are installed or removed, the clock is replaced by one with
 * another time; our time continues from the last reading. The engine takes a reading up to 30 s in the past for jitter and would stop
 * time until then. Readings are rounded: with fractions, two sums for the same moment can differ, and a timer for the greater would not
 * be due at the smaller.
 */
export function platformTime(): number {
  const { performance } = globalThis;
  const now = Math.round(performance.now() * 1000);
  if (performance.now !== reads) {
    if (reads !== undefined) ahead = latest - now;
    reads = performance.now;
  }
  latest = now + ahead;
  return latest;
}
