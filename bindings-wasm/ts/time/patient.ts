/**
 * The ticker for Node. Node fires timers before it reads its sockets, so a process that has been busy, or stopped, would take its own delay
 * for a silence of each server, although answers wait to be read. A timer that is late lets the event loop read them first.
 */

import { type Clock, platformTime } from "./clock.js";
import { Ticker } from "./ticker.js";

/** Microseconds after which a timer is late. */
const LATE = 100_000;

// Captured when the code is loaded: under the fake timers of a test framework it would not come.
const soon: (go: () => void) => unknown =
  (globalThis as { setImmediate?: (go: () => void) => unknown }).setImmediate ?? globalThis.setTimeout;

export class PatientTicker extends Ticker {
  #waits = false;

  constructor(now: () => number = platformTime, clock: Clock | undefined = undefined) {
    super(now, clock);
  }

  override fire(): void {
    if (this.#waits) return;
    if (platformTime() - this.next <= LATE) {
      super.fire();
      return;
    }
    this.#waits = true;
    soon(() => {
      this.#waits = false;
      super.fire();
    });
  }
}
