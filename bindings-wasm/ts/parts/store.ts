/** The fleet's store in memory. */

import type { Store } from "../fleet.js";
import { load, said, say } from "./native.js";
import { moment, Part } from "./part.js";

/**
 * What Redis would answer to the engine's commands, without Redis: for tests, and for engines that share limits inside one
 * process. It knows the engine's scripts and no others.
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

  /** `now` tells milliseconds, from 0 on; `Date.now` if left out. */
  constructor(now: () => number = Date.now) {
    super(load().store());
    this.now = now;
  }

  /** Another with the same state and clock; the two then go their own ways. */
  override copy(): this {
    const copy = super.copy();
    copy.now = this.now;
    return copy;
  }

  /**
   * Carries out one command.
   *
   * @throws StoreError With the text that Redis would answer with.
   */
  execute(words: readonly string[]): string {
    const now = Math.max(moment(this.now()), 0);
    say(words.map((word) => `${word}\0`).join(""));
    if (load().store_execute(this.handle, Math.round(now * 1000)) === 0) return said();
    throw Object.assign(new Error(said()), { name: "StoreError" });
  }
}
