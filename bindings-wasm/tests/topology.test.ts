/** The fleet's host on a cluster of three nodes, and on a server that forbids scripts; over ioredis and node-redis. */

import { Cluster as IOCluster, Redis as IORedis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { attach, type RedisClient, RedisStore } from "../ts/fleet.js";
import { BreakerOpen, type Caller, type Engine, type Policy, PolicyError, policy } from "../ts/node.js";
import { Cluster, PROGRAM, Redis, Sentinel } from "./support/redis.js";
import { until } from "./support/server.js";
import { engine } from "./support/setup.js";

interface Connected {
  readonly client: RedisClient;
  close(): unknown;
}

const patient = { storeTimeout: 2000 };
const retrying = { maxRetriesPerRequest: 0, enableOfflineQueue: false };

const CLUSTERS: Record<string, (port: number) => Promise<Connected>> = {
  ioredis: async (port) => {
    const client = new IOCluster([{ host: "127.0.0.1", port }], { redisOptions: retrying });
    client.on("error", () => undefined);
    await new Promise<void>((done) => client.once("ready", () => done()));
    return { client, close: () => client.disconnect() };
  },
  "node-redis": async (port) => {
    const rootNodes = [{ url: `redis://127.0.0.1:${port}` }];
    const client = createCluster({ rootNodes, defaults: { disableOfflineQueue: true } });
    client.on("error", () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

const SENTINELS: Record<string, (port: number) => Promise<Connected>> = {
  ioredis: async (port) => {
    const sentinels = [{ host: "127.0.0.1", port }];
    const client = new IORedis({
      sentinels,
      name: Sentinel.NAME,
      ...retrying,
      sentinelRetryStrategy: () => 50,
    });
    client.on("error", () => undefined);
    await new Promise<void>((done) => client.once("ready", () => done()));
    return { client, close: () => client.disconnect() };
  },
  "node-redis": async (port) => {
    const client = createSentinel({
      name: Sentinel.NAME,
      sentinelRootNodes: [{ host: "127.0.0.1", port }],
      nodeClientOptions: { disableOfflineQueue: true },
      scanInterval: 100,
      maxCommandRediscovers: 0,
    });
    client.on("error", () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

const SINGLE: Record<string, (port: number) => Promise<Connected>> = {
  ioredis: async (port) => {
    const client = new IORedis({ port, ...retrying });
    await new Promise<void>((done) => client.once("ready", () => done()));
    return { client, close: () => client.disconnect() };
  },
  "node-redis": async (port) => {
    const client = createClient({ socket: { port }, disableOfflineQueue: true });
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Engines of two processes, each with a client of its own, and their events about the store. */
async function processes(
  kinds: typeof CLUSTERS,
  kind: string,
  port: number,
  more: { namespace: string; plain?: boolean },
) {
  const told: string[] = [];
  const engines: Engine[] = [];
  for (const seed of [1, 2]) {
    const { client, close } = await (kinds[kind] as (typeof CLUSTERS)[string])(port);
    ends.push(close);
    const lab = engine({ seed });
    lab.listen(({ type }) => {
      if (type.startsWith("store_")) told.push(type);
    });
    const store = new RedisStore(client, { kind: more.plain ? "plain" : "lua" });
    attach(store, { engine: lab, namespace: more.namespace });
    ends.push(() => until(() => lab.ticker.size === 0)); // commands must be answered before their client is closed
    engines.push(lab);
  }
  return { told, engines };
}

async function through(some: Caller, calls: number): Promise<number> {
  let done = 0;
  const one = () => some.run(() => (done += 1)).catch(() => undefined);
  await Promise.all(Array.from({ length: calls }, one));
  return done;
}

async function opensFor(one: Policy, other: Policy): Promise<void> {
  expect(await other.run(() => 1)).toBe(1);
  const fails = () => {
    throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
  };
  for (let n = 0; n < 3; n += 1) await one.run(fails).catch(() => undefined);
  const refused = async () => {
    await one.run(fails).catch(() => undefined); // opens it again if the break ended before the other heard of it
    return other
      .run(() => 1)
      .then(
        () => false,
        (error: unknown) => error instanceof BreakerOpen,
      );
  };
  await until(refused, 15_000);
}

const broken = { consecutive: 3, breakDuration: 400, breakFactor: 1, store: "fleet" as const };

describe.skipIf(PROGRAM === undefined)("on three nodes (needs redis-server)", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start();
  }, 60_000);
  afterAll(() => cluster?.end());

  describe.each(Object.keys(CLUSTERS))("%s", (kind) => {
    const members = (namespace: string, plain = false) =>
      processes(CLUSTERS, kind, (cluster.nodes[0] as Redis).port, { namespace: namespace + kind, plain });

    test("each command goes to the node of its key, scripts that a node has lost too", async () => {
      const { told, engines } = await members("rate");
      const rateLimit = { permits: 20, per: 1000, burst: 20, lease: 1, store: "fleet" as const };
      const all = engines.map((lab) => policy({ name: "partner", engine: lab, rateLimit, ...patient }));
      for (let tenant = 0; tenant < 12; tenant += 1) {
        const callers = all.map((some) => some.at({ route: `tenant ${tenant}` }));
        const began = performance.now();
        let spent = 0;
        for (const some of callers) spent += await through(some, 20);
        expect(spent).toBeGreaterThanOrEqual(20);
        expect(spent).toBeLessThanOrEqual(21 + (20 * (performance.now() - began)) / 1000);
        if (tenant === 6) await cluster.nodes[1]?.command("SCRIPT", "FLUSH");
      }
      expect(told).toEqual([]);
      for (const node of cluster.nodes) {
        expect(await node.command("KEYS", `rate${kind}:*`)).toContain("tenant");
        expect(await node.command("INFO", "errorstats")).not.toContain("MOVED");
      }
    }, 60_000);

    test("a break is the fleet's", async () => {
      const { told, engines } = await members("break");
      const [one, other] = engines.map((lab) =>
        policy({ name: "partner", engine: lab, breaker: broken, ...patient }),
      ) as [Policy, Policy];
      await opensFor(one, other);
      expect(told).toEqual([]);
    }, 60_000);

    test("slots are the fleet's", async () => {
      const { told, engines } = await members("slots");
      const bulkhead = { maxConcurrency: 3, maxQueue: null, acquireTimeout: null, store: "fleet" as const };
      let [running, most] = [0, 0];
      const work = async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((done) => setTimeout(done, 3));
        running -= 1;
      };
      const all = engines.map((lab) => policy({ name: "partner", engine: lab, bulkhead, ...patient }));
      await Promise.all(Array.from({ length: 60 }, (_, n) => (all[n % 2] as Policy).run(work)));
      expect(most).toBe(3);
      expect(told).toEqual([]);
    }, 60_000);

    test("without scripts a rate is kept by windows", async () => {
      const { told, engines } = await members("plain", true);
      await windows(engines, told);
      for (const node of cluster.nodes) {
        expect(await node.command("INFO", "errorstats")).not.toContain("MOVED");
      }
    }, 60_000);
  });
});

/** Checks the bound for every time span: at most its refill, two bursts and the leases are spent. */
async function windows(engines: Engine[], told: string[]): Promise<void> {
  const rateLimit = { permits: 100, per: 1000, burst: 50, lease: 5, store: "fleet" as const };
  const all = engines.map((lab) => policy({ name: "partner", engine: lab, rateLimit, ...patient }));
  const began = performance.now();
  let spent = 0;
  while (performance.now() - began < 1300) {
    for (const some of all) spent += await through(some, 10);
    await new Promise((done) => setTimeout(done, 10));
  }
  expect(spent).toBeGreaterThanOrEqual(100);
  expect(spent).toBeLessThanOrEqual((100 * (performance.now() - began)) / 1000 + 100 + 10);
  expect(told).toEqual([]);
}

describe.skipIf(PROGRAM === undefined)("on a server that forbids scripts (needs redis-server)", () => {
  describe.each(Object.keys(SINGLE))("%s", (kind) => {
    async function members() {
      const redis = await Redis.withoutScripts();
      ends.push(() => redis.end());
      return { redis, ...(await processes(SINGLE, kind, redis.port, { namespace: "shop", plain: true })) };
    }

    test("a rate is kept by windows, and nothing is left", async () => {
      const { redis, told, engines } = await members();
      expect(await redis.command("EVAL", "return 1", "0")).toMatch(/^-ERR unknown command/);
      await windows(engines, told);
      await until(async () => (await redis.command("DBSIZE")) === ":0\r\n", 5_000);
    }, 60_000);

    test("a break is the fleet's until a probe closes it for all", async () => {
      const { redis, told, engines } = await members();
      const [one, other] = engines.map((lab) =>
        policy({ name: "partner", engine: lab, breaker: broken, storeExchange: 20, ...patient }),
      ) as [Policy, Policy];
      await opensFor(one, other);
      for (const some of [other, one]) await until(async () => (await through(some, 1)) === 1, 15_000);
      await until(async () => {
        await through(other, 1);
        return (await redis.command("DBSIZE")) === ":0\r\n";
      }, 15_000);
      expect(told).toEqual([]);
    }, 60_000);

    test("every answer of every plain command is what the engine reads", async () => {
      const redis = await Redis.withoutScripts();
      ends.push(() => redis.end());
      const { client, close } = await (SINGLE[kind] as (typeof SINGLE)[string])(redis.port);
      ends.push(close);
      const store = new RedisStore(client, { kind: "plain" });
      const asked: [words: string, told: string | number | null][] = [
        ["SET k 0 PX 60000 NX", "OK"],
        ["SET k 0 PX 60000 NX", null],
        ["INCRBY k 5", 5],
        ["PEXPIRE k 1000000", 1],
        ["PEXPIRE none 1000", 0],
        ["PTTL none", -2],
        ["GET k", "5"],
        ["GET none", null],
        ["DEL k", 1],
        ["DEL k", 0],
      ];
      for (const [words, told] of asked)
        expect([words, await store.execute(words.split(" "), 1)]).toEqual([words, told]);
    }, 60_000);

    test("what needs scripts is refused by name", async () => {
      const { engines } = await members();
      const bulkhead = { maxConcurrency: 3, store: "fleet" as const };
      const made = () => policy({ name: "partner", engine: engines[0], bulkhead });
      expect(made).toThrow(PolicyError);
      expect(made).toThrow(/bulkhead\.store.*scripts/);
    }, 60_000);
  });
});

describe.skipIf(PROGRAM === undefined)("behind Sentinel (needs redis-server)", () => {
  test.each(Object.keys(SENTINELS))(
    "%s follows a failover",
    async (kind) => {
      const servers = await Sentinel.start();
      ends.push(() => servers.end());
      const { told, engines } = await processes(SENTINELS, kind, servers.sentinel.port, {
        namespace: "shop",
      });
      const rateLimit = {
        permits: 100,
        per: 1000,
        burst: 20,
        store: "fleet" as const,
        onLoss: "open" as const,
      };
      const all = engines.map((lab) => policy({ name: "partner", engine: lab, rateLimit, ...patient }));
      for (const some of all) expect(await through(some, 5)).toBe(5);
      expect(told).toEqual([]);
      expect(await servers.primary.command("KEYS", "*")).toContain("shop:{r|partner|default}:rl");
      await servers.primary.kill();
      const ask = async () => {
        for (const some of all) await through(some, 1);
      };
      await until(async () => {
        await ask();
        return told.filter((type) => type === "store_degraded").length === 2;
      }, 10_000);
      await until(async () => {
        await ask();
        return told.filter((type) => type === "store_recovered").length === 2;
      }, 40_000);
      expect(await servers.replica.command("INFO", "replication")).toContain("role:master");
      await until(async () => {
        await ask();
        return (await servers.replica.command("KEYS", "*")).includes("shop:{r|partner|default}:rl");
      });
    },
    90_000,
  );
});
