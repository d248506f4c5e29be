/** Other ways to use a policy: documents, and objects whose methods run under one. */

import { describe, expect, test } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy } from "../ts/node.js";
import { setTesting } from "../ts/testing.js";
import { failure, reset } from "./support/functions.js";
import { engine } from "./support/setup.js";

describe("documents", () => {
  test("hold policies and pools, in the keys and units of every language", async () => {
    const { reads, writes } = tidegate.load(
      {
        pool: { db: { bulkhead: { max_concurrency: 1 } } },
        policy: {
          reads: { preset: "http", deadline: "1.5s", bulkhead: { pool: "db", acquire_timeout: "250ms" } },
          writes: { kinds: { stale: "conflict" }, retry: { retry_on: ["stale"], backoff: { base: "1ms" } } },
        },
      },
      { engine: engine() },
    ).policies;
    expect(String(reads?.explain())).toMatch(/deadline: 1\.5s/);
    expect(String(reads?.explain())).toMatch(/acquire_timeout 250ms/);
    expect(await writes?.run(() => "written")).toBe("written");
  });

  test("say the same, whatever their form", () => {
    const one = tidegate.load('{"policy": {"a": {"deadline": "1000ms"}}}', { engine: engine() });
    const other = tidegate.load({ policy: { a: { deadline: "1s" } } }, { engine: engine() });
    expect(other.digest).toBe(one.digest);
    expect(other.digest).toMatch(/^[0-9a-f]{16}$/);
    expect([...other].map(([name, { name: own }]) => [name, own])).toEqual([["a", "a"]]);
    expect(() => other.get("b")).toThrow('policy = "b": no such policy; the policies are a');
  });

  test("all mistakes at once, with their place", () => {
    const wrong = { policy: { a: { deadline: 5 }, b: { retry: { max_attempts: 0 } } }, polices: {} };
    try {
      tidegate.load(JSON.stringify(wrong, undefined, 1), { engine: engine() });
      expect.unreachable();
    } catch (error) {
      const { mistakes } = error as tidegate.PolicyError;
      expect(mistakes.map(({ key }) => key).sort()).toEqual([
        "polices",
        "policy.a.deadline",
        "policy.b.retry.max_attempts",
      ]);
      expect(mistakes.every(({ rule }) => /\(line \d+\)$/.test(rule))).toBe(true);
    }
    expect(() => tidegate.load("{", { engine: engine() })).toThrow(/JSON/);
    const circle: Record<string, unknown> = {};
    circle["policy"] = circle;
    expect(() => tidegate.load(circle, { engine: engine() })).toThrow(/must be JSON/);
  });

  test("no key stands twice, no name is lost, and no text is too long", () => {
    const own = engine();
    const twice = '{"policy": {"a": {"deadline": "1s", "deadline": "2s"}}}';
    expect(() => tidegate.load(twice, { engine: own })).toThrow(/policy\.a\.deadline/);
    expect(() => tidegate.load('{"policy": {"a": {}, "a": {}}}', { engine: own })).toThrow(/policy\.a/);
    const { policies } = tidegate.load(
      '{"policy": {"__proto__": {"deadline": "1s"}, "constructor": {"deadline": "1s"}}}',
      {
        engine: own,
      },
    );
    expect(Object.keys(policies).sort()).toEqual(["__proto__", "constructor"]);
    expect(new Map(Object.entries(policies)).get("__proto__")).toBeInstanceOf(tidegate.Policy);
    const long = JSON.stringify({ policy: { a: { deadline: "1s" } }, comment: "x".repeat(2 ** 20) });
    const began = performance.now();
    expect(() => tidegate.load(long, { engine: own })).toThrow(/at most 262144 bytes/);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test("a newer version goes over as a whole: what is counted stays, and it says what has changed", async () => {
    const own = engine();
    const text = (attempts: number, more: object) =>
      JSON.stringify({
        pool: { db: { bulkhead: { max_concurrency: attempts } } },
        policy: {
          a: { retry: { max_attempts: attempts, budget: { kind: "none" } } },
          b: { bulkhead: { pool: "db" } },
          ...more,
        },
      });
    const shop = tidegate.load(text(3, { old: { deadline: "1s" } }), { engine: own });
    const a = shop.get("a");
    const old = shop.get("old");
    const tries = async () => {
      let count = 0;
      await failure(
        a.run(async () => {
          count += 1;
          throw reset();
        }),
      );
      return count;
    };
    expect(await tries()).toBe(3);
    const digest = shop.digest;
    const reloaded = shop.reload(text(2, { young: { deadline: "1s" } }));
    expect(reloaded).toEqual({
      digest: shop.digest,
      added: ["policy.young"],
      changed: ["pool.db", "policy.a"],
      removed: ["policy.old"],
    });
    expect(shop.digest).not.toBe(digest);
    expect(shop.get("a")).toBe(a);
    expect(await tries()).toBe(2);
    expect(a.snapshot().attempts).toBe(5);
    expect(await old.run(() => "still there")).toBe("still there");
    expect(() => shop.get("old")).toThrow(/no such policy/);
    expect(own.snapshot().pools["db"]?.pool?.limit).toBe(2);
    const now = shop.digest;
    const wrong = { young: { retry: { max_attempts: 0 } } };
    expect(() => shop.reload(text(4, wrong))).toThrow(/policy\.young\.retry\.max_attempts/);
    expect([shop.digest, await tries()], "nothing has changed").toEqual([now, 2]);
  });

  test("a reload under a test's switches comes into force when they are gone", async () => {
    const own = engine();
    const text = (attempts: number) => ({
      policy: {
        a: { retry: { max_attempts: attempts, budget: { kind: "none" }, backoff: { base: "1ms" } } },
      },
    });
    const shop = tidegate.load(text(5), { engine: own });
    const tries = async () => {
      let count = 0;
      await failure(
        shop.get("a").run(async () => {
          count += 1;
          throw reset();
        }),
      );
      return count;
    };
    const quick = setTesting({ attempts: 2 });
    expect(await tries()).toBe(2);
    shop.reload(text(4));
    expect(await tries()).toBe(2);
    quick.dispose();
    expect(await tries()).toBe(4);
  });
});

describe("wrap", () => {
  class Client {
    #rows = 3;
    calls = 0;
    async read(): Promise<number> {
      this.calls += 1;
      if (this.calls === 1) throw reset();
      return this.#rows;
    }
    async write(): Promise<string> {
      this.calls += 1;
      throw reset();
    }
    async *rows(): AsyncGenerator<number> {
      yield 1;
    }
  }

  test("puts the methods that are named behind the policy", async () => {
    const some = policy({ engine: engine(), retry: { backoff: { base: 0 } } });
    const client = some.wrap(new Client(), { methods: ["read"] });
    expect(await client.read()).toBe(3);
    expect(client.calls).toBe(2);
    await failure(client.write());
    expect(client.calls).toBe(3);
    expect(Object.keys(some.snapshot().routes)).toEqual(["read"]);
    expect(client.read).toBe(client.read);
  });

  test("does not protect what other methods call", async () => {
    class Shop extends Client {
      both(): Promise<number> {
        return this.read();
      }
    }
    const some = policy({ engine: engine(), retry: { backoff: { base: 0 } } });
    const reads = some.wrap(new Shop(), { methods: ["read"] });
    await expect(reads.both()).rejects.toThrow("reset");
    expect(reads.calls).toBe(1);
    expect(some.snapshot().routes).toEqual({});
    const all = some.wrap(new Shop(), { methods: ["both"] });
    expect(await all.both()).toBe(3);
    expect(all.calls).toBe(2);
  });

  test("names methods that return a promise, because a wrapped one always does", async () => {
    class Mixed extends Client {
      size(): number {
        return 3;
      }
      get(key: string): Promise<string>;
      get(key: string, done: (value: string) => void): void;
      get(key: string, done?: (value: string) => void): unknown {
        return done === undefined ? Promise.resolve(key) : done(key);
      }
      find(key: string): string | Promise<string> {
        return key;
      }
    }
    const some = policy({ engine: engine(), retry: { backoff: { base: 0 } } });
    const client = some.wrap(new Mixed(), { methods: ["get", "find"] });
    expect([await client.get("a"), await client.find("b")]).toEqual(["a", "b"]);
    // @ts-expect-error `size` would return a promise, and its type says a number
    expect(await some.wrap(new Mixed(), { methods: ["size"] }).size()).toBe(3);
    // @ts-expect-error a generator is no promise
    some.wrap(new Mixed(), { methods: ["rows"] });
  });

  test("refuses to repeat writes that nobody has named", async () => {
    const repeats = policy({ engine: engine(), retry: {} });
    expect(() => repeats.wrap(new Client())).toThrow(/name the methods/);
    const races = policy({ engine: engine(), retry: { retryOn: ["never_sent"] }, hedge: { delay: 10 } });
    expect(() => races.wrap(new Client())).toThrow(/name the methods/);
    expect(() => repeats.wrap(new Client(), { methods: ["raed" as "read"] })).toThrow(/"raed" is no method/);
    const careful = policy({ engine: engine(), retry: { retryOn: ["never_sent"] } });
    const client = careful.wrap(new Client());
    await failure(client.write());
    expect(client.calls).toBe(1);
    const rows: number[] = [];
    for await (const row of client.rows()) rows.push(row);
    expect(rows).toEqual([1]);
  });
});
