/** Clocks that tests put in the place of the platform's. */

/** A clock that does not run by itself: `FakeClock` of `tidegate/testing` is the one there is. */
export interface Clock {
  /** Microseconds since its origin. */
  us(): number;
  /** An engine has a ticker on this clock from now on. */
  watch(ticker: Due): void;
  /** Something is waited for. */
  changed(): void;
}

/** What a clock asks of a ticker. */
export interface Due {
  /** The next moment at which something is due, in microseconds; Infinity for none. */
  readonly next: number;
  /** Looks at everything that is due now. */
  fire(): void;
}

/** A clock that stands: of an engine that was made again from its journal. */
export class Standing implements Clock {
  /** Where it stands, in microseconds. */
  at = 0;

  us(): number {
    return this.at;
  }

  watch(_ticker: Due): void {}

  changed(): void {}
}

/** What reads the platform's clock, how far our time is ahead of it, and the last reading, in whole microseconds. */
let reads: (() => number) | undefined;
let ahead = 0;
let latest = 0;

/**
 * Microseconds of the platform's clock. When fake timers of a test framework come or go, another clock takes its place, at another
 * time: ours goes on from the last reading. The engine would take a reading of up to 30 s ago for a swing, and time would stand still.
 * Readings are whole: of two sums of fractions that mean one moment, the greater would not be due at the smaller.
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
