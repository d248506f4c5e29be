/** A call's scope applies only to that call, in whatever way its function returns. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { expect, test } from "vitest";
import type { Storage } from "../ts/engine/platform.js";
import { policy } from "../ts/node.js";
import { throughResource } from "../ts/run/follow.js";
import type { Scope } from "../ts/run/scope.js";
import { failure, reset } from "./support/functions.js";
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
