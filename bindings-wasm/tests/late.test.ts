/**
 * Responses that no caller receives: the head arrives after the deadline, after the attempt timeout, after the caller gave up, or after
 * another attempt's response. In every order, each body is closed, and the slot is free once its attempt has ended.
 */

import { getEventListeners } from "node:events";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import { type Attempt, type Policy, type PolicyOptions, policy } from "../ts/node.js";
import { assertIdle, FakeClock } from "../ts/testing.js";
import type { Clock } from "../ts/time/clock.js";
import { ADAPTERS, open } from "./support/adapters.js";
import { failure } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

/** Bodies, with the number of closed ones. */
class Bodies {
  made = 0;
  closed = 0;

  /** A response whose body never ends by itself. */
  web(): Response {
    this.made += 1;
    const close = () => {
      this.closed += 1;
    };
    return new Response(new ReadableStream({ cancel: close }), { status: 200 });
  }

  /** A response as node-fetch returns it: the body is a Node stream. */
  node(): Response {
    this.made += 1;
    const body = new Readable({ read() {} });
    body.once("close", () => {
      this.closed += 1;
    });
    return { status: 200, headers: new Headers(), body, bodyUsed: false } as unknown as Response;
  }

  /** A response as undici's `request` returns it. */
  undici(): unknown {
    const { headers, body } = this.node();
    return { statusCode: 200, headers, body };
  }
}

/** Ways in which a call ends before its response has arrived. */
const ENDS: Record<string, [settings: PolicyOptions, giveUp: number | undefined]> = {
  "the deadline": [{ deadline: 50 }, undefined],
  "the attempt timeout": [{ attemptTimeout: 50 }, undefined],
  "a caller who gives up": [{ deadline: 10_000 }, 50],
  "another attempt's answer": [{ hedge: { delay: 20 } }, undefined],
};

/** When the head arrives, in milliseconds: after the end of the call, at that moment (before or after it), and well before it. */
const HEADS = [80, 50, 49.999, 10];

type Send = (
  some: Policy,
  answer: (attempt: number) => Promise<Response>,
  signal: AbortSignal,
) => Promise<unknown>;

/** Transports that ignore the signal of their attempt. */
const SENDS: Record<string, Send> = {
  fetch: (some, answer, signal) => {
    let attempts = 0;
    const fetch = () => {
      attempts += 1;
      return answer(attempts);
    };
    return policy({ ...some.given, name: "sends", fetch }).fetch("http://far.example/", { signal });
  },
  run: (some, answer, signal) => some.run(({ attempt }: Attempt) => answer(attempt), { signal }),
};

async function play(
  send: Send,
  kind: "web" | "node" | "undici",
  [settings, giveUp]: [PolicyOptions, number | undefined],
  head: number,
): Promise<Bodies> {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const bodies = new Bodies();
  const caller = new AbortController();
  // The test's timer is added before the call's, so that it fires first if both are due at the same moment.
  if (giveUp !== undefined) void clock.sleep(giveUp).then(() => caller.abort(new Error("gave up")));
  const some = policy({ engine: lab, ...settings, bulkhead: { maxConcurrency: 1 } });
  const answer = async (attempt: number) => {
    await clock.sleep(attempt === 1 ? head : 15);
    return bodies[kind]() as Response;
  };
  const got = send(some, answer, caller.signal).then(
    (response) => {
      const { body } = response as Response;
      return (body as ReadableStream).cancel?.() ?? (body as unknown as Readable).destroy();
    },
    () => undefined,
  );
  await clock.advance(200);
  await got;
  await turns(200);
  await new Promise((done) => setImmediate(done));
  expect(getEventListeners(caller.signal, "abort")).toEqual([]);
  assertIdle(lab);
  return bodies;
}

describe.each(Object.entries(SENDS))("%s", (_, send) => {
  describe.each(Object.entries(ENDS))("%s", (_, end) => {
    test.each(["web", "node", "undici"] as const)("and a body of %s: nothing stays open", async (kind) => {
      for (const head of HEADS) {
        const { made, closed } = await play(send, kind, end, head);
        expect([head, made > 0, closed]).toEqual([head, true, made]);
      }
    });
  });
});

describe.each(Object.keys(ADAPTERS) as (keyof typeof ADAPTERS)[])("%s, in memory", (name) => {
  test.each(Object.entries(ENDS))("%s: nothing stays open", async (_, [settings, giveUp]) => {
    for (const head of HEADS) {
      const clock = new FakeClock();
      const lab = engine({ clock });
      const caller = new AbortController();
      if (giveUp !== undefined) void clock.sleep(giveUp).then(() => caller.abort(new Error("gave up")));
      const before = open.bodies;
      const client = ADAPTERS[name]({ engine: lab, ...settings }, async (attempt) => {
        await clock.sleep(attempt === 1 ? head : 15);
        return { status: 200, body: ["late"] };
      });
      const text = client
        .ask({ signal: caller.signal })
        .then((got) => got.text())
        .catch(() => undefined);
      await clock.advance(200);
      await text;
      await new Promise((done) => setImmediate(done));
      await clock.advance(1);
      expect([head, open.bodies - before]).toEqual([head, 0]);
      assertIdle(lab);
    }
  });
});

test("a head that is told when the deadline has passed, and its timer has not fired, leaves no slot", async () => {
  let us = 0;
  const clock: Clock = { us: () => us, watch() {}, changed() {} }; // as in a process too busy to run its timers
  const lab = engine({ clock });
  const bodies = new Bodies();
  const fetch = async () => {
    us = 60_000;
    return bodies.web();
  };
  const some = policy({ engine: lab, deadline: 50, bulkhead: { maxConcurrency: 1 }, fetch });
  expect(await failure(some.fetch("http://far.example/"))).toMatchObject({ reason: "deadline" });
  await turns();
  expect([bodies.made, bodies.closed]).toEqual([1, 1]);
  assertIdle(lab);
});

test("an attempt that ignores its signal holds its slot until it ends, and at most 60 s (R12)", async () => {
  const clock = new FakeClock();
  const some = policy({ engine: engine({ clock }), deadline: 100, bulkhead: { maxConcurrency: 1 } });
  const deaf = (ms: number) => failure(some.run(({ signal }) => clock.sleep(signal.aborted ? 0 : ms)));
  const first = deaf(5000);
  await clock.advance(100);
  expect(await first).toMatchObject({ reason: "deadline" });
  await clock.advance(4800);
  expect(await failure(some.run(() => "next"))).toMatchObject({ reason: "queue_full" });
  await clock.advance(200);
  expect(await some.run(() => "next")).toBe("next");
  const second = deaf(300_000);
  await clock.advance(60_050);
  expect(await second).toMatchObject({ reason: "deadline" });
  expect(await failure(some.run(() => "next"))).toMatchObject({ reason: "queue_full" });
  await clock.advance(60);
  expect(await some.run(() => "after 60 s")).toBe("after 60 s");
  await clock.advance(300_000);
});

test("a function that says that it ends at once frees its slot at once", async () => {
  const clock = new FakeClock();
  const some = policy({ engine: engine({ clock }), deadline: 100, bulkhead: { maxConcurrency: 1 } });
  const first = failure(some.run(() => clock.sleep(5000), { abortable: true }));
  await clock.advance(100);
  expect(await first).toMatchObject({ reason: "deadline" });
  expect(await some.run(() => "next")).toBe("next");
  await clock.advance(5000);
});

test("however many calls follow one signal, it has one listener, and none when they have ended (J7)", async () => {
  const clock = new FakeClock();
  const some = policy({ engine: engine({ clock }), deadline: 10_000 });
  const warnings: Error[] = [];
  const warned = (warning: Error) => void warnings.push(warning);
  process.on("warning", warned);
  const caller = new AbortController();
  const calls = Array.from({ length: 50 }, (_, n) =>
    some.run(() => clock.sleep(n), { signal: caller.signal }),
  );
  expect(getEventListeners(caller.signal, "abort")).toHaveLength(1);
  await clock.advance(20);
  const left = Promise.allSettled(calls);
  caller.abort(new Error("gave up"));
  const reasons = (await left).map((end) => (end.status === "rejected" ? String(end.reason) : "done"));
  expect(reasons.filter((reason) => reason === "Error: gave up")).toHaveLength(29);
  expect(getEventListeners(caller.signal, "abort")).toEqual([]);
  await clock.advance(50);
  await new Promise((done) => setImmediate(done));
  process.off("warning", warned);
  expect(warnings).toEqual([]);
});
