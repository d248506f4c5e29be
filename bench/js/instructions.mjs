// Makes calls, for callgrind to count their instructions: node instructions.mjs <scenario> <calls>. `cargo xtask gate --javascript`
// runs it twice, and divides the difference by the difference of the calls, so that start-up and compiling cancel out
// (`instructions-20.txt` has the accepted figures). `bindings-wasm` has to be built.

// Real readings would let windows of time end at other calls in each run. The clock of the platform is not ours to count.
let now = 0;
performance.now = () => (now += 0.01);

const { Engine, policy } = await import("../../bindings-wasm/dist/esm/node.js");
const limited = { retry: { maxAttempts: 3 }, bulkhead: { maxConcurrency: 100 } };
const work = async () => 1;
const SCENARIOS = {
  run: { nesting: false },
  run_nesting: {},
};

const some = policy({ engine: new Engine({ seed: 1, ...SCENARIOS[process.argv[2]] }), ...limited });
const calls = Number(process.argv[3]);
for (let n = 0; n < calls; n += 1) await some.run(work);
