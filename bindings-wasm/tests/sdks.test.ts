/** SDK clients that take a `fetch`, with their own retries off, against the origin: only the policy repeats requests. */

import { Octokit } from "@octokit/rest";
import ky from "ky";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { type Policy, type PolicyOptions, policy } from "../ts/node.js";
import { log, scripted, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

function http(more: PolicyOptions = {}): Policy {
  return policy({ engine: engine(), preset: "http", retry: { backoff: { base: 1, max: 5 } }, ...more });
}

const json = (body: unknown) => ({
  status: 200,
  body: JSON.stringify(body),
  headers: { "content-type": "application/json" },
});
const busy = { status: 503, retry_after: "0", body: '{"error":{"message":"busy"}}' };

/** The origin's log of requests: method, retry header and idempotency key. */
async function sent(): Promise<[method: string, again: string | undefined, key: string | undefined][]> {
  return (await log()).map(({ method, headers }) => [
    method,
    headers["retry-attempt"],
    headers["idempotency-key"],
  ]);
}

describe("openai", () => {
  const chat = "/v1/chat/completions";
  const client = async (some: Policy, ...answers: object[]) => {
    const url = await scripted({ sequences: { [chat]: answers } });
    return new OpenAI({ apiKey: "k", baseURL: `${url}/v1`, maxRetries: 0, fetch: some.fetch });
  };
  const asked = { model: "m", messages: [{ role: "user" as const, content: "hello" }] };
  const reply = {
    id: "1",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "hi" } }],
  };

  test("a completion is repeated under one key", async () => {
    const openai = await client(http({ idempotencyKey: true }), busy, { fault: "reset" }, json(reply));
    const { choices } = await openai.chat.completions.create(asked);
    expect(choices[0]?.message.content).toBe("hi");
    const requests = await sent();
    expect(requests.map(([, again]) => again)).toEqual([undefined, "1", "2"]);
    expect(new Set(requests.map(([, , key]) => key)).size).toBe(1);
    expect(requests[0]?.[2]).toMatch(/^[0-9a-f-]{36}$/);
    const bodies = (await log()).map(({ body }) => body);
    expect(JSON.parse(bodies[2] as string)).toMatchObject(asked);
    expect(new Set(bodies).size).toBe(1);
  });

  test("and not without one; the error is the client's own", async () => {
    const openai = await client(http(), busy, json(reply));
    const error = await openai.chat.completions.create(asked).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(OpenAI.InternalServerError);
    expect((await stats()).requests).toBe(1);
  });

  test("a stream keeps its slot to the last word", async () => {
    const some = http({ idempotencyKey: true, bulkhead: { maxConcurrency: 1 } });
    const words = ["one ", "two ", "three"];
    const events = words.map(
      (content) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`,
    );
    const body = `${events.join("")}data: [DONE]\n\n`;
    const headers = { "content-type": "text/event-stream" };
    const openai = await client(some, busy, {
      status: 200,
      headers,
      body,
      fault: "slow_body",
      chunk_bytes: 60,
      chunk_every: 10,
    });
    const inFlight = () => Object.values(some.snapshot().routes)[0]?.pool?.inFlight;
    const stream = await openai.chat.completions.create({ ...asked, stream: true });
    expect(inFlight()).toBe(1);
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe("one two three");
    await until(() => inFlight() === 0);
  });
});

describe("ky", () => {
  test("sends Requests, with a body, and they are repeated", async () => {
    const url = await scripted({ sequences: { "/orders": [busy, { fault: "close" }, json({ id: 7 })] } });
    const client = ky.create({ prefixUrl: url, retry: 0, fetch: http().fetch });
    expect(await client.put("orders", { json: { item: "tea" } }).json()).toEqual({ id: 7 });
    expect((await log()).map(({ body }) => body)).toEqual(Array(3).fill('{"item":"tea"}'));
    expect((await sent()).map(([, again]) => again)).toEqual([undefined, "1", "2"]);
  });

  test("gets the last response", async () => {
    const url = await scripted({ sequences: { "/down": [{ status: 503, body: "later" }] } });
    const client = ky.create({ prefixUrl: url, retry: 0, fetch: http().fetch, throwHttpErrors: false });
    const response = await client.get("down");
    expect([response.status, await response.text()]).toEqual([503, "later"]);
    expect((await stats()).requests).toBe(3);
  });

  test("its time limit is its own: it ends the call, and nothing goes on behind it", async () => {
    const url = await scripted({ sequences: { "/slow": [{ fault: "hang" }] } });
    const client = ky.create({ prefixUrl: url, retry: 0, fetch: http().fetch, timeout: 60 });
    const error = await client.get("slow").catch((error: Error) => error);
    expect((error as Error).name).toBe("TimeoutError");
    await until(async () => (await stats()).in_flight === 0);
    expect((await stats()).requests).toBe(1);
  });
});

describe("@octokit/rest", () => {
  const github = async (some: Policy, ...answers: object[]) => {
    const url = await scripted({ sequences: { "/repos/o/r": answers, "/repos/o/r/issues": answers } });
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    return new Octokit({ baseUrl: url, request: { fetch: some.fetch }, log });
  };

  test("a read is repeated", async () => {
    const octokit = await github(http(), busy, busy, json({ full_name: "o/r" }));
    const { data } = await octokit.rest.repos.get({ owner: "o", repo: "r" });
    expect(data.full_name).toBe("o/r");
    expect((await sent()).map(([, again]) => again)).toEqual([undefined, "1", "2"]);
  });

  test("a write is not, and a limit is waited for", async () => {
    const limited = { status: 429, retry_after: "0", body: "{}" };
    let octokit = await github(http(), limited, json({ number: 1 }));
    const error = await octokit.rest.issues
      .create({ owner: "o", repo: "r", title: "t" })
      .catch((error: unknown) => error);
    expect((error as { status?: number }).status).toBe(429);
    expect((await stats()).requests).toBe(1);
    octokit = await github(http(), limited, json({ full_name: "o/r" }));
    expect((await octokit.rest.repos.get({ owner: "o", repo: "r" })).status).toBe(200);
  });

  test("a refusal of ours comes through as it is", async () => {
    const some = http({ breaker: { consecutive: 1, breakDuration: 5000 }, retry: { maxAttempts: 1 } });
    const octokit = await github(some, { fault: "reset" });
    const failure = () =>
      octokit.rest.repos.get({ owner: "o", repo: "r" }).catch((error: unknown) => error as Error);
    await failure();
    const refused = await failure();
    expect(String((refused as { cause?: unknown }).cause ?? refused)).toMatch(/circuit breaker is open/);
    expect((await stats()).requests).toBe(1);
  });
});
