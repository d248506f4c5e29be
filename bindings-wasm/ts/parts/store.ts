/** An in-memory store for the fleet. */

import type { Store } from "../fleet.js";
import { load, said, say } from "./native.js";
import { moment, Part } from "./part.js";

/**
 * Answers the engine's commands as Redis would, without Redis: for tests, and for engines that share limits inside one process. It
 * knows only the engine's own scripts.
 *
 * @example
 * ```ts
 * const store = new parts.MemoryStore(() => 0);
 * assert.equal(store.execute(["SET", "k", "7", "PX", "1000"]), "OK");
 * assert.equal(store.execute(["INCRBY", "k", "1"]), "8");
 * ```
 */
export class MemoryStore extends Part implements Store {
  /** @internal */
  now: () => number;

  /** `now` returns milliseconds, starting from 0; `Date.now` by default. */
  constructor(now: () => number = Date.now) {
    super(load().store());
    this.now = now;
  }

  /** Copies the store with its state and clock; the two change independently from then on. */
  override copy(): this {
    const copy = super.copy();
    copy.now = this.now;
    return copy;
  }

  /**
   * Executes one command.
   *
   * @throws StoreError With the text of Redis's error reply.
   */
  execute(words: readonly string[]): string {
    const now = Math.max(moment(this.now()), 0);
    say(words.map((word) => `${word}\0`).join(""));
    if (load().store_execute(this.handle, Math.round(now * 1000)) === 0) return said();
    throw Object.assign(new Error(said()), { name: "StoreError" });
  }
}
