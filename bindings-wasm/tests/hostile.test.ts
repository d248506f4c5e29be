/** Stores that misbehave: no call breaks or waits longer than its limit, and nothing is left over. */

import { expect, test } from "vitest";
import { attach, type Store, type StoreAnswer, StoreError } from "../ts/fleet.js";
import { type Policy, type PolicyOptions, policy, StoreUnavailable } from "../ts/node.js";
import { MemoryStore } from "../ts/parts/index.js";
import { assertIdle, FakeClock } from "../ts/testing.js";
import { failure } from "./support/functions.js";
import { engine, turns } from "./support/setup.js";

const rate = (onLoss: "open" | "closed" | "local"): PolicyOptions => ({
  name: "partner",
  rateLimit: { permits: 100, per: 1000, burst: 20, lease: 1, store: "fleet", onLoss },
});

/** A complete store of a user: one method, over a map. */
class Dictionary implements Store {
  readonly kind = "plain";
  readonly #held = new Map<string, { value: string; ends: number }>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  execute([command, key = "", ...rest]: readonly string[]): StoreAnswer {
    const found = this.#held.get(key);
    const held = found !== undefined && found.ends > this.#now() ? found : undefined;
    switch (command) {
      case "GET":
        return held?.value;
      case "PTTL":
        return held === undefined ? -2 : held.ends - this.#now();
      case "DEL":
        return Number(this.#held.delete(key));
      case "INCRBY": {
        const value = BigInt(held?.value ?? 0) + BigInt(rest[0] as string);
        this.#held.set(key, { value: String(value), ends: held?.ends ?? Number.POSITIVE_INFINITY });
        return value;
      }
      case "PEXPIRE":
        if (held !== undefined) held.ends = this.#now() + Number(rest[0]);
        return Number(held !== undefined);
      case "SET": // SET key value PX milliseconds [NX]
        if (held !== undefined && rest.at(-1) === "NX") return null;
        this.#held.set(key, { value: rest[0] as string, ends: this.#now() + Number(rest[2]) });
        return "OK";
      default:
        throw new StoreError(`ERR unknown command '${command}'`);
    }
  }
}

test("one method makes a store", async () => {
  const clock = new FakeClock();
  const store = new Dictionary(() => clock.now());
  const all = [1, 2].map((seed) => {
    const lab = engine({ clock, seed });
    attach(store, { engine: lab });
    return policy({ ...rate("closed"), engine: lab });
  });
  let spent = 0;
  for (let n = 0; n < 100; n += 1) {
    const one = (all[n % 2] as Policy).run(() => (spent += 1)).catch(() => undefined);
    await clock.run(one);
  }
  expect(spent).toBe(20);
  await clock.advance(200);
  expect(await clock.run((all[0] as Policy).run(() => "again"))).toBe("again");
});

const error = (make: (error: Error) => void): Error => {
  const made = new Error("x");
  make(made);
  return made;
};
const throws = {
  get() {
    throw new Error("a getter");
  },
};

/** Behaviours of a store. One that throws does not answer. The types are those that TypeScript would reject. */
const HOSTILE: Record<string, () => unknown> = {
  "throws no error": () => {
    throw undefined;
  },
  "throws an error that has no constructor": () => {
    throw Object.setPrototypeOf(new Error("x"), null);
  },
  "throws an error whose name cannot be read": () => {
    throw error((it) => Object.defineProperty(it, "name", throws));
  },
  "throws an error whose message cannot be read": () => {
    throw error((it) => Object.defineProperties(it, { name: { value: "ReplyError" }, message: throws }));
  },
  "throws an error whose message is a symbol": () => {
    throw error((it) =>
      Object.defineProperties(it, { name: { value: "ReplyError" }, message: { value: Symbol("x") } }),
    );
  },
  "throws an answer without a word": () => {
    throw new StoreError("");
  },
  "rejects with what is no error": () => Promise.reject("READONLY"),
  "answers with an object": () => ({}),
  "answers with an object without a prototype": () => Object.create(null),
  "answers with an object that cannot be a text": () => ({
    toString() {
      throw new Error("toString");
    },
  }),
  "answers with a symbol": () => Symbol("1 0 1"),
  "answers with a function": () => () => "1 0 1",
  "answers with not a number": () => Number.NaN,
  "answers with a negative number": () => -5,
  "answers with lone surrogates": () => "\ud800 0 1",
  "answers with bytes that are no text": () => new Uint8Array([0xff, 0x20, 0x00]),
  "answers with bytes that are gone": () => {
    const bytes = new Uint8Array(8);
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    return bytes;
  },
  "answers with megabytes": () => "1 ".repeat(1_000_000),
  "never answers": () => new Promise(() => undefined),
  "has a then that throws": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then() {
      throw new Error("then");
    },
  }),
  // biome-ignore lint/suspicious/noThenProperty: that is the point
  "has a then that cannot be read": () => Object.defineProperty({}, "then", throws),
  "has a then that does nothing": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then() {},
  }),
  "answers twice, and then not": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is the point
    then(done: (it: unknown) => void, fail: (error: unknown) => void) {
      done("garbage");
      done("1 0 1");
      fail(new Error("and not"));
    },
  }),
};

test.each(Object.keys(HOSTILE))("a store that %s", async (how) => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  attach({ execute: HOSTILE[how] as Store["execute"] }, { engine: lab });
  const told: string[] = [];
  lab.listen(({ type }) => {
    if (type.startsWith("store_")) told.push(type);
  });
  const some = policy({ ...rate("open"), engine: lab });
  expect(await clock.run(some.run(() => "through"))).toBe("through");
  expect(clock.now()).toBeLessThanOrEqual(51);
  expect(told).toEqual(["store_degraded"]);
  const at = clock.now();
  for (let n = 0; n < 20; n += 1) expect(await clock.run(some.run(() => n))).toBe(n);
  expect(clock.now()).toBe(at); // no call waits for a store that is known to be unreachable
  await clock.advance(100);
  assertIdle(lab);
});

test("answers that come late are of commands that have been given up", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const memory = new MemoryStore(() => clock.now());
  const late: (() => void)[] = [];
  let asked = 0;
  const execute: Store["execute"] = (words) => {
    asked += 1;
    return new Promise((resolve, reject) => {
      late.push(() => {
        try {
          resolve(memory.execute(words));
        } catch (refused) {
          reject(refused);
        }
      });
    });
  };
  attach({ execute }, { engine: lab });
  const told: string[] = [];
  lab.listen(({ type }) => {
    if (type.startsWith("store_")) told.push(type);
  });
  const some = policy({ ...rate("closed"), engine: lab });
  const refused = failure(some.run(() => 1));
  await clock.advance(60);
  expect(await refused).toBeInstanceOf(StoreUnavailable);
  expect(asked).toBe(1);
  for (const answer of late.splice(0)) answer();
  await turns(50);
  expect(told).toEqual(["store_degraded"]);
  assertIdle(lab);
});

test("an answer to an engine that nobody has any more changes nothing", async () => {
  const clock = new FakeClock();
  let answer = (_: string) => {};
  const held = new Promise<string>((done) => {
    answer = done;
  });
  await (async () => {
    const lab = engine({ clock });
    attach({ execute: () => held }, { engine: lab });
    const some = policy({ ...rate("open"), engine: lab });
    const going = some.run(() => 1);
    await clock.advance(60);
    expect(await going).toBe(1);
  })();
  answer("1 0 1");
  await turns(50);
});

test("a waitUntil that throws breaks no call", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const memory = new MemoryStore(() => clock.now());
  const waitUntil = () => {
    throw new Error("outside of a request");
  };
  attach(memory, { engine: lab, waitUntil });
  const some = policy({ ...rate("closed"), engine: lab });
  for (let n = 0; n < 5; n += 1) expect(await clock.run(some.run(() => n))).toBe(n);
  expect(lab.snapshot().lost).toBe(0);
});
