/** Other ways to a policy: documents, and objects whose methods are under one. */

import { describe, expect, test } from "vitest";
import * as tidegate from "../ts/node.js";
import { policy } from "../ts/node.js";
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
    ) as Record<string, tidegate.Policy>;
    expect(String(reads?.explain())).toMatch(/deadline: 1\.5s/);
    expect(String(reads?.explain())).toMatch(/acquire_timeout 250ms/);
    expect(await writes?.run(() => "written")).toBe("written");
  });

  test("all mistakes at once, with their place", () => {
    const wrong = { policy: { a: { deadline: 5 }, b: { retry: { max_attempts: 0 } } }, polices: {} };
    try {
      tidegate.load(JSON.stringify(wrong), { engine: engine() });
      expect.unreachable();
    } catch (error) {
      expect((error as tidegate.PolicyError).mistakes.map(({ key }) => key)).toEqual([
        "polices",
        "policy.a.deadline",
        "policy.b.retry.max_attempts",
      ]);
    }
    expect(() => tidegate.load("{")).toThrow(/must be JSON/);
    // Names that every object has are keys like others, and none that there are.
    const borrowed = '{"pool":{"x":{"constructor":{}}},"policy":{"a":{"__proto__":{}},"b":{"toString":5}}}';
    expect(() => tidegate.load(borrowed, { engine: engine() })).toThrow(
      /^pool\.x\.constructor = .*policy\.a\.__proto__ = .*no such key.*policy\.b\.toString = 5: no such key/,
    );
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
