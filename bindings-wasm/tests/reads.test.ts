/** Policies with `retry.readErrors` read why an answer failed, and hand it to their caller unread (spec 15.5, 15.8). */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { Agent, request } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import type * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { interceptor } from "../ts/undici.js";
import { until } from "./support/server.js";
import { engine } from "./support/setup.js";

const SPENT = JSON.stringify({ error: { message: "You exceeded your quota.", code: "insufficient_quota" } });
const BUSY = JSON.stringify({ type: "error", error: { type: "overloaded_error" } });
const STATUSES = [408, 409, 429, 500, 502, 503, 504, 529];

function reading(readErrors = true, more: tidegate.PolicyOptions = {}): tidegate.Policy {
  const retry = { statuses: STATUSES, readErrors, backoff: { base: 1, max: 5 }, maxRetryAfter: 60_000 };
  return policy({ engine: engine(), preset: "http", retry, ...more });
}

interface Seen {
  readonly status: number;
  readonly text: string;
  readonly final: string | null;
  readonly report: tidegate.Report | undefined;
}

type Ask = (some: tidegate.Policy, url: string, headers?: Record<string, string>) => Promise<Seen>;
const agents: Agent[] = [];
const servers: Server[] = [];

const asks: Record<string, Ask> = {
  async fetch(some, url, headers = {}) {
    const response = await some.fetch(url, { headers });
    const [status, report] = [response.status, reportOf(response)];
    return { status, final: response.headers.get("x-should-retry"), report, text: await response.text() };
  },
  async undici(some, url, headers = {}) {
    const agent = new Agent();
    agents.push(agent);
    const response = await request(url, { dispatcher: agent.compose(interceptor(some)), headers });
    const final = (response.headers["x-should-retry"] as string | undefined) ?? null;
    return {
      status: response.statusCode,
      final,
      text: await response.body.text(),
      report: reportOf(response.context),
    };
  },
};

let requests = 0;

/** A server with one answer; `late` sends the second half of its body when it is told to. */
async function serving(
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = {},
  late?: Promise<void>,
): Promise<string> {
  requests = 0;
  const server = createServer((_, response) => {
    requests++;
    response.writeHead(status, headers);
    if (late === undefined) {
      response.end(body);
      return;
    }
    response.write(body.slice(0, 10));
    late.then(() => response.end(body.slice(10)));
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.destroy()));
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }
});

describe.each(Object.entries(asks))("with %s", (name, ask) => {
  test("a spent quota is not retried, and its answer can be read (15.5.3, 15.8.1, 15.8.4)", async () => {
    const seen = await ask(reading(), await serving(429, SPENT));
    expect([seen.status, seen.text, requests]).toEqual([429, SPENT, 1]);
    expect(seen.report?.reason).toBe("not_retryable");
  });

  test("without the key no body is read (15.5.1)", async () => {
    const seen = await ask(reading(false), await serving(429, SPENT));
    expect([seen.text, seen.final, requests]).toEqual([SPENT, null, 3]);
  });

  test("an overload that the body names is a throttle (15.5.4, 15.5.5)", async () => {
    const seen = await ask(reading(), await serving(400, BUSY));
    expect([seen.status, seen.text, requests]).toEqual([400, BUSY, 3]);
  });

  test("a large answer is delivered whole (15.8.1, 15.8.4)", async () => {
    const large = `${SPENT}${" ".repeat(300_000)}`;
    const seen = await ask(reading(), await serving(429, large));
    expect([seen.text.length, requests]).toEqual([large.length, 1]);
  });

  test("an encoded body is judged where the client decodes it (15.8.5)", async () => {
    const url = await serving(429, gzipSync(SPENT), { "content-encoding": "gzip" });
    await ask(reading(), url);
    expect(requests).toBe(name === "fetch" ? 1 : 3);
  });

  test("a body that stalls is waited for a second, and its rest is not lost (15.8.2, 15.8.4)", async () => {
    let go: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      go = resolve;
    });
    const url = await serving(402, SPENT, {}, late);
    const began = performance.now();
    const own = engine();
    const seen = ask(reading(true, { engine: own }), url);
    await until(() => requests === 1);
    await until(() => own.snapshot().live === 0);
    expect(performance.now() - began).toBeGreaterThan(950);
    go();
    expect([(await seen).text, requests]).toEqual([SPENT, 1]);
  });

  test("SDKs are told not to retry, and their users that they do (15.8.6, 15.8.7)", async () => {
    const url = await serving(503, "", { "x-should-retry": "true" });
    const repeated = { "x-stainless-retry-count": "1" };
    const seen = await ask(reading(), url, repeated);
    expect([seen.final, requests]).toEqual(["false", 3]);
    expect(seen.report?.note).toBe("gave up after 3 attempts; the SDK retries too: set its maxRetries to 0");
    const other = await ask(reading(false), url, repeated);
    expect([other.final, other.report?.note]).toEqual(["true", "gave up after 3 attempts"]);
  });
});

test("the kinds come after those of the policy (15.5.2)", () => {
  const some = policy({ engine: engine(), kinds: { slow: "transient" }, retry: { readErrors: true } });
  const names = ["slow", "quota_spent", "unauthorized", "too_long", "content_refused"];
  expect(some.core.kinds.slice(9)).toEqual(names);
});
