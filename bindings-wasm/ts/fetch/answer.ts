/** An answer of undici's on its way: held back until it is known whose it is, then played to its handler, read or closed. */

import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import { DRAIN_BYTES, DRAIN_MS } from "./body.js";

export { DRAIN_MS };

type Controller = Dispatcher.DispatchController;

/** What a handler controls: the whole call, whichever attempt answers it. */
export type Front = { -readonly [K in keyof Controller]: Controller[K] } & { answer?: Answer };

/** One attempt, as undici tells of it. */
export class Attempt implements Dispatcher.DispatchHandler {
  readonly answer: Promise<Answer>;
  readonly informed: (status: number, headers: IncomingHttpHeaders, message?: string) => void;
  #resolve!: (answer: Answer) => void;
  #reject!: (error: unknown) => void;
  #controller: Controller | undefined;
  #stopped: Error | undefined;
  #answer: Answer | undefined;

  constructor(informed: Attempt["informed"]) {
    this.informed = informed;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Ends it, wherever it is: one that waits for a connection is not sent when it gets one. */
  stop(reason: Error): void {
    this.#stopped = reason;
    this.#reject(reason); // first: what aborting throws is not what became of it
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#stopped !== undefined) controller.abort(this.#stopped);
  }

  onResponseStart(
    controller: Controller,
    status: number,
    headers: IncomingHttpHeaders,
    message?: string,
  ): void {
    if (status < 200) {
      this.informed(status, headers, message);
      return;
    }
    if (this.#stopped !== undefined) {
      controller.abort(this.#stopped); // what sends it has not listened, and nobody waits for it any more
      return;
    }
    controller.pause();
    this.#answer = new Answer(controller, status, headers, message);
    this.#resolve(this.#answer);
  }

  onResponseData(_: Controller, chunk: Buffer): void {
    this.#answer?.take(chunk);
  }

  onResponseEnd(_: Controller, trailers: IncomingHttpHeaders): void {
    this.#answer?.complete(trailers);
  }

  onResponseError(_: Controller, error: Error): void {
    if (this.#answer === undefined) this.#reject(error);
    else this.#answer.fail(error, false);
  }
}

export class Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Told once when it has come to its end, or of what has broken it off. */
  ended: ((error: Error | undefined) => void) | undefined;
  readonly #message: string | undefined;
  readonly #controller: Controller;
  #chunks: Buffer[] = [];
  #size = 0;
  #trailers: IncomingHttpHeaders | undefined;
  #error: Error | undefined;
  #handler: Dispatcher.DispatchHandler | undefined;
  #front: Front | undefined;
  #drained: (() => void) | undefined;
  /** Has its handler been told the last of it? */
  #over = false;
  #closed = false;

  constructor(controller: Controller, status: number, headers: IncomingHttpHeaders, message?: string) {
    this.#controller = controller;
    this.status = status;
    this.headers = headers;
    this.#message = message;
  }

  /** Its headers, as they are asked for by what judges it. */
  get pairs(): Headers {
    const { headers } = this;
    const forEach = (each: (value: string, name: string) => void) => {
      for (const [name, value] of Object.entries(headers)) {
        for (const one of [value].flat()) if (one !== undefined) each(one, name);
      }
    };
    return { forEach } as unknown as Headers;
  }

  /** Is all of it here? */
  get whole(): boolean {
    return this.#trailers !== undefined;
  }

  /** Can it still be somebody's? */
  get closed(): boolean {
    return this.#closed;
  }

  /** Hands it to its handler, as fast as that takes it. */
  play(handler: Dispatcher.DispatchHandler, front: Front): void {
    this.#handler = handler;
    this.#front = front;
    front.answer = this;
    front.rawHeaders = this.#controller.rawHeaders ?? null;
    this.#guarded(() => handler.onResponseStart?.(front, this.status, this.headers, this.#message));
    this.resume();
  }

  pause(): void {
    this.#controller.pause();
  }

  resume(): void {
    this.#pump();
    if (!this.#over && this.#front?.paused === false) this.#controller.resume();
  }

  take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#drained !== undefined && this.#size > DRAIN_BYTES) this.close();
    this.#pump();
  }

  complete(trailers: IncomingHttpHeaders): void {
    this.#trailers = trailers;
    this.#drained?.();
    this.#pump();
  }

  /** It breaks off; `abort` closes its connection. */
  fail(error: Error, abort = true): void {
    if (this.#over || this.#error !== undefined) return;
    this.#error = error;
    if (abort) this.#controller.abort(error);
    this.#drained?.();
    this.#pump();
  }

  /** Nobody wants it. */
  close(): void {
    if (this.#trailers !== undefined) return;
    this.#closed = true;
    this.fail(new Error("the answer was not wanted"));
  }

  /** Reads it to its end where it is small, which keeps its connection; it can be played all the same then. */
  drain(): Promise<void> {
    if (this.#trailers !== undefined || this.#error !== undefined) return Promise.resolve();
    if (Number(this.headers["content-length"] ?? 0) > DRAIN_BYTES) {
      this.close();
      return Promise.resolve();
    }
    return new Promise((drained) => {
      this.#drained = drained;
      this.#controller.resume();
    });
  }

  #pump(): void {
    const [handler, front] = [this.#handler, this.#front];
    if (handler === undefined || front === undefined || this.#over) return;
    if (this.#error !== undefined) {
      this.#end(this.#error);
      handler.onResponseError?.(front, this.#error);
      return;
    }
    while (this.#chunks.length > 0 && !front.paused) {
      const chunk = this.#chunks.shift() as Buffer;
      this.#guarded(() => handler.onResponseData?.(front, chunk));
      if (this.#over) return;
    }
    if (this.#trailers !== undefined && this.#chunks.length === 0) {
      const trailers = this.#trailers;
      front.rawTrailers = this.#controller.rawTrailers ?? null;
      this.#end(undefined);
      handler.onResponseEnd?.(front, trailers);
    }
  }

  /** A handler that throws ends its call, as it would without us. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #end(error: Error | undefined): void {
    this.#over = true;
    this.ended?.(error);
  }
}
