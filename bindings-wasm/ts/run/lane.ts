/** One attempt of a call: what a function is told of it, and how it ended. */

/** What a function is told of the attempt that it is to make. */
export interface Attempt {
  /** Its number, from 1 on. */
  readonly attempt: number;
  /** Aborted when the attempt is to stop: its time is up, its caller gave up, or another attempt has answered. */
  readonly signal: AbortSignal;
}

/**
 * An attempt. Its controller is made when somebody asks for the signal: most never do, and it costs 2 µs. Fields are set in the
 * constructor and are not private, because every call makes one of these, and both cost time.
 */
export class Lane implements Attempt {
  declare readonly attempt: number;
  /** @internal */
  declare controller: AbortController | undefined;
  /** @internal */
  declare reason: unknown;
  /** @internal Has the engine told us to stop it? */
  declare stopped: boolean;
  /** @internal Has it come to its end? */
  declare settled: boolean;
  /** @internal Is there a result, good or bad, for a caller? */
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

  get signal(): AbortSignal {
    let { controller } = this;
    if (controller === undefined) {
      controller = this.controller = new AbortController();
      if (this.stopped) controller.abort(this.reason);
    }
    return controller.signal;
  }

  /** Stops it. */
  stop(reason: unknown): void {
    this.stopped = true;
    this.reason = reason;
    this.controller?.abort(reason);
  }

  /** Keeps its result for the caller. */
  hold(ok: boolean, value: unknown): void {
    this.held = true;
    this.ok = ok;
    this.value = value;
  }
}
