/** A call's scope applies only to that call, in whatever way its function returns. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { expect, test } from "vitest";
import type { Storage } from "../ts/engine/platform.js";
import { type Engine, policy, reportOf, within } from "../ts/node.js";
import { throughResource } from "../ts/run/follow.js";
import type { Scope } from "../ts/run/scope.js";
import { FakeClock } from "../ts/testing.js";
import { failure, hang, reset } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

class Theirs {
  // biome-ignore lint/suspicious/noThenProperty: a promise of somebody else's making
  then(done: (value: number) => void): void {
    done(2);
  }
}

test.each(["entered", "run", "a resource"] as const)(
  "a call leaves what was around it as it was (%s)",
  async (how) => {
    const lab = engine();
    const store = new AsyncLocalStorage<Scope | undefined>() as Storage<Scope>;
    const getStore = () => store.getStore();
    const scopes: Storage<Scope> = {
      entered: store,
      run: { getStore, run: store.run.bind(store) as typeof store.run },
      "a resource": { getStore, run: throughResource(store, AsyncResource) },
    }[how];
    Object.defineProperty(lab, "scopes", { value: scopes });
    const some = policy({
      engine: lab,
      retry: { maxAttempts: 2, backoff: { base: 0 } },
      bulkhead: { maxConcurrency: 9 },
    });
    const around = () => scopes.getStore();
    const functions: (() => unknown)[] = [
      () => 1,
      () => {
        throw new Error("at once");
      },
      async () => {
        await turns(3);
        throw reset();
      },
      async () => some.run(async () => some.run(() => turns(2))),
      () => new Theirs(),
    ];
    for (const outside of [
      undefined,
      { engine: undefined, call: 0, ends: undefined, criticality: undefined, around: undefined },
    ]) {
      const check = async () => {
        for (const fn of functions) {
          const inside: unknown[] = [];
          const going = some.run(() => {
            inside.push(around());
            return fn();
          });
          expect(around()).toBe(outside);
          await going.then(
            () => undefined,
            () => undefined,
          );
          expect(around()).toBe(outside);
          expect((inside[0] as { around: unknown }).around).toBe(outside);
        }
      };
      await (outside === undefined ? check() : scopes.run(outside, check));
    }
    expect(some.snapshot().ends).toMatchObject({ ok: 10 });
  },
);

test("what follows is entered in the way that is least work here", () => {
  const { enterWith, getStore } = engine().scopes as Storage<Scope>;
  expect(getStore).toBeTypeOf("function");
  // Either promise hooks, or a map for each store that is entered.
  expect(enterWith !== undefined).toBe("_propagate" in AsyncLocalStorage.prototype);
});

test("siblings do not see each other, and a child sees its parent after any wait", async () => {
  const lab = engine();
  const outer = policy({ engine: lab, retry: { maxAttempts: 3, backoff: { base: 0 } } });
  const inner = policy({ engine: lab, retry: { maxAttempts: 3, backoff: { base: 0 } } });
  const tries = { inside: 0, beside: 0 };
  const beside = inner.run(async () => {
    tries.beside += 1;
    await new Promise((done) => setTimeout(done, 2));
    throw reset();
  });
  const inside = outer.run(async () => {
    await new Promise((done) => setTimeout(done, 1));
    return inner.run(() => {
      tries.inside += 1;
      throw reset();
    });
  });
  await Promise.all([failure(beside), failure(inside)]);
  expect(tries).toEqual({ inside: 3, beside: 3 });
});

test("work that another one's loop carries out is nested where it is bound to what was around it (S14)", async () => {
  const lab = engine();
  const retry = { maxAttempts: 3, backoff: { base: 0 }, budget: { kind: "none" as const } };
  const outer = policy({ engine: lab, retry });
  const inner = policy({ engine: lab, retry });
  const jobs: (() => void)[] = [];
  const pool = setInterval(() => jobs.shift()?.(), 1); // callbacks without the context of the code that queued them
  const sends = async (bind: <F extends () => void>(job: F) => F) => {
    let sent = 0;
    const fails = () => {
      sent += 1;
      throw reset();
    };
    const ask = () =>
      new Promise<void>((done, failed) => {
        jobs.push(bind(() => void inner.run(fails).then(done, failed)));
      });
    await failure(outer.run(ask));
    return sent;
  };
  expect(await sends((job) => AsyncResource.bind(job))).toBe(3);
  expect(await sends((job) => job), "outside: retries multiply").toBe(9);
  clearInterval(pool);
});

const MINUTE = { base: 60_000, max: 60_000, jitter: "none" } as const;

/** A policy of an engine that waits a minute before each repeat. */
const patient = (lab: Engine) => policy({ engine: lab, deadline: 3_600_000, retry: { backoff: MINUTE } });

test("a call ends at the deadline of another engine's call around it too (7.3.3)", async () => {
  const clock = new FakeClock();
  const [outer, middle, inner] = [engine({ clock }), engine({ clock }), engine({ clock })];
  const bounded = policy({ engine: outer, deadline: 5000 });
  const ends: unknown[] = [];
  const own = policy({ engine: inner, attemptTimeout: 60_000 });
  const going = failure(
    bounded.run(() =>
      policy({ engine: middle, deadline: 9000 }).run(async () => {
        await clock.sleep(1000);
        ends.push(await failure(patient(inner).run(() => Promise.reject(reset()))));
        ends.push(await within({ deadline: 8000 }, () => failure(own.run(hang))));
        ends.push(clock.now());
      }),
    ),
  );
  await clock.advance(60_000);
  await going;
  const [refused, stopped, at] = ends;
  expect(reportOf(refused)?.reason).toBe("would_outlive_deadline");
  expect(stopped).toMatchObject({ reason: "deadline", policy: own.name });
  expect(at).toBe(5000);
});

test("the process's own clock is one for all of its engines (7.3.3)", async () => {
  const bounded = policy({ engine: engine(), deadline: 1000 });
  const late = await bounded.run(() => failure(patient(engine()).run(() => Promise.reject(reset()))));
  expect(reportOf(late)?.reason).toBe("would_outlive_deadline");
});

test("a call that has ended bounds no call of another engine", async () => {
  const clock = new FakeClock();
  const [outer, inner] = [engine({ clock }), engine({ clock })];
  let later: Promise<string> = Promise.reject(new Error("not begun"));
  later.catch(() => undefined);
  await policy({ engine: outer, deadline: 1000 }).run(() => {
    later = clock.sleep(5000).then(() => policy({ engine: inner, retry: {} }).run(() => "late"));
  });
  await clock.advance(5000);
  expect(await later).toBe("late");
});

test("nothing else crosses to another engine, and no deadline to another clock (7.3.4)", async () => {
  const clock = new FakeClock();
  const outer = policy({
    engine: engine({ clock }),
    deadline: 5000,
    retry: { backoff: { base: 0 } },
    bulkhead: { maxConcurrency: 1 },
  });
  let tries = 0;
  const other = policy({
    engine: engine({ clock }),
    retry: { maxAttempts: 3, backoff: { base: 0 } },
    bulkhead: { maxConcurrency: 1 },
  });
  const flaky = async () => {
    tries += 1;
    if (tries < 3) throw reset();
    return other.snapshot().routes["default"]?.pool?.inFlight;
  };
  expect(await clock.run(outer.run(() => other.run(flaky)))).toBe(1);
  expect(tries, "its own repeats, under its own permit").toBe(3);
  for (const lab of [engine(), engine({ clock: new FakeClock() })]) {
    const slow = policy({ engine: lab, retry: { backoff: MINUTE, maxAttempts: 2 } });
    const seen: string[] = [];
    slow.on("retry_scheduled", ({ type }) => seen.push(type));
    const given = new AbortController();
    const going = outer.run(() => failure(slow.run(() => Promise.reject(reset()), { signal: given.signal })));
    await turns();
    expect(seen, "it waits for longer than the call around it may take").toEqual(["retry_scheduled"]);
    given.abort(new Error("enough"));
    expect(await going).toMatchObject({ message: "enough" });
  }
});
