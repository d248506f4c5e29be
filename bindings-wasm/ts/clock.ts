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
