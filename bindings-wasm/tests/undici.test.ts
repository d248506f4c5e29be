/** undici's dispatchers under a policy, against the origin: the rules that every adapter keeps. */

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Readable } from "node:stream";
import { Agent, type Dispatcher, FormData, fetch, request } from "undici";
import { afterEach, describe, expect, test } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { interceptor } from "../ts/undici.js";
import { log, origin, scripted, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

const quick = { budget: { kind: "window" as const }, backoff: { base: 1, max: 5 } };
const agents: Agent[] = [];

function http(more: tidegate.PolicyOptions = {}): tidegate.Policy {
  return policy({ engine: engine(), preset: "http", retry: quick, ...more });
}

/** A dispatcher under a policy. */
function under(some: tidegate.Policy, options: Agent.Options = {}): Dispatcher {
  const agent = new Agent(options);
  agents.push(agent);
  return agent.compose(interceptor(some));
}

/** Makes a request under the preset for HTTP and reads the whole response. */
async function ask(url: string, options: object = {}, some = http(), agent: Agent.Options = {}) {
  const response = await request(url, { dispatcher: under(some, agent), ...options });
  return { ...response, text: await response.body.text(), report: reportOf(response.context) };
}

async function failure(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => expect.unreachable("it did not fail"),
    (error: Error) => error,
  );
}

afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.destroy()));
});

const repeats = async () => (await log()).map(({ headers }) => headers["retry-attempt"]);
const inFlight = (some: tidegate.Policy) => Object.values(some.snapshot().routes)[0]?.pool?.inFlight;

describe("1: a body is sent again only where it can be", () => {
  const form = new FormData();
  form.set("field", "hello");
  const replayable: [string, unknown][] = [
    ["text", "hello"],
    ["bytes", new TextEncoder().encode("hello")],
    ["a buffer", Buffer.from("hello")],
    ["a blob", new Blob(["hello"])],
    ["chunks", ["hel", "lo"]],
    ["a form", form],
  ];
  test.each(replayable)("%s is", async (_, body) => {
    const { statusCode } = await ask(await origin(503, 200), { method: "PUT", body });
    expect(statusCode).toBe(200);
    const [first, second] = await log();
    expect(first?.body).toMatch(/hello/);
    expect(second?.body.length).toBe(first?.body.length);
  });

  test("a stream is not: it is sent once, and the answer says why", async () => {
    const body = Readable.from(["hel", "lo"]);
    const { statusCode, report } = await ask(await origin(503, 200), { method: "PUT", body });
    expect([statusCode, report?.note]).toEqual([503, "body cannot be replayed"]);
    expect((await log()).map(({ body }) => body)).toEqual(["hello"]);
  });

  test("a factory makes it anew", async () => {
    const bodyFactory = () => Readable.from(["hel", "lo"]);
    const options = { method: "PUT", body: bodyFactory(), tidegate: { bodyFactory } };
    expect((await ask(await origin(503, 200), options)).statusCode).toBe(200);
    expect((await log()).map(({ body }) => body)).toEqual(["hello", "hello"]);
    const { body: _, ...without } = options;
    await ask(await origin(503, 200), without);
    expect((await log()).map(({ body }) => body)).toEqual(["hello", "hello"]);
  });

  test("but a bodyFactory that is async sends no promise", async () => {
    const bodyFactory = (async () => "again") as never;
    const options = { method: "PUT", body: "once", tidegate: { bodyFactory } };
    const error = await failure(ask(await origin(503), options));
    expect(error.message).toBe("bodyFactory returned a promise: it must not be async");
    expect((await stats()).requests).toBe(1);
  });
});

describe("2: which requests are repeated is told by the request", () => {
  test("POST is with a key, in whatever form headers come", async () => {
    expect((await ask(await origin(503, 200), { method: "POST" })).report?.reason).toBe("method");
    for (const headers of [
      { "Idempotency-Key": "k" },
      ["idempotency-key", "k"],
      new Map([["Idempotency-Key", "k"]]),
    ]) {
      const { statusCode } = await ask(await origin(503, 200), { method: "POST", body: "pay", headers });
      expect(statusCode).toBe(200);
      expect((await log()).map(({ headers }) => headers["idempotency-key"])).toEqual(["k", "k"]);
    }
    await ask(await origin(503, 200), { method: "POST", body: "pay" }, http({ idempotencyKey: true }));
    const keys = (await log()).map(({ headers }) => headers["idempotency-key"]);
    expect([keys.length, new Set(keys).size, keys[0]?.length]).toEqual([2, 1, 36]);
  });

  test("any is where nothing was sent", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    const error = await failure(ask(`http://127.0.0.1:${port}/`, { method: "POST", body: "pay" }));
    expect((error as { code?: string }).code).toBe("ECONNREFUSED");
    expect(reportOf(error)).toMatchObject({ attempts: 3, reason: "attempts" });
  });
});

test("3: the last response, or the original error, is the caller's", async () => {
  const last = await ask(await origin({ status: 503, body: "try later", headers: { "x-why": "load" } }));
  expect([last.statusCode, last.text, last.headers["x-why"]]).toEqual([503, "try later", "load"]);
  expect(last.report).toMatchObject({ attempts: 3, note: "gave up after 3 attempts" });
  const error = await failure(ask(await origin({ fault: "reset" })));
  expect((error as { code?: string }).code).toMatch(/ECONNRESET|UND_ERR_SOCKET/);
  expect(reportOf(error)?.attempts).toBe(3);
});

test("4: a failed response is read or closed before the next attempt: a pool of one is enough", async () => {
  const one = { connections: 1, pipelining: 1 };
  expect((await ask(await origin(503, 503, 200), {}, http(), one)).text).toBe("OK\n");
  expect(new Set((await log()).map(({ connection }) => connection)).size).toBe(1);
  const large = await origin({ status: 503, body_bytes: 1_000_000 }, 200);
  expect((await ask(large, {}, http(), one)).text).toBe("OK\n");
  const slow = await origin({ status: 503, fault: "slow_body", body_bytes: 10_000, chunk_every: 100 }, 200);
  const began = performance.now();
  expect((await ask(slow, {}, http(), one)).text).toBe("OK\n");
  expect(performance.now() - began, "not the minute that it takes").toBeLessThan(20_000);
});

describe("5: Retry-After is not cut short", () => {
  test("a wait that fits is kept", async () => {
    const began = performance.now();
    expect((await ask(await origin({ status: 429, retry_after: "1" }, 200))).statusCode).toBe(200);
    expect(performance.now() - began).toBeGreaterThanOrEqual(1000);
  });

  test("one that does not ends the call at once", async () => {
    const { report } = await ask(await origin({ status: 429, retry_after: "120" }));
    expect(report?.note).toBe("Retry-After 120 s exceeds maxRetryAfter 60 s");
  });
});

describe("6: every wait is cancellable", () => {
  test.each([
    ["the answer", { fault: "hang" }],
    ["the next attempt", { status: 429, retry_after: "10" }],
  ])("for %s", async (_, answer) => {
    const url = await origin(answer);
    const controller = new AbortController();
    const call = failure(ask(url, { signal: controller.signal }));
    await until(async () => (await stats()).requests === 1);
    await new Promise((done) => setTimeout(done, 20));
    const why = new Error("enough");
    const began = performance.now();
    controller.abort(why);
    expect(await call).toBe(why);
    expect(performance.now() - began).toBeLessThan(5000); // instead of 10 s, or forever
    await until(async () => (await stats()).in_flight === 0);
  });

  test("for a slot, and for a connection", async () => {
    const url = await origin({ fault: "hang" });
    const some = http({ bulkhead: { maxConcurrency: 1, maxQueue: 5 } });
    const dispatcher = under(some, { connections: 1 });
    const controllers = [1, 2].map(() => new AbortController());
    const calls = controllers.map(({ signal }) => failure(request(url, { dispatcher, signal })));
    await until(async () => (await stats()).requests === 1);
    controllers[1]?.abort();
    expect((await calls[1])?.name).toBe("AbortError");
    controllers[0]?.abort();
    expect((await calls[0])?.name).toBe("AbortError");
    const wide = under(http(), { connections: 1 });
    const first = new AbortController();
    const holding = failure(request(url, { dispatcher: wide, signal: first.signal }));
    await until(async () => (await stats()).requests === 2);
    const second = new AbortController();
    const queued = failure(request(url, { dispatcher: wide, signal: second.signal }));
    await new Promise((done) => setTimeout(done, 10));
    second.abort();
    expect((await queued).name).toBe("AbortError");
    first.abort();
    await holding;
    expect((await stats()).requests).toBe(2);
  });

  test("for the body, whose reader gets the reason", async () => {
    const some = http({ bulkhead: { maxConcurrency: 1 } });
    const url = await origin({ fault: "slow_body", body_bytes: 10_000, chunk_every: 50 });
    const controller = new AbortController();
    const response = await request(url, { dispatcher: under(some), signal: controller.signal });
    expect(inFlight(some)).toBe(1);
    const text = failure(response.body.text());
    const why = new Error("enough");
    setTimeout(() => controller.abort(why), 20);
    expect(await text).toBe(why);
    await until(async () => (await stats()).in_flight === 0);
    expect(inFlight(some)).toBe(0);
  });

  test("a request whose caller has given up already is not sent", async () => {
    const error = await failure(ask(await origin(200), { signal: AbortSignal.abort() }));
    expect(error.name).toBe("AbortError");
    expect((await stats()).requests).toBe(0);
  });
});

describe("7: two timeouts", () => {
  test("an attempt's is tried again after", async () => {
    const some = http({ attemptTimeout: 500 });
    expect((await ask(await origin({ fault: "hang" }, 200), {}, some)).statusCode).toBe(200);
    const error = await failure(ask(await origin({ fault: "hang" }), {}, http({ attemptTimeout: 50 })));
    expect(error).toBeInstanceOf(tidegate.AttemptTimeout);
  });

  test("the deadline ends everything, and reading the body too", async () => {
    const error = await failure(ask(await origin({ fault: "hang" }), {}, http({ deadline: 80 })));
    expect(error).toBeInstanceOf(tidegate.DeadlineExceeded);
    for (const status of [200, 404]) {
      const url = await origin({ status, fault: "slow_body", body_bytes: 10_000, chunk_every: 20 });
      const response = await request(url, { dispatcher: under(http({ deadline: 1000 })) });
      expect(response.statusCode).toBe(status);
      expect(await failure(response.body.text())).toBeInstanceOf(tidegate.DeadlineExceeded);
      await until(async () => (await stats()).in_flight === 0);
    }
  });
});

describe("8: slots last until the body is read", () => {
  test("read, or thrown away", async () => {
    const some = http({ bulkhead: { maxConcurrency: 1 } });
    const url = await origin(
      { body: "first", fault: "slow_body", chunk_bytes: 1, chunk_every: 10 },
      { body_bytes: 3_000_000 },
    );
    const dispatcher = under(some);
    const first = await request(url, { dispatcher });
    expect(inFlight(some)).toBe(1);
    expect(await failure(request(url, { dispatcher }))).toBeInstanceOf(tidegate.BulkheadFull);
    expect(await first.body.text()).toBe("first");
    expect(inFlight(some)).toBe(0);
    const second = await request(url, { dispatcher });
    second.body.on("error", () => undefined).destroy();
    await until(() => inFlight(some) === 0);
  });

  test("a body that breaks off has failed", async () => {
    const some = http({ breaker: { consecutive: 1, breakDuration: 1000 } });
    const url = await origin({ fault: "truncate", body_bytes: 10_000 });
    const response = await request(url, { dispatcher: under(some) });
    await failure(response.body.text());
    await until(() => Object.values(some.snapshot().routes)[0]?.breaker?.state === "open");
  });

  test("or until the headers", async () => {
    const some = http({ bulkhead: { maxConcurrency: 1 }, slotUntil: "headers" });
    const { body } = await request(await origin({ body_bytes: 100_000 }), { dispatcher: under(some) });
    expect(inFlight(some)).toBe(0);
    expect((await body.arrayBuffer()).byteLength).toBe(100_000);
  });
});

test("9: nested policies do not multiply", async () => {
  const url = await origin(503);
  const outer = http();
  const inner = policy({ engine: outer.engine, preset: "http", retry: quick });
  const dispatcher = under(inner);
  await outer.run(async () => (await request(url, { dispatcher })).body.text());
  expect((await stats()).requests).toBe(1);
});

test("11 and 13: repeats say so; what stands against one is told", async () => {
  const some = http();
  const reasons: unknown[] = [];
  some.on("retry_suppressed", ({ reason }) => reasons.push(reason));
  await ask(await origin(503, 503, 200), { headers: { "x-mine": ["1", "2"] } }, some);
  expect(await repeats()).toEqual([undefined, "1", "2"]);
  await ask(await origin(503, 200), { tidegate: { retryHeader: false } }, some);
  expect(await repeats()).toEqual([undefined, undefined]);
  await ask(await origin(503), { method: "POST" }, some);
  expect(reasons).toEqual(["method"]);
});

describe("and", () => {
  test("large answers come through whole, at the pace of their reader", async () => {
    const url = await origin({ body_bytes: 3_000_000 });
    const { body } = await request(url, { dispatcher: under(http()) });
    let size = 0;
    for await (const chunk of body) {
      size += (chunk as Buffer).length;
      if (size < 300_000) await new Promise((done) => setTimeout(done, 1));
    }
    expect(size).toBe(3_000_000);
    expect((await ask(await origin(200), { method: "HEAD" })).text).toBe("");
    expect((await ask(await origin({ status: 204 }))).statusCode).toBe(204);
  });

  test("undici's fetch goes through it too, and other clients of a dispatcher", async () => {
    const dispatcher = under(http());
    const response = await fetch(await origin(503, { body: "there" }), { dispatcher });
    expect([response.status, await response.text()]).toEqual([200, "there"]);
    const url = await scripted({ sequences: { "/s": [{ status: 503 }, { body: "streamed" }] } });
    const { body } = await dispatcher.request({ origin: url, path: "/s", method: "GET" });
    expect(await body.text()).toBe("streamed");
  });

  test("a hedge overtakes a slow answer, whose connection is closed", async () => {
    const some = policy({ engine: engine(), hedge: { delay: 30 } });
    expect((await ask(await origin({ delay: 5000, body: "slow" }, { body: "fast" }), {}, some)).text).toBe(
      "fast",
    );
    await until(async () => (await stats()).in_flight === 0);
  });

  test("the options of a request have types (J21)", async () => {
    const some = http();
    const dispatcher = under(some);
    const url = await origin(200);
    await (await request(url, { dispatcher, tidegate: { route: "typed" } })).body.dump();
    const { origin: far, pathname: path } = new URL(url);
    await (await dispatcher.request({ origin: far, path, method: "GET", tidegate: {} })).body.dump();
    expect(Object.keys(some.snapshot().routes).sort()).toEqual([far, "typed"]);
    // @ts-expect-error a request has no such option
    await expect(request(url, { dispatcher, tidegate: { rout: "x" } })).rejects.toThrow(RangeError);
  });

  test("a route is the origin; another policy may be named; a mistake is told", async () => {
    const some = http();
    const url = await origin(200);
    await ask(url, {}, some);
    await ask(url, { tidegate: { route: "mine" } }, some);
    expect(Object.keys(some.snapshot().routes).sort()).toEqual([new URL(url).origin, "mine"]);
    const once = http({ retry: { maxAttempts: 1 } });
    const busy = await origin(503);
    expect((await ask(busy, { tidegate: { policy: once } }, some)).report?.attempts).toBe(1);
    expect(await failure(ask(busy, { tidegate: { rout: "x" } }, some))).toBeInstanceOf(RangeError);
  });
});
