/**
 * The rules for adapters that are tested best against a server in memory, by number and for every adapter. The other rules are in
 * `fetch.test.ts` and `undici.test.ts`; `rules.test.ts` checks that no rule is missing.
 */

import { describe, expect, test, vi } from "vitest";
import { type PolicyOptions, within } from "../ts/node.js";
import { assertIdle, FakeClock } from "../ts/testing.js";
import { ADAPTERS, type Far } from "./support/adapters.js";
import { reset } from "./support/functions.js";
import { random } from "./support/random.js";
import { engine } from "./support/setup.js";

const NAMES = Object.keys(ADAPTERS) as (keyof typeof ADAPTERS)[];

/** A server that answers only when the signal aborts. */
const hangs: Far = (_attempt, _headers, signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

describe.each(NAMES)("%s", (name) => {
  const made = (settings: PolicyOptions, far: Far) => ADAPTERS[name](settings, far);

  test.each(["floor", "exact"] as const)(
    "5: with 1,000 trials no retry is early (%s)",
    async (mode) => {
      const draw = random();
      const clock = new FakeClock();
      const lab = engine({ clock, seed: Math.floor(draw() * 2 ** 32) });
      const wall = vi
        .spyOn(Date, "now")
        .mockImplementation(() => 1_700_000_000_123 + Math.floor(clock.now()));
      let [asked, at, over, early] = [0, 0, 0, 0];
      const waits: number[] = [];
      const retry = { maxAttempts: 2, retryAfter: mode, maxRetryAfter: 60_000, backoff: { base: 50 } };
      const { ask } = made(
        { engine: lab, preset: "http", retry: { ...retry, budget: "none" }, deadline: 120_000 },
        (attempt) => {
          if (attempt % 2 === 0) {
            const waited = clock.now() - at;
            if (waited < asked) early += 1;
            if (waited > asked * 1.1 + 1) over += 1;
            waits.push(waited);
            return { status: 200 };
          }
          at = clock.now();
          asked = Math.floor(draw() * 60_000);
          const date = new Date(Date.now() + asked).toUTCString();
          const form = draw();
          if (form < 0.4) return { status: 429, headers: { "retry-after-ms": String(asked) } };
          if (form < 0.8) {
            asked = Math.ceil(asked / 1000) * 1000;
            return { status: 503, headers: { "retry-after": String(asked / 1000) } };
          }
          // A date has whole seconds of the wall clock, and the wait must not end before that moment.
          asked = Math.max(Date.parse(date) - Date.now(), 0);
          return { status: 503, headers: { "retry-after": date } };
        },
      );
      for (let trial = 0; trial < 1000; trial += 1) {
        const got = await clock.run(ask());
        expect(got.status).toBe(200);
        await got.text();
      }
      wall.mockRestore();
      expect(waits).toHaveLength(1000);
      expect(early).toBe(0);
      expect(over).toBeLessThan(mode === "exact" ? 20 : 60); // the backoff may exceed the wait that was asked for
      expect(new Set(waits).size).toBeGreaterThan(mode === "exact" ? 300 : 900);
    },
    60_000,
  );

  describe("10: clocks", () => {
    test("that are injected drive every wait", async () => {
      const clock = new FakeClock();
      const { ask, some } = made(
        {
          engine: engine({ clock }),
          preset: "http",
          attemptTimeout: 10_000,
          deadline: 300_000,
          retry: { maxAttempts: 4, backoff: { base: 30_000, max: 30_000, jitter: "none" } },
          bulkhead: { maxConcurrency: 1, maxQueue: 5, acquireTimeout: 200_000 },
        },
        (attempt, headers, signal) => {
          if (attempt === 1) return { status: 503 };
          if (attempt === 2) return hangs(attempt, headers, signal);
          return { status: 200, body: ["there"] };
        },
      );
      const real = performance.now();
      const both = Promise.all([ask().then((got) => got.text()), ask().then((got) => got.text())]);
      expect(await clock.run(both)).toEqual(["there", "there"]);
      expect(clock.now()).toBe(70_000); // 30 s, an attempt of 10 s, 30 s; the second call waits for the slot
      expect(performance.now() - real).toBeLessThan(60_000);
      expect(some.snapshot().attempts).toBe(4);
    });

    test("of test frameworks do too, with no set-up", async () => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
      try {
        const { ask } = made(
          {
            engine: engine(),
            preset: "http",
            retry: { backoff: { base: 20_000, max: 20_000, jitter: "none" } },
          },
          (attempt) => ({ status: attempt === 1 ? 503 : 200 }),
        );
        const going = ask({ tidegate: { deadline: 60_000 } });
        let done = false;
        void going.then(() => {
          done = true;
        });
        await vi.advanceTimersByTimeAsync(19_900);
        expect(done).toBe(false);
        await vi.advanceTimersByTimeAsync(200);
        expect((await going).status).toBe(200);
      } finally {
        vi.useRealTimers();
      }
    });

    test("that jump by hours end a wait once, and make no burst", async () => {
      const clock = new FakeClock();
      const { ask, some } = made(
        { engine: engine({ clock }), preset: "http", deadline: 10_000_000 },
        (attempt) => ({ status: attempt === 1 ? 503 : 200 }),
      );
      const going = ask();
      await clock.advance(0);
      await clock.advance(5 * 3_600_000);
      expect((await going).status).toBe(200);
      expect(some.snapshot().attempts).toBe(2);
    });
  });

  describe("12: finite, safe, on by default", () => {
    test("three attempts, spread, capped before the draw, and never at once", async () => {
      const clock = new FakeClock();
      const times: number[] = [];
      const unbounded = { retry: { budget: { kind: "none" as const } } };
      const { ask } = made({ engine: engine({ clock }), preset: "http", ...unbounded }, () => {
        times.push(clock.now());
        return { status: 503 };
      });
      const waits: [number, number][] = [];
      for (let n = 0; n < 30; n += 1) {
        times.length = 0;
        const got = await clock.run(ask());
        expect([got.status, got.report()?.reason]).toEqual([503, "attempts"]);
        const [first = 0, second = 0, third = 0] = times;
        waits.push([second - first, third - second]);
        await clock.advance(1000);
      }
      for (const [first, second] of waits) {
        expect(first).toBeGreaterThanOrEqual(10); // a floor of 10 % of 100 ms
        expect(first).toBeLessThanOrEqual(100);
        expect(second).toBeGreaterThanOrEqual(20);
        expect(second).toBeLessThanOrEqual(200);
      }
      expect(new Set(waits.map(String)).size).toBe(30);
    });

    test("a budget bounds what retries add when everything fails", async () => {
      const clock = new FakeClock();
      let sent = 0;
      const { ask } = made({ engine: engine({ clock }), preset: "http" }, () => {
        sent += 1;
        return { status: 503 };
      });
      const calls = Array.from({ length: 1000 }, () => ask().then((got) => got.report()?.reason));
      const reasons = await clock.run(Promise.all(calls));
      expect(sent).toBeLessThanOrEqual(1000 + 0.2 * 1000 + 100 + 10);
      expect(reasons).toContain("budget");
    });

    test("a call ends by itself: thirty seconds, whatever the far side does", async () => {
      const clock = new FakeClock();
      const { ask, some } = made({ engine: engine({ clock }), preset: "http" }, hangs);
      await expect(clock.run(ask())).rejects.toMatchObject({ code: "deadline_exceeded" });
      expect(clock.now()).toBe(30_000);
      assertIdle(some.engine);
    });
  });

  describe("13: every retry that is held back has its reason", () => {
    const down: Far = () => ({ status: 503 });
    const quick = { backoff: { base: 1, max: 2 } };
    type Asked = Parameters<ReturnType<typeof made>["ask"]>[0];
    type Case = [reason: string, settings: PolicyOptions, far: Far, options: Asked];
    const body = new ReadableStream({ start: (it) => it.close() });
    const slow = { retry: { backoff: { base: 5000, jitter: "none" as const } } };
    const cases: Case[] = [
      ["not_retryable", {}, () => ({ status: 404 }), {}],
      ["method", {}, down, { method: "POST" }],
      ["one_shot_body", {}, down, { method: "PUT", body, duplex: "half" } as object],
      ["opinion", {}, down, { tidegate: { predicate: () => false } }],
      ["retry_after_too_long", {}, () => ({ status: 503, headers: { "retry-after": "3600" } }), {}],
      ["would_outlive_deadline", slow, down, { tidegate: { deadline: 1000 } }],
      ["time_limit", { retry: { ...slow.retry, retryTimeLimit: 10 } }, down, {}],
      ["budget", { retry: { budget: { percentCanRetry: 0, minRetriesPerSec: 0 } } }, down, {}],
    ];
    test.each(cases)("%s", async (reason, settings, far, options) => {
      const clock = new FakeClock();
      const retry = { ...quick, ...settings.retry };
      const { ask, some } = made({ engine: engine({ clock }), preset: "http", ...settings, retry }, far);
      const events: unknown[] = [];
      const listening = some.on("call_done", (event) => events.push(event.reason));
      const got = await clock.run(ask(options));
      expect(got.report()?.reason).toBe(reason);
      await got.text();
      expect(events).toEqual([reason]);
      listening.dispose();
    });

    test("nested, and attempts", async () => {
      const clock = new FakeClock();
      const { ask, some } = made({ engine: engine({ clock }), preset: "http" }, down);
      expect((await clock.run(ask())).report()?.reason).toBe("attempts");
      const inner: unknown[] = [];
      await clock.run(some.run(async () => inner.push((await ask()).report()?.reason)));
      expect(inner).toEqual(["nested"]);
    });

    test("readmission: the next attempt was refused a slot", async () => {
      const clock = new FakeClock();
      let free: () => void = () => undefined;
      const { ask } = made(
        { engine: engine({ clock }), preset: "http", bulkhead: { maxConcurrency: 1, unit: "attempt" } },
        async (attempt) => {
          if (attempt === 2) {
            await new Promise<void>((done) => {
              free = done;
            });
          }
          return { status: attempt === 1 ? 503 : 200 };
        },
      );
      const first = ask();
      await clock.advance(1);
      const second = ask();
      await clock.advance(10_000);
      expect((await first).report()?.reason).toBe("readmission");
      free();
      expect((await clock.run(second)).status).toBe(200);
    });
  });

  test("14: nothing is left, whatever becomes of a call", async () => {
    const draw = random();
    const clock = new FakeClock();
    const lab = engine({ clock });
    const { ask, some } = made(
      {
        engine: lab,
        preset: "http",
        attemptTimeout: 300,
        bulkhead: { maxConcurrency: 4, maxQueue: 10, acquireTimeout: 400 },
        breaker: { failureRatio: 0.9, window: 10_000, minThroughput: 20, breakDuration: 200 },
        hedge: { delay: 150 },
      },
      async (attempt, headers, signal) => {
        const kind = draw();
        if (kind < 0.2) throw reset();
        if (kind < 0.3) return hangs(attempt, headers, signal);
        await clock.sleep(draw() * 200);
        const status = kind < 0.6 ? 503 : 200;
        return { status, headers: kind < 0.4 ? { "retry-after-ms": "250" } : {}, body: ["some", "thing"] };
      },
    );
    const calls = Array.from({ length: 300 }, async () => {
      await clock.sleep(draw() * 5000);
      const controller = new AbortController();
      const gone = draw() < 0.3 ? clock.sleep(draw() * 400).then(() => controller.abort()) : undefined;
      const options = draw() < 0.3 ? { deadline: draw() * 1000 } : {};
      try {
        const got = await within(options, () => ask({ signal: controller.signal }));
        await got.text();
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
      }
      await gone;
    });
    await clock.run(Promise.all(calls), 5000);
    await clock.advance(60_000);
    assertIdle(lab);
    const { ends } = some.snapshot();
    expect(Object.values(ends).reduce((sum, count) => sum + count, 0)).toBe(300);
    expect(Object.keys(ends).length).toBeGreaterThan(3);
  });
});
