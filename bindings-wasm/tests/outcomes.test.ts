/** `policy.outcomeOf`: the outcome of an HTTP answer, for one's own classifier (semantics 1.4.10). */

import { expect, test, vi } from "vitest";
import { type AnswerHeaders, type Outcome, type Policy, policy } from "../ts/node.js";
import { examples } from "./support/examples.js";
import { engine } from "./support/setup.js";

test("an answer has the outcome that the policy's own fetch would see", () => {
  const http = policy({ engine: engine(), preset: "http" });
  expect(http.outcomeOf(200)).toEqual({ kind: "ok" });
  expect(http.outcomeOf(304, { "retry-after": "5" })).toEqual({ kind: "ok" });
  expect(http.outcomeOf(404)).toEqual({ kind: "permanent" });
  expect(http.outcomeOf(429, { "Retry-After": "2" })).toEqual({ kind: "throttled", retryAfter: 2000 });
  expect(http.outcomeOf(503)).toEqual({ kind: "transient" });
  expect(http.outcomeOf(500)).toEqual({ kind: "transient", opinion: "do_not" });
});

test("a date says when, by the wall clock", () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 28, 12, 0, 0) });
  try {
    const http = policy({ engine: engine(), preset: "http" });
    const headers = { "retry-after": "Sat, 28 Nov 2026 12:00:05 GMT" };
    expect(http.outcomeOf(503, headers)).toEqual({ kind: "transient", retryAfter: 5000 });
  } finally {
    vi.useRealTimers();
  }
});

test("a policy's own statuses decide", () => {
  const own = policy({
    engine: engine(),
    retry: { statuses: [409, 500, 503], throttledStatuses: [503] },
  });
  expect(own.outcomeOf(500)).toEqual({ kind: "transient" });
  expect(own.outcomeOf(409)).toEqual({ kind: "conflict" });
  expect(own.outcomeOf(503)).toEqual({ kind: "throttled" });
  expect(own.outcomeOf(429).kind).toBe("transient");
  expect(own.outcomeOf(502)).toEqual({ kind: "transient", opinion: "do_not" });
});

test("headers come in each shape that libraries have", () => {
  const http = policy({ engine: engine(), preset: "http" });
  const wanted = { kind: "throttled", retryAfter: 3000 };
  function* pairs(): Generator<[string, string]> {
    yield ["content-type", "text/plain"];
    yield ["Retry-After", "3"];
  }
  const shapes: AnswerHeaders[] = [
    new Headers({ "Retry-After": "3" }),
    { "RETRY-AFTER": "3" },
    { "retry-after": 3, absent: undefined },
    { "retry-after": ["3"], "set-cookie": ["a=1", "b=2"] },
    [
      ["x", "y"],
      ["retry-after", "3"],
    ],
    new Map([["retry-after", "3"]]),
    new Set([["retry-after", "3"] as const]),
    pairs(),
    Object.assign(Object.create(null) as Record<string, string>, { "retry-after": "3" }),
    { forEach: (each) => each("3", "retry-after") },
  ];
  for (const headers of shapes) expect(http.outcomeOf(429, headers)).toEqual(wanted);
  for (const none of [undefined, null, {}, []]) {
    expect(http.outcomeOf(429, none)).toEqual({ kind: "throttled" });
  }
});

test("a status that is none is refused", () => {
  const http = policy({ engine: engine(), preset: "http" });
  for (const status of [0, 99, 1000, Number.NaN, -1, 70_000, 429.5, "429", undefined]) {
    expect(() => http.outcomeOf(status as number)).toThrow(RangeError);
  }
  expect(() => http.outcomeOf(0)).toThrow("status = 0: must be a whole number from 100 to 999");
  expect([100, 999].map((status) => http.outcomeOf(status).kind)).toEqual(["ok", "transient"]);
});

test("a classifier that returns it repeats as a fetch would", async () => {
  const shop: Policy = policy({
    engine: engine(),
    preset: "http",
    retry: { maxAttempts: 4, backoff: { base: 0 } },
    classify: (it) => shop.outcomeOf((it as { status: number }).status),
  });
  const answers = [503, 429, 404, 200];
  const last = await shop.run(async () => ({ status: answers.shift() as number }));
  expect(last).toEqual({ status: 404 });
  expect(answers, "a 404 ends it").toEqual([200]);
  const outcome: Outcome = shop.outcomeOf(200);
  expect(outcome.kind).toBe("ok");
});

test("its example, and those of the other methods, run", async () => {
  const head = 'import { load, Policy, policy } from "../ts/node.js";\n';
  expect(await examples(["run/policy.ts"], head)).toContain("outcomeOf");
});
