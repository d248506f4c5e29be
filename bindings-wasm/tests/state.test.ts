/** State of policies: the scope around a call, events, saved state, changed settings, pools. */

import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, test, vi } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failure, gate, hang, reset, script } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

describe("around and inside", () => {
  test("a call inside another does not multiply its retries, also after an await", async () => {
    const lab = engine();
    const outer = policy({ engine: lab, retry: { maxAttempts: 3, backoff: { base: 0 } } });
    const inner = policy({ engine: lab, retry: { maxAttempts: 3, backoff: { base: 0 } } });
    let tries = 0;
    const error = await failure(
      outer.run(async () => {
        await turns();
        return inner.run(() => {
          tries += 1;
          throw reset();
        });
      }),
    );
    expect(tries).toBe(3);
    expect(inner.snapshot()).toMatchObject({ attempts: 3, ends: { nested: 3 } });
    expect(reportOf(error)?.reason).toBe("attempts");
  });

  test("a call inside another shares its slot", async () => {
    const some = policy({ engine: engine(), bulkhead: { maxConcurrency: 1 } });
    expect(await some.run(async () => some.run(() => "inside"))).toBe("inside");
  });

  test("attempts that a timer or another call starts have what was around their own call", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const users = new AsyncLocalStorage<string>();
    const retrying = policy({
      engine: lab,
      retry: { maxAttempts: 2, budget: { kind: "window" }, backoff: { base: 100, jitter: "none" } },
    });
    const hedging = policy({ engine: lab, hedge: { delay: 100 } });
    const queueing = policy({ engine: lab, bulkhead: { maxConcurrency: 1, maxQueue: 5 } });
    const seen: string[] = [];
    const ask = async (user: string) => {
      await retrying.run(({ attempt }) => {
        seen.push(`${user} retry ${attempt} ${users.getStore()}`);
        if (attempt === 1) throw reset();
      });
      await hedging.run(
        (attempt) => {
          seen.push(`${user} hedge ${attempt.attempt} ${users.getStore()}`);
          return attempt.attempt === 1 ? hang(attempt) : undefined;
        },
        { route: user },
      ); // has a budget of its own
      await queueing.run(async () => {
        await clock.sleep(100);
        seen.push(`${user} queue 1 ${users.getStore()}`);
      });
    };
    const asked = Promise.all(["ann", "bob"].map((user) => users.run(user, () => ask(user))));
    await clock.advance(1000);
    await asked;
    expect(seen).toHaveLength(10);
    for (const line of seen) expect(line.startsWith(line.split(" ")[3] ?? "")).toBe(true);
  });

  test("deadlines and criticality hold for everything inside", async () => {
    const clock = new FakeClock();
    const some = policy({ engine: engine({ clock }), retry: { backoff: { base: 5000, jitter: "none" } } });
    const late = await tidegate.within({ deadline: 1000 }, () =>
      tidegate.within({ deadline: 60_000 }, async () => {
        await turns();
        return failure(some.run(script(reset())));
      }),
    );
    expect(reportOf(late)?.reason).toBe("would_outlive_deadline");
    expect(await tidegate.within({ deadline: 0 }, () => failure(some.run(() => 1)))).toMatchObject({
      reason: "deadline_before",
    });
    const shop = policy({
      engine: engine({ clock }),
      bulkhead: { maxConcurrency: 1, maxQueue: 1, prioritized: true },
    });
    const { work, open } = gate();
    const first = shop.run(work);
    const low = tidegate.within({ criticality: "best_effort" }, () => failure(shop.run(() => "low")));
    const high = tidegate.within({ criticality: "critical" }, () => shop.run(() => "high"));
    expect(await low).toMatchObject({ reason: "displaced" });
    open[0]?.("first");
    expect([await first, await high]).toEqual(["first", "high"]);
  });
});

describe("events", () => {
  test("tell what happened, until they are disposed of", async () => {
    const some = policy({ name: "told", engine: engine(), retry: { backoff: { base: 0 } } });
    const other = policy({ engine: some.engine, retry: {} });
    const seen: tidegate.TidegateEvent[] = [];
    const all = some.on("*", (event) => seen.push(event));
    const retries: string[] = [];
    some.on("retry_scheduled", ({ type }) => retries.push(type));
    await some.run(script(reset(), "done"));
    await other.run(() => 1);
    expect(seen.map(({ type }) => type)).toEqual([
      "attempt_started",
      "attempt_done",
      "retry_scheduled",
      "attempt_started",
      "attempt_done",
      "call_done",
    ]);
    expect(seen[1]).toMatchObject({ policy: "told", route: "default", attempt: 1, kind: "transient" });
    expect(seen[5]).toMatchObject({ reason: "ok", attempt: 2 });
    expect(retries).toEqual(["retry_scheduled"]);
    all.dispose();
    all.dispose();
    await some.run(() => 1);
    expect(seen).toHaveLength(6);
  });

  test("of a call that works are there when it has ended", async () => {
    const some = policy({ engine: engine(), retry: {} });
    const seen: string[] = [];
    some.on("*", ({ type }) => seen.push(type));
    await some.run(async () => 1);
    expect(seen).toEqual(["attempt_started", "attempt_done", "call_done"]);
  });

  test("a listener that fails breaks nothing", async () => {
    const loud = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const some = policy({ engine: engine(), retry: {} });
    const subscription = some.on("*", () => {
      throw new Error("mine");
    });
    expect(await some.run(() => "fine")).toBe("fine");
    expect(loud).toHaveBeenCalled();
    subscription.dispose();
    loud.mockRestore();
  });
});

describe("state", () => {
  test("is saved as JSON, and goes on elsewhere", async () => {
    const settings = { name: "kept", breaker: { consecutive: 1, breakDuration: 60_000 } };
    const old = policy({ ...settings, engine: engine() });
    await failure(old.run(script(reset())));
    const saved = JSON.parse(JSON.stringify(old.engine.save())) as tidegate.SavedState;
    const fresh = policy({ ...settings, engine: engine() });
    expect(fresh.engine.restore(saved)).toEqual({ routes: 1, leftOut: 0, unknown: [], dropped: [] });
    expect(await failure(fresh.run(() => 1))).toBeInstanceOf(tidegate.BreakerOpen);
    expect(() => fresh.engine.restore(saved)).toThrow(/before an engine's first call/);
    expect(() => engine().restore({ at: 0, state: { no: "state" } })).toThrow(tidegate.TidegateError);
  });

  test("keeps numbers with a fraction", async () => {
    const settings = {
      name: "kept",
      bulkhead: { kind: "aimd", maxConcurrency: 20, latencyThreshold: 30, backoffRatio: 0.77 },
    } as const;
    const clock = new FakeClock();
    const old = policy({ ...settings, engine: engine({ clock }) });
    await clock.run(old.run(() => clock.sleep(100)));
    const saved = JSON.parse(JSON.stringify(old.engine.save())) as tidegate.SavedState;
    const limit = old.snapshot().routes["default"]?.pool?.limit;
    expect(limit).toBe(15);
    const fresh = policy({ ...settings, engine: engine({ clock: new FakeClock() }) });
    expect(fresh.engine.restore(saved)).toMatchObject({ routes: 1 });
    await fresh.run(() => 1);
    expect(fresh.snapshot().routes["default"]?.pool?.limit).toBe(limit);
    const damaged = JSON.parse(JSON.stringify(saved).replace('"15.4"', '"much"')) as tidegate.SavedState;
    const other = policy({ ...settings, engine: engine() });
    expect(() => other.engine.restore(damaged)).toThrow(
      'saved state, policy "kept", route "default", limit: must be a finite number',
    );
  });

  test("a document that takes another's name is told which", () => {
    const lab = engine();
    const shop = tidegate.load('{"policy": {"shop": {"deadline": "1s"}}}', { engine: lab });
    const held = shop.get("shop");
    shop.reload('{"policy": {}}');
    expect(() => shop.reload('{"policy": {"shop": {"deadline": "2s"}}}')).toThrow(
      'policy = "shop": the engine has one',
    );
    expect(held.explain().maxTime).toBe(1000);
  });

  test("settings change while calls wait", async () => {
    const some = policy({ engine: engine(), bulkhead: { maxConcurrency: 1, maxQueue: 5 } });
    const { work, open } = gate();
    const calls = [some.run(work), some.run(work)];
    some.retune({ bulkhead: { maxConcurrency: 2, maxQueue: 5 } });
    await turns();
    expect(open).toHaveLength(2);
    for (const each of open) each("done");
    expect(await Promise.all(calls)).toEqual(["done", "done"]);
    expect(() => some.retune({ bulkhead: { maxConcurrency: 0 } })).toThrow(tidegate.PolicyError);
    expect(String(some.explain())).toMatch(/max_concurrency 2/);
  });

  test("pools are shared", async () => {
    const lab = engine();
    const pool = new tidegate.Pool("db", { bulkhead: { maxConcurrency: 1 }, engine: lab });
    const reads = policy({ engine: lab, bulkhead: { pool } });
    const writes = policy({ engine: lab, bulkhead: { pool: "db" } });
    const { work, open } = gate();
    const reading = reads.run(work);
    expect(await failure(writes.run(() => 1))).toBeInstanceOf(tidegate.BulkheadFull);
    pool.retune({ bulkhead: { maxConcurrency: 2 } });
    expect(await writes.run(() => 1)).toBe(1);
    expect(pool.snapshot().pool?.limit).toBe(2);
    open[0]?.("read");
    expect(await reading).toBe("read");
  });
});
