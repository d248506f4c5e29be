/**
 * Node's responses, watched without a second stream: the response of `fetch` itself gets a prototype whose readers report the end of the
 * body. A second stream and a second response would take 40 µs of a request.
 *
 * Only for Node, where everything reads a response through these methods. Other platforms read the body of a response that a server
 * returns by themselves, so they get a response around a watched stream (`body.ts`; docs/adr/0036-watching-a-response.md).
 */

import { Guard, provideWatcher, type Reader, rebuilt, type Watching } from "./body.js";

const decoder = new TextDecoder();
const decoded = (bytes: Uint8Array): string => decoder.decode(bytes);

/** The watch over one response. It does not hold the response, whose collection may be the only sign that it was dropped. */
class Watch implements Watching {
  readonly stream: ReadableStream<Uint8Array>;
  #told: Reader | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #guard: Guard | undefined;
  #broken: { readonly error: unknown } | undefined;

  constructor(stream: ReadableStream<Uint8Array>, told: Reader) {
    this.stream = stream;
    this.#told = told;
  }

  /** Whether a reader of ours can read the whole body. */
  get fresh(): boolean {
    return this.#reader === undefined && !this.stream.locked;
  }

  #end(): Reader | undefined {
    const told = this.#told;
    this.#told = undefined;
    return told;
  }

  /** Throws the error with which the body was broken off. */
  #check(): void {
    if (this.#broken !== undefined) throw this.#broken.error;
  }

  /** Reads the body to its end. */
  async read(): Promise<Uint8Array<ArrayBuffer>> {
    this.#check();
    const reader = this.stream.getReader();
    this.#reader = reader;
    let size = 0;
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        chunks.push(value as Uint8Array<ArrayBuffer>);
        size += value.byteLength;
      }
    } catch (error) {
      this.#end()?.failed(error);
      this.#check();
      throw error;
    }
    this.#check();
    this.#end()?.read();
    if (chunks.length === 1 && chunks[0] !== undefined) return chunks[0];
    const all = new Uint8Array(size);
    let at = 0;
    for (const chunk of chunks) {
      all.set(chunk, at);
      at += chunk.byteLength;
    }
    return all;
  }

  /** The same response around a watched stream. */
  wrap(response: Response): Response {
    if (this.#broken === undefined) {
      const [inner, guard] = Guard.of(response, this.#told as Reader, this.stream);
      this.#guard = guard;
      this.#told = undefined;
      return inner;
    }
    const { error } = this.#broken;
    return rebuilt(response, new ReadableStream({ start: (controller) => controller.error(error) }));
  }

  fail(error: unknown): void {
    if (this.#guard !== undefined) this.#guard.fail(error);
    else if (this.#end() !== undefined) {
      this.#broken = { error };
      (this.#reader ?? this.stream).cancel(error).catch(() => undefined);
    }
  }

  thrownAway(): void {
    if (this.#reader === undefined && this.#guard === undefined) this.#end()?.read();
  }
}

/** Puts a private field into a response: to read it costs less than a `WeakMap`, and nobody else can see it. */
class Stamp extends class {
  constructor(response: object) {
    // biome-ignore lint/correctness/noConstructorReturn: a derived class adds its fields to what this returns
    return response;
  }
} {
  readonly #watch: Watch;
  /** The same response around a watched stream, once `body` or `clone` has been used. Its call does not hold it. */
  #inner: Response | undefined;

  constructor(response: Response, watch: Watch) {
    super(response);
    this.#watch = watch;
  }

  /** The watch over a response. */
  static of(response: object): Watch {
    return (response as Stamp).#watch;
  }

  /** The same response around a watched stream, if that is how it is read. */
  static inner(response: object): Response | undefined {
    return (response as Stamp).#inner;
  }

  /** The same, made here if nothing has read the body. */
  static wrapped(response: Response): Response | undefined {
    const stamp = response as unknown as Stamp;
    if (stamp.#inner === undefined && stamp.#watch.fresh) stamp.#inner = stamp.#watch.wrap(response);
    return stamp.#inner;
  }
}

const unread = new FinalizationRegistry<Watch>((watch) => watch.thrownAway());

let platforms: typeof Response | undefined;
let prototype: object = {};

/** The prototype of watched responses. */
function prototypeOf(platform: typeof Response): object {
  if (platform === platforms) return prototype;
  const { of: own, inner: innerOf, wrapped: wrappedOf } = Stamp;
  class Watched extends platform {
    override get body(): Response["body"] {
      const inner = wrappedOf(this);
      return inner === undefined ? super.body : inner.body;
    }

    override get bodyUsed(): boolean {
      return innerOf(this)?.bodyUsed ?? super.bodyUsed;
    }

    override clone(): Response {
      const inner = wrappedOf(this);
      return inner === undefined ? super.clone() : inner.clone();
    }

    override text(): Promise<string> {
      const inner = innerOf(this);
      if (inner !== undefined) return inner.text();
      const watch = own(this);
      return watch.fresh ? watch.read().then(decoded) : super.text();
    }

    override async json(): Promise<unknown> {
      return JSON.parse(await this.text());
    }

    override async arrayBuffer(): Promise<ArrayBuffer> {
      const inner = innerOf(this);
      if (inner !== undefined) return inner.arrayBuffer();
      const watch = own(this);
      if (!watch.fresh) return super.arrayBuffer();
      const bytes = await watch.read();
      return bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.slice().buffer;
    }

    override async blob(): Promise<Blob> {
      return new platform(await this.arrayBuffer(), { headers: this.headers }).blob();
    }

    override async formData(): Promise<FormData> {
      return new platform(await this.arrayBuffer(), { headers: this.headers }).formData();
    }
  }
  if ("bytes" in platform.prototype) {
    Object.defineProperty(Watched.prototype, "bytes", {
      value: async function bytes(this: Response) {
        return new Uint8Array(await this.arrayBuffer());
      },
      configurable: true,
      writable: true,
    });
  }
  Object.defineProperty(Watched.prototype, "constructor", { value: platform, configurable: true });
  [platforms, prototype] = [platform, Watched.prototype];
  return prototype;
}

/** Watches a response. One that is not of the platform's own class gets a watched stream. */
export function watched(response: Response, told: Reader): [watched: Response, watch: Watching] {
  const body = response.body as ReadableStream<Uint8Array>;
  const ordinary =
    Object.getPrototypeOf(response) === Response.prototype &&
    !Object.hasOwn(response, "body") &&
    !body.locked;
  if (!ordinary) return Guard.of(response, told);
  const watch = new Watch(body, told);
  new Stamp(response, watch);
  Object.setPrototypeOf(response, prototypeOf(Response));
  unread.register(response, watch);
  return [response, watch];
}

/** Watches responses this way if the platform is Node, and not one that runs Node's programs. */
export function watchOnNode(): void {
  const { process } = globalThis as { process?: { release?: { name?: string } } };
  if (process?.release?.name === "node" && !("Bun" in globalThis) && !("Deno" in globalThis)) {
    provideWatcher(watched);
  }
}
