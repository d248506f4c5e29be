/** Bodies of requests and responses: which can be sent again, draining of failed ones, and bodies that hold a slot until they are read. */

import { type Weak, weak } from "../engine/platform.js";
import { READ_AT_MOST, READ_FOR } from "../engine/wire.js";
import type { Timed } from "../time/ticker.js";

/** Most raw bytes to read from a failed response in order to keep its connection. */
export const DRAIN_BYTES = 64 * 1024;
/** Longest time for that, in milliseconds. */
export const DRAIN_MS = 250;

/** Bodies that can be sent again, by their string tag, because other realms and the undici package have classes of their own. */
const REPLAYABLE = /^\[object (?:ArrayBuffer|SharedArrayBuffer|Blob|File|URLSearchParams|FormData)]$/;

/** Whether a body can be sent a second time as it is. Judged before the first attempt. */
export function isReplayable(body: unknown): boolean {
  return (
    body === null ||
    body === undefined ||
    typeof body === "string" ||
    ArrayBuffer.isView(body) ||
    REPLAYABLE.test(Object.prototype.toString.call(body))
  );
}

/** A body of `fetch`, or a Node stream, as node-fetch and undici's `request` return. */
interface Body {
  getReader?: unknown;
  cancel?: (reason?: unknown) => Promise<void>;
  destroy?: (reason?: unknown) => void;
  listenerCount?: (event: string) => number;
}

/** Whether a body is a web stream, as in `fetch`. */
export function isWebStream(body: unknown): body is ReadableStream<Uint8Array> {
  return typeof (body as Body | null | undefined)?.getReader === "function";
}

/** Closes a body of any kind, and so its connection. Ignores other values. */
export function closeBody(body: unknown, reason?: unknown): void {
  try {
    const stream = body as Body | null | undefined;
    if (typeof stream?.cancel === "function") {
      Promise.resolve(stream.cancel(reason)).catch(() => undefined); // a locked stream has a reader
    } else if (typeof stream?.destroy === "function") {
      // An error event without a listener would end the process.
      stream.destroy((stream.listenerCount?.("error") ?? 0) > 0 ? reason : undefined);
    }
  } catch {
    // not a stream after all
  }
}

/** The class of responses with properties that no constructor accepts. */
type Standing = new (body: BodyInit | null, of: Response) => Response;

let platforms: typeof Response | undefined;
let standing: Standing | undefined;

/** The class of responses with another body. It uses getters: own properties would make creating a response ten times as expensive. */
function standingOf(platform: typeof Response): Standing {
  if (platform === platforms && standing !== undefined) return standing;
  class Stand extends platform {
    readonly #url: string;
    readonly #type: ResponseType;
    readonly #redirected: boolean;

    constructor(body: BodyInit | null, of: Response) {
      const { status, statusText, headers } = of;
      // No constructor takes a status above 599, which servers send all the same.
      super(body, { status: Math.min(status, 599), statusText, headers });
      if (status > 599) Object.defineProperty(this, "status", { value: status });
      this.#url = of.url;
      this.#type = of.type;
      this.#redirected = of.redirected;
    }

    override get url(): string {
      return this.#url;
    }

    override get type(): ResponseType {
      return this.#type;
    }

    override get redirected(): boolean {
      return this.#redirected;
    }

    /** A platform's `clone` makes a plain response, so its copy gets these values as properties. */
    override clone(): Response {
      const told = {
        status: { value: this.status, configurable: true },
        url: { value: this.#url, configurable: true },
        type: { value: this.#type, configurable: true },
        redirected: { value: this.#redirected, configurable: true },
      };
      const another = (of: Response): Response => {
        const made = platform.prototype.clone.call(of) as Response;
        return Object.defineProperties(made, {
          ...told,
          clone: { value: () => another(made), configurable: true },
        });
      };
      return another(this);
    }
  }
  Object.defineProperty(Stand.prototype, "constructor", { value: platform, configurable: true });
  [platforms, standing] = [platform, Stand];
  return Stand;
}

/** The same response with another body. */
export function rebuilt(response: Response, body: BodyInit | null): Response {
  return new (standingOf(Response))(body, response);
}

/**
 * Reads the beginning of a failed response, for policies with `retry.readErrors`: at most 64 kB, and for at most a second. The response
 * itself stays unread.
 *
 * @returns What has come; undefined where the response is no `Response` of a platform.
 */
export async function beginningOf(response: Response, limit: Limited): Promise<string | undefined> {
  if (!isWebStream(response.body) || response.bodyUsed) return undefined;
  const reader = response.clone().body?.getReader();
  if (reader === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let size = 0;
  let stop = () => {};
  const late = new Promise<undefined>((tick) => {
    stop = limit({ tick: () => tick(undefined) }, READ_FOR);
  });
  try {
    while (size < READ_AT_MOST) {
      const read = await Promise.race([reader.read(), late]);
      if (read === undefined || read.done) break;
      chunks.push(read.value);
      size += read.value.byteLength;
    }
  } catch {
    // The caller gets this error when it reads the body.
  }
  stop();
  reader.cancel().catch(() => undefined); // waits for the other half of the body, so it is not awaited
  return new Blob(chunks as BlobPart[]).text();
}

/** Puts `x-should-retry: false` into a failed response, which SDKs obey: they would repeat what the policy has given up. */
export function final(response: Response): Response {
  const last = rebuilt(response, response.body);
  last.headers.set("x-should-retry", "false");
  return last;
}

/** What the note of a call says whose SDK repeats requests too, by its `x-stainless-retry-count`. */
export function noteOfSdk(count: string | null | undefined): string | undefined {
  return Number(count) > 0 ? "the SDK retries too: set its maxRetries to 0" : undefined;
}

/** Starts a timer of so many µs, and returns a function that stops it. */
export type Limited = (timed: Timed, us: number) => () => void;

/**
 * Reads a failed response to its end if it is small and quick, which keeps its connection; otherwise closes it.
 *
 * @returns The response, which can still be delivered to the caller, or undefined if it was closed.
 */
export async function drained(response: Response, limit: Limited): Promise<Response | undefined> {
  const { body } = response;
  if (body === null || body === undefined || response.bodyUsed) return response;
  const length = Number(response.headers?.get?.("content-length") ?? 0);
  if (length > DRAIN_BYTES || !isWebStream(body)) {
    closeBody(body);
    return undefined;
  }
  const reader = body.getReader();
  let late = false;
  const cut = () => {
    late = true;
    reader.cancel().catch(() => undefined);
  };
  const stop = limit({ tick: cut }, DRAIN_MS * 1000);
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (late) return undefined;
      if (done) return rebuilt(response, new Blob(chunks as BlobPart[]));
      chunks.push(value);
      size += value.byteLength;
      if (size > DRAIN_BYTES) {
        cut();
        return undefined;
      }
    }
  } catch {
    return undefined; // the connection failed already; the next attempt shows whether it recovers
  } finally {
    stop();
  }
}

/** A callback for the end of reading a body; called once. */
export interface Reader {
  /** The body was read to its end, or closed early. */
  read(): void;
  /** Reading the body failed. */
  failed(error: unknown): void;
}

const unread =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Guard>((guard) => guard.thrownAway());

/** A watched body, as its call knows it. */
export interface Watching {
  /** Breaks the body off: its reader gets this error, and the connection is closed. */
  fail(error: unknown): void;
}

/** Watches the body of a response: returns the response for the caller. */
export type Watcher = (response: Response, told: Reader) => [given: Response, watching: Watching];

let watcher: Watcher | undefined;

/** Replaces the watcher; the entry for Node does so. */
export function provideWatcher(by: Watcher): void {
  watcher = by;
}

/** Watches the body of a response. Throws, and leaves the response as it is, if that is not possible. */
export function watch(response: Response, told: Reader): [given: Response, watching: Watching] {
  return (watcher ?? Guard.of)(response, told);
}

/** A watched body: reports the end of reading, and can be broken off. */
export class Guard implements Watching {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #told: Reader | undefined;
  /** Weak, like the registry: the collection of its stream may be the only sign that the response and its body were dropped. */
  #controller: Weak<ReadableByteStreamController> | undefined;
  /** The response and its body, which a caller may keep without the other; Infinity once it is being read. */
  #uses = 2;

  private constructor(reader: ReadableStreamDefaultReader<Uint8Array>, told: Reader) {
    this.#reader = reader;
    this.#told = told;
  }

  /** The same response with a watched body. Throws, and leaves the response as it is, if no `Response` can be built for it. */
  static of(
    response: Response,
    told: Reader,
    body = response.body as ReadableStream<Uint8Array>,
  ): [guarded: Response, guard: Guard] {
    const reader = body.getReader();
    const guard = new Guard(reader, told);
    const stream = new ReadableStream({
      type: "bytes",
      start: (controller) => {
        guard.#controller = weak(controller);
      },
      pull: (controller) => guard.#pull(controller),
      cancel: (reason) => guard.#cancel(reason),
    });
    try {
      const guarded = rebuilt(response, stream);
      for (const use of [guarded, stream]) unread?.register(use, guard);
      return [guarded, guard];
    } catch (error) {
      reader.releaseLock();
      throw error;
    }
  }

  async #pull(controller: ReadableByteStreamController): Promise<void> {
    this.#uses = Infinity;
    try {
      for (;;) {
        const { done, value } = await this.#reader.read();
        if (done) {
          this.#end()?.read();
          controller.close();
          controller.byobRequest?.respond(0);
          return;
        }
        if (value.byteLength > 0) {
          controller.enqueue(value as Uint8Array<ArrayBuffer>);
          return;
        }
      }
    } catch (error) {
      this.#end()?.failed(error);
      throw error;
    }
  }

  async #cancel(reason: unknown): Promise<void> {
    this.#end()?.read();
    await this.#reader.cancel(reason);
  }

  #end(): Reader | undefined {
    const told = this.#told;
    this.#told = undefined;
    return told;
  }

  fail(error: unknown): void {
    if (this.#end() === undefined) return;
    try {
      this.#controller?.deref()?.error(error);
    } catch {
      // closed in the meantime
    }
    this.#reader.cancel(error).catch(() => undefined);
  }

  /** The response or its body was collected as garbage. After both, a body whose reading had not begun counts as read. */
  thrownAway(): void {
    this.#uses -= 1;
    if (this.#uses === 0) this.#end()?.read();
  }
}
