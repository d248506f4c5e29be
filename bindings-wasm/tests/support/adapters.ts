/** The adapters over transports in memory, for rules about time and for exhaustive tests. */

import { Dispatcher, request } from "undici";
import {
  type FetchOptions,
  type Policy,
  type PolicyOptions,
  policy,
  type Report,
  reportOf,
} from "../../ts/node.js";
import { interceptor } from "../../ts/undici.js";

/** The server's response to a request. The server may wait, on any clock, and throw. */
export interface Answered {
  readonly status: number;
  readonly headers?: Record<string, string>;
  /** The body in pieces, each after a turn. */
  readonly body?: string[];
}

/** The server. */
export type Far = (
  attempt: number,
  headers: Record<string, string>,
  signal: AbortSignal,
) => Promise<Answered> | Answered;

/** A response as the caller gets it. */
export interface Got {
  readonly status: number;
  readonly text: () => Promise<string>;
  readonly report: () => Report | undefined;
}

/** A client of one policy, and the policy. */
export interface Client {
  readonly some: Policy;
  ask(options?: { method?: string; signal?: AbortSignal; tidegate?: FetchOptions }): Promise<Got>;
}

const URL_ = "http://far.example/x";

/** Number of bodies being read and requests in flight, to find leaks. */
export const open = { bodies: 0 };

function streamed(pieces: string[], signal: AbortSignal | undefined): ReadableStream<Uint8Array> {
  const rest = pieces.map((piece) => new TextEncoder().encode(piece));
  open.bodies += 1;
  let over = false;
  const end = () => {
    if (!over) open.bodies -= 1;
    over = true;
    signal?.removeEventListener("abort", stop);
  };
  let stop = () => {};
  return new ReadableStream(
    {
      start(controller) {
        stop = () => {
          end();
          controller.error(signal?.reason);
        };
        signal?.addEventListener("abort", stop);
      },
      async pull(controller) {
        await Promise.resolve();
        if (over) return;
        const piece = rest.shift();
        if (piece !== undefined) controller.enqueue(piece);
        else {
          end();
          controller.close();
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}

/** `policy.fetch` over the server in memory. */
function overFetch(settings: PolicyOptions, far: Far): Client {
  let attempts = 0;
  const some = policy({
    ...settings,
    fetch: async (_input, init) => {
      const signal = init?.signal as AbortSignal;
      if (signal.aborted) throw signal.reason;
      attempts += 1;
      const { status, headers, body } = await far(
        attempts,
        Object.fromEntries(new Headers(init?.headers)),
        signal,
      );
      return new Response(body === undefined ? null : streamed(body, signal), {
        status,
        headers: headers ?? {},
      });
    },
  });
  return {
    some,
    async ask(options = {}) {
      const response = await some.fetch(URL_, options);
      return { status: response.status, text: () => response.text(), report: () => reportOf(response) };
    },
  };
}

class FarSide extends Dispatcher {
  readonly #far: Far;
  #attempts = 0;

  constructor(far: Far) {
    super();
    this.#far = far;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const stopped = new AbortController();
    let paused = false;
    let over = false;
    open.bodies += 1;
    const end = () => {
      over = true;
      open.bodies -= 1;
    };
    let resumed = () => {};
    const controller = {
      aborted: false,
      reason: null as Error | null,
      paused: false,
      rawHeaders: null,
      rawTrailers: null,
      abort(reason: Error) {
        if (over) return;
        [controller.aborted, controller.reason] = [true, reason];
        end();
        stopped.abort(reason);
        resumed();
        handler.onResponseError?.(controller, reason);
      },
      pause() {
        paused = true;
      },
      resume() {
        paused = false;
        resumed();
      },
    };
    const play = async () => {
      handler.onRequestStart?.(controller, {});
      if (over) return;
      this.#attempts += 1;
      try {
        const {
          status,
          headers = {},
          body = [],
        } = await this.#far(this.#attempts, headersOf(options), stopped.signal);
        if (over) return;
        handler.onResponseStart?.(controller, status, headers, "");
        for (const piece of body) {
          await Promise.resolve();
          while (paused && !over) await new Promise<void>((done) => (resumed = done));
          if (over) return;
          handler.onResponseData?.(controller, Buffer.from(piece));
        }
        while (paused && !over) await new Promise<void>((done) => (resumed = done));
        if (over) return;
        end();
        handler.onResponseEnd?.(controller, {});
      } catch (error) {
        if (over) return;
        end();
        handler.onResponseError?.(controller, error as Error);
      }
    };
    void play();
    return true;
  }

  override close(): Promise<void> {
    return Promise.resolve();
  }

  override destroy(): Promise<void> {
    return Promise.resolve();
  }
}

function headersOf({ headers }: Dispatcher.DispatchOptions): Record<string, string> {
  const flat = Array.isArray(headers) ? (headers as string[]) : Object.entries(headers ?? {}).flat();
  return Object.fromEntries(
    Array.from({ length: flat.length >> 1 }, (_, n) => [
      String(flat[2 * n]).toLowerCase(),
      String(flat[2 * n + 1]),
    ]),
  );
}

/** undici's `request` through the interceptor. */
function overUndici(settings: PolicyOptions, far: Far): Client {
  const some = policy(settings);
  const dispatcher = new FarSide(far).compose(interceptor(some));
  return {
    some,
    async ask(options = {}) {
      const { statusCode, body, context } = await request(URL_, { dispatcher, ...options } as object);
      return { status: statusCode, text: () => body.text(), report: () => reportOf(context) };
    },
  };
}

/** The adapters, under the names of `tests/rules.test.ts`. */
export const ADAPTERS = { fetch: overFetch, undici: overUndici } as const;
