/** Functions under a policy and time: waits, timeouts, hedges, and callers that give up. */

import { describe, expect, test } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failure, gate, reset, script } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

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

  test("a signal that is asked for after the attempt was stopped is aborted, with the reason", async () => {
    const clock = new FakeClock();
    const some = policy({ engine: engine({ clock }), attemptTimeout: 50 });
    let late: tidegate.Attempt | undefined;
    const call = failure(
      some.run(async (attempt) => {
        await clock.sleep(80);
        late = attempt;
      }),
    );
    await clock.advance(100);
    expect(await call).toBeInstanceOf(tidegate.AttemptTimeout);
    expect([late?.signal.aborted, late?.signal.reason]).toEqual([true, await call]);
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
    // Before it begins.
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
    // While it waits for the next attempt.
    const waiting = new AbortController();
    const three = failure(some.run(script(reset()), { signal: waiting.signal }));
    await turns();
    waiting.abort(why);
    expect(await three).toBe(why);
    // Before its function has returned.
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

test("a fake clock takes no moment that never comes", async () => {
  const clock = new FakeClock();
  for (const ms of [Infinity, Number.NaN, -1, undefined]) {
    await expect(clock.advance(ms as number)).rejects.toThrow(RangeError);
  }
  expect(() => clock.sleep(Number.NaN)).toThrow("sleep(NaN): must be a number of milliseconds");
  expect(() => clock.sleep(undefined as never)).toThrow(RangeError);
  const slept = clock.sleep(5);
  await clock.advance(5);
  await slept;
  expect(clock.now()).toBe(5);
});
