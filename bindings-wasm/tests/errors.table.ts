/**
 * Real errors, each raised by its own library: how to raise it, and its expected class (semantics 1.5). `errors.test.ts` writes
 * `docs/errors-javascript.md` from this table (`UPDATE=1`).
 */

import { execFileSync } from "node:child_process";
import { open, readdir, readFile } from "node:fs/promises";
import { get } from "node:http";
import { connect as connect2 } from "node:http2";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { connect as connectTls } from "node:tls";

export interface Row {
  readonly library: string;
  readonly error: string;
  readonly how: string;
  readonly expected: string;
  readonly make: (here: Here) => unknown;
}

export const ROWS: Row[] = [];
const row = (
  library: string,
  error: string,
  how: string,
  expected: string,
  make: (here: Here) => unknown,
) => {
  ROWS.push({ library, error, how, expected, make });
};

/** Servers that treat every connection in a given way. */
export class Here {
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<{ destroy(): void }>();

  /** A port whose connections get this answer after they have sent something, and are then closed; null never answers. */
  async port(answer: string | Buffer | null, reset = false): Promise<number> {
    const server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => undefined);
      const reply = () => {
        if (answer === null) return;
        if (reset) socket.resetAndDestroy();
        else socket.end(answer);
      };
      socket.once("data", reply);
    });
    this.#servers.push(server);
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    return (server.address() as AddressInfo).port;
  }

  async url(answer: string | null, reset = false): Promise<string> {
    return `http://127.0.0.1:${await this.port(answer, reset)}/`;
  }

  status(status: number, body = "", type = "application/json"): Promise<string> {
    const head = `HTTP/1.1 ${status} x\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
    return this.url(head + body);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) server.close();
  }
}

const NOBODY = "http://127.0.0.1:1/";
const SHORT = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfew";

/** The error event of an emitter. */
const errorOf = (emitter: {
  once(name: string, listener: (error: unknown) => void): unknown;
}): Promise<never> => new Promise((_, reject) => void emitter.once("error", reject));

// Node itself.

row("Node", "Error", "ENOENT of `readFile`", "permanent", () => readFile("/no/such"));
row("Node", "Error", "ENOTDIR of `readdir`", "permanent", () => readdir("/dev/null"));
row("Node", "Error", "EISDIR of `open`", "permanent", () => open("/", "w"));
row("Node", "Error", "ECONNREFUSED of a socket", "never_sent", () => errorOf(connect(1, "127.0.0.1")));
row("Node", "Error", "ENOTFOUND of a socket", "never_sent", () => errorOf(connect(1, "no.invalid")));
row("Node", "Error", "ECONNRESET of a request", "transient", async (here) =>
  errorOf(get(await here.url("", true))),
);
row("Node", "Error", "ECONNRESET of a server that hangs up", "transient", async (here) =>
  errorOf(get(await here.url(""))),
);
row("Node", "Error", "ENOENT of `execFileSync`", "permanent", () => execFileSync("/no/such"));
row("Node", "Error", "TLS with a server that has none", "permanent", async (here) =>
  errorOf(connectTls(await here.port("nonsense"), "127.0.0.1")),
);
row("Node", "Error", "HTTP/2 at a closed port", "never_sent", () => errorOf(connect2(NOBODY)));
row("Node", "SyntaxError", "`JSON.parse`", "permanent", () => JSON.parse("{"));
row("Node", "TypeError", "a bug", "permanent", () => (undefined as unknown as { x: number }).x);
row("Node", "TypeError", "`new URL`", "permanent", () => new URL("nothing"));
row("Node", "AggregateError", "`Promise.any` of connections that are refused", "never_sent", () =>
  Promise.any([errorOf(connect(1, "127.0.0.1")), errorOf(connect(2, "127.0.0.1"))]),
);
row("Node", "DOMException", "`AbortSignal.timeout`", "timeout", async (here) =>
  fetch(await here.url(null), { signal: AbortSignal.timeout(20) }),
);
row("Node", "DOMException", "an `AbortController`", "ignored", () =>
  fetch(NOBODY, { signal: AbortSignal.abort() }),
);

// fetch and undici.

row("fetch", "TypeError", "a closed port", "never_sent", () => fetch(NOBODY.replace(":1/", ":2/")));
row("fetch", "TypeError", "an unknown host name", "never_sent", () => fetch("http://no.invalid/"));
row("fetch", "TypeError", "a server that hangs up", "transient", async (here) => fetch(await here.url("")));
row("fetch", "TypeError", "a connection that is reset", "transient", async (here) =>
  fetch(await here.url("", true)),
);
row("fetch", "TypeError", "a body that breaks off", "transient", async (here) =>
  (await fetch(await here.url(SHORT))).text(),
);
row("fetch", "TypeError", "an invalid URL", "permanent", () => fetch("nothing"));

row("undici", "Error", "`request`, a closed port", "never_sent", async () =>
  (await import("undici")).request(NOBODY),
);
row("undici", "SocketError", "`request`, a server that hangs up", "transient", async (here) =>
  (await import("undici")).request(await here.url("")),
);
row("undici", "HeadersTimeoutError", "a server that is silent", "timeout", async (here) => {
  const { Agent, request } = await import("undici");
  const dispatcher = new Agent({ headersTimeout: 20 });
  return request(await here.url(null), { dispatcher }).finally(() => dispatcher.destroy());
});
row("undici", "InvalidArgumentError", "an invalid URL", "permanent", async () =>
  (await import("undici")).request("ftp://h/"),
);
row("undici", "DOMException", "an `AbortController`", "ignored", async (here) => {
  const { request } = await import("undici");
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 5);
  return request(await here.url(null), { signal: controller.signal });
});
row("undici", "ResponseError", "its interceptor, a 503", "transient", async (here) => {
  const { Agent, interceptors, request } = await import("undici");
  const dispatcher = new Agent().compose(interceptors.responseError());
  return request(await here.status(503), { dispatcher }).finally(() => dispatcher.destroy());
});

// Clients.

const axios = async (url: string, config: object = {}) =>
  (await import("axios")).default.get(url, { proxy: false, ...config });
row("axios", "AxiosError", "a closed port", "never_sent", () => axios(NOBODY));
row("axios", "AxiosError", "an unknown host name", "never_sent", () => axios("http://no.invalid/"));
row("axios", "AxiosError", "a server that hangs up", "transient", async (here) => axios(await here.url("")));
row("axios", "AxiosError", "`timeout`", "transient", async (here) =>
  axios(await here.url(null), { timeout: 20 }),
);
row("axios", "AxiosError", "a 503", "transient", async (here) => axios(await here.status(503)));
row("axios", "AxiosError", "a 429", "throttled", async (here) => axios(await here.status(429)));
row("axios", "AxiosError", "a 404", "permanent", async (here) => axios(await here.status(404)));
row("axios", "CanceledError", "an `AbortController`", "ignored", () =>
  axios(NOBODY, { signal: AbortSignal.abort() }),
);

const got = async (url: string, more: object = {}) =>
  (await import("got")).default(url, { retry: { limit: 0 }, ...more });
row("got", "RequestError", "a closed port", "never_sent", () => got(NOBODY));
row("got", "RequestError", "a server that hangs up", "transient", async (here) => got(await here.url("")));
row("got", "TimeoutError", "`timeout.request`", "timeout", async (here) =>
  got(await here.url(null), { timeout: { request: 30 } }),
);
row("got", "HTTPError", "a 503", "transient", async (here) => got(await here.status(503)));
row("got", "HTTPError", "a 404", "permanent", async (here) => got(await here.status(404)));
row("got", "ReadError", "a body that breaks off", "transient", async (here) => got(await here.url(SHORT)));

const nodeFetch = async (url: string, more: object = {}) => (await import("node-fetch")).default(url, more);
row("node-fetch", "FetchError", "a closed port", "never_sent", () => nodeFetch(NOBODY));
row("node-fetch", "FetchError", "a server that hangs up", "transient", async (here) =>
  nodeFetch(await here.url("")),
);
row("node-fetch", "SyntaxError", "an answer that is no JSON", "permanent", async (here) =>
  (await nodeFetch(await here.status(200, "nonsense"))).json(),
);
row("node-fetch", "AbortError", "an `AbortController`", "ignored", () =>
  nodeFetch(NOBODY, { signal: AbortSignal.abort() }),
);

const ky = async (url: string, more: object = {}) => (await import("ky")).default(url, { retry: 0, ...more });
row("ky", "HTTPError", "a 503", "transient", async (here) => ky(await here.status(503)));
row("ky", "HTTPError", "a 400", "permanent", async (here) => ky(await here.status(400)));
row("ky", "TimeoutError", "`timeout`", "timeout", async (here) => ky(await here.url(null), { timeout: 20 }));
row("ky", "TypeError", "a closed port", "never_sent", () => ky("http://127.0.0.1:2/"));

const openai = async (baseURL: string, more: object = {}) =>
  new (await import("openai")).default({ apiKey: "k", baseURL, maxRetries: 0, ...more }).models.list();
row("openai", "APIConnectionError", "a closed port", "never_sent", () => openai("http://127.0.0.1:2/"));
row("openai", "APIConnectionError", "a server that hangs up", "transient", async (here) =>
  openai(await here.url("")),
);
row("openai", "APIConnectionTimeoutError", "`timeout`", "timeout", async (here) =>
  openai(await here.url(null), { timeout: 20 }),
);
row("openai", "RateLimitError", "a 429", "throttled", async (here) => openai(await here.status(429)));
row("openai", "InternalServerError", "a 503", "transient", async (here) => openai(await here.status(503)));
row("openai", "AuthenticationError", "a 401", "permanent", async (here) => openai(await here.status(401)));

const octokit = async (baseUrl: string) => {
  const { Octokit } = await import("@octokit/rest");
  return new Octokit({
    baseUrl: baseUrl.replace(/\/$/, ""),
    log: { debug() {}, info() {}, warn() {}, error() {} },
  }).rest.meta.root();
};
row("octokit", "RequestError", "a 503", "transient", async (here) => octokit(await here.status(503, "{}")));
row("octokit", "RequestError", "a 404", "permanent", async (here) => octokit(await here.status(404, "{}")));

// Stores.

const ioredis = async (port: number, more: object) => {
  const { Redis } = await import("ioredis");
  const client = new Redis({
    port,
    host: "127.0.0.1",
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    ...more,
  });
  client.on("error", () => undefined);
  try {
    return await client.ping();
  } finally {
    client.disconnect();
  }
};
row("ioredis", "Error", "`connect` to a closed port", "never_sent", async () => {
  const { Redis } = await import("ioredis");
  const client = new Redis({ port: 1, host: "127.0.0.1", lazyConnect: true, retryStrategy: () => null });
  const failed = errorOf(client);
  client.connect().catch(() => undefined);
  return failed.finally(() => client.disconnect());
});
row("ioredis", "MaxRetriesPerRequestError", "a request after its own retries", "transient", () =>
  ioredis(1, { retryStrategy: () => 1 }),
);
row("redis", "Error", "a closed port", "never_sent", async () => {
  const { createClient } = await import("redis");
  const client = createClient({ socket: { port: 1, host: "127.0.0.1", reconnectStrategy: false } });
  client.on("error", () => undefined);
  await client.connect();
});
