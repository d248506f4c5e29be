// What a call costs beside its peers: node run.mjs [name …]. Prints nanoseconds above a bare `await work()`.
//
// Each contender runs in a process of its own, because some (AsyncLocalStorage) make every promise of the process dearer. All of
// them run alternately in several rounds, and the best round counts: the others were disturbed. `bindings-wasm` has to be built.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { keep } from "./keep.mjs";

const ROUNDS = 3;
const work = async () => 1;
const reset = () => Object.assign(new Error("reset"), { code: "ECONNRESET" });

/** A function that fails every other time. */
function flaky() {
  let n = 0;
  return async () => {
    n += 1;
    if (n % 2 === 1) throw reset();
    return n;
  };
}

const tidegate = async (settings, engine = {}) => {
  const { Engine, policy } = await import("../../bindings-wasm/dist/esm/node.js");
  return policy({ engine: new Engine(engine), ...settings });
};
const ALL = {
  bulkhead: { maxConcurrency: 100 },
  breaker: { failureRatio: 0.5, window: 10_000, minThroughput: 100, breakDuration: 5000 },
  retry: { maxAttempts: 3 },
};
const NO_WAIT = { retry: { maxAttempts: 3, backoff: { base: 0 }, budget: "none" } };
const run = (some) => () => some.run(work);
const cockatiel = async (timeout) => {
  const it = await import("cockatiel");
  const parts = [
    it.bulkhead(100),
    it.circuitBreaker(it.handleAll, { halfOpenAfter: 5000, breaker: new it.SamplingBreaker({ threshold: 0.5, duration: 10_000 }) }),
    it.retry(it.handleAll, { maxAttempts: 3 }),
  ];
  if (timeout) parts.push(it.timeout(5000, it.TimeoutStrategy.Cooperative));
  const all = it.wrap(...parts);
  return () => all.execute(work);
};

const CONTENDERS = {
  retry: {
    "tidegate": async () => run(await tidegate({ retry: { maxAttempts: 3 } })),
    "tidegate, no nesting": async () => run(await tidegate({ retry: { maxAttempts: 3 } }, { nesting: false })),
    "cockatiel": async () => {
      const it = await import("cockatiel");
      const policy = it.retry(it.handleAll, { maxAttempts: 3 });
      return () => policy.execute(work);
    },
    "p-retry": async () => {
      const { default: retry } = await import("p-retry");
      return () => retry(work, { retries: 2 });
    },
  },
  limit: {
    "tidegate": async () => run(await tidegate({ bulkhead: { maxConcurrency: 100 } })),
    "tidegate, no nesting": async () => run(await tidegate({ bulkhead: { maxConcurrency: 100 } }, { nesting: false })),
    "p-limit": async () => {
      const { default: limit } = await import("p-limit");
      const some = limit(100);
      return () => some(work);
    },
    "bottleneck": async () => {
      const { default: Bottleneck } = await import("bottleneck");
      const some = new Bottleneck({ maxConcurrent: 100 });
      return () => some.schedule(work);
    },
  },
  breaker: {
    "tidegate": async () => run(await tidegate({ breaker: ALL.breaker })),
    "tidegate, no nesting": async () => run(await tidegate({ breaker: ALL.breaker }, { nesting: false })),
    "opossum": async () => {
      const { default: Breaker } = await import("opossum");
      const some = new Breaker(work, { timeout: false });
      return () => some.fire();
    },
  },
  "all: bulkhead, breaker, retry": {
    "tidegate": async () => run(await tidegate(ALL)),
    "tidegate, no nesting": async () => run(await tidegate(ALL, { nesting: false })),
    "cockatiel": () => cockatiel(false),
  },
  "all, with an attempt timeout": {
    "tidegate": async () => run(await tidegate({ ...ALL, attemptTimeout: 5000 })),
    "tidegate, no nesting": async () => run(await tidegate({ ...ALL, attemptTimeout: 5000 }, { nesting: false })),
    "cockatiel": () => cockatiel(true),
  },
  "one retry, no wait": {
    "tidegate": async () => {
      const some = await tidegate(NO_WAIT);
      const fn = flaky();
      return () => some.run(fn);
    },
    "tidegate, no nesting": async () => {
      const some = await tidegate(NO_WAIT, { nesting: false });
      const fn = flaky();
      return () => some.run(fn);
    },
    "cockatiel": async () => {
      const it = await import("cockatiel");
      const some = it.retry(it.handleAll, { maxAttempts: 3, backoff: new it.ConstantBackoff(0) });
      const fn = flaky();
      return () => some.execute(fn);
    },
    "p-retry": async () => {
      const { default: retry } = await import("p-retry");
      const fn = flaky();
      return () => retry(fn, { retries: 2, minTimeout: 0, maxTimeout: 0 });
    },
  },
};

async function measure(theme, name) {
  const call = await CONTENDERS[theme][name]();
  const time = async (some, count) => {
    const start = process.hrtime.bigint();
    for (let n = 0; n < count; n += 1) await some();
    return Number(process.hrtime.bigint() - start) / count;
  };
  await time(call, Math.min(Math.round(2e8 / (await time(call, 200))), 100_000)); // until it is compiled
  // Turns of a millisecond or two: on a machine that others use, some of them are not disturbed.
  const count = Math.min(Math.max(Math.round(2e6 / (await time(call, 200))), 5), 5000);
  let [bare, under] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  // The bare call before anything has been switched on would be another's: both are taken side by side.
  for (let turn = 0; turn < 150; turn += 1) {
    under = Math.min(under, await time(call, count));
    bare = Math.min(bare, await time(work, Math.max(count, 1000)));
  }
  return Math.max(under - bare, 0);
}

const [mode, theme, name] = process.argv.slice(2);
if (mode === "--one") {
  console.log(await measure(theme, name));
  process.exit(0); // a peer's timers are not to be waited for
}
const version = (pack) => JSON.parse(readFileSync(new URL(`node_modules/${pack}/package.json`, import.meta.url), "utf8")).version;
const peers = ["cockatiel", "p-retry", "opossum", "bottleneck", "p-limit"];
const ran = `Node ${process.version}; ${peers.map((peer) => `${peer} ${version(peer)}`).join(", ")}`;
console.log(ran);
keep("versions", ran, "", 0);
console.log("nanoseconds above a bare call, best of rounds; × is how many times tidegate's");
const wanted = process.argv.slice(2);
for (const [title, contenders] of Object.entries(CONTENDERS)) {
  if (wanted.length > 0 && !wanted.some((word) => title.includes(word))) continue;
  const best = {};
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const each of Object.keys(contenders)) {
      const told = execFileSync(process.execPath, [fileURLToPath(import.meta.url), "--one", title, each], { encoding: "utf8" });
      best[each] = Math.min(best[each] ?? Number.POSITIVE_INFINITY, Number(told));
    }
  }
  console.log(`\n${title}`);
  for (const [each, ns] of Object.entries(best)) {
    keep(title, each, "ns above", ns);
    console.log(`  ${each.padEnd(22)} ${ns.toFixed(0).padStart(8)} ns   × ${(ns / best.tidegate).toFixed(2)}`);
  }
}
