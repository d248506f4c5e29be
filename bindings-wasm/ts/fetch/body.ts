/** Bodies of answers: what can be sent again, what is read of a failed one, and whose slot lasts until it is read. */

import type { Timed } from "../time/ticker.js";

/** Raw bytes that are read of a failed answer at most; its connection is kept then. */
export const DRAIN_BYTES = 64 * 1024;
/** Milliseconds that it may take. */
export const DRAIN_MS = 250;

/** Bodies that can be sent again, by what they call themselves: another realm, and undici's package, have classes of their own. */
const REPLAYABLE = /^\[object (?:ArrayBuffer|SharedArrayBuffer|Blob|File|URLSearchParams|FormData)]$/;

/** Can this body be sent a second time as it is? Judged before the first attempt. */
export function isReplayable(body: unknown): boolean {
  return (
    body === null ||
    body === undefined ||
    typeof body === "string" ||
    ArrayBuffer.isView(body) ||
    REPLAYABLE.test(Object.prototype.toString.call(body))
  );
}

/** A body of `fetch`, or one of Node's streams, which node-fetch and undici's `request` give. */
interface Body {
  getReader?: unknown;
  cancel?: (reason?: unknown) => Promise<void>;
  destroy?: (reason?: unknown) => void;
  listenerCount?: (event: string) => number;
}

/** Can it be read as `fetch` says: is it a web stream? */
export function isWebStream(body: unknown): body is ReadableStream<Uint8Array> {
  return typeof (body as Body | null | undefined)?.getReader === "function";
}

/** Closes a body of whatever kind, and with it its connection. What is no body is left alone. */
export function closeBody(body: unknown, reason?: unknown): void {
  try {
    const stream = body as Body | null | undefined;
    if (typeof stream?.cancel === "function") {
      Promise.resolve(stream.cancel(reason)).catch(() => undefined); // one that is locked has a reader
    } else if (typeof stream?.destroy === "function") {
      // An error that nobody listens for would end the process.
      stream.destroy((stream.listenerCount?.("error") ?? 0) > 0 ? reason : undefined);
    }
  } catch {
    // not a stream after all
  }
}

/** A `Response` that says what no constructor takes. */
type Standing = new (body: BodyInit | null, of: Response) => Response;

let platforms: typeof Response | undefined;
let standing: Standing | undefined;

/** The class of answers with another body: getters, because properties of its own cost each answer ten times as much as it does. */
function standingOf(platform: typeof Response): Standing {
  if (platform === platforms && standing !== undefined) return standing;
  class Stand extends platform {
    readonly #url: string;
    readonly #type: ResponseType;
    readonly #redirected: boolean;

    constructor(body: BodyInit | null, of: Response) {
      const { status, statusText, headers } = of;
      super(body, { status, statusText, headers });
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

    /** Platforms make a plain one, which gets as properties what this one has as getters. */
    override clone(): Response {
      const told = {
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

/** The same answer with another body. */
export function rebuilt(response: Response, body: BodyInit | null): Response {
  return new (standingOf(Response))(body, response);
}

/** Starts the time (µs) of something; how to stop it. */
export type Limited = (timed: Timed, us: number) => () => void;

/**
 * Reads a failed answer to its end where that is small and quick, which keeps its connection; else closes it.
 *
 * @returns The answer, which can still be the caller's, or undefined where it has been closed.
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
    return undefined; // it has failed already; the next attempt tells
  } finally {
    stop();
  }
}

/** Told how the reading of a body has ended, once. */
export interface Reader {
  /** It has been read to its end, or closed early. */
  read(): void;
  /** Reading it has failed. */
  failed(error: unknown): void;
}

const unread =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<WeakRef<Guard>>((guard) => guard.deref()?.thrownAway());

/** A body under watch: somebody is told when it has been read, and can end it. */
export class Guard {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #told: Reader | undefined;
  #controller: ReadableByteStreamController | undefined;
  #started = false;

  private constructor(reader: ReadableStreamDefaultReader<Uint8Array>, told: Reader) {
    this.#reader = reader;
    this.#told = told;
  }

  /** The same answer, whose body is under watch. One that no `Response` can stand for is left as it is, and this throws. */
  static of(response: Response, told: Reader): [guarded: Response, guard: Guard] {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const guard = new Guard(reader, told);
    const stream = new ReadableStream({
      type: "bytes",
      start: (controller) => {
        guard.#controller = controller;
      },
      pull: () => guard.#pull(),
      cancel: (reason) => guard.#cancel(reason),
    });
    try {
      const guarded = rebuilt(response, stream);
      unread?.register(guarded, new WeakRef(guard));
      return [guarded, guard];
    } catch (error) {
      reader.releaseLock();
      throw error;
    }
  }

  async #pull(): Promise<void> {
    this.#started = true;
    const controller = this.#controller as ReadableByteStreamController;
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

  /** Ends it: whoever reads gets this error, and its connection is closed. */
  fail(error: unknown): void {
    if (this.#end() === undefined) return;
    try {
      this.#controller?.error(error);
    } catch {
      // it has been closed in this moment
    }
    this.#reader.cancel(error).catch(() => undefined);
  }

  /** Nobody has the answer any more. Where nobody has begun to read it, nobody will. */
  thrownAway(): void {
    if (!this.#started) this.#end()?.read();
  }
}
