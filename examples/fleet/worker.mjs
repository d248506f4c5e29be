/**
 * One process of a fleet, in JavaScript: a steady load under a fleet-wide rate limit and breaker.
 *
 * Takes the arguments that every worker takes (README.md), and prints one line of JSON at its end. The first argument is the folder
 * of the built package; `ioredis` is found beside it.
 */

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const [folder, ...rest] = process.argv.slice(2);
const args = {};
for (let at = 0; at < rest.length; at += 2) args[rest[at].slice(2)] = rest[at + 1];
const number = (name) => {
  const value = Number(args[name]);
  if (!Number.isInteger(value)) throw new TypeError(`--${name} = ${args[name]}: must be a whole number`);
  return value;
};

const { policy, RateLimited, BreakerOpen } = await import(pathToFileURL(`${folder}/dist/esm/node.js`).href);
const { attach, RedisStore } = await import(pathToFileURL(`${folder}/dist/esm/fleet.js`).href);
const { Redis } = createRequire(`${folder}/package.json`)("ioredis");

const [host, port] = args.redis.split(":");
const client = new Redis({ host, port: Number(port), maxRetriesPerRequest: 0, enableOfflineQueue: false });
client.on("error", () => undefined); // the engine tells of it
attach(new RedisStore(client));

const STATES = { closed: 0, open: 1, half_open: 2 };
const BUCKET = 50;
const seconds = number("seconds");
const limited = policy({
  name: "api",
  rateLimit: {
    permits: number("rate"), per: 1000, burst: number("burst"), lease: number("lease"), store: "fleet",
  },
  ...("store-timeout" in args ? { storeTimeout: number("store-timeout") } : {}),
  ...(number("breaker") ? { breaker: { consecutive: 5, breakDuration: 1000, store: "fleet" } } : {}),
});
const api = limited.at({ route: "eu" });

// Not when this process wakes: all measure from the same moment, or their figures are not comparable.
const zero = performance.now() + (number("start") - Date.now());
if (zero < performance.now()) throw new RangeError(`--start ${args.start}: has passed`);
await sleep(zero - performance.now());
const line = {
  language: "javascript", begun: 0, rate_limited: 0, breaker_open: 0, breaker: [], degraded: [], recovered: [],
  starts: new Array((seconds * 1000) / BUCKET + 1).fill(0),
};
const waits = []; // of every call, until its attempt or its refusal
const now = () => Math.round((performance.now() - zero) * 1000);
limited.engine.listen((event) => {
  if (event.type === "breaker_changed") line.breaker.push([now(), STATES[event.to]]);
  if (event.type === "store_degraded") line.degraded.push(now());
  if (event.type === "store_recovered") line.recovered.push(now());
});

async function one() {
  const begun = performance.now();
  try {
    await api.run(() => {
      const at = performance.now() - zero;
      waits.push(at + zero - begun);
      line.starts[Math.min(Math.floor(at / BUCKET), line.starts.length - 1)] += 1;
      if ("failing" in args && at >= number("failing") && at < number("failing") + 300) {
        throw Object.assign(new Error("the upstream fails"), { code: "ECONNRESET" });
      }
    });
  } catch (error) {
    if (error.code !== "ECONNRESET") waits.push(performance.now() - begun);
    if (error instanceof RateLimited) line.rate_limited += 1;
    else if (error instanceof BreakerOpen) line.breaker_open += 1;
    else if (error.code !== "ECONNRESET") throw error;
  }
}

const calls = [];
for (; (line.begun * 1000) / number("load") < seconds * 1000; line.begun += 1) {
  const wait = zero + (line.begun * 1000) / number("load") - performance.now();
  if (wait > 0) await sleep(wait);
  calls.push(one());
}
await Promise.all(calls);
waits.sort((a, b) => a - b);
console.log(JSON.stringify({ ...line, wait_p99_us: Math.round((waits[Math.floor(waits.length * 0.99)] ?? 0) * 1000) }));
client.disconnect();
process.exit(0);
