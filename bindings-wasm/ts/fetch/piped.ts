/** Bodies that are streams of Node, as those of node-fetch, for the timeouts of streams and for the usage of answers. Node's entries have it. */

import { Readable } from "node:stream";
import { closeBody } from "./body.js";
import type { Pipes, Sink } from "./streams.js";

/** What a response of node-fetch is made from. */
interface Made {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  readonly url: string;
  /** Redirects that were followed. */
  readonly counter: number;
  readonly size: number | undefined;
}

type Class = new (body: Readable, made: Made) => Response;

/** What `streams.ts` does with such bodies. */
export const pipes: Pipes = {
  fits: (response) =>
    response.body instanceof Readable &&
    typeof response.constructor === "function" &&
    response.constructor !== Object,

  source(body) {
    const pieces = (body as unknown as Readable)[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    return {
      async read() {
        const { done, value } = await pieces.next();
        return done === true ? { done, value: undefined } : { done: false, value };
      },
      cancel: async (reason) => closeBody(body, reason),
      releaseLock: () => undefined,
    };
  },

  around(response, flow) {
    const readable = new Readable({
      highWaterMark: 0, // a stream that reads ahead would wait for pieces that its reader has not asked for
      read: () => void flow.pull(sink).catch(() => undefined),
      destroy(error, ended) {
        flow.cancel(error ?? undefined).catch(() => undefined);
        ended(error);
      },
    });
    readable.on("error", () => undefined); // without a listener an error would end the process
    // The flow holds it weakly, the stream strongly.
    const sink: Sink = {
      enqueue: (piece) => void readable.push(piece),
      close: () => void readable.push(null),
      error: (error) => void readable.destroy(error as Error),
    };
    flow.start(sink);
    const { status, statusText, headers, url, redirected } = response;
    const { size } = response as Response & { readonly size?: number };
    const made = { status, statusText, headers, url, counter: redirected ? 1 : 0, size };
    return new (response.constructor as Class)(readable, made);
  },
};
