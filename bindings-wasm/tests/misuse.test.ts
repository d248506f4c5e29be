/** Mistakes of new users: each raises an error at once that says what to do (J12). */

import { Registry } from "prom-client";
import { expect, expectTypeOf, test } from "vitest";
import { attach, RedisStore } from "../ts/fleet.js";
import {
  Engine,
  type Fetch,
  load,
  type PolicyError,
  Pool,
  policy,
  type RunOptions,
  ready,
  tokens,
  within,
} from "../ts/node.js";
import * as opentelemetry from "../ts/opentelemetry.js";
import * as prometheus from "../ts/prometheus.js";
import { setTesting } from "../ts/testing.js";
import { engine } from "./support/setup.js";

function mistakesOf(options: object): string[] {
  try {
    policy(options);
    return [];
  } catch (error) {
    return (error as PolicyError).mistakes.map(({ key, value, rule }) => `${key} = ${value}: ${rule}`);
  }
}

test("a method that has lost its policy says how to call it", () => {
  const { run } = policy({ retry: {} });
  expect(() => run(async () => 1)).toThrow("run has lost its policy: call policy.run(…)");
});

test("what is no function is refused before the engine is asked", () => {
  const some = policy({ retry: {} });
  expect(() => some.run(42 as never)).toThrow("run(42): must be a function");
  expect(some.snapshot().ends).toEqual({});
});

test("a misspelled option of a call is refused", () => {
  const some = policy({ retry: {} });
  expect(() => some.run(async () => 1, { deadlin: 5 } as RunOptions)).toThrow(
    "deadlin: a call has no such option",
  );
  expect(() => some.at({ rout: "a" } as never)).toThrow("it has route, idempotent");
});

test("a misspelled option of anything else is refused too", () => {
  const document = '{"policy": {"shop": {"retry": {}}}}';
  const lab = engine();
  const some = policy({ engine: lab, retry: {} });
  const wrongs: [() => unknown, string][] = [
    [() => new Engine({ sede: 1 } as never), "sede: an engine has no such option; it has seed, clock"],
    [() => within({ deadlin: 5 } as never, () => 1), "deadlin: within has no such option"],
    [() => some.wrap({}, { method: [] } as never), "method: wrap has no such option; it has methods, route"],
    [() => tokens({ factor: {} } as never), "factor: tokens has no such option"],
    [() => tokens({ factors: { cache: 2 } } as never), "cache: factors has no such option"],
    [() => setTesting({ attempt: 2 } as never), "attempt: setTesting has no such option"],
    [
      () => attach({ execute: () => 1 }, { engine: lab, prefix: "a" } as never),
      "prefix: attach has no such option",
    ],
    [() => new RedisStore({ execute: () => 1 }, { lua: true } as never), "lua: a store has no such option"],
    [() => load(document, { engine: lab, clasify: () => 1 } as never), "clasify = an option of load"],
    [() => load(document, { engine: lab, deadline: 5 } as never), "must be in the document"],
    [
      () => load(document, { engine: lab, name: "shop" } as never),
      "name = an option of load: must be left out",
    ],
    [
      () => opentelemetry.instrument({ engine: lab, spanEvent: false } as never),
      "spanEvent: instrument has no such option",
    ],
    [
      () => prometheus.instrument(new Registry(), { engine: lab, maxRoute: 5 } as never),
      "maxRoute: instrument has no such option; it has engine, maxRoutes",
    ],
  ];
  for (const [work, message] of wrongs) expect(work).toThrow(message);
  expect(lab.snapshot().policies).not.toHaveProperty("shop");
});

test("what retune cannot change is refused", () => {
  const some = policy({ engine: engine(), retry: { maxAttempts: 4 } });
  for (const option of [
    { classify: () => "ok" },
    { onRetry: () => 1 },
    { name: "other" },
    { engine: some.engine },
  ]) {
    expect(() => some.retune({ deadline: 5, ...option } as never)).toThrow(
      /: retune changes settings only; make a new policy for another one$/,
    );
  }
  expect(some.explain().maxAttempts).toBe(4);
  some.retune({ retry: { maxAttempts: 2 }, name: undefined } as never);
  expect(some.explain().maxAttempts).toBe(2);
  const pool = new Pool("db", { engine: some.engine, bulkhead: { maxConcurrency: 1 } });
  const more = { bulkhead: { maxConcurrency: 2 } };
  expect(() => pool.retune({ ...more, engine: engine() })).toThrow("engine: retune changes settings only");
  pool.retune({ ...more, engine: some.engine });
  expect(pool.snapshot().pool?.limit).toBe(2);
});

test("ready refuses a misspelled option", async () => {
  await expect(ready({ ful: true } as never)).rejects.toThrow("ful: ready has no such option");
});

test("spans are shown in milliseconds, as they were written", () => {
  const rule = "must be a span from 1us to 365 days";
  expect(mistakesOf({ deadline: -1 })).toEqual([`deadline = -1 ms: ${rule}`]);
  expect(mistakesOf({ retry: { backoff: { max: Infinity } } })).toEqual([
    "retry.backoff.max = Infinity ms: must be a span from 0s to 365 days",
  ]);
  expect(mistakesOf({ deadline: "5s" })).toEqual([
    `deadline = "5s": ${rule}; in code a span is a number of milliseconds`,
  ]);
});

test("a key of another library's has its name here, and no second mistake", () => {
  const [timeout, ...more] = mistakesOf({ timeout: 5000 });
  expect(timeout).toMatch(
    /^timeout = 5000: no such key; did you mean deadline \(for the whole call\) or attemptTimeout /,
  );
  expect(more).toEqual([]);
  expect(mistakesOf({ retry: { attempts: 3 } })[0]).toMatch(/did you mean retry\.maxAttempts\?/);
  expect(mistakesOf({ retries: 3 })[0]).toMatch(
    /did you mean retry\.maxAttempts, which counts the first attempt too\?/,
  );
});

test("the type of a fallback is part of the result's", () => {
  const some = policy({ retry: {}, fallback: () => "none" });
  expectTypeOf(some.run(async () => 1)).toEqualTypeOf<Promise<number | string>>();
  expectTypeOf(policy({ retry: {} }).run(async () => 1)).toEqualTypeOf<Promise<number>>();
  expectTypeOf(some.fetch).toEqualTypeOf<Fetch>();
});
