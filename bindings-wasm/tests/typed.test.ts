/**
 * What the engine refuses for want of a key, or for a word that it does not know, the types refuse too (J11). Each mistake stands
 * after `@ts-expect-error`, so `tsc` fails where the types let it pass, and the engine says at run time that it is one.
 */

import { expect, expectTypeOf, test } from "vitest";
import { Engine, type PolicyError, type PolicyOptions, Pool, policy } from "../ts/node.js";

const engine = new Engine({ seed: 1 });

/** The keys that the engine finds wrong in a policy. */
function wrong(make: () => unknown): string[] {
  try {
    make();
  } catch (error) {
    return (error as PolicyError).mistakes.map(({ key }) => key).sort();
  }
  return [];
}

test("a component without its required keys is no component", () => {
  // @ts-expect-error permits and per
  expect(wrong(() => policy({ engine, rateLimit: {} }))).toEqual(["rateLimit.per", "rateLimit.permits"]);
  // @ts-expect-error per
  expect(wrong(() => policy({ engine, rateLimit: { permits: 5 } }))).toEqual(["rateLimit.per"]);
  // @ts-expect-error maxConcurrency
  expect(wrong(() => policy({ engine, bulkhead: { maxQueue: 5 } }))).toEqual(["bulkhead.maxConcurrency"]);
  // @ts-expect-error breakDuration, and failureRatio or consecutive
  expect(wrong(() => policy({ engine, breaker: {} }))).toEqual([
    "breaker.breakDuration",
    "breaker.failureRatio",
  ]);
  // @ts-expect-error window and minThroughput
  expect(wrong(() => policy({ engine, breaker: { breakDuration: 9, failureRatio: 0.5 } }))).toEqual([
    "breaker.minThroughput",
    "breaker.window",
  ]);
  // @ts-expect-error delay
  expect(wrong(() => policy({ engine, hedge: {} }))).toEqual(["hedge.delay"]);
  // @ts-expect-error adaptiveDelayQuantile
  expect(wrong(() => policy({ engine, hedge: { delay: 9, delayMin: 5 } }))).toEqual([
    "hedge.adaptiveDelayQuantile",
  ]);
});

test("a kind without the keys that it needs is a mistake", () => {
  // @ts-expect-error latencyThreshold
  expect(wrong(() => policy({ engine, bulkhead: { maxConcurrency: 5, kind: "aimd" } }))).toEqual([
    "bulkhead.latencyThreshold",
  ]);
  // @ts-expect-error exponent
  expect(wrong(() => policy({ engine, retry: { backoff: { kind: "polynomial" } } }))).toEqual([
    "retry.backoff.exponent",
  ]);
  // @ts-expect-error jitterRatio
  expect(wrong(() => policy({ engine, retry: { backoff: { jitter: "bounded" } } }))).toEqual([
    "retry.backoff.jitterRatio",
  ]);
  // @ts-expect-error ratio and max
  expect(wrong(() => policy({ engine, retry: { budget: { kind: "tokens" } } }))).toEqual([
    "retry.budget.max",
    "retry.budget.ratio",
  ]);
});

test("each way to fulfil a rule is one for the types", () => {
  const some = new Pool("some", { bulkhead: { maxConcurrency: 3 }, engine });
  const rate = new Pool("rate", { rateLimit: { permits: 3, per: 1000 }, engine });
  const good: PolicyOptions[] = [
    { rateLimit: { permits: 5, per: 1000 } },
    { rateLimit: { pool: rate } },
    { rateLimit: { limits: ["tpm: permits=200 per=1m weight=tokens"] } },
    { bulkhead: { pool: some, acquireTimeout: null } },
    { bulkhead: { maxConcurrency: 5, kind: "aimd", signal: "loss" } },
    { bulkhead: { maxConcurrency: 5, kind: "aimd", latencyThreshold: 100 } },
    { breaker: { consecutive: 5, breakDuration: 1000 } },
    { breaker: { failureRatio: 0.5, window: 1000, minThroughput: 5, breakDuration: 1000, consecutive: 5 } },
    { hedge: { delay: 5, budget: null } },
    { preset: "http", retry: { budget: "none", backoff: { kind: "polynomial", exponent: 2 } } },
    { throttle: {}, retry: {} },
  ];
  for (const options of good) expect(wrong(() => policy({ ...options, engine }))).toEqual([]);
});

test("a misspelt method, class or kind is a mistake of its type", () => {
  // @ts-expect-error no such method
  expect(wrong(() => policy({ engine, retry: { methods: ["GETT"] } }))).toEqual(["retry.methods"]);
  // @ts-expect-error no such class
  expect(wrong(() => policy({ engine, retry: { retryOn: ["transientt"] } }))).toEqual(["retry.retryOn"]);
  const kinds = { locked: "conflict" } as const;
  // @ts-expect-error no such kind
  expect(wrong(() => policy({ engine, kinds, retry: { retryOn: ["lockt"] } }))).toEqual(["retry.retryOn"]);
  expect(wrong(() => policy({ engine, kinds, retry: { retryOn: ["locked", "timeout"] } }))).toEqual([]);
  const breaker = { consecutive: 2, breakDuration: 9, ignoreOn: ["quota_spent" as const] };
  expect(wrong(() => policy({ engine, retry: { readErrors: true }, breaker }))).toEqual([]);
  // A record whose names are not known before the program runs takes any name.
  const named: Record<string, "conflict"> = kinds;
  expect(wrong(() => policy({ engine, kinds: named, retry: { retryOn: ["locked"] } }))).toEqual([]);
});

test("the type of a fallback stays part of the result's", () => {
  const some = policy({ engine, retry: {}, kinds: { locked: "conflict" }, fallback: () => "none" });
  expectTypeOf(some.run(async () => 1)).resolves.toEqualTypeOf<number | string>();
});
