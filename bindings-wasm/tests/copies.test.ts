/** Two copies of the package in one process, as `import` and `require` load them: they share the default engine. */

import { expect, test } from "vitest";
import * as first from "../ts/node.js";
import { isTesting, setTesting } from "../ts/testing.js";
import { copied } from "./support/copies.js";
import { failing, failure, hang, reset } from "./support/functions.js";
import { engine } from "./support/setup.js";

const lab = engine();
copied();
const second: typeof import("../ts/node.js") = await import("../ts/node.js");
const RETRY = { maxAttempts: 3, backoff: { base: 0 } } as const;

test("a policy of one copy works with an engine of the other", async () => {
  expect(second.policy).not.toBe(first.policy);
  const some = second.policy({ engine: lab, preset: "http", retry: RETRY, kinds: { odd: "transient" } });
  expect(some.core.setting("retry.max_attempts")).toBe(3);
  expect(some.kinds).toEqual({ odd: "transient" });
  expect(some.explain().maxAttempts).toBe(3);
  const bodies: unknown[] = [];
  const own = second.policy({
    engine: lab,
    preset: "http",
    retry: RETRY,
    fetch: async (_, init) => {
      bodies.push(init?.body);
      return new Response(null, { status: bodies.length < 3 ? 503 : 200 });
    },
  });
  expect((await own.fetch("http://shop.test/", { method: "PUT", body: "x" })).status).toBe(200);
  expect(bodies).toEqual(["x", "x", "x"]);
  const { more } = second.load('{"policy": {"more": {"retry": {"max_attempts": 2}}}}', {
    engine: lab,
  }).policies;
  expect(more?.explain().maxAttempts).toBe(2);
  const error = await failure(some.run(failing(9)));
  for (const copy of [first, second]) {
    expect(copy.reportOf(error)).toMatchObject({ attempts: 3, reason: "attempts" });
    expect(copy.explain(error as object)?.reason).toBe("attempts");
  }
});

test("scopes and nested calls hold across copies", async () => {
  const [inner, outer] = [first, second].map((copy) => copy.policy({ engine: lab, retry: RETRY }));
  let tries = 0;
  const lost = () => {
    tries += 1;
    throw reset();
  };
  await failure((outer as first.Policy).run(() => (inner as first.Policy).run(lost)));
  expect(tries, "the inner one makes one attempt").toBe(3);
  for (const [one, other] of [
    [first, second],
    [second, first],
  ] as const) {
    const some = other.policy({ engine: lab, retry: RETRY });
    const late = await one.within({ deadline: 5 }, () => failure(some.run(hang)));
    expect(late).toBeInstanceOf(first.DeadlineExceeded);
  }
});

test("switches for tests reach policies of the other copy", async () => {
  const some = second.policy({
    engine: lab,
    retry: { maxAttempts: 3, backoff: { base: 60_000, max: 60_000 } },
  });
  const other: typeof import("../ts/testing.js") = await import("../ts/testing.js");
  const quick = setTesting({ attempts: 2 });
  expect([isTesting(), other.isTesting()]).toEqual([true, true]);
  expect(second.reportOf(await failure(some.run(failing(9))))?.attempts).toBe(2);
  quick.dispose();
  expect(other.isTesting()).toBe(false);
  expect(some.core.setting("retry.max_attempts")).toBe(3);
});
