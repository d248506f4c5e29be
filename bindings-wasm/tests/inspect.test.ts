/** Explanations, the journal, and request options against repeats and hedges. */

import { describe, expect, test, vi } from "vitest";
import { Engine, explain, type Policy, policy, reportOf, TidegateError } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failing, failure, gate, reset } from "./support/functions.js";
import { engine } from "./support/setup.js";

function journaled(clock = new FakeClock()): Engine {
  return engine({ seed: 5, clock, journal: true });
}

describe("J11: by default", () => {
  test("every error and every failed answer is explained, whoever made it", async () => {
    const lab = engine({ clock: new FakeClock() });
    const quick = { engine: lab, retry: { maxAttempts: 2, backoff: { base: 0 } } };
    const error = (await failure(policy(quick).run(failing(9)))) as Error;
    expect(explain(error)).toMatchObject({ reason: "attempts", attempts: 2 });
    expect(explain(error)?.story.map(({ type }) => type)).toEqual([
      "retry_scheduled",
      "gave_up",
      "call_done",
    ]);
    const bug = new TypeError("a mistake");
    await failure(policy(quick).run(() => Promise.reject(bug)));
    expect(explain(bug)?.reason).toBe("not_retryable");
    const answers = policy({ ...quick, fetch: async () => new Response("busy", { status: 503 }) });
    const answer = await answers.fetch("http://far.example/");
    expect(explain(answer)).toMatchObject({
      reason: "attempts",
      attempts: 2,
      route: "http://far.example:80",
    });
    const statuses = [503, 200];
    const again = async () => new Response("fine", { status: statuses.shift() ?? 500 });
    const good = await policy({ ...quick, fetch: again }).fetch("http://far.example/");
    expect(await good.text()).toBe("fine");
    expect(
      explain(good)?.story.map(({ type }) => type),
      "an answer after a repeat",
    ).toEqual(["retry_scheduled"]);
    expect(
      explain(await policy({ ...quick, fetch: async () => new Response(null) }).fetch("http://a/")),
    ).toBe(undefined);
  });

  test("the outermost call explains an error that went through two", async () => {
    const lab = engine({ clock: new FakeClock() });
    const inner = policy({ engine: lab, name: "inner", retry: { maxAttempts: 5 } });
    const outer = policy({ engine: lab, name: "outer", retry: { maxAttempts: 2, backoff: { base: 0 } } });
    const error = (await failure(outer.run(() => inner.run(failing(9))))) as Error;
    expect([explain(error)?.policy, reportOf(error)?.attempts]).toEqual(["outer", 2]);
  });

  test("an engine remembers so many records, and none if asked", async () => {
    const mistake = async (lab: Engine) => {
      const error = new TypeError("a mistake");
      await failure(policy({ name: "p", engine: lab, retry: {} }).run(() => Promise.reject(error)));
      return error;
    };
    const small = engine({ history: 4 }); // two records a mistake
    const errors = [await mistake(small), await mistake(small), await mistake(small), await mistake(small)];
    expect(errors.map((error) => explain(error)?.reason)).toEqual([
      undefined,
      undefined,
      "not_retryable",
      "not_retryable",
    ]);
    expect(explain(await mistake(engine({ history: 0 })))).toBe(undefined);
    expect(() => engine({ history: -1 })).toThrow("history = -1: must be a whole number from 0 to 1,000,000");
  });
});

test("a policy says what it comes to", () => {
  const lab = journaled();
  const budget = { percentCanRetry: 0.5, minRetriesPerSec: 0 };
  const pay = policy({
    name: "pay",
    engine: lab,
    deadline: 10_000,
    attemptTimeout: 2000,
    retry: { maxAttempts: 4, budget },
  });
  const told = pay.explain();
  expect(told).toMatchObject({ policy: "pay", maxAttempts: 4, maxTime: 10_000, load: { perCall: 1.5 } });
  expect(told.components.map(({ name }) => name)).toEqual([
    "deadline",
    "retry",
    "retry.budget",
    "retry.backoff",
    "attempt_timeout",
  ]);
  expect(told.components[1]?.settings["max_attempts"]).toBe("4");
  expect(`${told}`).toMatch(/^policy pay\n {2}deadline: 10s\n/);
  expect(told.warnings).toEqual([]);
  expect(told.memoryPerRoute).toBeGreaterThan(0);
  const endless = policy({ engine: lab, retry: { maxAttempts: 2 } }).explain();
  expect([
    endless.maxTime,
    endless.warnings.some((it) => it.includes("neither attempt_timeout nor")),
  ]).toEqual([null, true]);
});

describe("a call", () => {
  test("that failed is explained by its error, with its story and the numbers of then", async () => {
    const lab = journaled();
    const pay = policy({ name: "pay", engine: lab, retry: { backoff: { base: 0 } } });
    const error = (await failure(pay.at({ route: "eu" }).run(failing(9)))) as Error;
    const told = lab.explain(error);
    expect(told).toMatchObject({ policy: "pay", route: "eu", reason: "attempts", attempts: 3, why: null });
    expect(told?.story.slice(-2).map(({ type }) => type)).toEqual(["gave_up", "call_done"]);
    expect(told?.story[0]).toMatchObject({ policy: "pay", route: "eu", type: "attempt_started" });
    expect(told?.numbers.some((line) => line.includes("retry budget"))).toBe(true);
    expect(String(told)).toContain("All attempts are used up.");
    expect(explain(error)).toEqual(told);
    expect(engine().explain(error)).toBeUndefined();
    expect(explain(new Error("nobody's"))).toBeUndefined();
    expect(lab.explain(12_345)).toBeUndefined();
  });

  test("that is refused is explained by our error, with the numbers of then if there is a journal", async () => {
    for (const journal of [true, false]) {
      const lab = engine({ clock: new FakeClock(), journal });
      const one = policy({ engine: lab, bulkhead: { maxConcurrency: 1 } });
      const { work, open } = gate();
      const first = one.run(work);
      const refused = (await failure(one.run(() => 1))) as TidegateError;
      open[0]?.("done");
      await first;
      const told = refused.explain();
      expect(told?.reason).toBe("queue_full");
      expect(told).toEqual(lab.explain(refused));
      const then = "bulkhead: 1 of 1 permits out, 0 of 0 places in the queue taken";
      const now = "now: bulkhead: 0 of 1 permits out, 0 of 0 places in the queue taken";
      expect(told?.numbers).toEqual([journal ? then : now]);
    }
  });

  test("that goes on is explained by its number", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const slow = policy({ engine: lab, retry: { backoff: { base: 1000, jitter: "none" } } });
    let call = 0;
    slow.on("retry_scheduled", (event) => {
      call = event.call as number;
    });
    const going = slow.run(failing(1));
    await clock.advance(10);
    expect(lab.explain(call)).toMatchObject({
      why: "backoff",
      until: 1000,
      began: 0,
      reason: null,
      story: [],
    });
    await clock.advance(1000);
    expect(await going).toBe(2);
  });
});

describe("a journal", () => {
  /** Exercises every kind of input of an engine. */
  async function busy(lab: Engine, clock: FakeClock): Promise<Policy> {
    const some = policy({
      name: "busy",
      engine: lab,
      deadline: 60_000,
      retry: { maxAttempts: 3 },
      bulkhead: { maxConcurrency: 1, maxQueue: 2 },
      breaker: { consecutive: 3, breakDuration: 500 },
    });
    const calls = [some.run(failing(1)), some.run(failing(9)), some.run(() => 3), some.run(() => 4)];
    const all = Promise.allSettled(calls);
    await clock.advance(10_000);
    await all;
    some.forceOpen();
    await failure(some.run(() => 5));
    some.forceOpen(false);
    some.retune({ retry: {}, bulkhead: { maxConcurrency: 2 } });
    expect(await some.run(() => 6)).toBe(6);
    return some;
  }

  test("is an engine again: the same state, the same answers", async () => {
    const clock = new FakeClock();
    const lab = journaled(clock);
    await busy(lab, clock);
    const journal = lab.journal();
    expect(journal).toMatch(/^tidegate journal 1 seed 5 routes 10000\npolicy /);
    const again = Engine.replay(journal);
    expect(again.journal()).toBe(journal);
    expect(again.snapshot()).toEqual(lab.snapshot());
    expect(again.answers).toEqual(Engine.replay(journal).answers);
    expect(again.answers).toHaveLength(journal.trim().split("\n").length - 1);
    expect(again.answers.filter((answer) => answer.startsWith("begin "))).toHaveLength(6);
    expect(again.answers[0]).toBe("policy 0");
    const ended = again.explain(
      Number(again.answers.find((answer) => answer.startsWith("begin "))?.split(" ")[1]),
    );
    expect(ended).toMatchObject({ policy: "busy", reason: "ok", attempts: 2 });
  });

  test("is taken in pieces, which one behind the other are all of it", async () => {
    const clock = new FakeClock();
    const pieces = journaled(clock);
    await busy(pieces, clock);
    let text = pieces.journal({ take: true });
    expect(pieces.journal()).toBe("");
    policy({ engine: pieces, retry: {}, name: "one more" });
    text += pieces.journal({ take: true });
    expect(text).toContain("one more");
    expect(Engine.replay(text).snapshot().policies).toHaveProperty(["one more"]);
  });

  test("that nobody takes is bounded, and says what it lacks", () => {
    const lab = engine({ seed: 5, journal: true });
    const some = policy({ engine: lab, retry: {}, name: "p" });
    for (let n = 0; n < 100_004; n += 1) some.forceOpen(false);
    const lines = lab.journal({ take: true }).trimEnd().split("\n");
    expect(lines.slice(0, 2)).toEqual(["tidegate journal 1 seed 5 routes 10000", "dropped 5"]);
    expect(lines).toHaveLength(100_002);
    expect(() => Engine.replay(lines.join("\n"))).toThrow(
      "journal, line 1: dropped = 5: so many inputs before this line are missing",
    );
    expect(lab.journal()).toBe("");
  });

  test("of another language is read, with a seed of 64 bits", () => {
    const head = "tidegate journal 1 seed 18446744073709551615 routes 10\n";
    expect(Engine.replay(head).journal()).toBe(head);
  });

  test("that is none says which line, and why", async () => {
    const clock = new FakeClock();
    const lab = journaled(clock);
    await busy(lab, clock);
    const lines = lab.journal().split("\n");
    lines[3] = "on soon 1 poll";
    expect(() => Engine.replay(lines.join("\n"))).toThrow(
      "journal, line 3: now = soon: must be a whole number up to 18446744073709551615: on soon 1 poll",
    );
    for (const wrong of [
      "",
      "nonsense",
      "tidegate journal 2 seed 1 routes 1",
      "tidegate journal 1 seed x routes 1",
    ])
      expect(() => Engine.replay(wrong)).toThrow(/^journal = ".*": must begin with "tidegate journal 1 seed/);
    expect(() => Engine.replay("tidegate journal 1 seed 18446744073709551616 routes 1")).toThrow(
      /must begin/,
    );
    expect(() => Engine.replay("tidegate journal 1 seed 1 routes 999999")).toThrow(/maxRoutes = 999999/);
    expect(() => engine().journal()).toThrow(TidegateError);
  });
});

test("a call that is solo is never hedged", async () => {
  const clock = new FakeClock();
  const hedging = policy({ engine: engine({ clock }), hedge: { delay: 10 } });
  const work = async () => {
    await clock.sleep(100);
    return clock.now();
  };
  expect(await clock.run(hedging.run(work, { solo: true }))).toBe(100);
  expect(hedging.snapshot().hedges).toBe(0);
  await clock.run(hedging.at({ solo: true }).run(work));
  expect(hedging.snapshot().hedges).toBe(0);
  await clock.run(hedging.run(work));
  expect(hedging.snapshot().hedges).toBe(1);
  await clock.advance(1000);
});

describe("a predicate", () => {
  const answers = (...statuses: number[]) => {
    const told = [...statuses];
    return async () => new Response(null, { status: told.shift() ?? 200 });
  };
  const some = (send: () => Promise<Response>) =>
    policy({ engine: engine(), retry: { maxAttempts: 3, backoff: { base: 0 } }, fetch: send });

  test("says to try again, or not to, or nothing", async () => {
    const picky = (it: unknown) => (it instanceof Response ? it.status === 202 || undefined : false);
    const made = some(answers(202, 503, 200));
    expect((await made.fetch("http://x.example/", { tidegate: { predicate: picky } })).status).toBe(200);
    const lost = some(async () => Promise.reject(reset()));
    const error = await failure(lost.fetch("http://x.example/", { tidegate: { predicate: picky } }));
    expect(reportOf(error)).toMatchObject({ attempts: 1, reason: "opinion" });
    const stuck = some(answers(202, 202, 202, 202));
    const told = await stuck.fetch("http://x.example/", { tidegate: { predicate: picky } });
    expect([told.status, reportOf(told)?.reason]).toEqual([202, "attempts"]);
    const post = some(answers(202, 200));
    const once = await post.fetch("http://x.example/", { method: "POST", tidegate: { predicate: picky } });
    expect([once.status, reportOf(once)?.reason]).toEqual([202, "method"]);
  });

  test("that is broken has no opinion, and is told of once", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const predicate = () => {
      throw new Error("mine");
    };
    const answer = await some(answers(503, 503, 200)).fetch("http://x.example/", { tidegate: { predicate } });
    expect(answer.status).toBe(200);
    expect(warn).toHaveBeenCalledTimes(1);
    warn.mockRestore();
    const wrong = some(answers(200)).fetch("http://x.example/", { tidegate: { predicate: 5 as never } });
    await expect(wrong).rejects.toThrow("tidegate: predicate = 5: must be a function");
  });
});
