/** Functions under a policy: what comes back, and what is left behind. */

import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, test, vi } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { engine, turns } from "./support/setup.js";

function reset(): Error {
  return Object.assign(new Error("reset"), { code: "ECONNRESET" });
}

/** A function that answers these in order: errors are thrown. */
function script<T>(...answers: (T | Error)[]): () => Promise<T> {
  return async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer as T;
  };
}

/** What a promise that has to fail fails with. */
async function failure(promise: Promise<unknown>): Promise<unknown> {
  const settled = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ("value" in settled) throw new Error(`it did not fail: ${String(settled.value)}`);
  return settled.error;
}

/** A function whose attempts end when the test says so. */
function gate(): {
  work: (attempt: tidegate.Attempt) => Promise<string>;
  open: ((value: string) => void)[];
  aborted: unknown[];
} {
  const open: ((value: string) => void)[] = [];
  const aborted: unknown[] = [];
  const work = ({ signal }: tidegate.Attempt) =>
    new Promise<string>((resolve, reject) => {
      open.push(resolve);
      signal.addEventListener("abort", () => {
        aborted.push(signal.reason);
        reject(signal.reason);
      });
    });
  return { work, open, aborted };
}

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

describe("time", () => {
  test("backoff, queue and deadline pass on a fake clock", async () => {
    const clock = new FakeClock();
    const some = policy({
      engine: engine({ clock }),
      retry: { maxAttempts: 5, backoff: { base: 60_000, max: 600_000 } },
    });
    const done = some.run(script<string>(reset(), reset(), reset(), "at last"));
    await clock.advance(600_000);
    expect(await done).toBe("at last");
  });

  test("an attempt that is too slow is stopped, and its signal says why", async () => {
    const clock = new FakeClock();
    const some = policy({
      engine: engine({ clock }),
      attemptTimeout: 50,
      retry: { maxAttempts: 2, backoff: { base: 0 } },
    });
    const { work, aborted } = gate();
    const caught = failure(some.run(work));
    await clock.advance(200);
    const error = (await caught) as tidegate.AttemptTimeout;
    expect(error).toBeInstanceOf(tidegate.AttemptTimeout);
    expect(error.httpStatus).toBe(504);
    expect(aborted).toHaveLength(2);
    expect(aborted[1]).toBe(error);
    expect(reportOf(error)).toMatchObject({ attempts: 2, reason: "attempts" });
    expect(clock.now()).toBe(200);
  });

  test("a function that does not stop does not hold its caller up; its slot it does", async () => {
    const clock = new FakeClock();
    const some = policy({ engine: engine({ clock }), attemptTimeout: 50, bulkhead: { maxConcurrency: 1 } });
    let end: (value: string) => void = () => undefined;
    const deaf = () => new Promise<string>((resolve) => (end = resolve));
    const caught = failure(some.run(deaf));
    await clock.advance(60);
    expect(await caught).toBeInstanceOf(tidegate.AttemptTimeout);
    expect(await failure(some.run(() => "next"))).toBeInstanceOf(tidegate.BulkheadFull);
    end("late");
    await turns();
    expect(await some.run(() => "next")).toBe("next");
  });

  test("a deadline ends the call wherever it stands", async () => {
    const clock = new FakeClock();
    const some = policy({
      engine: engine({ clock }),
      deadline: 100,
      bulkhead: { maxConcurrency: 1, maxQueue: 5, acquireTimeout: 1000 },
    });
    const { work, aborted } = gate();
    const running = failure(some.run(work));
    const queued = failure(some.run(() => "queued"));
    await clock.advance(100);
    const error = (await running) as tidegate.DeadlineExceeded;
    expect([error.name, error.reason]).toEqual(["DeadlineExceeded", "deadline"]);
    expect(await queued).toMatchObject({ name: "DeadlineExceeded", reason: "deadline_queued" });
    expect(aborted).toHaveLength(1);
    expect(await failure(some.run(() => 1, { deadline: 0 }))).toMatchObject({ reason: "deadline_before" });
    expect(() => some.at({ deadline: Number.NaN })).toThrow(/deadline = NaN/);
  });

  test("a queue hands its slot on in order", async () => {
    const some = policy({ engine: engine(), bulkhead: { maxConcurrency: 1, maxQueue: 10 } });
    const { work, open } = gate();
    const calls = [some.run(work), some.run(work), some.run(work)];
    for (const [place, call] of calls.entries()) {
      await turns();
      expect(open).toHaveLength(place + 1);
      open[place]?.(`call ${place}`);
      expect(await call).toBe(`call ${place}`);
    }
  });
});

describe("hedges", () => {
  test("start beside a slow attempt; the first good answer wins, and the loser is stopped", async () => {
    const clock = new FakeClock();
    const some = policy({ engine: engine({ clock }), hedge: { delay: 30, maxAttempts: 2 } });
    const { work, open, aborted } = gate();
    const call = some.run(work);
    await clock.advance(29);
    expect(open).toHaveLength(1);
    await clock.advance(1);
    expect(open).toHaveLength(2);
    open[1]?.("the second");
    expect(await call).toBe("the second");
    expect(aborted).toHaveLength(1);
    expect(some.snapshot()).toMatchObject({ attempts: 2, hedges: 1, retries: 0 });
  });

  test("a failure while another attempt runs waits for that", async () => {
    const clock = new FakeClock();
    const some = policy({ engine: engine({ clock }), hedge: { delay: 10 }, retry: { maxAttempts: 2 } });
    let n = 0;
    const ends: { resolve: (value: string) => void; reject: (error: Error) => void }[] = [];
    const call = some.run(() => {
      n += 1;
      return new Promise<string>((resolve, reject) => ends.push({ resolve, reject }));
    });
    await clock.advance(10);
    expect(n).toBe(2);
    ends[0]?.reject(reset());
    await turns();
    ends[1]?.resolve("survivor");
    expect(await call).toBe("survivor");
  });
});

describe("a caller who gives up", () => {
  test("gets the reason of the signal, at once and everywhere", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const some = policy({
      engine: lab,
      bulkhead: { maxConcurrency: 1, maxQueue: 5 },
      retry: { backoff: { base: 1000 } },
    });
    const why = new Error("never mind");
    // Before it has begun.
    expect(await failure(some.run(() => 1, { signal: AbortSignal.abort(why) }))).toBe(why);
    expect(lab.snapshot().policies[some.name]?.attempts).toBe(0);
    // While it runs.
    const { work, aborted } = gate();
    const running = new AbortController();
    const one = failure(some.run(work, { signal: running.signal }));
    // While it queues.
    const queued = new AbortController();
    const two = failure(some.run(() => 2, { signal: queued.signal }));
    queued.abort(why);
    expect(await two).toBe(why);
    running.abort(why);
    expect(await one).toBe(why);
    expect(aborted).toEqual([why]);
    // While it waits for its next attempt.
    const waiting = new AbortController();
    const three = failure(some.run(script(reset()), { signal: waiting.signal }));
    await turns();
    waiting.abort(why);
    expect(await three).toBe(why);
    // While its function has not even returned.
    const within = new AbortController();
    const four = some.run(
      () => {
        within.abort(why);
        return "too late";
      },
      { signal: within.signal },
    );
    expect(await failure(four)).toBe(why);
    expect(some.snapshot().ends).toEqual({ cancelled: 4 });
  });

  test("leaves no listener: 100,000 calls on one signal", async () => {
    const some = policy({ engine: engine(), retry: {} });
    const { signal } = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...args: never[]) => {
      listeners += 1;
      Reflect.apply(addEventListener, signal, args);
    };
    signal.removeEventListener = (...args: never[]) => {
      listeners -= 1;
      Reflect.apply(removeEventListener, signal, args);
    };
    let most = 0;
    for (let n = 0; n < 100_000; n += 1) {
      const call = some.run(async () => n, { signal });
      most = Math.max(most, listeners);
      await call;
      if (most > 1) break;
    }
    expect([most, listeners]).toEqual([1, 0]);
  });
});

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
      retry: { maxAttempts: 2, backoff: { base: 100, jitter: "none" } },
    });
    const hedging = policy({ engine: lab, hedge: { delay: 100 } });
    const queueing = policy({ engine: lab, bulkhead: { maxConcurrency: 1, maxQueue: 5 } });
    const seen: string[] = [];
    const ask = async (user: string) => {
      await retrying.run(({ attempt }) => {
        seen.push(`${user} retry ${attempt} ${users.getStore()}`);
        if (attempt === 1) throw reset();
      });
      await hedging.run(({ attempt }) => {
        seen.push(`${user} hedge ${attempt} ${users.getStore()}`);
        return attempt === 1 ? new Promise<void>(() => undefined) : undefined;
      });
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

describe("documents", () => {
  test("hold policies and pools, in the keys and units of every language", async () => {
    const { reads, writes } = tidegate.load(
      {
        pool: { db: { bulkhead: { max_concurrency: 1 } } },
        policy: {
          reads: { preset: "http", deadline: "1.5s", bulkhead: { pool: "db", acquire_timeout: "250ms" } },
          writes: { kinds: { stale: "conflict" }, retry: { retry_on: ["stale"], backoff: { base: "1ms" } } },
        },
      },
      { engine: engine() },
    ) as Record<string, tidegate.Policy>;
    expect(String(reads?.explain())).toMatch(/deadline: 1\.5s/);
    expect(String(reads?.explain())).toMatch(/acquire_timeout 250ms/);
    expect(await writes?.run(() => "written")).toBe("written");
  });

  test("all mistakes at once, with their place", () => {
    const wrong = { policy: { a: { deadline: 5 }, b: { retry: { max_attempts: 0 } } }, polices: {} };
    try {
      tidegate.load(JSON.stringify(wrong), { engine: engine() });
      expect.unreachable();
    } catch (error) {
      expect((error as tidegate.PolicyError).mistakes.map(({ key }) => key)).toEqual([
        "polices",
        "policy.a.deadline",
        "policy.b.retry.max_attempts",
      ]);
    }
    expect(() => tidegate.load("{")).toThrow(/must be JSON/);
  });
});

describe("wrap", () => {
  class Client {
    #rows = 3;
    calls = 0;
    async read(): Promise<number> {
      this.calls += 1;
      if (this.calls === 1) throw reset();
      return this.#rows;
    }
    async write(): Promise<string> {
      this.calls += 1;
      throw reset();
    }
    async *rows(): AsyncGenerator<number> {
      yield 1;
    }
  }

  test("puts the methods that are named behind the policy", async () => {
    const some = policy({ engine: engine(), retry: { backoff: { base: 0 } } });
    const client = some.wrap(new Client(), { methods: ["read"] });
    expect(await client.read()).toBe(3);
    expect(client.calls).toBe(2);
    await failure(client.write());
    expect(client.calls).toBe(3);
    expect(Object.keys(some.snapshot().routes)).toEqual(["read"]);
    expect(client.read).toBe(client.read);
  });

  test("refuses to repeat writes that nobody has named", async () => {
    const repeats = policy({ engine: engine(), retry: {} });
    expect(() => repeats.wrap(new Client())).toThrow(/name the methods/);
    const races = policy({ engine: engine(), retry: { retryOn: ["never_sent"] }, hedge: { delay: 10 } });
    expect(() => races.wrap(new Client())).toThrow(/name the methods/);
    expect(() => repeats.wrap(new Client(), { methods: ["raed" as "read"] })).toThrow(/"raed" is no method/);
    const careful = policy({ engine: engine(), retry: { retryOn: ["never_sent"] } });
    const client = careful.wrap(new Client());
    await failure(client.write());
    expect(client.calls).toBe(1);
    const rows: number[] = [];
    for await (const row of client.rows()) rows.push(row);
    expect(rows).toEqual([1]);
  });
});
