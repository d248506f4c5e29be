/** What requests are going to use and what answers have used (semantics 15.6, 15.7), through the adapters. */

import { readFileSync } from "node:fs";
import nodeFetch from "node-fetch";
import { Agent, request } from "undici";
import { afterEach, describe, expect, test, vi } from "vitest";
import { said, sayBytes } from "../ts/engine/native.js";
import { fetchUnder } from "../ts/fetch/fetch.js";
import { type Engine, type Policy, type PolicyOptions, policy, tokens } from "../ts/node.js";
import { estimateOf } from "../ts/run/usage.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { examples } from "./support/examples.js";
import { scripted } from "./support/server.js";
import { engine } from "./support/setup.js";

const LIMITS = ["tpm: permits=60000 per=1m burst=10000 weight=tokens"];

interface Vectors {
  readonly factors: [number, number, number][];
  readonly default_output: number;
  readonly usages: {
    text?: string;
    hex?: string;
    input: number | null;
    cached: number | null;
    output: number | null;
    weights: (number | null)[];
  }[];
  readonly estimates: {
    path: string;
    body: string;
    input: number;
    output: number | null;
    stream: boolean;
    weights: number[];
  }[];
}

const vectors = JSON.parse(
  readFileSync(new URL("../../tests/vectors/answer/usage.json", import.meta.url), "utf8"),
) as Vectors;

const factors = vectors.factors.map(([input, cached, output]) => ({
  input: input / 1000,
  cached: cached / 1000,
  output: output / 1000,
}));

test("usages are read and weighed as in every language (15.6)", () => {
  const { native } = engine();
  let weighed = 0;
  for (const { text, hex, input, cached, output, weights } of vectors.usages) {
    const bytes = text === undefined ? Buffer.from(String(hex), "hex") : Buffer.from(text);
    const reader = native.usage();
    for (let at = 0; at < bytes.length; at += 7) {
      sayBytes(bytes.subarray(at, at + 7));
      native.read_usage(reader);
    }
    native.usage_of(reader);
    native.forget_usage(reader);
    expect(JSON.parse(said()), text).toEqual([input, cached, output]);
    if (input === null && output === null) continue;
    for (const [at, each] of factors.entries()) {
      const usage = { input: input ?? 0, cached: cached ?? 0, output: output ?? 0 };
      expect(tokens({ factors: each }).usage(usage), text).toEqual({ tokens: weights[at] });
      weighed += 1;
    }
  }
  expect(weighed).toBeGreaterThan(40);
});

test("requests are estimated and weighed as in every language (15.7)", () => {
  const { native } = engine();
  for (const { path, body, input, output, stream, weights } of vectors.estimates) {
    const known = { method: "POST", path, body, replayable: true, hasKey: () => false, accepts: () => null };
    const estimate = estimateOf(native, known);
    expect(estimate, body).toEqual({ input, output: output ?? undefined, stream });
    for (const [at, each] of factors.entries()) {
      const { weigh } = tokens({ factors: each, output: vectors.default_output });
      expect(estimate && weigh(estimate), body).toEqual({ tokens: weights[at] });
    }
  }
  expect(vectors.estimates.length).toBeGreaterThan(10);
});

test.each([
  [{ output: -1 }, "output = -1: must be a whole number from 0 to 2^53 - 1"],
  [{ factors: { cached: -0.5 } }, "factors.cached = -0.5: must be a number from 0 to 1,000"],
  [{ factors: { output: Number.NaN } }, "factors.output = NaN: must be a number from 0 to 1,000"],
])("wrong options of tokens: %j", (options, told) => {
  expect(() => tokens(options)).toThrow(new RangeError(told));
});

test("the examples of the documentation run", async () => {
  const head = 'import { load, policy, target, tokens } from "../ts/node.js";\n';
  expect(await examples(["run/tokens.ts", "run/target.ts"], head)).toEqual(["tokens", "target"]);
});

const agents: Agent[] = [];

afterEach(async () => {
  await Promise.all(agents.splice(0).map((agent) => agent.destroy()));
});

type Ask = (some: Policy, url: string, body: string | undefined) => Promise<AsyncIterable<Uint8Array>>;

const asks: Record<string, Ask> = {
  async fetch(some, url, body) {
    const response = await some.fetch(url, body === undefined ? {} : { method: "POST", body });
    return response.body as unknown as AsyncIterable<Uint8Array>;
  },
  async "node-fetch"(some, url, body) {
    const fetch = fetchUnder(some.core, { ...some.given, fetch: nodeFetch as never });
    const response = await fetch(url, body === undefined ? {} : { method: "POST", body });
    return response.body as unknown as AsyncIterable<Uint8Array>;
  },
  async undici(some, url, body) {
    const agent = new Agent();
    agents.push(agent);
    const options = { dispatcher: agent.compose(interceptor(some)), method: "GET" };
    const sent = body === undefined ? options : { ...options, method: "POST", body };
    return (await request(url, sent as object)).body;
  },
};

const text = async (body: AsyncIterable<Uint8Array>) => {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
};

const limit = (lab: Engine) => lab.snapshot().routes[0]?.rate?.limits?.["tpm"];

const { weigh, usage } = tokens({ output: 500 });

/** A policy that counts tokens by requests and answers. */
function counting(more: PolicyOptions = {}): [Policy, Engine] {
  const lab = engine({ clock: new FakeClock() });
  return [policy({ engine: lab, rateLimit: { limits: LIMITS }, weigh, usage, ...more }), lab];
}

const QUESTION = { model: "m", messages: [{ role: "user", content: "How high is the tide at noon?" }] };
const ANSWER = {
  choices: [{ message: { content: "Two metres." } }],
  usage: { prompt_tokens: 9, completion_tokens: 4 },
};
const EVENTS = [
  { choices: [{ delta: { content: "Two " } }], usage: null },
  { choices: [{ delta: { content: "metres." } }], usage: null },
  { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } },
]
  .map((event) => `data: ${JSON.stringify(event)}\n\n`)
  .join("");

const scripts = (body: string, more: object = {}) =>
  scripted({ sequences: { "/v1/chat/completions": [{ status: 200, body, ...more }] } });

describe.each(Object.entries(asks))("%s", (_, ask) => {
  const asked = async (some: Policy, url: string, body: object | string | undefined = QUESTION) =>
    ask(some, `${url}/v1/chat/completions`, typeof body === "object" ? JSON.stringify(body) : body);

  test.each([
    ["plain", JSON.stringify(ANSWER), {}],
    ["streamed", EVENTS, { fault: "slow_body", chunk_bytes: 25, chunk_every: 1 }],
  ])("a %s answer settles what its request has reserved", async (_, body, more) => {
    const [some, lab] = counting();
    const answer = await asked(some, await scripts(body, more));
    expect(limit(lab)?.reserved, "8 of the prompt and 500 of the answer").toBe(508);
    expect(await text(answer)).toBe(body);
    expect(limit(lab)).toMatchObject({ settled: 13, tokens: 9_987 });
  });

  test("with timeouts of streams too, and pieces that were held", async () => {
    const [some, lab] = counting({ firstByteTimeout: 30_000, idleTimeout: 30_000, counts: "sse_data" });
    const url = await scripts(EVENTS);
    expect(await text(await asked(some, url, { ...QUESTION, stream: true }))).toBe(EVENTS);
    expect(limit(lab)).toMatchObject({ reserved: 508, settled: 13 });
  });

  test("the request's own limit of the answer counts", async () => {
    const [some, lab] = counting();
    await text(await asked(some, await scripts(JSON.stringify(ANSWER)), { ...QUESTION, max_tokens: 100 }));
    expect(limit(lab)?.reserved).toBe(108);
  });

  test("an answer that is not read to its end counts what it has reserved", async () => {
    const [some, lab] = counting();
    // More than the client buffers, so that the rest cannot have come when the reader leaves.
    const answer = await asked(some, await scripts(EVENTS + ": waiting\n\n".repeat(200_000)));
    for await (const piece of answer) {
      expect(piece.length).toBeGreaterThan(0);
      break;
    }
    await vi.waitFor(() => expect(limit(lab)?.settled).toBe(508));
  });

  test("but one that is closed after OpenAI's last event settles", async () => {
    const [some, lab] = counting();
    const body = `${EVENTS}data: [DONE]\n\n`;
    const answer = await asked(
      some,
      await scripts(body, { fault: "slow_body", chunk_bytes: 4096, chunk_every: 1 }),
    );
    let read = "";
    for await (const piece of answer) {
      read += Buffer.from(piece).toString();
      if (read.includes("[DONE]")) break;
    }
    await vi.waitFor(() => expect(limit(lab)?.settled).toBe(13));
  });

  test("so does one that says nothing", async () => {
    const [some, lab] = counting();
    await text(await asked(some, await scripts('{"choices": []}')));
    expect(limit(lab)).toMatchObject({ reserved: 508, settled: 508 });
  });

  test("a request's own weights win, one without a body uses nothing, and weigh sees what is asked", async () => {
    const seen: unknown[] = [];
    const [some, lab] = counting({
      weigh(request) {
        seen.push(request);
        return weigh(request);
      },
    });
    const url = await scripts(JSON.stringify(ANSWER));
    await text(await asked(some, url, { ...QUESTION, stream: true, max_tokens: 7 }));
    await text(await ask(some, `${url}/v1/chat/completions?q=1`, undefined));
    expect(seen).toEqual([
      { input: 8, output: 7, stream: true },
      { input: 0, output: 0, stream: false },
    ]);
    expect(limit(lab)?.reserved).toBe(15);
    const tidegate = { weights: { tokens: 30 } };
    const response = await some.fetch(url, { method: "POST", body: JSON.stringify(QUESTION), tidegate });
    await response.text();
    expect([seen.length, limit(lab)?.reserved]).toEqual([2, 45]);
  });

  test("a policy without limits is not weighed", async () => {
    const warned = vi.spyOn(console, "warn");
    const some = policy({ engine: engine(), retry: {}, weigh, usage });
    expect(await text(await asked(some, await scripts(JSON.stringify(ANSWER))))).toContain("metres");
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
  });

  test("functions that fail break no call: the limits' defaults hold", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const lab = engine();
    const fails = () => {
      throw new Error("mine");
    };
    const limits = [`${LIMITS[0]} default=700`];
    const some = policy({ engine: lab, rateLimit: { limits }, weigh: () => fails(), usage: () => fails() });
    expect(await text(await asked(some, await scripts(JSON.stringify(ANSWER))))).toContain("metres");
    expect(limit(lab)).toMatchObject({ reserved: 700, settled: 700 });
    const said = warned.mock.calls.map(([first]) => String(first));
    expect(
      said.some((line) => line.includes("weigh failed")) &&
        said.some((line) => line.includes("usage failed")),
    ).toBe(true);
    warned.mockRestore();
  });

  test("wrong amounts are told and not used", async () => {
    const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const lab = engine();
    const limits = [`${LIMITS[0]} default=700`];
    const some = policy({
      engine: lab,
      rateLimit: { limits },
      weigh: () => ({ tokens: 0.5 }),
      usage: () => ({ tokens: Number.NaN }),
    });
    await text(await asked(some, await scripts(JSON.stringify(ANSWER))));
    expect(limit(lab)).toMatchObject({ reserved: 700, settled: 700 });
    expect(warned).toHaveBeenCalledTimes(2);
    warned.mockRestore();
  });

  test("readers are given back", async () => {
    const [some, lab] = counting();
    const url = await scripts(JSON.stringify(ANSWER));
    const fresh = () => {
      const reader = lab.native.usage();
      lab.native.forget_usage(reader);
      return reader;
    };
    const before = fresh();
    for (let n = 0; n < 5; n += 1) await text(await asked(some, url));
    expect(fresh()).toBe(before);
  });
});
