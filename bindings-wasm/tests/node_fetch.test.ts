/** Timeouts of streams through node-fetch, whose bodies are streams of Node (semantics 7.7); `streams.test.ts` has what all adapters share. */

import { PassThrough, Readable } from "node:stream";
import nodeFetch, { Response as NodeResponse } from "node-fetch";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Policy, type PolicyOptions, policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { collected } from "./support/garbage.js";
import { until } from "./support/server.js";
import { engine } from "./support/setup.js";
import { EVENT, type Stalling, stalling } from "./support/stalling.js";

const ACCEPT = "text/event-stream";
let server: Stalling;

function bounded(more: PolicyOptions): [Policy, FakeClock] {
  const clock = new FakeClock();
  const retry = { maxAttempts: 3, backoff: { base: 0, jitter: "none" }, budget: "none" } as const;
  return [policy({ engine: engine({ clock }), retry, ...more }), clock];
}

beforeEach(async () => {
  server = await stalling();
});

afterEach(() => server.close());

const keys = {
  firstByteTimeout: 900,
  idleTimeout: 100,
  counts: "sse_data",
  fetch: nodeFetch as never,
} as const;

test("answers stay its own: class, properties, every way to read them", async () => {
  const [some] = bounded(keys);
  const ask = () => some.fetch(`${server.url}good`, { headers: { accept: ACCEPT } });
  const answer = await ask();
  expect(answer).toBeInstanceOf(NodeResponse);
  expect([answer.status, answer.url, answer.headers.get("content-type"), answer.redirected]).toEqual([
    200,
    `${server.url}good`,
    ACCEPT,
    false,
  ]);
  const copy = answer.clone();
  expect([await answer.text(), await copy.text(), answer.bodyUsed]).toEqual([
    EVENT.repeat(3),
    EVENT.repeat(3),
    true,
  ]);
  expect(await (await (await ask()).blob()).text()).toBe(EVENT.repeat(3));
  const sink = new PassThrough();
  ((await ask()).body as unknown as Readable).pipe(sink);
  expect(await new Response(Readable.toWeb(sink) as never).text()).toBe(EVENT.repeat(3));
  expect(some.engine.snapshot().live).toBe(0);
});

test("its readers have a stalled stream's code (7.7.11)", async () => {
  const [some, clock] = bounded(keys);
  const answer = await some.fetch(`${server.url}stalls_1`, { headers: { accept: ACCEPT } });
  const text = answer.text().catch((error: unknown) => error);
  while (some.engine.snapshot().live > 0) {
    await new Promise((later) => setTimeout(later, 1)); // its reads have to begin first
    await clock.advance(50);
  }
  expect(await text).toMatchObject({ name: "FetchError", code: "stream_stalled" });
  expect(some.engine.snapshot().live).toBe(0);
});

test("a body that is closed ends its call, and its connection", async () => {
  const [some] = bounded(keys);
  const answer = await some.fetch(`${server.url}stalls_1`, { headers: { accept: ACCEPT } });
  for await (const _ of answer.body as unknown as AsyncIterable<Uint8Array>) break;
  await until(() => some.engine.snapshot().live === 0);
  expect(reportOf(answer)?.reason).toBe("ok");
});

test("a mock with a stream of Node is refused (7.7.23)", async () => {
  const fetch = async () => ({ status: 200, headers: new Headers(), body: Readable.from(["a"]) });
  const [some] = bounded({ idleTimeout: 100, fetch: fetch as never });
  await expect(some.fetch(`${server.url}good`)).rejects.toThrow(
    /whose bodies are web streams, or node-fetch's/,
  );
});

test("a body that its reader keeps without the response can be read; one that is dropped ends its call", async () => {
  const [some] = bounded(keys);
  const live = () => some.engine.snapshot().live;
  const ask = async () => {
    const answer = await some.fetch(`${server.url}good`, { headers: { accept: ACCEPT } });
    return answer.body as unknown as Readable;
  };
  const body = await ask();
  for (let turn = 0; turn < 5; turn += 1) await collected(() => true);
  expect(live()).toBe(1);
  let text = "";
  for await (const piece of body) text += piece;
  expect([text.startsWith("data:"), live()]).toEqual([true, 0]);
  await ask();
  await collected(() => live() === 0);
});
