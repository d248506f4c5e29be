/**
 * One process of the fleet's bench, in JavaScript: decisions of one contender, as fast as it makes them.
 *
 * Takes the arguments that every worker takes, and answers in the lines that README.md describes. `bindings-wasm` has to be built;
 * ioredis is found there, rate-limiter-flexible in `bench/js`.
 */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const PACKAGE = new URL("../../bindings-wasm/", import.meta.url);
const PEERS = new URL("../js/", import.meta.url);
/** Milliseconds: what was admitted is told in such slices. */
const BIN = 100;
/** Milliseconds between two looks at the clock, about. */
const LONG = 1;
/** Seconds of decisions before any are counted: until all is compiled. */
const WARM = 0.2;
/** Latencies that are kept. */
const MOST = 200_000;

const text = { type: "string" };
const { values: args } = parseArgs({
  options: {
    list: { type: "boolean" }, redis: text, contender: text, rate: text, "at-once": text, pause: text, seconds: text, sample: text,
  },
});
const rate = Number(args.rate);
const { Redis } = createRequire(new URL("package.json", PACKAGE))("ioredis");
let lost = 0;

function client() {
  const [host, port] = args.redis.split(":");
  return new Redis({ host, port: Number(port) });
}

/** A policy with nothing but this rate: of the fleet's where there are settings for it, else the process's own. */
async function tidegate(fleet) {
  const { Engine, policy, RateLimited } = await import(new URL("dist/esm/node.js", PACKAGE));
  const { attach, RedisStore } = await import(new URL("dist/esm/fleet.js", PACKAGE));
  const engine = new Engine();
  if (fleet) {
    const store = new RedisStore(client());
    attach({ kind: store.kind, execute: (words, key) => watched(store.execute(words, key)) }, { engine });
  }
  const call = policy({
    name: "bench", engine, rateLimit: { permits: rate, per: 1000, ...(fleet ? { store: "fleet", ...fleet } : {}) },
    // The peers wait as long as it takes; where sixteen processes want two cores, 50 ms are soon gone.
    ...(fleet ? { storeTimeout: 1000 } : {}),
  }).at({ route: "eu" });
  const work = async () => true;
  return async () => {
    try {
      return await call.run(work);
    } catch (error) {
      if (error instanceof RateLimited) return false;
      throw error;
    }
  };
}

/** Counts the commands without an answer in time: figures of a run with any are of something else. */
async function watched(answer) {
  const began = performance.now();
  let failed = true;
  try {
    const it = await answer;
    failed = false;
    return it;
  } catch (error) {
    failed = error.name !== "StoreError";
    throw error;
  } finally {
    if (failed || performance.now() - began > 1000) lost += 1;
  }
}

function flexible(more = () => ({})) {
  return () => {
    const it = createRequire(new URL("package.json", PEERS))("rate-limiter-flexible");
    const limiter = new it.RateLimiterRedis({
      storeClient: client(), points: rate, duration: 1, keyPrefix: "bench", ...more(it),
    });
    return async () => {
      try {
        await limiter.consume("eu");
        return true;
      } catch (error) {
        if (error instanceof Error) throw error; // a refusal is none
        return false;
      }
    };
  };
}

/** The version of an installed package, or null. */
function installed(name, from) {
  try {
    return JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, from), "utf8")).version;
  } catch {
    return null;
  }
}

const versions = {
  Node: process.versions.node,
  ioredis: installed("ioredis", PACKAGE),
  "rate-limiter-flexible": installed("rate-limiter-flexible", PEERS),
};
const contenders = {
  // Beside a connection that is used, as in any server: without one, Node's promises are a third cheaper.
  "js: tidegate, a local rate": () => {
    const redis = client();
    setInterval(() => redis.incr("bench"), 10);
    return tidegate();
  },
  "js: tidegate, leased": () => tidegate({}),
  "js: tidegate, strict": () => tidegate({ lease: 1 }),
  "js: a bare INCR": () => {
    const redis = client();
    return async () => (await redis.incr("bench")) > 0;
  },
  ...(versions["rate-limiter-flexible"] && {
    "js: rate-limiter-flexible": flexible(),
    "js: rate-limiter-flexible, blocks in memory, insured": flexible(({ RateLimiterMemory }) => ({
      inMemoryBlockOnConsumed: rate,
      insuranceLimiter: new RateLimiterMemory({ points: rate, duration: 1 }),
    })),
  }),
};

if (args.list) {
  console.log(JSON.stringify({ versions, contenders: Object.keys(contenders) }));
  process.exit(0);
}
if (!(args.contender in contenders)) {
  console.error(`--contender ${args.contender}: there is none; --list names them`);
  process.exit(1);
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const [seconds, pause] = [Number(args.seconds) * 1000, Number(args.pause) / 1000];
const decide = await contenders[args.contender]();
await sample(WARM);
console.log("ready");
const wait = Number((await lines.next()).value) - Date.now();
if (wait < 0) throw new RangeError(`the start has passed, ${-wait} ms ago`);
await sleep(wait);

const tally = { decisions: 0, admitted: 0, admits: new Array(Math.round(seconds / BIN) + 1).fill(0) };
const start = performance.now();

async function count() {
  let [now, length] = [start, 1];
  while (now - start < seconds) {
    let admitted = 0;
    for (let n = 0; n < length; n += 1) {
      if (await decide()) admitted += 1;
      else if (pause > 0) await sleep(pause);
    }
    await turn(); // as input and output have, in any server
    const before = now;
    now = performance.now();
    tally.decisions += length;
    tally.admitted += admitted;
    tally.admits[Math.min(Math.floor((now - start) / BIN), tally.admits.length - 1)] += admitted;
    const took = now - before;
    if (took < LONG / 2) length = Math.min(length * 2, 4096);
    else if (took > LONG) length = Math.max(length >> 1, 1);
  }
}

async function sample(length) {
  const taken = [];
  let now = process.hrtime.bigint();
  const until = now + BigInt(Math.round(length * 1e9));
  while (now < until && taken.length < MOST) {
    await decide();
    const before = now;
    now = process.hrtime.bigint();
    taken.push(Number(now - before));
    if (taken.length % 100 === 0) {
      await turn();
      now = process.hrtime.bigint();
    }
  }
  return taken.sort((a, b) => a - b);
}

const before = process.cpuUsage();
await Promise.all(Array.from({ length: Number(args["at-once"]) }, count));
const { user, system } = process.cpuUsage(before);
const wall = (performance.now() - start) / 1000;
console.log("counted");
await lines.next();
const taken = await sample(Number(args.sample));
const quantile = (part) => taken[Math.floor(taken.length * part)] ?? null;
console.log(
  JSON.stringify({
    ...tally, cpu_s: (user + system) / 1e6, wall_s: wall, p50_ns: quantile(0.5), p99_ns: quantile(0.99), lost,
  }),
);
process.exit(0);
