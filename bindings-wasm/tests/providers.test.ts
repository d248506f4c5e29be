/** SDKs as they are, over a policy's `fetch`, against the fake provider of `tests/origin`. */

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { type Policy, type PolicyOptions, policy, type Retry } from "../ts/node.js";
import { scripted, stats } from "./support/server.js";
import { engine } from "./support/setup.js";

function models(more: PolicyOptions = {}): Policy {
  const statuses = [408, 409, 429, 500, 502, 503, 504, 529];
  const throttledStatuses = [429, 529];
  const retry = { methods: ["POST"], statuses, throttledStatuses, readErrors: true } satisfies Retry;
  return policy({
    engine: engine(),
    retry: { ...retry, maxAttempts: 3, backoff: { base: 1, max: 5 } },
    ...more,
  });
}

interface Sdk {
  /** The words of a plain answer. */
  ask(): Promise<string>;
  /** The words of a streamed one. */
  stream(): Promise<string>;
  readonly errors: typeof OpenAI | typeof Anthropic;
}

const messages = [{ role: "user" as const, content: "Say hi." }];

const sdks: Record<string, (url: string, some: Policy) => Sdk> = {
  openai(url, { fetch }) {
    const client = new OpenAI({ apiKey: "k", baseURL: `${url}/v1`, maxRetries: 0, fetch });
    return {
      errors: OpenAI,
      async ask() {
        const { choices } = await client.chat.completions.create({ model: "m", messages });
        return choices[0]?.message.content ?? "";
      },
      async stream() {
        let text = "";
        for await (const { choices } of await client.chat.completions.create({
          model: "m",
          messages,
          stream: true,
        }))
          text += choices[0]?.delta.content ?? "";
        return text;
      },
    };
  },
  anthropic(url, { fetch }) {
    const client = new Anthropic({ apiKey: "k", baseURL: url, maxRetries: 0, fetch });
    const asked = { model: "m", max_tokens: 100, messages };
    return {
      errors: Anthropic,
      async ask() {
        const { content } = await client.messages.create(asked);
        return content[0]?.type === "text" ? content[0].text : "";
      },
      async stream() {
        let text = "";
        for await (const event of await client.messages.create({ ...asked, stream: true }))
          if (event.type === "content_block_delta" && event.delta.type === "text_delta")
            text += event.delta.text;
        return text;
      },
    };
  },
};

const words = (text: string) => text.split(" ").length;

describe.each(Object.keys(sdks))("%s", (name) => {
  const open = async (provider: object, more: PolicyOptions = {}) => {
    const make = sdks[name] as (url: string, some: Policy) => Sdk;
    return make(await scripted({ provider }), models(more));
  };

  test("an overloaded provider is asked again by the policy alone", async () => {
    const sdk = await open({ answer_tokens: 5, faults: [{ fault: "overloaded", first: 2 }] });
    expect(words(await sdk.ask())).toBe(5);
    expect((await stats()).requests).toBe(3);
  });

  test("a stream comes whole, with pings in it", async () => {
    const faults = [{ fault: "unavailable", first: 1 }];
    const sdk = await open({ answer_tokens: 9, token_every: 20, ping_every: 0.01, faults });
    expect(words(await sdk.stream())).toBe(9);
    expect((await stats()).requests).toBe(2);
  });

  test.each([
    ["unauthorized", "AuthenticationError", 1],
    ["too_long", "BadRequestError", 1],
    ["content_refused", "BadRequestError", 1],
    ["payment_required", "APIError", 1],
    ["throttled", "RateLimitError", 3],
    ["server_error", "InternalServerError", 3],
  ] as const)("%s is the SDK's %s after %i requests", async (fault, type, requests) => {
    const sdk = await open({ faults: [{ fault }] });
    await expect(sdk.ask()).rejects.toBeInstanceOf(sdk.errors[type]);
    expect((await stats()).requests).toBe(requests);
  });

  test.each([
    { fault: "break", at: 900 },
    { fault: "end", at: 900 },
    { fault: "error_event", at: 3 },
  ])("$fault after the first words is an error, and nothing is repeated", async (fault) => {
    const sdk = await open({ answer_tokens: 40, token_every: 1, faults: [fault] });
    await expect(sdk.stream()).rejects.toBeInstanceOf(Error);
    expect((await stats()).requests).toBe(1);
  });
});
