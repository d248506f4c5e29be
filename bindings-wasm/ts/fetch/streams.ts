/**
 * Timeouts of streams for `fetch` (semantics 7.7): the first piece that counts, and silence between pieces.
 *
 * A piece costs no event and no timer. A read notes when it began to wait, and the call's timer reports for how long reads have waited. The
 * caller gets the response around a stream of its own; readers of that stream take the pieces from the server's stream directly, because
 * passing them through both streams would double what a piece costs.
 */

import { type Weak, weak } from "../engine/platform.js";
import { HELD_AT_MOST } from "../engine/wire.js";
import { TidegateError } from "../errors/errors.js";
import type { Core } from "../run/core.js";
import type { Lane } from "../run/lane.js";
import type { BodyEnds } from "../run/run.js";
import { onAbort } from "../run/signals.js";
import { estimateOf } from "../run/usage.js";
import { closeBody, isWebStream, type Reader, rebuilt, type Watching, watch } from "./body.js";
import type { FetchOptions } from "./fetch.js";
import type { Known } from "./request.js";
import { Pieces, Silence } from "./silence.js";
import { bounds, type Flowing, type Streaming } from "./streaming.js";

type Read = ReadableStreamReadResult<Uint8Array>;

/** Where the pieces of a body come from. */
export interface Source {
  read(): Promise<Read>;
  cancel(reason: unknown): Promise<void>;
  releaseLock(): void;
}

/** Where the pieces of a body go to. */
export type Sink = Pick<ReadableByteStreamController, "close" | "error"> & {
  enqueue(piece: Uint8Array<ArrayBuffer>): void;
  readonly byobRequest?: ReadableStreamBYOBRequest | null;
};

/** What gives pieces when it is asked to. */
export interface Pulled {
  start(controller: Sink): void;
  /** Passes the next piece on to where `start` has said. */
  pull(controller: Sink): Promise<void>;
  cancel(reason: unknown): Promise<void>;
}

/** What `piped.ts` does with bodies that are streams of Node. */
export interface Pipes {
  /** Whether the response has such a body, and can be made with another one. */
  fits(response: Response): boolean;
  source(body: object): Source;
  /** The same response around a flow. */
  around(response: Response, flow: Pulled): Response;
}

let pipes: Pipes | undefined;

/** Sets the code for streams of Node. */
export function providePipes(by: Pipes): void {
  pipes = by;
}

const flows = new WeakMap<Response, Flow>();
/** The outcomes of failures that streams have reported before their delivery. */
const failures = new WeakMap<Response, number>();

const unread =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Flow>((flow) => flow.thrownAway());

/** A body on its way from the server's stream to the caller's. */
class Flow implements Flowing {
  readonly #source: Source;
  readonly #silence: Silence;
  /** Pieces that were read before the delivery. */
  readonly #first: Uint8Array[];
  #ends: BodyEnds | undefined;
  /** Weak, like the registry: the collection of its stream may be the only sign that the response and its body were dropped. */
  #controller!: Weak<Sink>;
  /** The number of the reader that takes pieces directly. */
  #turn = 0;
  /** Called after the end of the body, where an iterator reads it: it gives the lock back then. */
  ended: (() => void) | undefined;
  /** How many reads wait. */
  #waiting = 0;
  #started = false;
  /** The response and its body, which a caller may keep without the other. */
  #uses = 2;
  #over = false;
  #broken: { readonly error: unknown } | undefined;

  constructor(core: Core, source: Source, pieces = new Pieces(core, true), first: Uint8Array[] = []) {
    this.#source = source;
    this.#silence = new Silence(core, pieces);
    this.#first = first;
  }

  /** The response around a stream of this flow. */
  around(response: Response): Response {
    const given = isWebStream(response.body)
      ? rebuilt(response, new Direct.Stream(this))
      : (pipes as Pipes).around(response, this);
    flows.set(given, this);
    for (const use of [given, given.body as object]) unread?.register(use, this);
    return given;
  }

  /** Watches it for a call. */
  attach(ends: BodyEnds): void {
    this.#ends = ends;
  }

  age(again: () => void): number | undefined {
    const age = this.#silence.age(again);
    this.#reported();
    return age;
  }

  /** Reports the failure that an event has reported. The caller reads the body to its end. */
  #reported(): void {
    const { failure } = this.#silence;
    if (failure > 0) this.#end()?.failed(undefined, failure);
  }

  #end(): BodyEnds | undefined {
    const ends = this.#ends;
    this.#ends = undefined;
    return ends;
  }

  fail(error: unknown): void {
    if (this.#over) return;
    this.#over = true;
    this.#broken = { error };
    this.#end();
    this.#silence.end();
    this.#controller.deref()?.error(error);
    this.#source.cancel(error).catch(() => undefined);
  }

  /** The response or its body was collected as garbage. After both, a body whose reading had not begun counts as read. */
  thrownAway(): void {
    this.#uses -= 1;
    if (this.#uses === 0 && !this.#started) this.cancel(undefined).catch(() => undefined);
  }

  /** The underlying source of the caller's stream, for readers that do not take pieces directly. */
  start(controller: Sink): void {
    this.#controller = weak(controller);
  }

  async pull(controller: Sink): Promise<void> {
    for (;;) {
      const { done, value } = await this.next();
      if (done || value.byteLength > 0) {
        if (!done) controller.enqueue(value as Uint8Array<ArrayBuffer>);
        return;
      }
    }
  }

  async cancel(reason: unknown): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.#silence.end();
    this.#end()?.read();
    await this.#source.cancel(reason);
  }

  /** Whether this reader may take the next piece directly. The first one goes through the stream, which is in use from then on. */
  isDirect(turn: number): boolean {
    return turn === this.#turn && this.#started && !this.#over;
  }

  /** Returns the number of the reader that takes pieces directly from now on. If no reader keeps the number, none takes them directly. */
  use(): number {
    this.ended = undefined;
    this.#turn += 1;
    return this.#turn;
  }

  /** The next piece. */
  next(): Promise<Read> {
    this.#started = true;
    const value = this.#first.shift();
    if (value !== undefined) {
      this.#ends?.piece?.(value);
      return Promise.resolve({ done: false, value });
    }
    this.#waiting += 1;
    this.#silence.begin();
    return this.#source.read().then(this.#came, this.#failed);
  }

  readonly #came = (read: Read): Read => {
    if (this.#broken !== undefined) throw this.#broken.error;
    this.#waiting -= 1;
    if (!read.done) {
      this.#ends?.piece?.(read.value);
      this.#silence.piece(read.value, this.#waiting > 0);
      if (this.#silence.failure > 0) this.#reported();
    } else if (!this.#over) {
      this.#over = true;
      this.#silence.end();
      this.#reported();
      this.#end()?.read(true);
      const controller = this.#controller.deref();
      controller?.close();
      controller?.byobRequest?.respond(0);
      this.#leave();
    }
    return read;
  };

  readonly #failed = (error: unknown): never => {
    const told = this.#broken?.error ?? error;
    if (!this.#over) {
      this.#over = true;
      this.#silence.end();
      this.#reported();
      this.#end()?.failed(error);
      this.#controller.deref()?.error(error);
      this.#leave();
    }
    throw told;
  };

  #leave(): void {
    if (this.ended !== undefined) queueMicrotask(this.ended);
  }
}

/** A reader of the caller's stream. It takes pieces from the server's stream. */
class Direct extends ReadableStreamDefaultReader<Uint8Array> {
  /** The caller's stream. Readers that are not made by its methods get pieces that have passed through it. */
  static readonly Stream = class extends ReadableStream<Uint8Array> {
    readonly #flow: Flow;

    constructor(flow: Flow) {
      super({
        type: "bytes",
        start: (controller) => flow.start(controller as ReadableByteStreamController),
        pull: (controller) => flow.pull(controller as ReadableByteStreamController),
        cancel: (reason) => flow.cancel(reason),
      });
      this.#flow = flow;
    }

    override getReader(options?: ReadableStreamGetReaderOptions): never {
      return (options?.mode === undefined ? new Direct(this, this.#flow) : super.getReader(options)) as never;
    }

    override values({
      preventCancel = false,
    }: ReadableStreamIteratorOptions = {}): ReadableStreamAsyncIterator<Uint8Array> {
      const reader = new Direct(this, this.#flow);
      let over = false;
      const end = () => {
        if (over) return;
        over = true;
        reader.releaseLock();
      };
      this.#flow.ended = end;
      const iterator = {
        next: () => (over ? Promise.resolve({ done: true, value: undefined }) : reader.read()),
        return: async (value?: unknown) => {
          if (!preventCancel && !over) await reader.cancel(value);
          end();
          return { done: true, value };
        },
        [Symbol.asyncIterator]: () => iterator,
      };
      return iterator as unknown as ReadableStreamAsyncIterator<Uint8Array>;
    }

    override [Symbol.asyncIterator](
      options?: ReadableStreamIteratorOptions,
    ): ReadableStreamAsyncIterator<Uint8Array> {
      return this.values(options);
    }
  };

  readonly #flow: Flow;
  readonly #turn: number;

  constructor(stream: ReadableStream<Uint8Array>, flow: Flow) {
    super(stream);
    this.#flow = flow;
    this.#turn = flow.use();
  }

  override read(): Promise<Read> {
    return this.#flow.isDirect(this.#turn) ? this.#flow.next() : super.read();
  }

  override releaseLock(): void {
    this.#flow.use();
    super.releaseLock();
  }
}

function sourceOf({ body }: Response): Source {
  return isWebStream(body) ? body.getReader() : (pipes as Pipes).source(body as unknown as object);
}

async function hold(core: Core, response: Response, lane: Lane): Promise<Response> {
  if (isForeign(response)) return response;
  const reader = sourceOf(response);
  const pieces = new Pieces(core, true);
  const first: Uint8Array[] = [];
  // A `fetch` that does not follow the signal must not keep the connection of an attempt that was stopped.
  const unfollow = onAbort(lane.signal as AbortSignal, () => {
    reader.cancel(lane.signal.reason).catch(() => undefined);
  });
  try {
    for (let size = 0; size < HELD_AT_MOST; ) {
      const { done, value } = await reader.read();
      if (lane.stopped) throw lane.signal.reason;
      if (done) break;
      first.push(value);
      size += value.byteLength;
      if (pieces.counts(value) || pieces.failure > 0) break;
    }
  } catch (error) {
    pieces.free();
    throw error;
  } finally {
    unfollow();
  }
  const { failure } = pieces;
  pieces.failure = 0;
  const held = new Flow(core, reader, pieces, first).around(response);
  if (failure > 0) failures.set(held, failure);
  return held;
}

function flow(core: Core, response: Response, ends: BodyEnds): [given: Response, flowing: Flowing] {
  if (isForeign(response)) return watch(response, ends);
  const known = flows.get(response);
  if (known !== undefined) {
    known.attach(ends);
    return [response, known];
  }
  const reader = sourceOf(response);
  try {
    const made = new Flow(core, reader);
    const given = made.around(response);
    made.attach(ends);
    return [given, made];
  } catch (error) {
    reader.releaseLock(); // no `Response` can be built for it
    throw error;
  }
}

/** Whether the body of a response is of a kind that cannot be watched. */
function isForeign(response: Response): boolean {
  const body: unknown = response.body;
  return body !== null && body !== undefined && !isWebStream(body) && !fits(response);
}

function check(core: Core, response: Response, usage: unknown): void {
  if (!isForeign(response) || (usage === undefined && !bounds(core, "own "))) return;
  closeBody(response.body);
  throw new TidegateError(
    "firstByteTimeout, idleTimeout and usage need a fetch whose bodies are web streams, or node-fetch's: leave them out, or use the platform's fetch",
  );
}

function fits(response: Response): boolean {
  return pipes?.fits(response) === true;
}

/** A body of Node, as node-fetch has it. */
interface Pipe {
  once(event: "close", end: () => void): void;
}

const dropped =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Reader>((told) => told.read());

function ender({ body }: Response, told: Reader): Watching | undefined {
  const pipe = body as Partial<Pipe> | null | undefined;
  if (typeof pipe?.once !== "function") return undefined;
  pipe.once("close", () => told.read());
  dropped?.register(pipe, told); // the caller may keep the body alone
  const ref = weak(pipe);
  return { fail: (error) => closeBody(ref.deref(), error) };
}

/** The caller's word goes first, then what the request accepts, then its body. */
function isStream(core: Core, { stream }: FetchOptions, known: Known): boolean {
  if (stream !== undefined) return stream;
  if (known.accepts()?.includes("text/event-stream") === true) return true;
  return known.method === "POST" && estimateOf(core.engine.native, known)?.stream === true;
}

/** What it does for `fetch`. */
export const streaming: Streaming = {
  isStream,
  check,
  fits,
  hold,
  failure: (response) => failures.get(response) ?? 0,
  flow,
  ender,
};
