/** Time of the platform: the fake timers of test frameworks drive every wait without set-up. */

import { execFileSync } from "node:child_process";
import FakeTimers from "@sinonjs/fake-timers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { policy } from "../ts/node.js";
import { Ticker } from "../ts/time/ticker.js";
import { hang } from "./support/functions.js";
import { random } from "./support/random.js";
import { engine, turns } from "./support/setup.js";

/** A way to advance the time of a test. */
interface Mover {
  install(): void;
  advance(ms: number): Promise<unknown>;
  timers(): number;
  remove(): void;
}

let clock: FakeTimers.Clock | undefined;
const movers: [string, Mover][] = [
  [
    "vitest",
    {
      install: () => void vi.useFakeTimers(),
      advance: (ms) => vi.advanceTimersByTimeAsync(ms),
      timers: () => vi.getTimerCount(),
      remove: () => void vi.useRealTimers(),
    },
  ],
  [
    "sinon",
    {
      install: () => {
        clock = FakeTimers.install({ toNotFake: ["nextTick"] }); // it carries vitest's messages: see support/setup.ts
      },
      advance: async (ms) => clock?.tickAsync(ms),
      timers: () => clock?.countTimers() ?? 0,
      remove: () => {
        clock?.uninstall();
        clock = undefined;
      },
    },
  ],
];

describe.each(movers)("%s's fake timers", (_, mover) => {
  afterEach(() => mover.remove());

  test("drive backoff, queue, attempt timeout, hedge and deadline", async () => {
    mover.install();
    const lab = engine();
    const some = policy({
      engine: lab,
      deadline: 100_000,
      attemptTimeout: 10_000,
      bulkhead: { maxConcurrency: 1, maxQueue: 2, acquireTimeout: 30_000 },
      retry: { maxAttempts: 2, backoff: { base: 5000, jitter: "none" } },
    });
    const seen: string[] = [];
    const told = (name: string) => (error: Error) => seen.push(`${name}: ${error.name}`);
    const first = some.run(hang).catch(told("first"));
    const second = some.run(() => seen.push("second")).catch(told("second"));
    await mover.advance(24_999);
    expect(seen).toEqual([]);
    await mover.advance(1);
    await Promise.all([first, second]);
    expect(seen.sort()).toEqual(["first: AttemptTimeout", "second"]);

    const hedged = policy({ engine: lab, hedge: { delay: 7000 } });
    const race = hedged.run((attempt) => (attempt.attempt === 1 ? hang(attempt) : attempt.attempt));
    await mover.advance(7000);
    expect(await race).toBe(2);

    const bounded = policy({ engine: lab, deadline: 50_000 });
    const late = bounded.run(hang).catch(told("late"));
    await mover.advance(50_000);
    await late;
    expect(seen[2]).toBe("late: DeadlineExceeded");
    expect(mover.timers()).toBe(0);
  });

  test("fire at their moment, whatever fraction the real clock stopped at", async () => {
    const real = performance.now;
    for (let tenths = 0; tenths < 40; tenths += 1) {
      const lab = engine();
      const reading = real.call(performance) + tenths * 0.0137;
      performance.now = () => reading;
      await policy({ engine: lab, deadline: 1000 }).run(() => 1);
      performance.now = real;
      mover.install();
      const some = policy({
        engine: lab,
        attemptTimeout: 7777,
        retry: { maxAttempts: 8, budget: "none", backoff: { base: 3333, max: 3333, jitter: "none" } },
      });
      let ended = false;
      const call = some.run(hang).catch(() => {
        ended = true;
      });
      await mover.advance(8 * 7777 + 7 * 3333);
      expect(ended).toBe(true);
      await call;
      mover.remove();
    }
  });

  test("may come and go between the calls of one engine", async () => {
    const some = policy({ engine: engine(), attemptTimeout: 40 });
    await expect(some.run(hang)).rejects.toThrow(/attemptTimeout/);
    mover.install();
    const fake = expect(some.run(hang)).rejects.toThrow(/attemptTimeout/);
    await mover.advance(40);
    await fake;
    const left = some.run(async () => {
      await turns();
      mover.remove();
      return "real again";
    });
    expect(await left).toBe("real again");
    await expect(some.run(hang)).rejects.toThrow(/attemptTimeout/);
  });
});

test("sinon's drive every wait as they install themselves, with a fake nextTick", () => {
  const program = `
    import FakeTimers from "@sinonjs/fake-timers";
    import { Engine, policy } from "./dist/esm/node.js";
    const clock = FakeTimers.install();
    const some = policy({ engine: new Engine({ seed: 1 }), attemptTimeout: 10_000, deadline: 60_000, retry: { maxAttempts: 3 } });
    const hang = ({ signal }) => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
    const call = some.run(hang).catch((error) => error.name);
    await clock.tickAsync(60_000);
    console.log(await call, clock.countTimers(), process.nextTick.clock !== undefined);`;
  const args = ["--input-type=module", "--eval", program];
  const options = { cwd: new URL("..", import.meta.url), timeout: 60_000, encoding: "utf8" } as const;
  expect(execFileSync(process.execPath, args, options)).toBe("AttemptTimeout 0 true\n");
});

test("a fake nextTick would lose messages of vitest, and is refused", () => {
  expect(() => {
    process.nextTick = () => undefined;
  }).toThrow(/toNotFake: \["nextTick"\]/);
});

describe("the ticker", () => {
  const make = () => {
    let us = 0;
    const fired: string[] = [];
    const ticker = new Ticker(() => us, undefined);
    const owner = (name: string) => ({ tick: () => fired.push(name) });
    const set = (to: number) => {
      us = to;
    };
    return { ticker, fired, owner, set };
  };

  afterEach(() => void vi.useRealTimers());

  test("makes one timer for all, and none for nobody", () => {
    vi.useFakeTimers();
    const { ticker, owner } = make();
    const places = Array.from({ length: 100 }, (_, n) => ticker.add(owner(`${n}`), 1e6 + n));
    expect([vi.getTimerCount(), ticker.size]).toEqual([1, 100]);
    for (const place of places) ticker.drop(place);
    expect([vi.getTimerCount(), ticker.size]).toEqual([0, 0]);
  });

  test("fires what is due, once, in whatever order it was added; an early timer is set again", () => {
    vi.useFakeTimers();
    const { ticker, fired, owner, set } = make();
    const places = [ticker.add(owner("b"), 20_000), ticker.add(owner("a"), 10_000)];
    vi.advanceTimersByTime(10);
    expect(fired).toEqual([]); // no time has passed on the ticker's own clock
    set(10_000);
    vi.advanceTimersByTime(10);
    expect(fired).toEqual(["a"]);
    set(30_000);
    vi.advanceTimersByTime(30);
    expect(fired).toEqual(["a", "b"]);
    for (const place of places) ticker.drop(place);
  });

  test("is as fine after a burst as before it", () => {
    vi.useFakeTimers();
    const { ticker, fired, owner, set } = make();
    const burst = Array.from({ length: 100_000 }, () => ticker.add(owner("burst"), 1e9));
    for (const place of burst) ticker.drop(place);
    const places = [ticker.add(owner("5 ms"), 5000), ticker.add(owner("20 ms"), 20_000)];
    for (let ms = 1; ms <= 20; ms += 1) {
      set(ms * 1000);
      vi.advanceTimersByTime(1);
      expect(fired).toEqual(ms < 5 ? [] : ms < 20 ? ["5 ms"] : ["5 ms", "20 ms"]);
    }
    for (const place of places) ticker.drop(place);
  });

  test("keeps thousands of moments that come, change and go, and fires each at its own", () => {
    vi.useFakeTimers();
    const { ticker, set } = make();
    const draw = random();
    const due = new Map<number, number>();
    const late: number[] = [];
    let now = 0;
    const add = () => {
      const at = now + 1000 + Math.floor(draw() * 50_000);
      let place = -1;
      const tick = () => {
        if (due.get(place) !== undefined && (due.get(place) as number) <= now) due.delete(place);
        else late.push(place);
        ticker.drop(place);
      };
      place = ticker.add({ tick }, at);
      due.set(place, at);
    };
    for (let ms = 1; ms <= 400; ms += 1) {
      for (let n = 0; n < 20; n += 1) add();
      for (const [place] of due) {
        if (draw() < 0.02) {
          ticker.drop(place);
          due.delete(place);
        } else if (draw() < 0.03) {
          const at = now + 1000 + Math.floor(draw() * 50_000);
          ticker.set(place, at);
          due.set(place, at);
        }
      }
      now = ms * 1000;
      set(now);
      vi.advanceTimersByTime(1);
      expect([...due.values()].filter((at) => at <= now)).toEqual([]);
    }
    expect([late, ticker.size]).toEqual([[], due.size]);
    for (const [place] of due) ticker.drop(place);
  });

  test("cuts waits that are longer than a timer can be", () => {
    const set = vi.spyOn(globalThis, "setTimeout").mockImplementation(() => 1 as never);
    const { ticker, owner } = make();
    const place = ticker.add(owner("in a year"), 365 * 86_400 * 1e6);
    expect(set.mock.calls[0]?.[1]).toBe(2 ** 31 - 1);
    ticker.drop(place);
    set.mockRestore();
  });

  test("keeps no process alive for a body that may have been thrown away", () => {
    const { ticker, owner } = make();
    const refs = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = refs();
    const body = ticker.add(owner("body"), 60e6);
    expect(refs()).toBe(before + 1);
    ticker.weaken(body);
    expect(refs()).toBe(before);
    const call = ticker.add(owner("call"), 70e6);
    expect(refs()).toBe(before + 1);
    ticker.drop(call);
    expect(refs()).toBe(before);
    ticker.set(body, 50e6); // this makes another timer
    expect(refs()).toBe(before);
    ticker.drop(body);
    expect([refs(), ticker.size]).toEqual([before, 0]);
    const next = ticker.add(owner("next"), 60e6);
    expect(refs()).toBe(before + 1);
    ticker.drop(next);
  });

  test("leaves a timer to run out when nobody waits, and the next call finds it", () => {
    const made = vi.spyOn(globalThis, "setTimeout");
    const { ticker, owner } = make();
    for (let n = 0; n < 5; n += 1) ticker.drop(ticker.add(owner("call"), 60e6 + n));
    expect(made).toHaveBeenCalledTimes(1);
    ticker.drop(ticker.add(owner("sooner"), 50e6));
    expect(made).toHaveBeenCalledTimes(2);
    made.mockRestore();
  });
});
