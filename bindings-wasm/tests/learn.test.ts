/** Limits that learn from what answers say is left of the service's quota (semantics 3.7). */

import { MockAgent, request } from "undici";
import { expect, test } from "vitest";
import { type Engine, type Policy, type PolicyOptions, policy } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { engine } from "./support/setup.js";

type Learn = { readonly learn?: "down" | "none" };

const LEFT = { "x-ratelimit-remaining-requests": "3", "X-RateLimit-Remaining-Tokens": "nothing to read" };

/** A policy with one limit, on a clock that stands still. */
function chat(rateLimit: Learn, more: PolicyOptions = {}): { some: Policy; lab: Engine } {
  const lab = engine({ clock: new FakeClock() });
  const limits = ["rpm: permits=500 per=1m"];
  return { some: policy({ engine: lab, rateLimit: { limits, ...rateLimit }, ...more }), lab };
}

/** The requests that the limit has. */
const left = (lab: Engine) => lab.snapshot().routes[0]?.rate?.limits?.["rpm"]?.tokens;

/** The requests that the limit has after one answer. */
async function leftAfter(status: number, rateLimit: Learn, more: PolicyOptions = {}): Promise<unknown> {
  const send = () => Promise.resolve(new Response("", { status, headers: LEFT }));
  const { some, lab } = chat(rateLimit, { fetch: send, ...more });
  const response = await some.fetch("https://api.example/");
  expect([response.status, await response.text()]).toEqual([status, ""]);
  return left(lab);
}

test.each([200, 404, 429])("an answer of any status lowers the limit: %i (3.7.1, 3.7.6)", async (status) => {
  expect(await leftAfter(status, { learn: "down" })).toBe(3);
});

test("without learn a limit counts its own calls", async () => {
  expect(await leftAfter(200, {})).toBe(499);
  expect(await leftAfter(200, { learn: "none" })).toBe(499);
});

test("the preset for language models learns (0.7.12, 0.7.13)", async () => {
  expect(await leftAfter(200, {}, { preset: "llm" })).toBe(3);
  expect(await leftAfter(200, { learn: "none" }, { preset: "llm" })).toBe(499);
});

test.each([200, 404])("undici reports them too: %i", async (status) => {
  const { some, lab } = chat({ learn: "down" });
  const agent = new MockAgent();
  agent.disableNetConnect();
  agent.get("http://chat.example").intercept({ path: "/" }).reply(status, "x", { headers: LEFT });
  const dispatcher = agent.compose(interceptor(some));
  const { statusCode, body } = await request("http://chat.example/", { dispatcher });
  expect([statusCode, await body.text(), left(lab)]).toEqual([status, "x", 3]);
  await agent.close();
});

test("a policy that learns later reports from then on (3.7.6)", async () => {
  const send = () => Promise.resolve(new Response("", { headers: LEFT }));
  const { some, lab } = chat({}, { fetch: send });
  await (await some.fetch("https://api.example/")).text();
  expect(left(lab)).toBe(499);
  some.retune({ rateLimit: { limits: ["rpm: permits=500 per=1m"], learn: "down" } });
  await (await some.fetch("https://api.example/")).text();
  expect(left(lab)).toBe(3);
});
