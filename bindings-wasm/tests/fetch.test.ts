/** `fetch` under a policy, against the faulty origin on Node's undici: the rules that every adapter keeps. */

import { getEventListeners, once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, test, vi } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { collected } from "./support/garbage.js";
import { log, origin, scripted, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

const quick = { backoff: { base: 1, max: 5 } };

/** The preset for HTTP, with short waits. */
function http<F = never>(more: tidegate.PolicyOptions<F> = {}): tidegate.Policy<F> {
  return policy({ engine: engine(), preset: "http", retry: quick, ...more });
}

/** The status of a response, after reading its body. */
async function status(promise: Promise<Response>): Promise<number> {
  const response = await promise;
  await response.arrayBuffer();
  return response.status;
}

/** The report of a response, after reading its body. */
async function became(promise: Promise<Response>): Promise<tidegate.Report | undefined> {
  const response = await promise;
  await response.arrayBuffer();
  return reportOf(response);
}

/** An address without a listener. */
async function nobody(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}/`;
}

async function failure(promise: Promise<unknown>): Promise<Error> {
  return promise.then(
    () => expect.unreachable("it did not fail"),
    (error: Error) => error,
  );
}

describe("1: a body is sent again only where it can be", () => {
  const bytes = new TextEncoder().encode("hello");
  const form = new FormData();
  form.set("field", "hello");
  const replayable: [string, BodyInit][] = [
    ["text", "hello"],
    ["bytes", bytes],
    ["a buffer", bytes.buffer],
    ["a blob", new Blob([bytes])],
    ["search params", new URLSearchParams({ a: "hello" })],
    ["a form", form],
  ];
  test.each(replayable)("%s is", async (_, body) => {
    const url = await origin(503, 200);
    const response = await http().fetch(url, { method: "PUT", body });
    expect([response.status, await response.text()]).toEqual([200, "OK\n"]);
    const [first, second] = await log();
    expect(second?.body_length).toBe(first?.body_length);
    expect(first?.body).toMatch(/hello/);
    expect(second?.body).toMatch(/hello/);
  });

  test("a Request is, and so is its body", async () => {
    const url = await origin(503, 503, 200);
    const request = new Request(url, { method: "PUT", body: "hello", headers: { "x-mine": "1" } });
    expect(await (await http().fetch(request)).text()).toBe("OK\n");
    expect((await log()).map(({ body, headers }) => [body, headers["x-mine"]])).toEqual([
      ["hello", "1"],
      ["hello", "1"],
      ["hello", "1"],
    ]);
  });

  test("a Request that is sent for the last time is not copied, because a copy stays in memory (J16)", async () => {
    const copies = vi.spyOn(Request.prototype, "clone");
    const put = (url: string) => new Request(url, { method: "PUT", body: "hello" });
    const once = http({ retry: { ...quick, maxAttempts: 1 } });
    expect(await status(once.fetch(put(await origin(200))))).toBe(200);
    expect(copies).not.toHaveBeenCalled();
    expect(await status(http().fetch(put(await origin(503, 503, 200))))).toBe(200);
    expect(copies).toHaveBeenCalledTimes(2);
    copies.mockRestore();
  });

  test("a stream is not: it is sent once, and the answer says why", async () => {
    const url = await origin(503, 200);
    const body = new Blob([bytes]).stream();
    const response = await http().fetch(url, { method: "PUT", body, duplex: "half" } as RequestInit);
    expect(response.status).toBe(503);
    expect(reportOf(response)).toMatchObject({
      attempts: 1,
      reason: "one_shot_body",
      note: "body cannot be replayed",
    });
    await response.text();
    expect((await log()).map(({ body }) => body)).toEqual(["hello"]);
  });

  test("a factory makes it anew", async () => {
    const url = await origin(503, 200);
    const bodyFactory = () => new Blob([bytes]).stream();
    const init = { method: "PUT", body: bodyFactory(), duplex: "half", tidegate: { bodyFactory } };
    expect(await (await http().fetch(url, init as RequestInit)).text()).toBe("OK\n");
    expect((await log()).map(({ body }) => body)).toEqual(["hello", "hello"]);
  });

  test("a factory makes the first one too, where there is none", async () => {
    const bodyFactory = () => new Blob([bytes]).stream();
    const url = await origin(503, 200);
    await (await http().fetch(url, { method: "PUT", tidegate: { bodyFactory } })).text();
    const again = await origin(503, 200);
    await (await http().fetch(new Request(again, { method: "PUT" }), { tidegate: { bodyFactory } })).text();
    expect((await log()).map(({ body }) => body)).toEqual(["hello", "hello"]);
  });
});

describe("2: which requests are repeated is told by the request", () => {
  test.each(["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])("%s is", async (method) => {
    const url = await origin(503, 200);
    expect(await status(http().fetch(url, { method }))).toBe(200);
  });

  test("POST is with a key, the same on each attempt", async () => {
    let url = await origin(503, 200);
    const response = await http().fetch(url, { method: "POST", body: "pay" });
    expect([response.status, reportOf(response)?.reason]).toEqual([503, "method"]);
    await response.body?.cancel();
    url = await origin(503, 200);
    const headers = { "Idempotency-Key": "k1" };
    expect(await status(http().fetch(url, { method: "POST", body: "pay", headers }))).toBe(200);
    expect((await log()).map(({ headers }) => headers["idempotency-key"])).toEqual(["k1", "k1"]);
    url = await origin(503, 503, 200);
    const keyed = http({ idempotencyKey: true });
    expect(await status(keyed.fetch(url, { method: "POST", body: "pay" }))).toBe(200);
    const keys = new Set((await log()).map(({ headers }) => headers["idempotency-key"]));
    expect([keys.size, [...keys][0]?.length]).toEqual([1, 36]);
  });

  test("any is where nothing was sent, and where its caller says so", async () => {
    const error = await failure(http().fetch(await nobody(), { method: "POST", body: "pay" }));
    expect(error).toBeInstanceOf(TypeError);
    expect(reportOf(error)).toMatchObject({ attempts: 3, reason: "attempts" });
    const url = await origin(503, 200);
    const idempotent = { method: "POST", body: "pay", tidegate: { idempotent: true } };
    expect(await status(http().fetch(url, idempotent))).toBe(200);
  });
});

describe("3: the last response, or the original error, is the caller's", () => {
  test("a body that is watched changes nothing that the answer says, and puts nothing on it", async () => {
    const url = await origin({ status: 200, body: "there" });
    const bare = await fetch(url);
    await bare.text();
    const response = await http().fetch(url);
    const said = ({ status, url, type, redirected }: Response) => [status, url, type, redirected];
    expect(response.body).not.toBe(null);
    for (const each of [response.clone(), response.clone().clone(), response]) {
      expect([said(each), each.constructor]).toEqual([said(bare), Response]);
      expect(await each.text()).toBe("there");
    }
    expect(Object.getOwnPropertyNames(response)).toEqual(Object.getOwnPropertyNames(bare));
  });

  test("with the reason why it is the last", async () => {
    const url = await origin({ status: 503, body: "try later", headers: { "x-why": "load" } });
    const response = await http().fetch(url);
    expect(response).toBeInstanceOf(Response);
    expect([response.status, response.url, response.headers.get("x-why")]).toEqual([503, url, "load"]);
    expect(await response.clone().text()).toBe("try later");
    expect(await response.text()).toBe("try later");
    expect(reportOf(response)).toMatchObject({
      attempts: 3,
      reason: "attempts",
      note: "gave up after 3 attempts",
    });
  });

  test("errors keep their cause", async () => {
    const url = await origin({ fault: "reset" });
    const error = await failure(http().fetch(url));
    expect((error as { cause?: { code?: string } }).cause?.code).toMatch(/ECONNRESET|UND_ERR_SOCKET/);
    expect(reportOf(error)?.attempts).toBe(3);
  });

  test("mistakes are nobody's failure", async () => {
    const some = http();
    expect(reportOf(await failure(some.fetch("no url at all")))?.attempts).toBe(1);
    expect(reportOf(await failure(some.fetch("gopher://x/")))?.attempts).toBe(1);
    expect(await failure(some.fetch("http://x/", { tidegate: { rout: "x" } } as never))).toBeInstanceOf(
      RangeError,
    );
  });
});

test("4: a failed response is read or closed before the next attempt", async () => {
  let url = await origin(503, 503, 200);
  await (await http().fetch(url)).text();
  const connections = (await log()).map(({ connection }) => connection);
  expect(new Set(connections).size, "small ones keep their connection").toBe(1);
  url = await origin({ status: 503, body_bytes: 1_000_000 }, 200);
  expect(await (await http().fetch(url)).text()).toBe("OK\n");
  url = await origin({ status: 503, fault: "slow_body", body_bytes: 10_000, chunk_every: 100 }, 200);
  const began = performance.now();
  expect(await (await http().fetch(url)).text()).toBe("OK\n");
  expect(performance.now() - began, "not the minute that it takes").toBeLessThan(20_000);
});

describe("5: Retry-After is not cut short", () => {
  test("a wait that fits is kept", async () => {
    const url = await origin({ status: 429, retry_after: "1" }, 200);
    const began = performance.now();
    expect(await status(http().fetch(url))).toBe(200);
    expect(performance.now() - began).toBeGreaterThanOrEqual(1000);
  });

  test("one that does not ends the call at once", async () => {
    const url = await origin({ status: 429, retry_after: "120" });
    const report = await became(http().fetch(url));
    expect(report).toMatchObject({ attempts: 1, reason: "retry_after_too_long" });
    expect(report?.note).toBe("Retry-After 120 s exceeds maxRetryAfter 60 s");
    expect((report?.retryAt?.getTime() ?? 0) - Date.now()).toBeGreaterThan(115_000);
    const late = await became(
      http().fetch(await origin({ status: 429, retry_after: "20" }), {
        tidegate: { deadline: 5000 },
      }),
    );
    expect(late?.reason).toBe("would_outlive_deadline");
  });
});

describe("6: every wait is cancellable", () => {
  test.each([
    ["the answer", { fault: "hang" }],
    ["the next attempt", { status: 429, retry_after: "10" }],
  ])("for %s", async (_, answer) => {
    const url = await origin(answer);
    const controller = new AbortController();
    const call = failure(http().fetch(url, { signal: controller.signal }));
    await until(async () => (await stats()).requests === 1);
    await new Promise((done) => setTimeout(done, 20));
    const why = new Error("enough");
    const began = performance.now();
    controller.abort(why);
    expect(await call).toBe(why);
    expect(performance.now() - began).toBeLessThan(5000); // instead of 10 s, or forever
    await until(async () => (await stats()).in_flight === 0);
  });

  test("for the body, whose reader gets the reason", async () => {
    const url = await origin({ fault: "slow_body", body_bytes: 10_000, chunk_every: 50 });
    const controller = new AbortController();
    const response = await http().fetch(url, { signal: controller.signal });
    const text = failure(response.text());
    const why = new Error("enough");
    setTimeout(() => controller.abort(why), 20);
    expect(await text).toBe(why);
    await until(async () => (await stats()).in_flight === 0);
  });

  test("a request whose caller has given up already is not sent", async () => {
    const url = await origin(200);
    const error = await failure(http().fetch(url, { signal: AbortSignal.abort() }));
    expect(error.name).toBe("AbortError");
    expect((await stats()).requests).toBe(0);
    const request = new Request(url, { signal: AbortSignal.abort() });
    expect((await failure(http().fetch(request))).name).toBe("AbortError");
  });
});

describe("7: two timeouts", () => {
  test("an attempt's is tried again after", async () => {
    const url = await origin({ fault: "hang" }, 200);
    expect(await status(http({ attemptTimeout: 500 }).fetch(url))).toBe(200);
    const slow = await origin({ fault: "hang" });
    const error = await failure(http({ attemptTimeout: 50 }).fetch(slow));
    expect(error).toBeInstanceOf(tidegate.AttemptTimeout);
    expect(reportOf(error)?.attempts).toBe(3);
  });

  test("the deadline ends everything, and reading the body too", async () => {
    const error = await failure(http({ deadline: 80 }).fetch(await origin({ fault: "hang" })));
    expect(error).toBeInstanceOf(tidegate.DeadlineExceeded);
    for (const status of [200, 404]) {
      const url = await origin({ status, fault: "slow_body", body_bytes: 10_000, chunk_every: 20 });
      const response = await http({ deadline: 1000 }).fetch(url);
      expect(response.status).toBe(status);
      expect(await failure(response.text())).toBeInstanceOf(tidegate.DeadlineExceeded);
      await until(async () => (await stats()).in_flight === 0);
    }
  });
});

describe("a body whose call has ended", () => {
  const slow = (status: number) =>
    origin({ status, fault: "slow_body", body_bytes: 10_000, chunk_every: 20 });

  test("is left with the caller: of a failed answer, and where slots last until the headers", async () => {
    for (const [code, more] of [
      [200, {}],
      [404, {}],
      [404, { retry: { ...quick, readErrors: true } }],
      [200, { slotUntil: "headers" }],
      [404, { slotUntil: "headers", deadline: 60_000 }],
    ] as const) {
      const caller = new AbortController();
      const response = await http(more).fetch(await slow(code), { signal: caller.signal });
      const reader = response.body?.getReader();
      await reader?.read(); // a part of the body has come
      const reason = new Error("enough");
      caller.abort(reason);
      expect(await failure(Promise.resolve(reader?.read()))).toBe(reason);
    }
  });

  test("leaves no listener once it is read, or nobody has the answer any more", async () => {
    const url = await origin({ status: 404, body: "none" });
    const { signal } = new AbortController();
    const followers = () => getEventListeners(signal, "abort").length;
    const response = await http().fetch(url, { signal });
    expect(followers()).toBe(1);
    expect(await response.text()).toBe("none");
    expect(followers()).toBe(0);
    await (async () => void (await http({ slotUntil: "headers" }).fetch(url, { signal })).status)();
    expect(followers()).toBe(1);
    await collected(() => followers() === 0);
  });

  test.each([
    ["", quick],
    [", also where the policy reads errors", { ...quick, readErrors: true }],
  ])("that somebody else reads is delivered as it is, with its report%s", async (_, retry) => {
    const locked = new Response("read", { status: 404 });
    locked.body?.getReader();
    const { fetch } = http({ fetch: async () => locked, retry });
    const { signal } = new AbortController();
    expect(await fetch("http://a.test/", { signal })).toBe(locked);
    expect(reportOf(locked)).toMatchObject({ attempts: 1, reason: "not_retryable" });
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("ends at the deadline of the call around it", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    let closed = 0;
    const cancel = () => {
      closed += 1;
    };
    const fetch = async () => new Response(new ReadableStream({ cancel }), { status: 404 });
    const some = http({ engine: lab, fetch });
    let text: Promise<unknown> | undefined;
    const outer = failure(
      policy({ engine: lab, deadline: 100 }).run(async () => {
        text = failure((await some.fetch("http://a.test/")).text());
        return text;
      }),
    );
    await clock.advance(99);
    expect(closed).toBe(0);
    await clock.advance(1);
    expect(await outer).toBeInstanceOf(tidegate.DeadlineExceeded);
    expect(await text).toBeInstanceOf(tidegate.DeadlineExceeded);
    expect(closed).toBe(1);
  });
});

describe("8: slots last until the body is read", () => {
  const one = { bulkhead: { maxConcurrency: 1 } };
  const inFlight = (some: tidegate.Policy) => Object.values(some.snapshot().routes)[0]?.pool?.inFlight;

  test("read, or closed", async () => {
    const url = await origin({ body: "first" }, { body: "second" }, { body: "third" });
    const some = http(one);
    const first = await some.fetch(url);
    expect(inFlight(some)).toBe(1);
    expect(await failure(some.fetch(url))).toBeInstanceOf(tidegate.BulkheadFull);
    expect(await first.text()).toBe("first");
    expect(inFlight(some)).toBe(0);
    const second = await some.fetch(url);
    await second.body?.cancel();
    expect(inFlight(some)).toBe(0);
    const third = await some.fetch(url);
    let text = "";
    for await (const chunk of third.body as unknown as AsyncIterable<Uint8Array>)
      text += new TextDecoder().decode(chunk);
    expect(text).toBe("third");
    expect(inFlight(some)).toBe(0);
  });

  test("or until the headers, where the policy says so; or where there is no body", async () => {
    const url = await origin({ body: "first" }, { status: 204 });
    const some = http({ ...one, slotUntil: "headers" });
    const first = await some.fetch(url);
    expect(inFlight(some)).toBe(0);
    expect(await first.text()).toBe("first");
    const other = http(one);
    expect((await other.fetch(url)).status).toBe(204);
    expect(inFlight(other)).toBe(0);
  });

  test("or until nobody has the answer any more", async () => {
    const url = await origin({ body: "unread" });
    const some = http(one);
    await (async () => void (await some.fetch(url)).status)();
    await until(async () => {
      (globalThis as { gc?: () => void }).gc?.();
      await new Promise((done) => setTimeout(done, 5));
      return inFlight(some) === 0;
    });
  });

  test("a body that breaks off has failed", async () => {
    const url = await origin({ fault: "truncate", body_bytes: 10_000 });
    const some = http({ breaker: { consecutive: 1, breakDuration: 1000 } });
    const error = await failure((await some.fetch(url)).text());
    expect(error).toBeInstanceOf(TypeError);
    expect(Object.values(some.snapshot().routes)[0]?.breaker?.state).toBe("open");
  });
});

test("9: nested policies do not multiply", async () => {
  const url = await origin(503);
  const outer = http();
  const inner = policy({ engine: outer.engine, preset: "http", retry: quick });
  const { fetch } = policy({ engine: outer.engine, retry: quick, fetch: inner.fetch });
  expect(await outer.run(() => status(fetch(url)))).toBe(503);
  expect((await stats()).requests).toBe(1);
});

describe("11: headers out", () => {
  test("repeats carry their number, unless they are not to", async () => {
    await (await http().fetch(await origin(503, 503, 200), { headers: [["x-mine", "1"]] })).text();
    expect((await log()).map(({ headers }) => [headers["retry-attempt"], headers["x-mine"]])).toEqual([
      [undefined, "1"],
      ["1", "1"],
      ["2", "1"],
    ]);
    await (await http({ retryHeader: false }).fetch(await origin(503, 200))).text();
    expect((await log()).map(({ headers }) => headers["retry-attempt"])).toEqual([undefined, undefined]);
    const url = await origin(503, 200);
    await (await http().fetch(url, { tidegate: { retryHeader: false } })).text();
    expect((await log()).map(({ headers }) => headers["retry-attempt"])).toEqual([undefined, undefined]);
  });
});

test("13: what stands against a retry is in the events", async () => {
  const some = http();
  const reasons: unknown[] = [];
  some.on("retry_suppressed", ({ reason }) => reasons.push(reason));
  await (await some.fetch(await origin(503), { method: "POST" })).text();
  await (await some.fetch(await origin({ status: 503, retry_after: "120" }))).text();
  expect(reasons).toEqual(["method", "retry_after_too_long"]);
});

describe("and", () => {
  test("it is a fetch: bare, of its type, for whatever takes one", async () => {
    const { fetch } = http();
    const typed: typeof globalThis.fetch = fetch;
    expect([fetch.name, fetch.length]).toEqual([globalThis.fetch.name, globalThis.fetch.length]);
    const response = await typed(new URL(await origin({ body: '{"a":1}' })));
    expect(await response.json()).toEqual({ a: 1 });
  });

  test("a route is the origin, with its port", async () => {
    const some = http();
    const url = await origin(200);
    await (await some.fetch(url)).text();
    await (await some.fetch(url, { tidegate: { route: "mine" } })).text();
    expect(Object.keys(some.snapshot().routes).sort()).toEqual([new URL(url).origin, "mine"]);
  });

  test("a hedge overtakes a slow answer, whose connection is closed", async () => {
    const url = await origin({ delay: 5000, body: "slow" }, { body: "fast" });
    const some = policy({ engine: engine(), hedge: { delay: 30 } });
    expect(await (await some.fetch(url)).text()).toBe("fast");
    await until(async () => (await stats()).in_flight === 0);
  });

  test("a hold goes by the path", async () => {
    const url = await scripted({ rules: [{ first: 1, respond: { status: 429, retry_after: "1" } }] });
    const some = http({ retry: { ...quick, hold: true } });
    const first = some.fetch(`${url}/a`);
    await until(async () => (await stats()).requests === 1);
    await new Promise((done) => setTimeout(done, 30));
    const second = some.fetch(`${url}/a`);
    await new Promise((done) => setTimeout(done, 30));
    expect((await stats()).requests).toBe(1);
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
    await Promise.all([first, second].map(async (each) => (await each).text()));
  });

  test("another policy may be named for one request, and a fallback may stand in", async () => {
    const other = http({ retry: { maxAttempts: 1 } });
    const fallback = () => new Response("instead");
    const some = http({ fallback, breaker: { consecutive: 1, breakDuration: 1000 } });
    const url = await origin({ fault: "reset" });
    await failure(some.fetch(url, { tidegate: { policy: other } }));
    expect((await stats()).requests).toBe(1);
    expect(await (await some.fetch(url)).text()).toBe("instead");
  });

  test("an empty answer, a large one and a HEAD come through whole", async () => {
    const some = http();
    expect(await (await some.fetch(await origin({ body: "" }))).text()).toBe("");
    const large = await (await some.fetch(await origin({ body_bytes: 3_000_000 }))).arrayBuffer();
    expect(large.byteLength).toBe(3_000_000);
    expect(await (await some.fetch(await origin(200), { method: "HEAD" })).text()).toBe("");
    const reader = (await some.fetch(await origin({ body: "bytes" }))).body?.getReader({ mode: "byob" });
    const { value } = (await reader?.read(new Uint8Array(100))) ?? {};
    expect(new TextDecoder().decode(value)).toBe("bytes");
    await reader?.cancel();
  });

  test.each([false, true])(
    "so does a status that no constructor takes (readErrors: %s)",
    async (readErrors) => {
      const head = "HTTP/1.1 999 Denied\r\nContent-Length: 6\r\nConnection: close\r\n\r\n";
      const server = createServer((socket) => socket.once("data", () => socket.end(`${head}denied`)));
      await once(server.listen(0, "127.0.0.1"), "listening");
      const { port } = server.address() as AddressInfo;
      const answer = await http({ retry: { ...quick, readErrors } }).fetch(`http://127.0.0.1:${port}/`);
      const copy = answer.clone();
      expect([answer.status, answer.ok, copy.status, copy.ok]).toEqual([999, false, 999, false]);
      expect(answer.headers.get("x-should-retry")).toBe(readErrors ? "false" : null);
      expect(await copy.text()).toBe("denied");
      for await (const piece of answer.body ?? []) expect(new TextDecoder().decode(piece)).toBe("denied");
      server.close();
    },
  );
});

test("a further attempt that is refused after a closed answer is no call that was lost", async () => {
  const clock = new FakeClock();
  const retry = { backoff: { base: 1000, jitter: "none" } } as const;
  const large = async () => new Response("x".repeat(200_000), { status: 503 });
  const some = policy({ engine: engine({ clock }), preset: "http", retry, fetch: large });
  const going = some.fetch("http://here.test/");
  await clock.advance(10);
  some.forceOpen();
  const error = await clock.run(going).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(tidegate.Rejected);
  expect(error).not.toBeInstanceOf(tidegate.CallLost);
  expect(error).toMatchObject({ code: "rejected", reason: "readmission" });
  expect((error as Error).message).toMatch(
    /^the answer of the last attempt has been closed, and cannot be returned; not retried: the next attempt was refused a slot \(/,
  );
});
