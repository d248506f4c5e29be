// What is not a call's time: memory of a call in flight, the import, the first policy, an event, timeouts after a burst. node more.mjs;
// `bindings-wasm` has to be built. Each figure is of fresh processes, the best (of times) or the median (of bytes) of several.

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

/** A function that makes a call which ends by a timeout of so many milliseconds, or when its work ends. */
const timeouts = {
  "tidegate": async () => {
    const { Engine, policy } = await import(OURS);
    const engine = new Engine();
    const some = new Map([SHORT, LONG].map((attemptTimeout) => [attemptTimeout, policy({ engine, attemptTimeout })]));
    return (ms, work) => some.get(ms).run(work);
  },
  "cockatiel": async () => {
    const { timeout, TimeoutStrategy } = await import("cockatiel");
    const some = new Map([SHORT, LONG].map((ms) => [ms, timeout(ms, TimeoutStrategy.Aggressive)]));
    return (ms, work) => some.get(ms).execute(work);
  },
  "a bare setTimeout": async () => (ms, work) => {
    const { promise, resolve, reject } = withResolvers();
    const timer = setTimeout(reject, ms, new Error("late"));
    work().then(resolve);
    return promise.finally(() => clearTimeout(timer));
  },
};
const [SHORT, LONG] = [20, 60_000];

function withResolvers() {
  let resolve, reject;
  const promise = new Promise((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
}

/** Milliseconds after which a timeout of 20 ms ends a call, before and after 100,000 calls at once that have a timeout too. */
async function late(name) {
  const call = await timeouts[name]();
  const fired = async () => {
    const times = [];
    for (let turn = 0; turn < 25; turn += 1) {
      const began = performance.now();
      const ended = await call(SHORT, () => new Promise(() => undefined)).catch((error) => error);
      if (!(ended instanceof Error)) throw new Error(`${name}: no timeout`);
      times.push(performance.now() - began);
    }
    return median(times);
  };
  const before = await fired();
  const { promise, resolve } = withResolvers();
  const burst = Array.from({ length: 100_000 }, () => call(LONG, () => promise));
  await new Promise((done) => setTimeout(done, 100));
  resolve(1);
  await Promise.all(burst);
  return [before, await fired()];
}

const median = (figures) => figures.sort((a, b) => a - b)[figures.length >> 1];

const [what, ...which] = process.argv.slice(2);
if (what !== undefined) {
  const figure = await { memory, start, startOf, events, late }[what](...which);
  console.log(JSON.stringify(figure));
  process.exit(0);
}
const run = (...args) =>
  JSON.parse(execFileSync(process.execPath, ["--expose-gc", fileURLToPath(import.meta.url), ...args], { encoding: "utf8" }));
const several = (count, ...args) => Array.from({ length: count }, () => run(...args));

console.log(`Node ${process.version}`);
const bare = median(several(3, "memory", "bare promise"));
console.log(`\nbytes of a call in flight, above a bare promise (${bare.toFixed(0)})`);
for (const name of Object.keys(peers).slice(1)) {
  const above = median(several(3, "memory", name)) - bare;
  keep("memory of a call in flight", name, "bytes above a promise", above);
  console.log(`  ${name.padEnd(22)} ${above.toFixed(0).padStart(8)}`);
}
const START = "start of a process of Node";
const starts = several(9, "start");
console.log("\nmilliseconds, in a fresh process");
for (const [place, row] of ["import", "first policy", "first call"].entries()) {
  const best = Math.min(...starts.map((times) => times[place]));
  keep(START, `tidegate: ${row}`, "ms", best);
  console.log(`  ${row} ${best.toFixed(1)}`);
}
for (const pack of ["cockatiel", "p-retry", "opossum", "bottleneck"]) {
  const best = Math.min(...several(5, "startOf", pack).flat());
  keep(START, `${pack}: import`, "ms", best);
  console.log(`  import ${pack}: ${best.toFixed(1)}`);
}
console.log(`\nnanoseconds of an event with one listener: ${Math.min(...several(3, "events")).toFixed(0)}`);
console.log("\nmilliseconds after which a timeout of 20 ms fires");
for (const name of Object.keys(timeouts)) {
  const times = several(3, "late", name);
  for (const [place, when] of ["before a burst", "after a burst of 100,000 calls"].entries()) {
    const ms = median(times.map((each) => each[place]));
    keep("a timeout of 20 ms", `${name}, ${when}`, "ms", ms);
    console.log(`  ${`${name}, ${when}`.padEnd(52)} ${ms.toFixed(1)}`);
  }
}
