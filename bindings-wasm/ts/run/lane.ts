/** One attempt of a call: the object that the function gets, and its result. */

import type { Signal } from "../engine/global_types.js";

/** The argument of a function under a policy: the attempt that it makes. */
export interface Attempt {
  /** Its number, starting from 1. */
  readonly attempt: number;
  /** Aborted when the attempt must stop: it timed out, its caller gave up, or another attempt has answered. */
  readonly signal: Signal;
}

/**
 * An attempt. Its controller is made when the signal is first read, because most functions never read it and making one costs 2 µs.
 * Fields are set in the constructor and are not private: every call makes one of these objects, and private or later fields cost time.
 */
export class Lane implements Attempt {
  declare readonly attempt: number;
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

  constructor(attempt: number) {
    this.attempt = attempt;
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

  /** Stops the attempt. */
  stop(reason: unknown): void {
    this.stopped = true;
    this.reason = reason;
    this.controller?.abort(reason);
  }

  /** Stores its result for the caller. */
  hold(ok: boolean, value: unknown): void {
    this.held = true;
    this.ok = ok;
    this.value = value;
  }
}
