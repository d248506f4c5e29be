/** A server whose answers stall, drip, ping and lie, by the path of the request. */

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** An event that counts. */
export const EVENT = 'data: {"delta": "x"}\n\n';
const PING = "event: ping\ndata: {}\n\n: comment\n\n";
const ERROR = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n';

type Act = (response: ServerResponse, repeated: boolean) => void;

const whole = (response: ServerResponse) => response.end(EVENT.repeat(3));

/** Pings every 5 ms until the client leaves. */
function pings(response: ServerResponse): void {
  const timer = setInterval(() => response.write(PING), 5);
  response.once("close", () => clearInterval(timer));
}

/** Paths whose first answer spoils; repeats are good. */
const ACTS: Readonly<Record<string, Act>> = {
  stalls_0: (response, repeated) => (repeated ? whole(response) : response.flushHeaders()),
  pings_first: (response, repeated) => (repeated ? whole(response) : pings(response)),
  error_first: (response, repeated) => (repeated ? whole(response) : response.end(PING + ERROR)),
  stalls_1: (response) => response.write(EVENT),
  stalls_n: (response) => response.write(EVENT.repeat(40)),
  pings_later: (response) => {
    response.write(EVENT);
    pings(response);
  },
  lies: (response) => {
    response.setHeader("content-length", 1000);
    response.write(EVENT);
  },
  error_later: (response) => {
    response.write(EVENT);
    response.end(ERROR);
  },
  fails: (response) => response.writeHead(404).flushHeaders(),
  moved: (response) => response.writeHead(302, { location: "/stalls_0" }).end(),
  empty: (response) => response.writeHead(204).end(),
  silent: (response, repeated) =>
    repeated ? whole(response) : response.write(": a comment\n\n".repeat(6_000)),
  good: whole,
};

/** The server, and the requests that it has had by path. */
export interface Stalling {
  readonly url: string;
  readonly sent: Map<string, number>;
  /** Ends the answers that have stalled. */
  finish(): void;
  close(): Promise<void>;
}

/** Starts it. */
export async function stalling(): Promise<Stalling> {
  const sent = new Map<string, number>();
  const open = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    const path = String(request.url).slice(1);
    const before = sent.get(path) ?? 0;
    sent.set(path, before + 1);
    open.add(response);
    response.once("close", () => open.delete(response));
    response.setHeader("content-type", "text/event-stream");
    (ACTS[path] ?? whole)(response, before > 0);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    sent,
    finish: () => {
      for (const response of open) response.end(EVENT);
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
