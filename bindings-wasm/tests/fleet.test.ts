/** The fleet's host on a store in memory: commands are sent once and with a time limit, and nothing is left over. */

import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, test } from "vitest";
import { attach, RedisStore, type Store, type StoreAnswer, StoreError } from "../ts/fleet.js";
import { type Engine, PolicyError, type PolicyOptions, policy, StoreUnavailable } from "../ts/node.js";
import { MemoryStore } from "../ts/parts/index.js";
import { assertIdle, FakeClock } from "../ts/testing.js";
import { failure } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

const RATE: PolicyOptions = {
  name: "partner",
  rateLimit: { permits: 100, per: 1000, burst: 20, store: "fleet" },
};

/** A store whose replies the test delays, corrupts or drops. */
class Faulty implements Store {
  readonly inner: MemoryStore;
  readonly commands: string[] = [];
  how: "works" | "hangs" | "refuses" | "garbles" | "throws" = "works";
  error: Error = new Error("connect ECONNREFUSED");

  constructor(clock: FakeClock) {
    this.inner = new MemoryStore(() => 1_000_000 + clock.now());
  }

  execute(words: readonly string[]): StoreAnswer | Promise<StoreAnswer> {
    this.commands.push(words[0] as string);
    if (this.how === "hangs") return new Promise(() => undefined);
    if (this.how === "throws") throw this.error;
    if (this.how === "refuses") return Promise.reject(this.error);
    if (this.how === "garbles") return "what?";
    return this.inner.execute(words);
  }
}

function fleet(
  count: number,
  settings = RATE,
): [clock: FakeClock, store: Faulty, engines: Engine[], all: ReturnType<typeof policy>[]] {
  const clock = new FakeClock();
  const store = new Faulty(clock);
  const engines = Array.from({ length: count }, (_, n) => engine({ clock, seed: n + 1 }));
  const all = engines.map((lab) => {
    attach(store, { engine: lab, namespace: "shop" });
    return policy({ ...settings, engine: lab });
  });
  return [clock, store, engines, all];
}

/** The number of calls admitted. */
async function through(clock: FakeClock, some: ReturnType<typeof policy>, calls: number): Promise<number> {
  let done = 0;
  const going = Array.from({ length: calls }, () =>
    some
      .run(() => {
        done += 1;
      })
      .catch(() => undefined),
  );
  await clock.run(Promise.all(going));
  return done;
}

test("processes share a rate: together they spend the burst and what the time brings", async () => {
  const [clock, store, engines, all] = fleet(3);
  let spent = 0;
  for (const some of all) spent += await through(clock, some, 30);
  expect(spent).toBe(20);
  for (let second = 0; second < 5; second += 1) {
    for (let step = 0; step < 10; step += 1) {
      await clock.advance(100);
      for (const some of all) spent += await through(clock, some, 10);
    }
  }
  expect(spent).toBeLessThanOrEqual(520);
  expect(spent).toBeGreaterThan(480);
  expect(store.commands.slice(0, 2)).toEqual(["EVALSHA", "EVAL"]); // a new server does not have the script yet
  for (const lab of engines) assertIdle(lab);
});

test.each([
  ["hangs", 50],
  ["refuses", 0],
  ["throws", 0],
  ["garbles", 0],
] as const)(
  "a store that %s holds a call up no longer than its time, and then nobody",
  async (how, longest) => {
    for (const onLoss of ["local", "open", "closed"] as const) {
      const settings = { ...RATE, rateLimit: { ...RATE.rateLimit, onLoss } };
      const [clock, store, [lab], [some]] = fleet(1, settings as PolicyOptions);
      store.how = how;
      const events: string[] = [];
      const own: string[] = [];
      const listening = some?.on("*", ({ type }) => own.push(type));
      lab?.listen(({ type }) => {
        if (type.startsWith("store_")) events.push(type);
      });
      const first = some?.run(() => "through").catch((error: Error) => error);
      const answer = await clock.run(Promise.resolve(first));
      if (onLoss === "closed") expect(answer).toBeInstanceOf(StoreUnavailable);
      else expect(answer).toBe("through");
      expect(clock.now()).toBeLessThanOrEqual(longest + 1);
      const at = clock.now();
      await clock.run(Promise.resolve(some?.run(() => "again").catch((error: Error) => error)));
      expect(clock.now()).toBe(at);
      expect(events.filter((type) => type === "store_degraded")).toHaveLength(1);
      // A garbled reply concerns only its own route. A missing reply concerns the whole store, so its event names no policy.
      expect(own.filter((type) => type === "store_degraded")).toHaveLength(how === "garbles" ? 1 : 0);
      // The store recovers by itself, with a single event.
      store.how = "works";
      for (let n = 0; n < 20; n += 1) {
        await clock.advance(1000);
        await clock.run(Promise.resolve(some?.run(() => 1).catch(() => undefined)));
      }
      expect(events.filter((type) => type === "store_recovered")).toHaveLength(1);
      listening?.dispose();
    }
  },
);

test("an error that the store answers with is told apart from its absence, and is not repeated", async () => {
  const [clock, store, , [some]] = fleet(1);
  store.error = new StoreError("READONLY You can't write against a read only replica.");
  store.how = "refuses";
  const told: unknown[] = [];
  some?.engine.listen((event) => told.push(event));
  await clock.run(Promise.resolve(some?.run(() => 1)));
  expect(store.commands).toHaveLength(1);
  expect(JSON.stringify(told)).toContain("store_degraded");
});

test("a command runs outside of the call that it is for, and of whatever is around that", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const users = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const memory = new MemoryStore(() => clock.now());
  const store: Store = {
    execute(words) {
      seen.push(lab.scopes?.getStore());
      return memory.execute(words);
    },
  };
  attach(store, { engine: lab });
  const outer = policy({ engine: lab, retry: {} });
  const some = policy({ ...RATE, engine: lab });
  await clock.run(users.run("ann", () => outer.run(async () => some.run(() => 1))));
  expect(seen.length).toBeGreaterThan(0);
  expect(seen.every((scope) => scope === undefined)).toBe(true);
});

test("answers that come late, and callers who have left, change nothing and leave nothing", async () => {
  const [clock, store, [lab], [some]] = fleet(1);
  const pending: (() => void)[] = [];
  const { execute } = store;
  store.execute = (words) =>
    new Promise((resolve, reject) => {
      pending.push(() => {
        try {
          resolve(execute.call(store, words));
        } catch (error) {
          reject(error);
        }
      });
    });
  const controller = new AbortController();
  const call = failure((some as ReturnType<typeof policy>).run(() => 1, { signal: controller.signal }));
  await clock.advance(10);
  expect(pending).toHaveLength(1);
  const why = new Error("enough");
  controller.abort(why);
  expect(await call).toBe(why);
  await clock.advance(100); // its deadline passes too
  for (const answer of pending.splice(0)) answer();
  await turns(100);
  assertIdle(lab);
});

test("what cannot be is told: no store, two stores, no client, no such kind", () => {
  const lab = engine();
  expect(() => policy({ engine: lab, ...RATE })).toThrow(PolicyError);
  const store = new MemoryStore();
  attach(store, { engine: lab });
  expect(() => attach(store, { engine: lab })).toThrow(/has a store already/);
  expect(() => attach({} as Store, { engine: engine() })).toThrow(/must have a method execute/);
  expect(() => attach(store, { engine: engine(), namespace: "x".repeat(101) })).toThrow(/at most 100 bytes/);
  expect(() => new RedisStore({} as never)).toThrow(/must be one of ioredis or redis/);
  expect(() => new RedisStore(undefined as never)).toThrow(/must be one of ioredis or redis/);
  expect(() => new RedisStore(store, { kind: "odd" as "lua" })).toThrow(/must be one of lua, plain/);
  expect(new RedisStore(store, { kind: "plain" }).kind).toBe("plain");
});

describe("clients", () => {
  test("of every shape are asked in their own way, each command once", async () => {
    const words = ["EVALSHA", "sha", "1", "{k}:rl"];
    const asked: unknown[][] = [];
    const told = (...args: unknown[]) => {
      asked.push(args);
      return Promise.resolve("1 0 1");
    };
    const shapes: [object, unknown[]][] = [
      [{ call: told, sendCommand: () => asked.push(["wrong"]) }, words],
      [{ sendCommand: told }, [words]],
      [{ sendCommand: told, masters: [] }, ["{k}:rl", false, words]],
      [{ sendCommand: told, getMasterNode: () => 0 }, [false, words]],
      [{ execute: told }, [words, 3]],
    ];
    for (const [client, expected] of shapes) {
      asked.length = 0;
      expect(await new RedisStore(client as never).execute(words, 3)).toBe("1 0 1");
      expect(asked).toEqual([expected]);
    }
  });

  test("have names of their own for an error that the server answers with", async () => {
    class ErrorReply extends Error {}
    class ReplyError extends Error {
      override name = "ReplyError";
    }
    for (const error of [new ErrorReply("OOM no memory"), new ReplyError("OOM no memory")]) {
      const store = new RedisStore({ execute: () => Promise.reject(error) });
      expect(await failure(store.execute(["GET"], 0))).toBeInstanceOf(StoreError);
    }
    const lost = new Error("Connection is closed.");
    expect(await failure(new RedisStore({ execute: () => Promise.reject(lost) }).execute(["GET"], 0))).toBe(
      lost,
    );
  });

  test("answers are texts, bytes, integers or nothing", async () => {
    const clock = new FakeClock();
    const memory = new MemoryStore(() => clock.now());
    const forms: ((text: string) => StoreAnswer)[] = [
      (text) => text,
      (text) => new TextEncoder().encode(text),
      (text) => (text === "" ? null : text),
    ];
    for (const form of forms) {
      const lab = engine({ clock });
      attach({ execute: (words) => form(memory.execute(words)) }, { engine: lab, namespace: String(form) });
      const some = policy({ ...RATE, engine: lab });
      expect(await through(clock, some, 30)).toBe(20);
      expect(lab.snapshot().lost).toBe(0);
    }
  });
});

test("a platform that ends what it does not know of is told of every command", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const memory = new MemoryStore(() => clock.now());
  const known: Promise<void>[] = [];
  attach(memory, { engine: lab, waitUntil: (command) => known.push(command) });
  const some = policy({ ...RATE, engine: lab });
  expect(await through(clock, some, 3)).toBe(3);
  await Promise.all(known);
  expect(known.length).toBeGreaterThan(0);
});
