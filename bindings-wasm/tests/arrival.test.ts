/** Behaviour before the engine's module is loaded, and when the full module takes over from the small one. */

import { expect, test, vi } from "vitest";
import type { Which } from "../ts/engine/module.js";
import type { TidegateError } from "../ts/errors/errors.js";
import { alone } from "./support/copies.js";
import { until } from "./support/server.js";
import { wasm } from "./support/wasm.js";

/** The package as in a page: no module is loaded yet. `deliver` completes the pending downloads. */
async function page() {
  alone();
  const main = await import("../ts/main.js");
  const { isFull, provide, there } = await import("../ts/engine/module.js");
  const { FakeClock } = await import("../ts/testing.js");
  const asked: Which[] = [];
  const waiting: ((how: Error | undefined) => void)[] = [];
  provide({
    later: async (which) => {
      asked.push(which);
      const error = await new Promise<Error | undefined>((go) => waiting.push(go));
      if (error !== undefined) throw error;
      return wasm(which === "small" ? "small" : "tidegate");
    },
  });
  const turns = async () => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((go) => setImmediate(go));
  };
  const deliver = async (error?: Error) => {
    await turns();
    const full = asked.at(-1) === "full";
    for (const go of waiting.splice(0)) go(error);
    if (error === undefined) await until(() => there() !== undefined && isFull() === full);
    await turns();
  };
  // Pages have no `AsyncLocalStorage`.
  const engine = (options = {}) => new main.Engine({ seed: 1, nesting: false, ...options });
  return { ...main, FakeClock, asked, deliver, turns, engine };
}

const failed = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error: unknown) => error as Error,
  );

test("policies are made at once, one download serves them, and the first call waits for it", async () => {
  const { policy, engine, asked, deliver } = await page();
  const shared = engine();
  const some = policy({ engine: shared, retry: { maxAttempts: 2 } });
  const other = policy({ engine: shared, deadline: 5000 });
  expect(asked, "what the code at hand declares is declared first").toEqual([]);
  let calls = 0;
  const answer = some.run(async () => {
    calls += 1;
    if (calls === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    return calls;
  });
  const at = other.at({ route: "x" }).run(() => "x");
  await deliver();
  expect(asked).toEqual(["small"]);
  expect([await answer, await at]).toEqual([2, "x"]);
  expect(shared.full).toBe(false);
});

test("a policy that asks for more brings the full module, and no other", async () => {
  const { policy, Pool, engine, asked, deliver, ready } = await page();
  const shared = engine();
  const plain = policy({ engine: shared, retry: {} });
  const hedged = policy({ engine: shared, hedge: { delay: 50 } });
  const pool = new Pool("db", { bulkhead: { maxConcurrency: 3 }, engine: shared });
  const pooled = policy({ engine: shared, bulkhead: { pool } });
  const all = Promise.all([plain, hedged, pooled].map((each) => each.run(() => each.name)));
  await deliver();
  expect(asked).toEqual(["full"]);
  expect(await all).toEqual([plain.name, hedged.name, pooled.name]);
  await ready();
  expect(pool.snapshot().pool?.limit).toBe(3);
});

test("what the small module turns out to lack comes from the full one", async () => {
  const { policy, engine, asked, deliver } = await page();
  const shared = engine();
  policy({ engine: shared, retry: {} });
  await deliver();
  const some = policy({
    engine: shared,
    bulkhead: { kind: "aimd", maxConcurrency: 4, latencyThreshold: 50 },
  });
  const answer = some.run(() => 7);
  await deliver();
  expect(asked).toEqual(["small", "full"]);
  expect(await answer).toBe(7);
});

test("a word that the small module does not know is the full one's to judge", async () => {
  const { policy, engine, asked, deliver } = await page();
  const shared = engine();
  policy({ engine: shared, retry: {} });
  await deliver();
  const reported: unknown[] = [];
  vi.stubGlobal("reportError", (error: unknown) => reported.push(error));
  // @ts-expect-error a kind that nobody declares
  policy({ engine: shared, retry: { retryOn: ["reset"] } });
  await deliver();
  vi.unstubAllGlobals();
  expect(asked).toEqual(["small", "full"]);
  expect(reported.map(String)).toEqual([
    expect.stringMatching(/^PolicyError: retry\.retryOn = "reset": must be one of .*never_sent/),
  ]);
});

test("a mistake is reported as soon as the module is there, and at once from then on", async () => {
  const { policy, PolicyError, ready, engine, deliver, turns } = await page();
  const shared = engine();
  const reported: unknown[] = [];
  vi.stubGlobal("reportError", (error: unknown) => reported.push(error));
  const wrong = policy({ engine: shared, retry: { maxAttempts: 0 } });
  const call = failed(wrong.run(() => 1));
  const there = failed(ready());
  await turns();
  expect(reported).toEqual([]);
  await deliver();
  vi.unstubAllGlobals();
  const message = "retry.maxAttempts = 0: must be a whole number from 1 to 255";
  expect(reported.map(String)).toEqual([`PolicyError: ${message}`]);
  expect(await call).toBe(reported[0]);
  expect(await there).toBe(reported[0]);
  expect(await failed(wrong.run(() => 1)), "and every later call").toBe(reported[0]);
  expect(() => policy({ engine: shared, retry: { maxAttempts: 0 } })).toThrow(PolicyError);
});

test("what cannot wait says how to", async () => {
  const { policy, engine, explain, NotReady, ready, deliver } = await page();
  const shared = engine();
  const some = policy({ engine: shared, retry: {} });
  const each = [
    () => some.snapshot(),
    () => some.explain(),
    () => some.retune({}),
    () => some.forceOpen(),
    () => some.kinds,
    () => some.outcomeOf(503),
    () => shared.save(),
    () => shared.restore({ at: 0, state: {} }),
  ];
  for (const work of each) expect(work).toThrow(NotReady);
  expect(() => some.snapshot()).toThrow(/await ready\(\) first/);
  const small = ready();
  await deliver();
  await small;
  const error = (await failed(some.run(() => Promise.reject(new TypeError("a mistake"))))) as Error;
  const late = (await failed(some.run(() => new Promise(() => {}), { deadline: 1 }))) as TidegateError;
  each.push(
    () => explain(error),
    () => late.explain(),
  );
  expect(some.outcomeOf(503, { "retry-after": "1" })).toMatchObject({ kind: "transient", retryAfter: 1000 });
  for (const work of each.filter((work) => !/kinds|outcomeOf/.test(String(work)))) {
    expect(work).toThrow(/await ready\(\{ full: true \}\) first/);
  }
  const full = ready({ full: true });
  await deliver();
  await full;
  expect(some.snapshot().attempts).toBe(2);
  expect(some.explain().policy).toBe(some.name);
  // The full engine has replayed the calls of the small one, so it knows why they ended.
  expect([explain(error)?.reason, late.explain()?.reason]).toEqual(["not_retryable", "deadline"]);
});

test("where the module cannot be loaded, calls fail with one error, and a later one tries again", async () => {
  const { policy, engine, ModuleUnavailable, deliver, asked } = await page();
  const shared = engine();
  const some = policy({ engine: shared, retry: {} });
  const standing = policy({ engine: shared, retry: {}, fallback: () => "instead" });
  const calls = [failed(some.run(() => 1)), failed(some.run(() => 1))];
  const instead = standing.run(() => "itself");
  const cause = new Error("https://x/small.wasm answered 404");
  await deliver(cause);
  const [error, again] = await Promise.all(calls);
  expect(error).toBeInstanceOf(ModuleUnavailable);
  expect(error).toBe(again);
  expect(error).toMatchObject({ code: "module_unavailable", httpStatus: 503, cause });
  expect(error?.message).toMatch(/small\.wasm cannot be loaded: .* answered 404.*"tidegate\/inline"/);
  expect(await instead).toBe("instead");
  expect(await failed(some.run(() => 1)), "nobody tries again at once").toBe(error);
  const now = performance.now();
  vi.spyOn(performance, "now").mockImplementation(() => now + 2000);
  const later = some.run(() => 2);
  await deliver();
  vi.restoreAllMocks();
  expect(await later).toBe(2);
  expect(asked).toEqual(["small", "small"]);
});

test("a call that waits for the module keeps its deadline and its signal", async () => {
  const { policy, engine, DeadlineExceeded, deliver } = await page();
  const shared = engine();
  const some = policy({ engine: shared, deadline: 60_000, retry: {} });
  const brief = policy({ engine: shared, deadline: 1 });
  const control = new AbortController();
  const stopped = failed(some.run(() => 1, { signal: control.signal }));
  control.abort(new Error("enough"));
  expect((await stopped)?.message).toBe("enough");
  const fetched = failed(some.fetch("http://127.0.0.1:1/", { signal: control.signal }));
  expect((await fetched)?.message).toBe("enough");
  expect(await failed(brief.run(() => 1))).toBeInstanceOf(DeadlineExceeded);
  expect(await failed(some.run(() => 1, { deadline: 1 }))).toMatchObject({ reason: "deadline_before" });
  await deliver();
  expect(await some.run(() => 1)).toBe(1);
});

test("methods of a wrapped object wait too, and a wrap that is a mistake is reported", async () => {
  const { policy, engine, deliver } = await page();
  const reported: unknown[] = [];
  vi.stubGlobal("reportError", (error: unknown) => reported.push(error));
  const some = policy({ engine: engine(), retry: {} });
  const client = { read: async (id: string) => id.length };
  const under = some.wrap(client, { methods: ["read"] });
  const careless = some.wrap(client);
  const answers = [under.read("abc"), failed(careless.read("abc"))];
  await deliver();
  vi.unstubAllGlobals();
  expect(await answers[0]).toBe(3);
  expect(await answers[1]).toBe(reported[0]);
  expect(String(reported[0])).toMatch(/name the methods that may be repeated/);
  expect(await under.read("ab")).toBe(2);
});

/** Plays the same calls on an engine: some fail, some queue, and some are in flight while `between` runs. */
async function played(
  { policy, FakeClock, engine }: Awaited<ReturnType<typeof page>>,
  between: (used: ReturnType<Awaited<ReturnType<typeof page>>["engine"]>) => Promise<void>,
  settled: () => Promise<void>,
) {
  const clock = new FakeClock();
  const shared = engine({ clock });
  const some = policy({
    engine: shared,
    name: "some",
    deadline: 60_000,
    retry: { maxAttempts: 4, backoff: { base: 100 } },
    bulkhead: { maxConcurrency: 2, maxQueue: 10, acquireTimeout: 30_000 },
    breaker: { consecutive: 50, breakDuration: 1000 },
  });
  const limited = policy({ engine: shared, name: "limited", rateLimit: { permits: 3, per: 60_000 } });
  await settled();
  const ends: ((error?: Error) => void)[] = [];
  const log: string[] = [];
  const work = (name: string) => () =>
    new Promise<string>((done, fail) =>
      ends.push((error) => (error === undefined ? done(name) : fail(error))),
    );
  const calls = ["a", "b", "c", "d"].map((name) =>
    some
      .at({ route: name < "c" ? "one" : "two" })
      .run(work(name))
      .then(
        (value) => log.push(`${value} at ${clock.us()}`),
        (error) => log.push(String(error)),
      ),
  );
  for (let n = 0; n < 4; n += 1) {
    calls.push(
      limited
        .run(() => `limited ${n}`)
        .then(
          (value) => log.push(value),
          (error) => log.push(String(error.code)),
        ),
    );
  }
  const reset = () => Object.assign(new Error("reset"), { code: "ECONNRESET" });
  const turn = async (ms: number) => {
    await clock.advance(ms);
    for (let n = 0; n < 20; n += 1) await Promise.resolve();
  };
  await turn(10);
  for (const end of ends.splice(0, 2)) end(reset());
  await turn(20);
  await between(shared);
  await turn(500);
  for (const end of ends.splice(0, 1)) end(reset());
  for (let n = 0; n < 20 && ends.length > 0; n += 1) {
    for (const end of ends.splice(0)) end();
    await turn(500);
  }
  await Promise.all(calls);
  const { policies, routes } = shared.snapshot();
  return { log, policies, routes };
}

test("the full module takes over while calls are under way, and decides as if it had always been there", async () => {
  const small = await page();
  const events: string[] = [];
  const taken = await played(
    small,
    async (engine) => {
      expect(engine.full).toBe(false);
      engine.listen(({ type, policy }) => events.push(`${policy} ${type}`));
      const ready = small.ready({ full: true });
      await small.deliver();
      await ready;
      expect(engine.full).toBe(true);
    },
    () => small.deliver(),
  );
  expect(small.asked).toEqual(["small", "full"]);
  const full = await page();
  const known: string[] = [];
  const whole = await played(
    full,
    async (engine) => {
      expect(engine.full).toBe(true);
      engine.listen(({ type, policy }) => known.push(`${policy} ${type}`));
    },
    async () => {
      const ready = full.ready({ full: true });
      await full.deliver();
      await ready;
    },
  );
  expect(full.asked).toEqual(["full"]);
  expect(taken).toEqual(whole);
  expect(taken.log.length).toBe(8);
  expect(taken.policies["some"]?.retries).toBeGreaterThan(0);
  expect(events).toEqual(known);
  expect(events.length).toBeGreaterThan(5);
});

test("what happens between a subscription and the full module is told when that comes", async () => {
  const { policy, engine, deliver, turns } = await page();
  const shared = engine();
  const some = policy({ engine: shared, name: "some", retry: { maxAttempts: 2, backoff: { base: 0 } } });
  await deliver();
  const types: string[] = [];
  some.on("*", ({ type }) => types.push(type));
  let calls = 0;
  await some.run(async () => {
    calls += 1;
    if (calls === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
  });
  await turns();
  expect(types, "the full module is still to come").toEqual([]);
  await deliver();
  expect(types).toContain("retry_scheduled");
});

test("a link that is down before a module is there, or when the full one takes over, stays down", async () => {
  const { policy, engine, deliver, FakeClock } = await page();
  const clock = new FakeClock();
  const shared = engine({ clock });
  shared.setLink("offline");
  const some = policy({ engine: shared, deadline: 60_000, retry: { backoff: { base: 0 } } });
  let attempts = 0;
  const answer = some.run(async () => {
    attempts += 1;
    if (attempts === 1) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    return attempts;
  });
  await deliver();
  expect(shared.full).toBe(false);
  await clock.advance(5000);
  expect(attempts).toBe(1);
  policy({ engine: shared, hedge: { delay: 50 } });
  await deliver();
  expect(shared.full).toBe(true);
  await clock.advance(5000);
  expect(attempts).toBe(1);
  shared.setLink("ok");
  await clock.advance(1000);
  expect(await answer).toBe(2);
});
