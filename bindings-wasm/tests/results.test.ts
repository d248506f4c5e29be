/** Functions under a policy: results and reports. */

import { describe, expect, test, vi } from "vitest";
import * as tidegate from "../ts/node.js";
import { explain, policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failure, gate, reset, script } from "./support/functions.js";
import { engine } from "./support/setup.js";

describe("results", () => {
  test("come back as they are, from functions of every colour", async () => {
    const some = policy({ engine: engine(), retry: {} });
    const object = {};
    expect(await some.run(() => object)).toBe(object);
    expect(await some.run(async ({ attempt }) => attempt)).toBe(1);
    class Theirs {
      // biome-ignore lint/suspicious/noThenProperty: a promise of somebody else's making
      then(done: (value: number) => void): void {
        done(7);
      }
    }
    expect(await some.run(() => new Theirs() as PromiseLike<number>)).toBe(7);
  });

  test("are tried for again where it may help", async () => {
    const some = policy({ engine: engine(), retry: { backoff: { base: 0 } } });
    expect(await some.run(script(reset(), reset(), "done"))).toBe("done");
    expect(some.snapshot()).toMatchObject({ attempts: 3, retries: 2, ends: { ok: 1 } });
  });

  test("the last error is the caller's own, and it is told why it was the last", async () => {
    const some = policy({ engine: engine(), retry: { maxAttempts: 2, backoff: { base: 0 } } });
    const last = reset();
    expect(await failure(some.run(script(reset(), last)))).toBe(last);
    expect(reportOf(last)).toEqual({
      attempts: 2,
      reason: "attempts",
      note: "gave up after 2 attempts",
      retryAt: undefined,
    });
    const mistake = Object.freeze(new TypeError("x is not a function"));
    expect(await failure(some.run(script(mistake)))).toBe(mistake);
    expect(reportOf(mistake)?.reason).toBe("not_retryable");
    expect(await failure(some.run(() => Promise.reject("a text")))).toBe("a text");
  });

  test("a result that was not the first, or counts as a failure, has a report", async () => {
    const classify = (it: unknown) => ((it as { status?: number }).status === 503 ? "transient" : undefined);
    const some = policy({ engine: engine(), classify, retry: { maxAttempts: 2, backoff: { base: 0 } } });
    const bad = { status: 503 };
    expect(await some.run(async () => bad)).toBe(bad);
    expect(reportOf(bad)).toMatchObject({
      attempts: 2,
      reason: "attempts",
      note: "gave up after 2 attempts",
    });
    expect(explain(bad)?.attempts).toBe(2);
    const other = policy({ engine: some.engine, classify, retry: { maxAttempts: 3, backoff: { base: 0 } } });
    const good = () => "a function";
    expect(await other.run(script<unknown>({ status: 503 }, good))).toBe(good);
    expect(reportOf(good)).toMatchObject({ attempts: 2, reason: "ok", note: undefined });
    const { signal } = new AbortController();
    const first = { status: 200 };
    expect(await some.run(async () => first, { signal })).toBe(first);
    expect(reportOf(first)).toBeUndefined();
    for (const value of [undefined, null, 1, "a", Symbol("s")]) expect(reportOf(value)).toBeUndefined();
  });

  test("an answer that is overtaken by none counts the hedges beside it", async () => {
    const clock = new FakeClock();
    let sent = 0;
    const some = policy({
      engine: engine({ clock }),
      hedge: { delay: 20 },
      fetch: async (_, init) => {
        sent += 1;
        await clock.sleep(sent === 1 ? 50 : 500);
        init?.signal?.throwIfAborted();
        return new Response("there");
      },
    });
    const answer = await clock.run(some.fetch("http://here.test/"));
    expect([sent, reportOf(answer)?.attempts, explain(answer)?.attempts]).toEqual([2, 2, 2]);
    await answer.text();
    await clock.run(clock.sleep(500));
  });

  test("a function that throws before it returns has failed like any other", async () => {
    const some = policy({ engine: engine(), retry: { maxAttempts: 2, backoff: { base: 0 } } });
    const errors = [reset(), reset()];
    let n = 0;
    const thrower = () => {
      throw errors[n++];
    };
    expect(await failure(some.run(thrower))).toBe(errors[1]);
  });

  test("what may happen twice is repeated only where it provably never left", async () => {
    const once = policy({ engine: engine(), retry: { backoff: { base: 0 } } }).at({ idempotent: false });
    const lost = reset();
    expect(await failure(once.run(script(lost, "again")))).toBe(lost);
    expect(reportOf(lost)?.note).toMatch(/could happen twice/);
    const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    expect(await once.run(script<string>(refused, "sent"))).toBe("sent");
  });

  test("classify says what they are, with kinds of the policy's own", async () => {
    const some = policy({
      engine: engine(),
      kinds: { spent: "throttled", other: "permanent" },
      retry: { maxAttempts: 3, retryOn: ["spent"], backoff: { base: 0 } },
      classify: (it) => (it instanceof Error ? it.message : it === "bad" ? "transient" : undefined),
    });
    expect(await some.run(script(new Error("spent"), "good"))).toBe("good");
    expect(await some.run(script("bad", "good"))).toBe("bad");
    expect(some.kinds).toEqual({ spent: "throttled", other: "permanent" });
  });

  test("a classify that breaks is told once, and breaks no call", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const broken = () => {
      throw new Error("mine");
    };
    const some = policy({ engine: engine(), classify: broken, retry: { backoff: { base: 0 } } });
    expect(await some.run(script(reset(), "done"))).toBe("done");
    expect(await some.run(script("again"))).toBe("again");
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
  });
});

describe("refusals", () => {
  test("are errors that say when to come back", async () => {
    const clock = new FakeClock();
    const some = policy({ name: "strict", engine: engine({ clock }), rateLimit: { permits: 1, per: 1000 } });
    await some.run(() => 1);
    const error = (await failure(some.run(() => 1))) as tidegate.RateLimited;
    expect(error).toBeInstanceOf(tidegate.RateLimited);
    expect(error).toBeInstanceOf(tidegate.Rejected);
    expect(error).toMatchObject({
      name: "RateLimited",
      code: "rate_limited",
      reason: "rate_limited",
      retryIn: 1000,
      httpStatus: 429,
      policy: "strict",
      route: "default",
    });
    expect(error.retryAt?.getTime()).toBeGreaterThan(Date.now());
  });

  test("of a bulkhead carry its limits", async () => {
    const some = policy({ engine: engine(), bulkhead: { maxConcurrency: 1 } });
    const { work, open } = gate();
    const first = some.run(work);
    const error = (await failure(some.run(() => "second"))) as tidegate.BulkheadFull;
    expect(error.limits).toEqual({ maxConcurrency: 1, maxQueue: 0, acquireTimeout: 1000 });
    expect(error.message).toMatch(/maxConcurrency 1, maxQueue 0, acquireTimeout 1 s/);
    open[0]?.("first");
    expect(await first).toBe("first");
  });

  test("an operator's are the first", async () => {
    const some = policy({ engine: engine(), deadline: 1000 });
    some.forceOpen();
    expect(await failure(some.run(() => 1))).toBeInstanceOf(tidegate.ForcedOpen);
    some.forceOpen(false);
    some.forceOpen(true, "eu");
    expect(await some.run(() => 1)).toBe(1);
    expect(await failure(some.at({ route: "eu" }).run(() => 1))).toBeInstanceOf(tidegate.ForcedOpen);
  });

  test("a mistake names the key as it was written, the value and the rule; all at once", () => {
    const wrong = () =>
      policy({ retry: { maxAttempts: 0, backof: {} }, deadline: -1, bulkhead: { maxQueue: 3 } } as never);
    expect(wrong).toThrow(tidegate.PolicyError);
    try {
      wrong();
    } catch (error) {
      const { mistakes } = error as tidegate.PolicyError;
      expect(mistakes.map(({ key }) => key).sort()).toEqual([
        "bulkhead.maxConcurrency",
        "deadline",
        "retry.backof",
        "retry.maxAttempts",
      ]);
      expect(mistakes.find(({ key }) => key === "retry.maxAttempts")).toEqual({
        key: "retry.maxAttempts",
        value: "0",
        rule: "must be a whole number from 1 to 255",
      });
    }
    expect(() => policy({ classify: 3 } as never)).toThrow(/classify = 3: must be a function/);
    expect(() => policy({ deadline: 5 }).at({ cost: -1 })).toThrow(
      /cost = -1: must be a whole number from 0 to 65535/,
    );
    expect(() => policy({ deadline: 5 }).at({ criticality: "high" as never })).toThrow(/criticality = high/);
  });
});
