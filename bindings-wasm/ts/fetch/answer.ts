/** A response of undici: held back until its call accepts or rejects it, then passed to its handler, drained or closed. */

import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import { HELD_AT_MOST, READ_AT_MOST, READ_FOR } from "../engine/wire.js";
import { complain } from "../errors/classify.js";
import { DRAIN_BYTES, DRAIN_MS, type Limited } from "./body.js";
import type { Pieces, Silence } from "./silence.js";

export { DRAIN_MS };

type Controller = Dispatcher.DispatchController;

/** The controller that a handler gets: it controls the whole call, whichever attempt answers. */
export type Front = { -readonly [K in keyof Controller]: Controller[K] } & { answer?: Answer };

/** Tells a handler the error of its call. Nobody can catch what it throws then. */
export function failed(handler: Dispatcher.DispatchHandler, front: Front, error: Error): void {
  try {
    handler.onResponseError?.(front, error);
  } catch (broken) {
    complain("the handler of a request failed", broken, "error");
  }
}

/** One attempt, as a handler for undici. */
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
    this.answer.catch(() => undefined); // a dispatcher that throws after it has reported an error leaves nobody who waits for it
  }

  /** Stops the attempt, whatever its state: a request that waits for a connection is not sent when it gets one. */
  stop(reason: Error): void {
    this.#stopped = reason;
    this.#reject(reason); // first: the error that aborting raises is not the reason of the stop
    this.#answer?.fail(reason, false);
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
      controller.abort(this.#stopped); // the dispatcher ignored the abort, and no caller waits for this response
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
  /** Called once when the response has ended, or with the error that broke it off. */
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
  /** Called when enough of its beginning has come. */
  #begun: (() => void) | undefined;
  /** Called with each piece until it is delivered. */
  #held: ((chunk: Buffer) => void) | undefined;
  /** Called with each piece. */
  #tapped: ((chunk: Buffer) => void) | undefined;
  /** For how long its handler has waited, where that is bounded. */
  silence: Silence | undefined;
  /** Called with the outcome of a failure that one of its events has reported. */
  failed: ((outcome: number) => void) | undefined;
  /** Whether its handler has been given the end or the error. */
  #over = false;
  #closed = false;

  constructor(controller: Controller, status: number, headers: IncomingHttpHeaders, message?: string) {
    this.#controller = controller;
    this.status = status;
    this.headers = headers;
    this.#message = message;
  }

  /** Its headers, in the form that `classify` reads. */
  get pairs(): Headers {
    const { headers } = this;
    const forEach = (each: (value: string, name: string) => void) => {
      for (const [name, value] of Object.entries(headers)) {
        for (const one of [value].flat()) if (one !== undefined) each(one, name);
      }
    };
    return { forEach } as unknown as Headers;
  }

  /** Whether all of it has arrived. */
  get whole(): boolean {
    return this.#trailers !== undefined;
  }

  /** Whether it was closed, so that no caller can read it. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Passes it to its handler, at the handler's pace. */
  play(handler: Dispatcher.DispatchHandler, front: Front): void {
    this.#handler = handler;
    this.#front = front;
    front.answer = this;
    front.rawHeaders = this.#controller.rawHeaders ?? null;
    this.#guarded(() => handler.onResponseStart?.(front, this.status, this.headers, this.#message));
    this.resume();
  }

  pause(): void {
    this.silence?.rest();
    this.#controller.pause();
  }

  resume(): void {
    if (this.#front?.paused === false) this.silence?.begin();
    this.#pump();
    if (!this.#over && this.#front?.paused === false) this.#controller.resume();
  }

  take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#held?.(chunk);
    this.#tapped?.(chunk);
    this.silence?.piece(chunk, this.#front?.paused === false);
    this.report();
    if (this.#drained !== undefined && this.#size > DRAIN_BYTES) this.close();
    if (this.#size >= READ_AT_MOST) this.#begun?.();
    this.#pump();
  }

  complete(trailers: IncomingHttpHeaders): void {
    this.#trailers = trailers;
    this.#drained?.();
    this.#begun?.();
    this.#pump();
  }

  /** Breaks it off with an error; `abort` also closes its connection. */
  fail(error: Error, abort = true): void {
    if (this.#over || this.#error !== undefined) return;
    this.#error = error;
    if (abort) this.#controller.abort(error);
    this.#drained?.();
    this.#begun?.();
    this.#pump();
  }

  /** Closes a response that no caller wants. */
  close(): void {
    if (this.#trailers !== undefined) return;
    this.#closed = true;
    this.fail(new Error("the answer was not wanted"));
  }

  /**
   * Receives its beginning: at most 64 kB, for at most a second. It can still be played from its start.
   *
   * @returns What has come; nothing of a body in an encoding, because undici does not decode.
   */
  async begin(limit: Limited): Promise<string> {
    if ((this.headers["content-encoding"] ?? "identity") !== "identity") return "";
    if (!this.whole && this.#error === undefined) {
      await new Promise<void>((resolve) => {
        const stop = limit({ tick: () => this.#begun?.() }, READ_FOR);
        this.#begun = () => {
          this.#begun = undefined;
          stop();
          resolve();
        };
        this.#controller.resume();
      });
      if (!this.whole) this.#controller.pause();
    }
    return Buffer.concat(this.#chunks).toString();
  }

  /**
   * Receives it up to its first piece that counts, its end, or 64 kB. It can still be played from its start.
   *
   * @throws Error If it breaks off before.
   */
  async hold(pieces: Pieces): Promise<void> {
    if (!this.whole && this.#error === undefined) {
      await new Promise<void>((resolve) => {
        this.#begun = resolve;
        this.#held = (chunk) => {
          if (pieces.counts(chunk) || pieces.failure > 0 || this.#size >= HELD_AT_MOST) resolve();
        };
        this.#controller.resume();
      });
      this.#begun = this.#held = undefined;
      if (!this.whole) this.#controller.pause();
    }
    if (this.#error !== undefined) throw this.#error;
  }

  /** Calls a function with each piece, from the first one on. */
  tap(each: (chunk: Buffer) => void): void {
    this.#chunks.forEach(each);
    this.#tapped = each;
  }

  /** Says which failure an event has reported. */
  report(): void {
    const { failure = 0 } = this.silence ?? {};
    if (failure > 0) this.failed?.(failure);
  }

  /** Says `x-should-retry: false` to its reader. */
  final(): void {
    this.headers["x-should-retry"] = "false";
  }

  /** Reads a small response to its end, which keeps its connection open; it can still be played then. */
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
      failed(handler, front, this.#error);
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
      try {
        handler.onResponseEnd?.(front, trailers);
      } catch (error) {
        failed(handler, front, error as Error);
      }
    }
  }

  /** Calls the handler. A handler that throws ends its call, as in undici without a policy. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #end(error: Error | undefined): void {
    this.#over = true;
    this.silence?.end();
    this.report();
    this.ended?.(error);
  }
}
