/** Mistakes of new users: each raises an error at once that says what to do (J12). */

import { expect, expectTypeOf, test } from "vitest";
import { type Fetch, type PolicyError, policy, type RunOptions } from "../ts/node.js";

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
