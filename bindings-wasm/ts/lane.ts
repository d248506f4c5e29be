/** One attempt of a call: what a function is told of it, and how it ended. */

/** What a function is told of the attempt that it is to make. */
export interface Attempt {
  /** Its number, from 1 on. */
  readonly attempt: number;
  /** Aborted when the attempt is to stop: its time is up, its caller gave up, or another attempt has answered. */
  readonly signal: AbortSignal;
}

/** An attempt. Its controller is made when somebody asks for the signal: most never do, and it costs 2 µs. */
export class Lane implements Attempt {
  readonly attempt: number;
  #controller: AbortController | undefined;
  #reason: unknown;
  /** Has the engine told us to stop it? */
  stopped = false;
  /** Has it come to its end? */
  settled = false;
  /** Is there a result, good or bad, for a caller? */
  held = false;
  ok = false;
  value: unknown;

  constructor(attempt: number) {
    this.attempt = attempt;
  }

  get signal(): AbortSignal {
    let controller = this.#controller;
    if (controller === undefined) {
      controller = this.#controller = new AbortController();
      if (this.stopped) controller.abort(this.#reason);
    }
    return controller.signal;
  }

  /** Stops it. */
  stop(reason: unknown): void {
    this.stopped = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** Keeps its result for the caller. */
  hold(ok: boolean, value: unknown): void {
    this.held = true;
    this.ok = ok;
    this.value = value;
  }
}
