/** Sets of limits, weights of calls, and what their attempts settle (semantics 3.4 to 3.6). */

import { Agent, request } from "undici";
import { expect, test } from "vitest";
import {
  CostAboveBurst,
  type Engine,
  load,
  type Policy,
  type PolicyOptions,
  policy,
  RateLimited,
} from "../ts/node.js";
import { FakeClock, setActive } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { origin } from "./support/server.js";
import { engine } from "./support/setup.js";

const LIMITS = ["rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens"];

/** Requests and tokens, on a clock of its own. */
function metered(more: PolicyOptions = {}): { some: Policy; lab: Engine; clock: FakeClock } {
  const clock = new FakeClock();
  const lab = engine({ clock });
  return { some: policy({ engine: lab, rateLimit: { limits: LIMITS }, ...more }), lab, clock };
}

const limit = (lab: Engine, name: string) => lab.snapshot().routes[0]?.rate?.limits?.[name];

test("a set of limits is written as a list (3.4.1)", async () => {
  const lab = engine({ clock: new FakeClock() });
  const some = policy({
    engine: lab,
    rateLimit: { limits: ["rpm: permits=60 per=1m burst=3", "rps: permits=9 per=1s"] },
  });
  for (let call = 0; call < 3; call += 1) expect(await some.run(() => call)).toBe(call);
  await expect(some.run(() => 3)).rejects.toBeInstanceOf(RateLimited);
  const { limits } = lab.snapshot().routes[0]?.rate ?? {};
  expect(limits?.["rpm"]).toMatchObject({ weight: null, tokens: 0, burst: 3 });
  expect(limits?.["rps"]).toMatchObject({ tokens: 6, burst: 9 });
});

test("a document declares limits in tables (3.4.1)", async () => {
  const lab = engine({ clock: new FakeClock() });
  const limits = {
    rpm: { permits: 60, per: "1m" },
    tpm: { permits: 60000, per: "1m", weight: "tokens", default: 500, max_debt: "none" },
  };
  const { chat } = load({ policy: { chat: { rate_limit: { limits } } } }, { engine: lab }).policies;
  expect(await chat?.run(() => 7)).toBe(7);
  expect(limit(lab, "tpm")?.tokens).toBe(59_500);
});

test.each([
  ["on the fast path", {}],
  ["beside it", { signal: new AbortController().signal }],
])("an attempt reserves and settles, %s (3.6.1 to 3.6.3, 3.6.7)", async (_, options) => {
  const { some, lab } = metered();
  let late: (() => boolean) | undefined;
  await some.at({ weights: { tokens: 4_000 } }).run(async (attempt) => {
    expect(limit(lab, "tpm")?.tokens).toBe(6_000);
    expect(attempt.settle({ tokens: 1_000 })).toBe(true);
    expect(attempt.settle({ tokens: 5_500 })).toBe(true);
    expect(limit(lab, "tpm")?.tokens, "what exceeds the reservation is charged at once").toBe(4_500);
    expect(attempt.settle({ tokens: 2_000 }), "a lower total is ignored").toBe(true);
    expect(attempt.settle({ cents: 1 }), "no limit counts it").toBe(false);
    late = () => attempt.settle({ tokens: 9_000 });
  }, options);
  expect(late?.(), "it has ended").toBe(false);
  expect(limit(lab, "tpm")).toEqual({
    weight: "tokens",
    tokens: 4_500,
    burst: 10_000,
    reserved: 4_000,
    settled: 5_500,
    forgiven: 0,
  });
  expect(limit(lab, "rpm")?.tokens).toBe(2);
});

test("what is not used comes back, and each retry reserves anew (3.5.5, 3.6.3)", async () => {
  const { some, lab } = metered({
    retry: { maxAttempts: 2, backoff: { base: 0, jitter: "none" }, budget: "none" },
  });
  const seen: (number | undefined)[] = [];
  await some.run(
    ({ attempt, settle, ...rest }) => {
      expect([settle, rest]).toBeDefined();
      seen.push(limit(lab, "tpm")?.tokens);
      if (attempt === 1) throw Object.assign(new Error("gone"), { code: "ECONNREFUSED" });
    },
    { weights: { tokens: 3_000 } },
  );
  expect(seen, "an attempt that was never sent has used nothing").toEqual([7_000, 7_000]);
  expect(limit(lab, "tpm")?.settled).toBe(3_000);
});

test("calls reserve and the rest waits (3.4.3, 3.5.4, 3.6.4)", async () => {
  const { some, clock } = metered();
  const caller = some.at({ weights: { tokens: 6_000 } });
  expect(await caller.run(() => 7)).toBe(7);
  await expect(caller.run(() => 7)).rejects.toBeInstanceOf(RateLimited);
  await clock.advance(2_000);
  expect(await caller.run(() => 7)).toBe(7);
  await expect(some.run(() => 7, { weights: { tokens: 10_001 } })).rejects.toBeInstanceOf(CostAboveBurst);
});

test.each([
  [{ token: 5 }, 'weights = "token": no limit counts it; the weights are tokens'],
  [undefined, "weights: the rate limit counts tokens; give each call an amount, or the limit a default"],
])("a wrong or missing weight is one clear error: %j (3.5.3)", async (weights, message) => {
  const { some } = metered();
  const wrong = new RangeError(message);
  await expect(some.at({ weights }).run(() => 7)).rejects.toThrow(wrong);
  await expect(some.run(() => 7, { weights })).rejects.toThrow(wrong);
  await expect(some.fetch("http://far.example/", { tidegate: { weights } })).rejects.toThrow(wrong);
  const agent = new Agent();
  const options = { dispatcher: agent.compose(interceptor(some)), tidegate: { weights } };
  await expect(request("http://far.example/", options as object)).rejects.toThrow(wrong);
  await agent.close();
});

test.each([
  [{ tokens: -1 }, "weights.tokens = -1"],
  [{ tokens: 1.5 }, "weights.tokens = 1.5"],
  [{ tokens: "9" }, "weights.tokens = 9"],
  [{ tokens: 2 ** 53 }, "weights.tokens = 9007199254740992"],
  [[1], "weights = 1"],
  [7, "weights = 7"],
])("amounts are whole numbers: %j (3.5.2)", async (weights, told) => {
  const { some } = metered();
  const wrong = new RangeError(`${told}: must be an object of names and whole numbers from 0 to 2^53 - 1`);
  expect(() => some.at({ weights: weights as never })).toThrow(wrong);
  await some.run(
    (attempt) => expect(() => attempt.settle(weights as never)).toThrow(/^settle.*must be an object/),
    {
      weights: { tokens: 1 },
    },
  );
});

test("a policy without weights takes none, and settles nothing (3.5.3)", async () => {
  const some = policy({ engine: engine(), deadline: 5_000 });
  await expect(some.run(() => 7, { weights: { tokens: 5 } })).rejects.toThrow(
    "has no weights; leave weights out",
  );
  expect(await some.run((attempt) => attempt.settle({ tokens: 5 }))).toBe(false);
});

test("requests of the adapters have weights (3.5.1)", async () => {
  const { some, lab } = metered();
  const url = await origin(200, 200);
  const tidegate = { weights: { tokens: 2_500 } };
  const response = await some.fetch(url, { tidegate });
  expect([response.status, await response.text()]).toEqual([200, "OK\n"]);
  expect(limit(lab, "tpm")?.tokens).toBe(7_500);
  const agent = new Agent();
  const { statusCode, body } = await request(url, {
    dispatcher: agent.compose(interceptor(some)),
    tidegate,
  } as object);
  await body.dump();
  expect([statusCode, limit(lab, "tpm")?.tokens]).toEqual([200, 5_000]);
  await agent.close();
});

test("calls of inactive policies pass, whatever their weights", async () => {
  const { some, lab } = metered();
  const off = setActive(false);
  try {
    expect(await some.run(() => 7, { weights: { tokens: 4_000_000 } })).toBe(7);
    expect(await some.run((attempt) => attempt.settle({ tokens: 1 }))).toBe(false);
  } finally {
    off.dispose();
  }
  expect(limit(lab, "tpm")).toBeUndefined();
});

test("a route that was evicted is made again, with the call's weights", async () => {
  const lab = engine({ maxRoutes: 1 });
  const some = policy({ engine: lab, rateLimit: { limits: LIMITS } });
  const one = some.at({ route: "one", weights: { tokens: 10 } });
  const other = some.at({ route: "other", weights: { tokens: 20 } });
  for (let turn = 0; turn < 3; turn += 1) {
    expect(await one.run(() => 1)).toBe(1);
    expect(await other.run(() => 2)).toBe(2);
  }
  expect(lab.snapshot().routes.map(({ key }) => key)).toEqual(["other"]);
});

test("a refusal names the limit, the weight and the amount (3.4.6, 3.8.14)", async () => {
  const { some, lab } = metered({ name: "metered" });
  const refusal = (target: { run(fn: () => number): Promise<number> }): Promise<unknown> =>
    target.run(() => 7).catch((error: unknown) => error);
  const weighing = (tokens: number) => some.at({ weights: { tokens } });
  await weighing(6_000).run(() => 7);
  const refused = await refusal(weighing(6_000));
  expect(refused).toBeInstanceOf(RateLimited);
  expect(refused).toMatchObject({ limit: "tpm", weight: "tokens", amount: 6_000 });
  const place = 'policy "metered", route "default"';
  expect(String(refused)).toBe(`RateLimited: the rate limit is used up (${place}, limit tpm, 6000 tokens)`);
  const large = await refusal(weighing(10_001));
  expect(large).toBeInstanceOf(CostAboveBurst);
  expect(large).toMatchObject({ limit: "tpm", weight: "tokens", amount: 10_001 });
  expect(String(large)).toContain("limit tpm, 10001 tokens)");
  for (const _ of [1, 2]) await weighing(1).run(() => 7);
  const counted = (await refusal(weighing(1))) as RateLimited;
  expect([counted.limit, counted.weight, counted.amount]).toEqual(["rpm", undefined, undefined]);
  expect(counted.message).toContain(`(${place}, limit rpm)`);
  const plain = policy({ engine: lab, rateLimit: { permits: 1, per: 60_000 } });
  await plain.run(() => 7);
  const unnamed = (await refusal(plain)) as RateLimited;
  expect(unnamed).toBeInstanceOf(RateLimited);
  expect([unnamed.limit, unnamed.weight, unnamed.amount]).toEqual([undefined, undefined, undefined]);
});

test("a budget comes back when its window begins (3.8.1, 3.8.4)", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const limits = ["usd: permits=1000 per=24h weight=usd max_debt=none refill=window"];
  const budget = policy({ engine: lab, rateLimit: { limits } });
  const caller = budget.at({ weights: { usd: 600 } });
  expect(await caller.run(() => 7)).toBe(7);
  const refused: unknown = await caller.run(() => 7).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(RateLimited);
  const midnight = Number((refused as RateLimited).retryAt);
  const left = midnight - Date.now();
  expect(left).toBeGreaterThan(-1_000);
  expect(Math.round(midnight / 1000) % 86_400).toBeLessThan(2);
  await clock.advance(left + 5_000);
  expect(await caller.run(() => 7)).toBe(7);
  expect(limit(lab, "usd")?.tokens).toBe(400);
});
