/** One attempt of a call: the object that the function gets, and its result. */

import type { Engine } from "../engine/engine.js";
import type { Signal } from "../engine/global_types.js";
import { metering } from "./metering.js";
import type { Weights } from "./weights.js";

/** The argument of a function under a policy: the attempt that it makes. */
export interface Attempt {
  /** Its number, starting from 1. */
  readonly attempt: number;
  /** Aborted when the attempt must stop: it timed out, its caller gave up, or another attempt has answered. */
  readonly signal: Signal;
  /** The name of the target that it goes to, if its policy has targets. */
  readonly target?: string | undefined;
  /**
   * Settles the totals that the attempt has used so far of each weight: `attempt.settle({ tokens: 1200 })`. What exceeds the reservation
   * is charged at once, and a lower total than before is ignored. When the attempt ends, the last totals hold and the rest of its
   * reservation comes back.
   *
   * @returns Whether all totals were taken: false once the attempt has ended, and for a weight that it does not count.
   * @throws RangeError If a total is not a whole number from 0 to 2^53 - 1.
   */
  settle(totals: Weights): boolean;
}

/**
 * An attempt. Its controller is made when the signal is first read, because most functions never read it and making one costs 2 µs.
 * Fields are set in the constructor and are not private: every call makes one of these objects, and private or later fields cost time.
 */
export class Lane implements Attempt {
  declare readonly attempt: number;
  /** @internal */
  declare readonly engine: Engine;
  /** @internal The id of its call. */
  declare readonly call: number;
  /** Set where there is one; other attempts do without the field. */
  declare target: string | undefined;
  /** @internal */
  declare controller: AbortController | undefined;
  /** @internal */
  declare reason: unknown;
  /** @internal Whether the engine has stopped it. */
  declare stopped: boolean;
  /** @internal Whether it has ended. */
  declare settled: boolean;
  /** @internal Whether it has a result or an error for the caller. */
  declare held: boolean;
  /** @internal */
  declare ok: boolean;
  /** @internal */
  declare value: unknown;

  constructor(attempt: number, engine: Engine, call: number) {
    this.attempt = attempt;
    this.engine = engine;
    this.call = call;
    this.controller = undefined;
    this.reason = undefined;
    this.stopped = false;
    this.settled = false;
    this.held = false;
    this.ok = false;
    this.value = undefined;
  }

  get signal(): Signal {
    let { controller } = this;
    if (controller === undefined) {
      controller = this.controller = new AbortController();
      if (this.stopped) controller.abort(this.reason);
    }
    return controller.signal;
  }

  settle(totals: Weights): boolean {
    return metering().settle(this, totals);
  }

  /** Stops the attempt. Returns whether it has been broken off, so that nothing is left to wait for. */
  stop(reason: unknown): boolean {
    this.stopped = true;
    this.reason = reason;
    const { controller } = this;
    controller?.abort(reason);
    return (controller as { isBrokenOff?: boolean } | undefined)?.isBrokenOff === true;
  }

  /** Stores its result for the caller. */
  hold(ok: boolean, value: unknown): void {
    this.held = true;
    this.ok = ok;
    this.value = value;
  }
}
