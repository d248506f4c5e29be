// Checks that a call is faster than cockatiel's wrap: node scripts/ahead.mjs. `cargo xtask test` runs it. It uses the output of the
// build.
//
// Runs a bulkhead, a breaker and retries around a function that succeeds: ours (with nesting, which costs every promise of the
// process) and theirs, each in a process of its own. The two alternate and the best of 300 rounds counts, because load on the
// machine slows down single rounds but hardly the best one. On a quiet machine the ratio is above 1.6; below 1.2 the check fails.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const LEAST = 1.2;
const ROUNDS = 5;
const work = async () => 1;

const CONTENDERS = {
  tidegate: async () => {
    const { Engine, policy } = await import("../dist/esm/node.js");
    const some = policy({
      engine: new Engine(),
      bulkhead: { maxConcurrency: 100 },
      breaker: { failureRatio: 0.5, window: 10_000, minThroughput: 100, breakDuration: 5000 },
      retry: { maxAttempts: 3 },
    });
    return () => some.run(work);
  },
  cockatiel: async () => {
    const it = await import("cockatiel");
    const breaker = new it.SamplingBreaker({ threshold: 0.5, duration: 10_000 });
    const all = it.wrap(
      it.bulkhead(100),
      it.circuitBreaker(it.handleAll, { halfOpenAfter: 5000, breaker }),
      it.retry(it.handleAll, { maxAttempts: 3 }),
    );
    return () => all.execute(work);
  },
};

/** Nanoseconds on top of a bare call. */
async function measure(name) {
  const call = await CONTENDERS[name]();
  const time = async (some, count) => {
    const start = process.hrtime.bigint();
    for (let n = 0; n < count; n += 1) await some();
    return Number(process.hrtime.bigint() - start) / count;
  };
  await time(call, 50_000);
  let [bare, under] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let turn = 0; turn < 60; turn += 1) {
    under = Math.min(under, await time(call, 2000));
    bare = Math.min(bare, await time(work, 2000));
  }
  return under - bare;
}

if (process.argv[2] !== undefined) {
  console.log(await measure(process.argv[2]));
  process.exit(0); // does not wait for timers of a peer
}
const best = {};
for (let round = 0; round < ROUNDS; round += 1) {
  for (const name of Object.keys(CONTENDERS)) {
    const told = execFileSync(process.execPath, [fileURLToPath(import.meta.url), name], { encoding: "utf8" });
    best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, Number(told));
  }
}
const ratio = best.cockatiel / best.tidegate;
const figures = Object.entries(best).map(([name, ns]) => `${name} ${ns.toFixed(0)} ns`);
console.log(
  `   ${figures.join(", ")} above a bare call: ${ratio.toFixed(2)} times as fast, ${LEAST} at least`,
);
const ahead = ratio >= LEAST; // false if a ratio is not a number
console.log(
  `test result: ${ahead ? "ok" : "FAILED"}. ${ahead ? 1 : 0} passed; ${ahead ? 0 : 1} failed; 0 ignored`,
);
process.exit(ahead ? 0 : 1);
