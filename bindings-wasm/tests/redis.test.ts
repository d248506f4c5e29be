/** The fleet's host on a real Redis, over ioredis and node-redis: sharing, loss and recovery. */

import { Redis as IORedis } from "ioredis";
import { createClient } from "redis";
import { afterEach, describe, expect, test } from "vitest";
import { attach, type RedisClient, RedisStore } from "../ts/fleet.js";
import { type Policy, policy } from "../ts/node.js";
import { PROGRAM, Redis } from "./support/redis.js";
import { until } from "./support/server.js";
import { engine } from "./support/setup.js";

interface Connected {
  readonly client: RedisClient;
  close(): void | Promise<void>;
}

const CLIENTS: Record<string, (port: number) => Promise<Connected>> = {
  ioredis: async (port) => {
    const client = new IORedis({
      port,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      retryStrategy: () => 50,
    });
    client.on("error", () => undefined); // the client reconnects
    await new Promise<void>((done) => client.once("ready", () => done()));
    return { client, close: () => client.disconnect() };
  },
  "node-redis": async (port) => {
    const client = createClient({ socket: { port, reconnectStrategy: 50 }, disableOfflineQueue: true });
    client.on("error", () => undefined);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
};

/** A `storeTimeout` (ms) with which a slow machine does not look like a lost store. */
const PATIENT = 2000;

const ends: (() => void | Promise<void>)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function server(): Promise<Redis> {
  const redis = await Redis.start();
  ends.push(() => redis.end());
  return redis;
}

/** A policy with an engine of its own, as in another process. */
async function partner(kind: string, redis: Redis, more: object = {}, storeTimeout = 50): Promise<Policy> {
  const { client, close } = await (CLIENTS[kind] as (typeof CLIENTS)[string])(redis.port);
  ends.push(close);
  const lab = engine({ seed: Math.floor(Math.random() * 2 ** 32) });
  attach(new RedisStore(client), { engine: lab });
  const rateLimit = { permits: 50, per: 1000, burst: 20, store: "fleet" as const, ...more };
  return policy({ name: "partner", engine: lab, storeTimeout, rateLimit });
}

/** The number of calls admitted, and the longest time that one took. */
async function ask(some: Policy, calls: number): Promise<[through: number, longest: number]> {
  let through = 0;
  let longest = 0;
  const one = async () => {
    const began = performance.now();
    await some.run(() => (through += 1)).catch(() => undefined);
    longest = Math.max(longest, performance.now() - began);
  };
  await Promise.all(Array.from({ length: calls }, one));
  return [through, longest];
}

describe.skipIf(PROGRAM === undefined)(
  "on a real server (needs redis-server, or TIDEGATE_REDIS_SERVER)",
  () => {
    describe.each(Object.keys(CLIENTS))("%s", (kind) => {
      test("processes share a rate", async () => {
        const redis = await server();
        const all = await Promise.all([1, 2, 3].map(() => partner(kind, redis, {}, PATIENT)));
        const began = performance.now();
        let spent = 0;
        while (performance.now() - began < 1500) {
          for (const some of all) spent += (await ask(some, 20))[0];
          await new Promise((done) => setTimeout(done, 20));
        }
        const seconds = (performance.now() - began) / 1000;
        expect(spent).toBeLessThanOrEqual(20 + 50 * seconds + 1);
        expect(spent).toBeGreaterThan(0.3 * 50 * seconds);
      }, 30_000);

      test("a server that is killed is done without at once, and is there again by itself", async () => {
        const redis = await server();
        const some = await partner(kind, redis, { onLoss: "open" }, PATIENT);
        const told: string[] = [];
        some.engine.listen(({ type }) => {
          if (type.startsWith("store_")) told.push(type);
        });
        expect((await ask(some, 5))[0]).toBe(5);
        await redis.kill();
        await until(async () => {
          await ask(some, 30);
          return told.includes("store_degraded");
        });
        const [through, longest] = await ask(some, 100);
        expect(through).toBe(100); // on_loss: open
        expect(longest).toBeLessThan(20_000);
        await redis.again();
        await until(async () => {
          await ask(some, 5);
          return told.includes("store_recovered");
        }, 20_000);
        expect(told).toEqual(["store_degraded", "store_recovered"]);
      }, 60_000);

      test("a server that hangs holds nobody up for longer than storeTimeout", async () => {
        const redis = await server();
        const some = await partner(kind, redis, { lease: 1 });
        expect((await ask(some, 3))[0]).toBe(3);
        redis.pause();
        const [, longest] = await ask(some, 10);
        expect(longest).toBeLessThan(20_000); // 50 ms plus delays of this machine
        const [, then] = await ask(some, 10);
        expect(then).toBeLessThan(20_000);
        redis.resume();
        await new Promise((done) => setTimeout(done, 50)); // late replies arrive and change nothing
      }, 30_000);

      test("a client that is closed is a store that is gone", async () => {
        const redis = await server();
        const some = await partner(kind, redis, { onLoss: "open", lease: 1 });
        await ends.pop()?.();
        expect((await ask(some, 10))[0]).toBe(10);
      }, 30_000);
    });
  },
);
