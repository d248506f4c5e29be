/** A clock that tests advance. */

import { type Weak, weak } from "../engine/platform.js";
import { addClock } from "../run/scope.js";
import type { Clock, Due } from "../time/clock.js";

/** Turns of the microtask queue that let all pending promise callbacks run. */
const TURNS = 50;

/** Number of timers that `run` fires before it lets the process do its real I/O. */
const BATCH = 1000;

/**
 * A clock for a test's own engine: `new Engine({ seed: 1, clock: new FakeClock() })`.
 *
 * To test with an unchanged engine, use the fake timers of the test framework: they drive every wait without set-up.
 */
export class FakeClock implements Clock {
  #us = 0;
  readonly #tickers = new Set<Weak<Due>>();
  readonly #sleepers: { us: number; done: () => void }[] = [];

  constructor() {
    addClock(this);
  }

  /** Milliseconds since the clock was made. */
  now(): number {
    return this.#us / 1000;
  }

  /**
   * Advances the clock through every timer that falls due, and runs the code that waits for each one.
   *
   * @param ms Milliseconds, 0 or more.
   */
  async advance(ms: number): Promise<void> {
    if (!(ms >= 0 && ms < Infinity))
      throw new RangeError(`advance(${ms}): must be a finite number of milliseconds, 0 or more`);
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

  /**
   * Advances the clock from timer to timer until the work is done. In a long series of timers, such as those of
   * a loop over `sleep`, it also lets the process do its real I/O.
   *
   * @param work A promise, or a function that returns one.
   * @returns The result of the work.
   * @throws Error If the work waits for something other than this clock for longer than `patience` milliseconds of real time (1000 by
   * default).
   * @example
   * ```ts
   * const clock = new FakeClock();
   * const some = policy({ engine: new Engine({ seed: 1, clock }), retry: { backoff: { base: 60_000, max: 60_000 } } });
   * let tries = 0;
   * const flaky = async () => {
   *   tries += 1;
   *   if (tries < 3) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
   *   return tries;
   * };
   * assert.equal(await clock.run(some.run(flaky)), 3);
   * assert.ok(clock.now() > 12_000);
   * ```
   */
  async run<T>(work: PromiseLike<T> | (() => PromiseLike<T>), patience = 1000): Promise<T> {
    let done = false;
    const end = () => {
      done = true;
    };
    const going = typeof work === "function" ? work() : work;
    going.then(end, end);
    let waited = performance.now();
    for (let turn = 1; ; turn += 1) {
      await settled();
      if (done) return going;
      if (this.step()) {
        waited = performance.now();
        if (turn % BATCH !== 0) continue;
      } else if (performance.now() - waited > patience) {
        throw new Error(`nothing falls due on this clock, and the work has not ended within ${patience} ms`);
      }
      await new Promise<void>((resume) => globalThis.setTimeout(resume, 1));
    }
  }

  /**
   * Sleeps on this clock.
   *
   * @throws RangeError If `ms` is no number.
   */
  sleep(ms: number): Promise<void> {
    if (Number.isNaN(Number(ms))) throw new RangeError(`sleep(${ms}): must be a number of milliseconds`);
    return new Promise((done) => this.#sleepers.push({ us: this.#us + Math.round(ms * 1000), done }));
  }

  /** @internal Advances to the next timer, and no further. Returns whether there was one. */
  step(): boolean {
    const due = this.#next();
    if (due === Infinity) return false;
    this.#us = Math.max(due, this.#us);
    this.#fire();
    return true;
  }

  /** The current time, in microseconds. */
  us(): number {
    return this.#us;
  }

  /** Registers a ticker, whose timers the clock fires. */
  watch(ticker: Due): void {
    this.#tickers.add(weak(ticker));
  }

  /** Ignores changes of timers, because the clock looks up the next one itself. */
  changed(): void {}

  #next(): number {
    let next = Infinity;
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
