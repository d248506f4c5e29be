/** `fetch` under a policy: which requests can be repeated, what each attempt sends, and how a response is judged. */

import type { GlobalFetch, Init, SentBody } from "../engine/global_types.js";
import { isBrowser } from "../engine/platform.js";
import { atOnce, type Predicate } from "../errors/classify.js";
import type { Core } from "../run/core.js";
import { StandIn } from "../run/fallback.js";
import type { Lane } from "../run/lane.js";
import { learn, metering } from "../run/metering.js";
import type { CallOptions, Policy, PolicyOptions } from "../run/policy.js";
import type { OnRetry } from "../run/retrying.js";
import { type Adapter, type BodyEnds, type Ending, Run } from "../run/run.js";
import { onAbort, reasonOf } from "../run/signals.js";
import type { Moments } from "../time/ticker.js";
import {
  beginningOf,
  closeBody,
  drained,
  final,
  isReplayable,
  isWebStream,
  type Limited,
  noteOfSdk,
  type Reader,
  type Watching,
  watch,
} from "./body.js";
import { type Asked, askedFor, begun, type Known, parsed, Sending } from "./request.js";
import { ender, type Flowing, type Streaming, streamingFor } from "./streaming.js";

/** The type of the global `fetch`, which also takes the option `tidegate`. */
export type Fetch = GlobalFetch &
  ((input: Parameters<GlobalFetch>[0], init?: Init & { tidegate?: FetchOptions }) => ReturnType<GlobalFetch>);

/** Options of one request, as in `fetch(url, { tidegate: { … } })`. */
export interface FetchOptions extends Omit<CallOptions, "replayable"> {
  /** Another policy for this request. */
  readonly policy?: Policy<unknown> | undefined;
  /** Makes the body for each repeat, for bodies that can be read only once; also for the first attempt of a request without a body. */
  readonly bodyFactory?: (() => SentBody) | undefined;
  /**
   * Decides by each response or error whether to try again; undefined is no opinion. Limits still apply: attempts, budget, deadline,
   * and requests that must not be repeated at all. With undici its argument is `{ status, headers }`.
   */
  readonly predicate?: Predicate | undefined;
  /** Whether repeats carry `Retry-Attempt: n`. */
  readonly retryHeader?: boolean | undefined;
  /**
   * Whether the answer is a stream, for `firstByteTimeout`. By default it is one if the request accepts `text/event-stream`, or is a POST
   * that asks a language model for one (`"stream": true`).
   */
  readonly stream?: boolean | undefined;
}

/** Makes an attempt of this `fetch` stop without a signal, by what it adds to `init`; false if it needs a signal. */
export type Stopping = (fetch: unknown, input: unknown, init: RequestInit, lane: Lane) => boolean;

let stopping: Stopping | undefined;

/** Sets the code for Node's own `fetch`. */
export function provideStopping(by: Stopping): void {
  stopping = by;
}

/** The global `fetch` under a policy. */
export function fetchUnder(core: Core, given: PolicyOptions<unknown>): Fetch {
  const sending = new Sending(core, given);
  const standIn = StandIn.of(core, given.fallback, given.fallbackOn);
  // With a default of its own `init` does not count in `length`, as in the global one. No async function: its promises would be hooked.
  const fetch = (
    input: string | URL | Request,
    given: RequestInit | undefined = undefined,
  ): Promise<Response> => {
    try {
      const init = own(given);
      const options = init?.tidegate;
      if (options?.policy !== undefined) {
        const { policy, ...tidegate } = options;
        return policy.fetch(input as RequestInfo, { ...init, tidegate });
      }
      const sent = (core.number < 0 ? wait : send)(sending, input, init, options ?? {});
      if (standIn === undefined) return sent;
      const route = options?.route ?? sending.origin(urlOf(input));
      return standIn.instead(sent, route, signalOf(input, init));
    } catch (error) {
      return Promise.reject(error);
    }
  };
  return fetch as Fetch;
}

/** Whether the input is a request. Judged by its properties, because other realms and the undici package have classes of their own. */
function isRequest(input: string | URL | Request): input is Request {
  const { url, clone } = Object(input) as Partial<Request>;
  return typeof url === "string" && typeof clone === "function";
}

/** The signal of a request. One that is null takes off that of a `Request`; a `Request` of node-fetch without one has null. */
function signalOf(input: string | URL | Request, init: RequestInit | undefined): AbortSignal | undefined {
  const { signal } = init?.signal === undefined && isRequest(input) ? input : (init ?? {});
  return signal ?? undefined;
}

/**
 * The options of a request as properties of their own, and headers that can be read more than once, because attempts send copies of them. Those of an instance are on its prototype:
 * `fetch(url, request)` takes method, headers and body from the request.
 */
function own(init: RequestInit | undefined): RequestInit | undefined {
  if (init === undefined || init === null) return init;
  let owned = init;
  const kind: unknown = Object.getPrototypeOf(init);
  if (kind !== null && kind !== Object.prototype) {
    owned = {};
    for (
      let level: unknown = init;
      (level ?? Object.prototype) !== Object.prototype;
      level = Object.getPrototypeOf(level)
    )
      for (const key of Object.getOwnPropertyNames(level) as (keyof RequestInit)[])
        (owned as Record<string, unknown>)[key] = init[key];
  }
  const { headers } = owned;
  const isIterator = typeof (headers as { next?: unknown } | undefined)?.next === "function";
  return isIterator ? { ...owned, headers: [...(headers as Iterable<[string, string]>)] } : owned;
}

/** Sends a request after the engine's module is loaded. */
async function wait(
  sending: Sending,
  input: string | URL | Request,
  init: RequestInit | undefined,
  options: FetchOptions,
): Promise<Response> {
  const signal = signalOf(input, init);
  if (signal?.aborted === true) throw reasonOf(signal);
  const route = options.route ?? sending.origin(urlOf(input));
  const left = await sending.core.there(route, signal, options.deadline);
  return send(sending, input, init, options, left);
}

function send(
  sending: Sending,
  input: string | URL | Request,
  init: RequestInit | undefined,
  options: FetchOptions,
  left?: number,
): Promise<Response> {
  const { core } = sending;
  const outside = signalOf(input, init);
  if (outside?.aborted === true) throw reasonOf(outside);
  const given = new Given(input, init);
  const asked = askedFor(sending, options, given, left);
  const routeKey = options.route ?? sending.origin(given.url);
  const adapter = new FetchAdapter(sending, given, options, asked, outside);
  const run = new Run(core, routeKey, asked.around, outside, adapter);
  return begun(sending, run, routeKey, given, asked);
}

/** A request as its caller gave it. Its properties are read where they are needed, because most requests need few. */
class Given implements Known {
  readonly input: string | URL | Request;
  readonly init: RequestInit | undefined;
  /** The input, if it is a request. */
  readonly request: Request | undefined;
  readonly url: string;

  constructor(input: string | URL | Request, init: RequestInit | undefined) {
    this.input = input;
    this.init = init;
    this.request = isRequest(input) ? input : undefined;
    this.url = this.request?.url ?? String(input);
  }

  get method(): string {
    return (this.init?.method ?? this.request?.method ?? "GET").toUpperCase();
  }

  get path(): string {
    return parsed(this.url)?.pathname ?? "";
  }

  /** The path and the query. */
  get target(): string | undefined {
    const url = parsed(this.url);
    return url === undefined ? undefined : url.pathname + url.search;
  }

  get hasBody(): boolean {
    return (this.init?.body ?? null) !== null;
  }

  get body(): unknown {
    return this.hasBody ? this.init?.body : this.request?.body;
  }

  get replayable(): boolean {
    return isReplayable(this.init?.body);
  }

  headers(): Headers {
    return new Headers(this.init?.headers ?? this.request?.headers);
  }

  hasKey(): boolean {
    return this.headers().has("idempotency-key");
  }

  accepts(): string | null {
    return this.headers().get("accept");
  }
}

function urlOf(input: string | URL | Request): string {
  return isRequest(input) ? input.url : String(input);
}

class FetchAdapter implements Adapter<Response> {
  readonly #core: Core;
  readonly #sending: Sending;
  readonly #given: Given;
  readonly #options: FetchOptions;
  readonly #asked: Asked;
  /** The caller's own signal. */
  readonly #outside: AbortSignal | undefined;
  readonly #streaming: Streaming | undefined;
  #releasing: Promise<void> | undefined;
  #guard: Flowing | undefined;
  /** Responses whose bodies have been read or closed before the next attempt; they cannot be delivered. */
  #spent: WeakSet<object> | undefined;
  /** The replacement of each response that was drained: the same response with the bytes read. */
  #kept: WeakMap<object, Response> | undefined;
  /** What has been read of failed responses. */
  #beginnings: WeakMap<object, string> | undefined;
  #original: Request | undefined;

  constructor(
    sending: Sending,
    given: Given,
    options: FetchOptions,
    asked: Asked,
    outside: AbortSignal | undefined,
  ) {
    this.#core = sending.core;
    this.#sending = sending;
    this.#given = given;
    this.#options = options;
    this.#asked = asked;
    this.#outside = outside;
    const { request } = given;
    this.#streaming = streamingFor(sending.core, sending.given.usage !== undefined);
    // The body of a request can be sent only once: all attempts but the last send a clone.
    if (request !== undefined && request.body !== null && !given.hasBody) this.#original = request;
  }

  start(lane: Lane): Response | PromiseLike<Response> {
    return this.#releasing === undefined ? this.#send(lane) : this.#releasing.then(() => this.#send(lane));
  }

  #send(lane: Lane): Response | PromiseLike<Response> {
    if (lane.stopped) throw lane.signal.reason;
    const send = this.#sending.given.fetch ?? globalThis.fetch;
    const { input, init } = this.#outgoing(lane);
    if (stopping?.(send, input, init, lane) !== true) init.signal = lane.signal;
    const sent = send(input as RequestInfo, init);
    // Most policies do nothing between a first response and its outcome.
    const plain =
      lane.attempt === 1 &&
      this.#streaming === undefined &&
      !this.#core.hedges &&
      !this.#readsErrors &&
      this.#core.setting("rate_limit.learn") !== "down";
    return plain ? sent : this.#received(sent, lane);
  }

  async #received(sent: Promise<Response>, lane: Lane): Promise<Response> {
    let response = await sent;
    // A mock may return one object for every attempt; only its replacement can still be read.
    for (let kept = this.#kept?.get(response); kept !== undefined; kept = this.#kept?.get(response))
      response = kept;
    if (!this.intact(response))
      throw new TypeError("fetch gave the same Response to two attempts: make a new one for each call");
    this.#streaming?.check(this.#core, response, this.#sending.given.usage);
    learn(this.#core, lane, response.headers);
    if (this.#reads(response)) return this.#begun(response, lane);
    if (!this.#asked.held || response.status >= 400 || !this.#opens(response)) return response;
    this.#spend(response);
    return (this.#streaming as Streaming).hold(this.#core, response, lane);
  }

  get #readsErrors(): boolean {
    return this.#core.setting("retry.read_errors") === 1;
  }

  /** Whether the policy reads why this response failed. */
  #reads({ status }: Response): boolean {
    return status >= 400 && this.#readsErrors;
  }

  async #begun(response: Response, lane: Lane): Promise<Response> {
    const beginning = await beginningOf(response, this.#limit).catch(() => undefined);
    if (lane.stopped) {
      closeBody(response.body); // a `fetch` that does not follow the signal has not closed it
      throw lane.signal.reason;
    }
    if (beginning !== undefined) {
      this.#beginnings ??= new WeakMap();
      this.#beginnings.set(response, beginning);
    }
    return response;
  }

  get #limit(): Limited {
    const { engine } = this.#core;
    return (timed, us) => {
      const place = engine.ticker.add(timed, engine.time() + us);
      return () => engine.ticker.drop(place);
    };
  }

  #spend(response: Response): void {
    this.#spent ??= new WeakSet();
    this.#spent.add(response);
  }

  /** The request of an attempt: equal to the first but for the retry header. */
  #outgoing(lane: Lane): { input: string | URL | Request; init: RequestInit } {
    const { attempt } = lane;
    const { input: first, init: given } = this.#given;
    const asked = this.#asked;
    const { key } = asked;
    const options = this.#options;
    const retryHeader =
      attempt > 1 && (options.retryHeader ?? this.#sending.given.retryHeader ?? !isBrowser());
    const init: RequestInit = { ...given };
    if (init.tidegate !== undefined) delete init.tidegate;
    if (key !== undefined || retryHeader) {
      const headers = this.#given.headers();
      if (key !== undefined) headers.set("Idempotency-Key", key);
      if (retryHeader) headers.set("Retry-Attempt", String(attempt - 1));
      init.headers = headers;
    }
    if (options.bodyFactory !== undefined && (attempt > 1 || !this.#given.body)) {
      init.body = atOnce(options.bodyFactory(), "bodyFactory");
      if (!isReplayable(init.body)) Object.assign(init, { duplex: "half" });
    }
    if (this.#original === undefined || attempt >= asked.most) {
      this.#original = undefined;
      return { input: first, init };
    }
    return { input: this.#original.clone(), init };
  }

  get predicate(): Predicate | undefined {
    return this.#options.predicate;
  }

  get onRetry(): OnRetry | undefined {
    return this.#options.onRetry;
  }

  outcome(response: Response): number {
    const { status, headers } = response;
    const { engine, number } = this.#core;
    return status >= 400
      ? engine.classify(number, status, headers, this.#beginnings?.get(response))
      : (this.#streaming?.failure(response) ?? 0);
  }

  /** What the note says beside why there was no further attempt. */
  get remark(): string | undefined {
    return this.#readsErrors ? noteOfSdk(this.#given.headers().get("x-stainless-retry-count")) : undefined;
  }

  lasts(response: Response): boolean {
    return this.#asked.untilBody && this.#opens(response);
  }

  /** Whether the body can be watched and has not been read. */
  #opens(response: Response): boolean {
    return isOpen(response) || (this.#streaming?.fits(response) === true && !response.bodyUsed);
  }

  /** Drains a small failed response, which keeps its connection; closes a large one. The next attempt waits for that. */
  release(lane: Lane): void {
    const response = lane.value as Response;
    const before = this.#releasing;
    this.#spend(response);
    this.#releasing = (async () => {
      await before;
      const kept = await drained(response, this.#limit).catch(() => closeBody(response.body));
      if (!kept) return;
      if (kept === response) this.#spent?.delete(response);
      else {
        this.#kept ??= new WeakMap();
        this.#kept.set(response, kept);
      }
      if (lane.value === response) lane.value = kept;
    })();
  }

  discard(response: Response): void {
    closeBody(response.body);
  }

  intact(response: Response): boolean {
    return this.#spent?.has(response) !== true;
  }

  watch(response: Response, ends: BodyEnds, tell: (what: unknown) => void, lane: Lane): Response {
    const { usage } = this.#sending.given;
    const told = usage === undefined ? ends : metering().read(this.#core, ends, lane, usage);
    const [guarded, guard] = this.#streaming?.flow(this.#core, response, told) ?? watch(response, told);
    this.#guard = guard;
    tell(guarded);
    return guarded;
  }

  age(again: () => void): number | null | undefined {
    return this.#guard?.age === undefined ? null : this.#guard.age(again);
  }

  breakOff(error: unknown): void {
    this.#guard?.fail(error);
  }

  /**
   * The response, whose reading must end by the deadline too, and when the caller gives up. That also holds for the streams of node-fetch,
   * which are not watched.
   */
  deliver(answered: Response, ending: Ending): Response {
    const { ticker } = this.#core.engine;
    const response = ending.last && this.#reads(answered) && isFree(answered) ? final(answered) : answered;
    const web = isOpen(response);
    const bounded = this.#asked.untilBody && this.#asked.until < Infinity;
    const outside = this.#outside;
    const rest = new Rest(ticker);
    let given = response;
    if (bounded || outside !== undefined) {
      [given, rest.guard] = web ? watch(response, rest) : [response, ender(response, rest)];
    }
    if (rest.guard !== undefined) {
      if (bounded) rest.until(this.#asked.until, ending.late);
      if (outside !== undefined) rest.follow(outside);
    }
    ending.tell(given);
    return given;
  }
}

/**
 * The reading of a body whose call has ended. It holds no response, because the collection of that may be the only sign that it was dropped,
 * and a caller's signal may live for long.
 */
class Rest implements Reader {
  readonly #ticker: Moments;
  #place = -1;
  #unfollow: (() => void) | undefined;
  guard: Watching | undefined;

  constructor(ticker: Moments) {
    this.#ticker = ticker;
  }

  /** It must end by this moment. */
  until(moment: number, late: Ending["late"]): void {
    this.#place = this.#ticker.add({ tick: () => this.#fail(late()) }, moment);
    this.#ticker.weaken(this.#place);
  }

  /** It ends when this signal is aborted. */
  follow(signal: AbortSignal): void {
    this.#unfollow = onAbort(signal, () => this.#fail(reasonOf(signal)));
  }

  read(): void {
    if (this.#place >= 0) this.#ticker.drop(this.#place);
    this.#place = -1;
    this.#unfollow?.();
  }

  failed(): void {
    this.read();
  }

  #fail(error: unknown): void {
    this.read();
    this.guard?.fail(error);
  }
}

/** Whether nobody has read the body of a response, and nobody reads it. */
function isFree({ body, bodyUsed }: Response): boolean {
  return !bodyUsed && body?.locked !== true;
}

/** Whether the response has a body that can be watched. */
function isOpen(response: Response): boolean {
  return isWebStream(response.body) && isFree(response);
}
