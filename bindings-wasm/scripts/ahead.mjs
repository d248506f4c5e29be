// Is a call ahead of cockatiel's wrap? node scripts/ahead.mjs; `cargo xtask test` runs it. Looks at what the build has left.
//
// A bulkhead, a breaker and retries around a function that works, ours (with nesting, which costs every promise of the process)
// beside theirs, each in a process of its own. They take turns, and the best of each counts: a machine that is busy makes
// single turns slow, and the best of three hundred hardly. On a quiet machine the ratio is above 1.6; below 1.2 it fails.

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

/** Nanoseconds above a bare call. */
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
  process.exit(0); // a peer's timers are not to be waited for
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
const ahead = ratio >= LEAST; // and not where one is no number
console.log(
  `test result: ${ahead ? "ok" : "FAILED"}. ${ahead ? 1 : 0} passed; ${ahead ? 0 : 1} failed; 0 ignored`,
);
process.exit(ahead ? 0 : 1);
