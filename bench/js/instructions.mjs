// Makes calls, for callgrind to count their instructions: node instructions.mjs <scenario> <calls>. `cargo xtask gate --javascript`
// runs it twice, and divides the difference by the difference of the calls, so that start-up and compiling cancel out
// (`instructions-20.txt` has the accepted figures). `bindings-wasm` has to be built.

// Real readings would let windows of time end at other calls in each run. The clock of the platform is not ours to count.
let now = 0;
performance.now = () => (now += 0.01);

const { Engine, policy } = await import("../../bindings-wasm/dist/esm/node.js");
const limited = { retry: { maxAttempts: 3 }, bulkhead: { maxConcurrency: 100 } };
const work = async () => 1;
const noWait = { retry: { maxAttempts: 3, backoff: { base: 0 }, budget: "none" } };
// Always the same error: to make one, with its trace of the stack, takes more instructions than everything else.
const reset = Object.assign(new Error("reset"), { code: "ECONNRESET" });
let attempts = 0;
const flaky = async () => {
  attempts += 1;
  if (attempts % 2 === 1) throw reset;
  return attempts;
};
const SCENARIOS = {
  run: [work, limited, { nesting: false }],
  run_nesting: [work, limited, {}],
  one_retry: [flaky, noWait, { nesting: false }],
};

const [fn, settings, options] = SCENARIOS[process.argv[2]];
const some = policy({ engine: new Engine({ seed: 1, ...options }), ...settings });
const calls = Number(process.argv[3]);
for (let n = 0; n < calls; n += 1) await some.run(fn);
