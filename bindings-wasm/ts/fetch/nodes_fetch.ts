/**
 * What stops an attempt of Node's own `fetch` without a signal. A signal and undici's listener on it take 7 to 9 µs of a request, a
 * dispatcher that notes how its request is broken off takes 1 (docs/adr/0078-stopping-nodes-fetch-by-its-dispatcher.md).
 *
 * Only for Node's own `fetch`, with the versions of undici whose handlers are known, and for requests that have no dispatcher of their
 * own. All others get a signal.
 */

import type { Stopping } from "./fetch.js";

/** How undici 5 to 7 and undici 8 tell how a request is broken off. */
interface Handler {
  onConnect?(this: Handler, abort: Abort, ...more: unknown[]): void;
  onError?(error: unknown): void;
  onRequestStart?(this: Handler, controller: { abort: Abort }, ...more: unknown[]): void;
  onResponseError?(controller: unknown, error: unknown): void;
}

type Abort = (reason: unknown) => void;

interface Dispatcher {
  readonly isMockActive?: boolean;
  dispatch(options: object, handler: Handler): boolean;
}

const host = globalThis as { process?: { versions?: { undici?: string } } };
const version = Number.parseInt(host.process?.versions?.undici ?? "", 10);
/** Under this key Node's own undici keeps its dispatcher; undefined if its version is not known. */
const key =
  version >= 5 && version <= 8 ? Symbol.for(`undici.globalDispatcher.${version < 8 ? 1 : 2}`) : undefined;

/** Node's dispatcher for requests without one of their own; undefined before the first request. */
const general = (): Dispatcher | undefined =>
  (globalThis as { [key: symbol]: Dispatcher | undefined })[key as symbol];

/** Passes one attempt's requests on, the first and those after redirects, and stops them. It takes the place of an `AbortController`. */
class Stop implements AbortController, Dispatcher {
  #handler: Handler | undefined;
  #abort: Abort | undefined;
  #stopped = false;
  #reason: unknown;
  #signals: AbortController | undefined;

  /** Its `fetch` may take some turns of the queue to reject its promise. */
  get isBrokenOff(): boolean {
    return this.#stopped;
  }

  /** A mock of undici reads the body of a request otherwise. */
  get isMockActive(): boolean {
    return general()?.isMockActive === true;
  }

  dispatch(options: object, handler: Handler): boolean {
    this.#handler = handler;
    this.#abort = undefined;
    if (this.#stopped) {
      this.#fail();
      return true;
    }
    const { onConnect, onRequestStart } = handler;
    if (onConnect !== undefined) {
      handler.onConnect = (abort, ...more) => {
        this.#abort = abort;
        onConnect.call(handler, abort, ...more);
      };
    } else if (onRequestStart !== undefined) {
      handler.onRequestStart = (controller, ...more) => {
        this.#abort = (reason) => controller.abort(reason);
        onRequestStart.call(handler, controller, ...more);
      };
    }
    return (general() as Dispatcher).dispatch(options, handler);
  }

  abort(reason: unknown): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#reason = reason;
    this.#signals?.abort(reason);
    this.#abort?.(reason);
    // A request that waits for a connection fails at once; undici drops it when a connection is free.
    if (this.#handler !== undefined) this.#fail();
  }

  #fail(): void {
    const handler = this.#handler as Handler;
    if (handler.onError !== undefined) handler.onError(this.#reason);
    else handler.onResponseError?.(undefined, this.#reason);
  }

  get signal(): AbortSignal {
    if (this.#signals === undefined) {
      this.#signals = new AbortController();
      if (this.#stopped) this.#signals.abort(this.#reason);
    }
    return this.#signals.signal;
  }
}

/** The texts of Node 20.0, and of Node 20.20 to 26. */
const SOURCE =
  /^(async )?function fetch\(input, init = undefined\) \{[^{]*(\{[^{]*require\('internal\/deps\/undici\/undici'\)|return lazyUndici\(\)\.fetch\(input, init\);\s*\}$)/;

let judged: unknown;
let isNodes = false;

/**
 * Whether this is Node's own `fetch`, by its source: no other property tells it from a function that wraps it. A `fetch` of another realm
 * (Jest has such) does not find the dispatchers of this one.
 */
function ofNode(fetch: unknown): boolean {
  if (fetch !== judged) {
    judged = fetch;
    isNodes = fetch instanceof Function && SOURCE.test(Function.prototype.toString.call(fetch));
  }
  return isNodes;
}

/** Makes an attempt of Node's own `fetch` stop without a signal; false if it needs one. */
export const stopping: Stopping = (fetch, input, init, lane) => {
  if (key === undefined || !ofNode(fetch) || general() === undefined) return false;
  if (typeof input !== "string" && !(input instanceof URL)) return false;
  // Breaking off a body that is a stream also cancels the stream.
  if ((typeof init.body !== "string" && (init.body ?? null) !== null) || "dispatcher" in init) return false;
  const stop = new Stop();
  lane.controller = stop;
  init.signal = undefined as never;
  (init as { dispatcher?: unknown }).dispatcher = stop;
  return true;
};
