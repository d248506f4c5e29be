/** For tests: a clock that stands still until it is told. */

import type { Clock, Due } from "./clock.js";
import { addClock } from "./scope.js";

/** Turns of the microtask queue after which everybody has had a turn. */
const TURNS = 50;

/**
 * A clock for an engine of its own: `new Engine({ seed: 1, clock: new FakeClock() })`.
 *
 * Who would rather keep the engine as it is uses the fake timers of the test framework, which drive every wait with no
 * set-up.
 */
export class FakeClock implements Clock {
  #us = 0;
  readonly #tickers = new Set<WeakRef<Due>>();
  readonly #sleepers: { us: number; done: () => void }[] = [];

  constructor() {
    addClock(this);
  }

  /** Milliseconds since it was made. */
  now(): number {
    return this.#us / 1000;
  }

  /**
   * Moves the clock through everything that falls due, and lets what waits for it run each time.
   *
   * @param ms Milliseconds, 0 or more.
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0)) throw new RangeError(`advance(${ms}): must be 0 ms or more`);
    const target = this.#us + Math.round(ms * 1000);
    await settled();
    for (let due = this.#next(); due <= target; due = this.#next()) {
      this.#us = Math.max(due, this.#us);
      this.#fire();
      await settled();
    }
    this.#us = target;
    await settled();
  }

  /** A sleep on this clock. */
  sleep(ms: number): Promise<void> {
    return new Promise((done) => this.#sleepers.push({ us: this.#us + Math.round(ms * 1000), done }));
  }

  /** @internal */
  us(): number {
    return this.#us;
  }

  /** @internal */
  watch(ticker: Due): void {
    this.#tickers.add(new WeakRef(ticker));
  }

  /** @internal */
  changed(): void {}

  #next(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const ticker of this.#tickers) next = Math.min(next, ticker.deref()?.next ?? next);
    for (const { us } of this.#sleepers) next = Math.min(next, us);
    return next;
  }

  #fire(): void {
    for (const ticker of this.#tickers) {
      const due = ticker.deref();
      if (due === undefined) this.#tickers.delete(ticker);
      else if (due.next <= this.#us) due.fire();
    }
    const awake = this.#sleepers.filter(({ us }) => us <= this.#us);
    for (const sleeper of awake) {
      this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1);
      sleeper.done();
    }
  }
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await Promise.resolve();
}
