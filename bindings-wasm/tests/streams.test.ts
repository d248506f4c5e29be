/** Timeouts of streams (semantics 7.7), against a server that stalls, drips, pings and lies. */

import nodeFetch from "node-fetch";
import { Agent, type Dispatcher, request } from "undici";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { fetchUnder } from "../ts/fetch/fetch.js";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { scripted, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";
import { EVENT, type Stalling, stalling } from "./support/stalling.js";

/** A policy on a clock of its own that repeats a GET at once. */
function bounded(more: tidegate.PolicyOptions): [tidegate.Policy, FakeClock] {
  const clock = new FakeClock();
  const retry = { maxAttempts: 3, backoff: { base: 0, jitter: "none" }, budget: "none" } as const;
  return [policy({ engine: engine({ clock }), retry, ...more }), clock];
}

/** What a reader of an answer has got. */
interface Seen {
  readonly text: string;
  readonly error: unknown;
  readonly report: tidegate.Report | undefined;
}

interface Asked {
  readonly accept?: string;
  readonly stream?: boolean;
  /** Called before each read. */
  readonly pause?: () => Promise<void>;
  /** Called with the length of what has been read. */
  readonly went?: (length: number) => void;
}

type Ask = (some: tidegate.Policy, url: string, asked?: Asked) => Promise<Seen>;

const agents: Agent[] = [];
let server: Stalling;

async function read(
  body: AsyncIterable<Uint8Array>,
  told: object,
  { pause = async () => undefined, went = () => undefined }: Asked,
): Promise<Seen> {
  let text = "";
  const decoder = new TextDecoder();
  try {
    await pause();
    for await (const piece of body) {
      text += decoder.decode(piece, { stream: true });
      went(text.length);
      await pause();
    }
  } catch (error) {
    return { text, error, report: reportOf(told) };
  }
  return { text, error: undefined, report: reportOf(told) };
}

const ACCEPT = "text/event-stream";

/** The ways to read a body, by adapter. */
const asks: Record<string, Ask> = {
  async fetch(some, url, asked = {}) {
    const { accept = ACCEPT, stream } = asked;
    try {
      const response = await some.fetch(url, { headers: { accept }, tidegate: { stream } });
      return await read(response.body as unknown as AsyncIterable<Uint8Array>, response, asked);
    } catch (error) {
      return { text: "", error, report: reportOf(error) };
    }
  },
  async "fetch, through pipes"(some, url, asked = {}) {
    const { accept = ACCEPT, stream } = asked;
    try {
      const response = await some.fetch(url, { headers: { accept }, tidegate: { stream } });
      const piped = response.body?.pipeThrough(new TransformStream<Uint8Array, Uint8Array>());
      return await read(piped as unknown as AsyncIterable<Uint8Array>, response, asked);
    } catch (error) {
      return { text: "", error, report: reportOf(error) };
    }
  },
  async "node-fetch"(some, url, asked = {}) {
    const { accept = ACCEPT, stream } = asked;
    const fetch = fetchUnder(some.core, { ...some.given, fetch: nodeFetch as never });
    try {
      const response = await fetch(url, { headers: { accept }, tidegate: { stream } });
      return await read(response.body as unknown as AsyncIterable<Uint8Array>, response, asked);
    } catch (error) {
      return { text: "", error, report: reportOf(error) };
    }
  },
  async undici(some, url, asked = {}) {
    const { accept = ACCEPT, stream } = asked;
    const agent = new Agent();
    agents.push(agent);
    const options = { dispatcher: agent.compose(interceptor(some)), headers: { accept } };
    try {
      const response = await request(url, { ...options, tidegate: { stream } } as typeof options);
      return await read(response.body, response.context as object, asked);
    } catch (error) {
      return { text: "", error, report: reportOf(error) };
    }
  },
};

const sent = (path: string) => server.sent.get(path) ?? 0;

/** Asks for a path; `read` is what has been read so far. */
function asking(ask: Ask, some: tidegate.Policy, path: string, asked: Asked = {}) {
  let length = 0;
  const went = (size: number) => {
    length = size;
  };
  const going = ask(some, server.url + path, { went, ...asked });
  return {
    going,
    begun: (least = 1) => until(() => length >= least),
    asked: () => until(() => sent(path) > 0),
  };
}

beforeEach(async () => {
  server = await stalling();
});

afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.destroy()));
  await server.close();
});

describe.each(Object.entries(asks))("%s", (_, ask) => {
  test.each(["stalls_0", "pings_first"])(
    "a stream without a first piece that counts is repeated: %s (7.7.2, 7.7.3, 7.7.13)",
    async (path) => {
      const [some, clock] = bounded({ firstByteTimeout: 100, counts: "sse_data" });
      const { going, asked } = asking(ask, some, path);
      await asked();
      await clock.advance(100);
      const seen = await going;
      expect([seen.error, seen.text, sent(path)]).toEqual([undefined, EVENT.repeat(3), 2]);
      expect(seen.report?.attempts).toBe(2);
    },
  );

  test("64 kB deliver it too (7.7.8)", async () => {
    const [some] = bounded({ firstByteTimeout: 100, counts: "sse_data" });
    const { going, begun } = asking(ask, some, "silent");
    await begun(60_000);
    server.finish();
    const { text, error } = await going;
    expect([error, text.endsWith(EVENT), sent("silent")]).toEqual([undefined, true, 1]);
  });

  test("pings count as bytes, and not as data (7.7.13)", async () => {
    const [some, clock] = bounded({ firstByteTimeout: 50, deadline: 200 });
    const { going, begun } = asking(ask, some, "pings_first");
    await begun();
    await clock.advance(200);
    const seen = await going;
    expect(seen.error).toBeInstanceOf(tidegate.DeadlineExceeded);
    expect(seen.text).toContain("ping");
    server.sent.clear();
    const [counting, other] = bounded({
      firstByteTimeout: 50,
      counts: "sse_data",
      retry: { maxAttempts: 1 },
    });
    const silent = asking(ask, counting, "pings_first");
    await silent.asked();
    await other.advance(50);
    expect((await silent.going).error).toBeInstanceOf(tidegate.AttemptTimeout);
  });

  test.each(["stalls_1", "stalls_n", "pings_later", "lies"])(
    "silence after the delivery ends the call: %s (7.7.9, 7.7.11)",
    async (path) => {
      const [some, clock] = bounded({ firstByteTimeout: 900, idleTimeout: 150, counts: "sse_data" });
      const { going, begun } = asking(ask, some, path);
      await begun(path === "stalls_n" ? 40 * EVENT.length : EVENT.length);
      await clock.advance(149);
      expect(some.engine.snapshot().live).toBe(1);
      await clock.advance(1);
      const { error, text } = await going;
      expect(error).toBeInstanceOf(tidegate.StreamStalled);
      const told = error as tidegate.StreamStalled;
      expect([told.code, told.reason, told.httpStatus]).toEqual(["stream_stalled", "stream_stalled", 504]);
      expect([text.startsWith(EVENT), sent(path)]).toEqual([true, 1]);
    },
  );

  test("a body that stalls is a failure of the breaker (7.7.11)", async () => {
    const [some, clock] = bounded({ idleTimeout: 50, breaker: { consecutive: 1, breakDuration: 60_000 } });
    const { going, begun } = asking(ask, some, "stalls_1");
    await begun();
    await clock.advance(50);
    expect((await going).error).toBeInstanceOf(tidegate.StreamStalled);
    expect((await asking(ask, some, "good").going).error).toBeInstanceOf(tidegate.BreakerOpen);
  });

  test("a request that is no stream is delivered at its head (7.7.4)", async () => {
    const [some, clock] = bounded({ firstByteTimeout: 50, deadline: 300 });
    const { going, asked } = asking(ask, some, "stalls_0", { accept: "application/json" });
    await asked();
    await until(() => Object.values(some.snapshot().routes)[0]?.active === 1);
    await clock.advance(300);
    const seen = await going;
    expect([(seen.error as Error).name, seen.text, sent("stalls_0")]).toEqual(["DeadlineExceeded", "", 1]);
    server.sent.clear();
    const [other, its] = bounded({ firstByteTimeout: 50 });
    const streamed = asking(ask, other, "stalls_0", { accept: "application/json", stream: true });
    await streamed.asked();
    await its.advance(50);
    const { error, text, report } = await streamed.going;
    expect([error, text, report?.attempts]).toEqual([undefined, EVENT.repeat(3), 2]);
  });

  test("an error event is a failed answer before the delivery, and a failed body after it (7.7.21)", async () => {
    const breaker = {
      consecutive: 1,
      breakDuration: 60_000,
      failureOn: ["throttled"],
      unit: "call",
    } as const;
    const [some] = bounded({ firstByteTimeout: 100, counts: "sse_data", breaker });
    const first = await asking(ask, some, "error_first").going;
    expect([first.error, first.text, first.report?.attempts]).toEqual([undefined, EVENT.repeat(3), 2]);
    // Delivered at its head, because the event may come in one piece with the first.
    const [bare] = bounded({ idleTimeout: 100, counts: "sse_data", breaker });
    const later = await asking(ask, bare, "error_later").going;
    expect([later.error, later.text.startsWith(EVENT)]).toEqual([undefined, true]);
    expect(later.text).toContain("overloaded");
    expect(sent("error_later")).toBe(1);
    expect((await asking(ask, bare, "good").going).error).toBeInstanceOf(tidegate.BreakerOpen);
  });

  test("an answer whose head is not good is not held back (7.7.5)", async () => {
    const [some, clock] = bounded({ firstByteTimeout: 900, deadline: 1_000, retry: { maxAttempts: 1 } });
    const { going, asked } = asking(ask, some, "fails");
    await asked();
    await until(() => some.engine.snapshot().live === 0 || some.snapshot().attempts === 1);
    await until(() => some.snapshot().ends["not_retryable"] === 1);
    await clock.advance(1_000);
    const { report } = await going;
    expect([report?.attempts, report?.reason, sent("fails")]).toEqual([1, "not_retryable", 1]);
  });

  test("the last failed answer is delivered as it came (7.7.8, 7.7.21)", async () => {
    const [some] = bounded({ firstByteTimeout: 100, counts: "sse_data", retry: { maxAttempts: 1 } });
    const seen = await asking(ask, some, "error_first").going;
    expect([seen.error, seen.report?.attempts]).toEqual([undefined, 1]);
    expect([seen.text.startsWith("event: ping"), seen.text.includes("overloaded")]).toEqual([true, true]);
  });

  test("the deadline may end at the delivery (7.7.15)", async () => {
    const limits = { deadline: 60, idleTimeout: 50_000, firstByteTimeout: 100 };
    const [bound, clock] = bounded(limits);
    const cut = asking(ask, bound, "stalls_1");
    await cut.begun();
    await clock.advance(60);
    expect((await cut.going).error).toBeInstanceOf(tidegate.DeadlineExceeded);
    const [free, its] = bounded({ ...limits, deadlineUntil: "delivery" });
    const whole = asking(ask, free, "stalls_1");
    await whole.begun();
    await its.advance(10_000);
    server.finish();
    expect((await whole.going).text).toBe(EVENT.repeat(2));
  });
});

describe("a caller who does not read is no stalled server (7.7.17)", () => {
  const limits = { idleTimeout: 100, firstByteTimeout: 500 };

  test("fetch", async () => {
    const [some, clock] = bounded(limits);
    const { going } = asking(asks["fetch"] as Ask, some, "good", { pause: () => clock.advance(250) });
    const seen = await going;
    expect([seen.error, seen.text]).toEqual([undefined, EVENT.repeat(3)]);
  });

  test("undici", async () => {
    const [some, clock] = bounded(limits);
    const agent = new Agent();
    agents.push(agent);
    const told: string[] = [];
    let front: Dispatcher.DispatchController | undefined;
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: (controller) => {
        front = controller;
      },
      onResponseStart: (controller) => controller.pause(),
      onResponseData: () => told.push("data"),
      onResponseEnd: () => told.push("end"),
      onResponseError: (_, error) => told.push(error.name),
    };
    const { origin, pathname: path } = new URL(`${server.url}stalls_1`);
    agent.compose(interceptor(some)).dispatch({ origin, path, method: "GET" }, handler);
    await until(() => Object.values(some.snapshot().routes)[0]?.active === 1 && sent("stalls_1") === 1);
    await until(() => front?.paused === true);
    await clock.advance(1_000);
    front?.resume();
    await until(() => told.length === 1);
    front?.pause();
    await clock.advance(1_000);
    front?.resume();
    await clock.advance(99);
    expect(told).toEqual(["data"]);
    await clock.advance(1);
    expect(told).toEqual(["data", "StreamStalled"]);
  });
});

test("an answer without a body has no first piece (7.7.6)", async () => {
  const [some] = bounded({ firstByteTimeout: 500, idleTimeout: 500 });
  const response = await some.fetch(`${server.url}empty`, { headers: { accept: ACCEPT } });
  expect([response.status, await response.text(), sent("empty")]).toEqual([204, "", 1]);
});

test("pieces that came while the event loop was busy are no silence", async () => {
  const some = policy({ engine: engine(), idleTimeout: 60 });
  const response = await some.fetch(`${server.url}stalls_1`);
  const reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  await reader.read();
  const next = reader.read();
  server.finish();
  for (const end = performance.now() + 200; performance.now() < end; );
  expect((await next).value?.length).toBe(EVENT.length);
  expect((await reader.read()).done).toBe(true);
});

test("an answer that came while the event loop was busy is no timeout (7.7.24)", async () => {
  const some = policy({ engine: engine(), firstByteTimeout: 100, retry: { maxAttempts: 2 } });
  const going = some.fetch(`${server.url}stalls_0`, { headers: { accept: ACCEPT } });
  await until(() => sent("stalls_0") > 0);
  server.finish();
  for (const end = performance.now() + 300; performance.now() < end; );
  const response = await going;
  expect([await response.text(), reportOf(response)?.attempts, sent("stalls_0")]).toEqual([EVENT, 1, 1]);
});

describe("the caller's response", () => {
  const chunks = ["data: a\n\n", "data: b\n\n"];
  const made = () => {
    const all = chunks.map((text) => new TextEncoder().encode(text));
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const next = all.shift();
        if (next === undefined) controller.close();
        else controller.enqueue(next);
      },
    });
    return new Response(body, { headers: { "x-own": "1" } });
  };
  const ask = async (more: tidegate.PolicyOptions = {}) => {
    const [some] = bounded({
      firstByteTimeout: 100,
      idleTimeout: 100,
      counts: "sse_data",
      fetch: made as never,
      ...more,
    });
    return some.fetch("https://api.example/", { headers: { accept: ACCEPT } });
  };
  const text = chunks.join("");
  const breaking = async () => {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode(chunks[0])),
      pull: (controller) => controller.error(new TypeError("terminated")),
    });
    return new Response(body);
  };
  const all = async (body: ReadableStream<Uint8Array>) => {
    for await (const _ of body as unknown as AsyncIterable<Uint8Array>);
  };

  test("is read as any other", async () => {
    const response = await ask();
    expect([response.bodyUsed, response.headers.get("x-own")]).toEqual([false, "1"]);
    expect(await response.text()).toBe(text);
    expect(response.bodyUsed).toBe(true);
    await expect(response.text()).rejects.toThrow(TypeError);
    expect((await (await ask()).arrayBuffer()).byteLength).toBe(text.length);
    const both = await ask();
    const copy = both.clone();
    expect([await both.text(), await copy.text()]).toEqual([text, text]);
  });

  test("has readers that can be closed, released and cancelled", async () => {
    const response = await ask();
    const body = response.body as ReadableStream<Uint8Array>;
    const reader = body.getReader();
    expect(body.locked).toBe(true);
    expect(new TextDecoder().decode((await reader.read()).value)).toBe(chunks[0]);
    expect(response.bodyUsed).toBe(true);
    reader.releaseLock();
    await expect(reader.read()).rejects.toThrow(TypeError);
    const again = body.getReader();
    expect(new TextDecoder().decode((await again.read()).value)).toBe(chunks[1]);
    expect((await again.read()).done).toBe(true);
    await again.closed;
    expect((await again.read()).done).toBe(true);
    for await (const _ of (await ask()).body as unknown as AsyncIterable<Uint8Array>) break;
    await (await ask()).body?.cancel();
  });

  test("is given back by its iterator at the end, as the platform's is", async () => {
    const bodies = [made().body, (await ask()).body] as ReadableStream<Uint8Array>[];
    for (const body of bodies) {
      const pieces = body.values() as AsyncIterableIterator<Uint8Array>;
      let seen = "";
      for await (const piece of pieces) seen += new TextDecoder().decode(piece);
      expect([seen, body.locked]).toEqual([text, false]);
      expect(await pieces.next()).toEqual({ done: true, value: undefined });
      expect(await pieces.return?.("last")).toEqual({ done: true, value: "last" });
      expect((await body.getReader().read()).done).toBe(true);
    }
    const early = (await ask()).body?.values() as AsyncIterableIterator<Uint8Array>;
    await early.next();
    await early.return?.();
    expect(await early.next()).toEqual({ done: true, value: undefined });
    const broken = (await ask({ fetch: breaking as never })).body as ReadableStream<Uint8Array>;
    await expect(all(broken)).rejects.toThrow("terminated");
    expect(broken.locked).toBe(false);
  });

  test("reads into a buffer of its reader", async () => {
    const body = (await ask()).body as ReadableStream<Uint8Array>;
    const reader = body.getReader({ mode: "byob" });
    const { value } = await reader.read(new Uint8Array(100));
    expect(new TextDecoder().decode(value)).toBe(chunks[0]);
    await reader.cancel();
  });

  test("has the error of a body that breaks", async () => {
    const response = await ask({ fetch: breaking as never });
    await expect(response.text()).rejects.toThrow("terminated");
  });
});

test("a redirect belongs to its attempt (7.7.7)", async () => {
  const [some, clock] = bounded({ firstByteTimeout: 100, counts: "sse_data" });
  const { going } = asking(asks["fetch"] as Ask, some, "moved");
  await until(() => sent("stalls_0") === 1);
  await clock.advance(100);
  const seen = await going;
  expect([seen.error, seen.text]).toEqual([undefined, EVENT.repeat(3)]);
  expect([seen.report?.attempts, sent("moved"), sent("stalls_0")]).toEqual([2, 2, 2]);
});

test("under the fake timers of a test framework", async () => {
  vi.useFakeTimers();
  try {
    const fetch = async () =>
      new Response(new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode("a")) }));
    const some = policy({ engine: engine(), idleTimeout: 60_000, fetch: fetch as never });
    const response = await some.fetch("https://api.example/");
    const going = response.text().catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await going).toBeInstanceOf(tidegate.StreamStalled);
  } finally {
    vi.useRealTimers();
  }
});

describe("over the fake provider of the origin", () => {
  const limits = { firstByteTimeout: 5_000, idleTimeout: 500, counts: "sse_data" } as const;
  const retry = {
    maxAttempts: 2,
    methods: ["POST"],
    backoff: { base: 0, jitter: "none" },
    budget: "none",
  } as const;
  const chat = async (fault: object, more: tidegate.PolicyOptions = {}) => {
    const url = await scripted({
      provider: { answer_tokens: 40, token_every: 2, ping_every: 0.01, faults: [fault] },
    });
    const [some, clock] = bounded({ ...limits, retry, ...more });
    const body = JSON.stringify({
      model: "m",
      max_tokens: 100,
      stream: true,
      messages: [{ role: "user", content: "Hi." }],
    });
    let text = "";
    const going = (async () => {
      const response = await some.fetch(`${url}/v1/messages`, {
        method: "POST",
        body,
        headers: { accept: ACCEPT, "content-type": "application/json", "x-api-key": "k" },
      });
      for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>)
        text += new TextDecoder().decode(piece);
      return reportOf(response)?.attempts;
    })();
    going.catch(() => undefined);
    return { going, clock, text: () => text, some };
  };

  test.each([0, 1])("a stall at byte %i is repeated", async (at) => {
    const { going, clock, text } = await chat({ fault: "stall", at, first: 1 });
    await until(async () => (await stats()).requests === 1);
    await clock.advance(5_000);
    expect([await going, text().includes("message_stop")]).toEqual([2, true]);
  });

  test("a stall in the middle ends the call", async () => {
    const { going, clock, text } = await chat({ fault: "stall", at: 900 });
    await until(() => text().length >= 900);
    await clock.advance(500);
    await expect(going).rejects.toBeInstanceOf(tidegate.StreamStalled);
    expect((await stats()).requests).toBe(1);
  });

  test("an error event before the first token is repeated", async () => {
    const { going, text } = await chat({ fault: "error_event", at: 0, first: 1 });
    expect([await going, text().includes("message_stop")]).toEqual([2, true]);
  });

  test("an error event after it reaches its reader", async () => {
    const { going, text } = await chat({ fault: "error_event", at: 3 }, { firstByteTimeout: undefined });
    await going;
    expect([text().includes("overloaded"), (await stats()).requests]).toEqual([true, 1]);
  });
});

describe("a POST that asks a language model for a stream is one (7.7.4)", () => {
  const bodies: [string, unknown, boolean][] = [
    ["a text", '{"model": "m", "stream": true}', true],
    ["bytes", Buffer.from('{"model": "m", "stream": true}'), true],
    ["one that asks for none", '{"model": "m", "stream": false}', false],
    [
      "one that only tells of it",
      '{"model": "m", "messages": [{"role": "user", "content": "stream: true"}]}',
      false,
    ],
  ];

  /** Whether an attempt is stopped that has sent no first piece within `firstByteTimeout`. */
  async function stops(ask: (some: tidegate.Policy, url: string) => Promise<unknown>): Promise<boolean> {
    const [some, clock] = bounded({ firstByteTimeout: 100 });
    const going = ask(some, `${server.url}stalls_0`);
    await until(() => sent("stalls_0") > 0);
    await clock.advance(100);
    server.finish();
    await going;
    return sent("stalls_0") > 1;
  }

  test.each(bodies)("%s, by fetch", async (_, body, is) => {
    const tidegate = { idempotent: true };
    expect(
      await stops(async (some, url) =>
        (await some.fetch(url, { method: "POST", body: body as string, tidegate })).text(),
      ),
    ).toBe(is);
  });

  test.each(bodies)("%s, by undici", async (_, body, is) => {
    const agent = new Agent();
    agents.push(agent);
    const tidegate = { idempotent: true };
    expect(
      await stops(async (some, url) => {
        const options = { dispatcher: agent.compose(interceptor(some)), method: "POST", body, tidegate };
        return (await request(url, options as object)).body.text();
      }),
    ).toBe(is);
  });

  test("a caller's word counts before the body", async () => {
    const body = '{"stream": true}';
    const tidegate = { idempotent: true, stream: false };
    expect(
      await stops(async (some, url) => (await some.fetch(url, { method: "POST", body, tidegate })).text()),
    ).toBe(false);
  });
});
