// What is not a call's time: memory of a call in flight, the import, the first policy, an event. node more.mjs; `bindings-wasm` has
// to be built. Each figure is of fresh processes, the best (of times) or the median (of bytes) of several.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { keep } from "./keep.mjs";

const OURS = "../../bindings-wasm/dist/esm/node.js";
const ALL = {
  bulkhead: { maxConcurrency: 1_000_000 },
  breaker: { failureRatio: 0.5, window: 10_000, minThroughput: 100, breakDuration: 5000 },
  retry: { maxAttempts: 3 },
};
const peers = {
  "bare promise": async () => (work) => work(),
  "tidegate": async () => {
    const { Engine, policy } = await import(OURS);
    const some = policy({ engine: new Engine(), ...ALL });
    return (work) => some.run(work);
  },
  "tidegate, no nesting": async () => {
    const { Engine, policy } = await import(OURS);
    const some = policy({ engine: new Engine({ nesting: false }), ...ALL });
    return (work) => some.run(work);
  },
  "tidegate, a deadline": async () => {
    const { Engine, policy } = await import(OURS);
    const some = policy({ engine: new Engine(), ...ALL, deadline: 600_000 });
    return (work) => some.run(work);
  },
  "cockatiel": async () => {
    const it = await import("cockatiel");
    const breaker = new it.SamplingBreaker({ threshold: 0.5, duration: 10_000 });
    const all = it.wrap(
      it.bulkhead(1_000_000),
      it.circuitBreaker(it.handleAll, { halfOpenAfter: 5000, breaker }),
      it.retry(it.handleAll, { maxAttempts: 3 }),
    );
    return (work) => all.execute(work);
  },
  "p-retry": async () => {
    const { default: retry } = await import("p-retry");
    return (work) => retry(work, { retries: 2 });
  },
};

/** Bytes of a call in flight. What the array and the resolvers take is in the bare promise's figure too. */
async function memory(name) {
  const call = await peers[name]();
  const COUNT = 50_000;
  const used = () => {
    for (let n = 0; n < 4; n += 1) globalThis.gc();
    const { heapUsed, external, arrayBuffers } = process.memoryUsage();
    return heapUsed + external + arrayBuffers;
  };
  const flight = async () => {
    const resolvers = new Array(COUNT);
    const calls = new Array(COUNT);
    for (let n = 0; n < COUNT; n += 1) {
      calls[n] = call(() => new Promise((done) => (resolvers[n] = done)));
    }
    await new Promise((done) => setTimeout(done, 20));
    const bytes = used();
    for (const resolve of resolvers) resolve(1);
    await Promise.all(calls);
    return bytes;
  };
  await flight(); // tables have grown to their size, and code is compiled
  const before = used();
  return ((await flight()) - before) / COUNT;
}

/** Milliseconds of an import, and of the first policy and the first call after it. */
async function start() {
  const began = performance.now();
  const { policy } = await import(OURS);
  const there = performance.now();
  const some = policy({ preset: "http" });
  const ready = performance.now();
  await some.run(async () => 1);
  return [there - began, ready - there, performance.now() - ready];
}

async function startOf(pack) {
  const began = performance.now();
  await import(pack);
  return [performance.now() - began];
}

/** Nanoseconds that a listener adds to a call, which has three events. */
async function events() {
  const { Engine, policy } = await import(OURS);
  const time = async (some, count) => {
    const began = process.hrtime.bigint();
    for (let n = 0; n < count; n += 1) await some();
    return Number(process.hrtime.bigint() - began) / count;
  };
  const some = policy({ engine: new Engine(), ...ALL });
  let heard = 0;
  const work = async () => 1;
  const call = () => some.run(work);
  const best = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  await time(call, 50_000);
  for (let turn = 0; turn < 40; turn += 1) {
    best[0] = Math.min(best[0], await time(call, 1000));
    const listening = some.on("*", () => (heard += 1));
    best[1] = Math.min(best[1], await time(call, 1000));
    listening.dispose();
  }
  if (heard !== 120_000) throw new Error(`${heard} events`);
  return (best[1] - best[0]) / 3;
}

const [what, ...which] = process.argv.slice(2);
if (what !== undefined) {
  const figure = await { memory, start, startOf, events }[what](...which);
  console.log(JSON.stringify(figure));
  process.exit(0);
}
const run = (...args) =>
  JSON.parse(execFileSync(process.execPath, ["--expose-gc", fileURLToPath(import.meta.url), ...args], { encoding: "utf8" }));
const several = (count, ...args) => Array.from({ length: count }, () => run(...args));
const median = (figures) => figures.sort((a, b) => a - b)[figures.length >> 1];

console.log(`Node ${process.version}`);
const bare = median(several(3, "memory", "bare promise"));
console.log(`\nbytes of a call in flight, above a bare promise (${bare.toFixed(0)})`);
for (const name of Object.keys(peers).slice(1)) {
  const above = median(several(3, "memory", name)) - bare;
  keep("memory of a call in flight", name, "bytes above a promise", above);
  console.log(`  ${name.padEnd(22)} ${above.toFixed(0).padStart(8)}`);
}
const starts = several(9, "start");
const best = (place) => Math.min(...starts.map((times) => times[place])).toFixed(1);
console.log("\nmilliseconds, in a fresh process");
console.log(`  import ${best(0)}, first policy ${best(1)}, first call ${best(2)}`);
for (const pack of ["cockatiel", "p-retry", "opossum", "bottleneck"]) {
  console.log(`  import ${pack}: ${Math.min(...several(5, "startOf", pack).flat()).toFixed(1)}`);
}
console.log(`\nnanoseconds of an event with one listener: ${Math.min(...several(3, "events")).toFixed(0)}`);
