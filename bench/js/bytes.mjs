// What a page loads to make its first call, with brotli: node bytes.mjs. Bundles as in `bindings-wasm/scripts/package.mjs`; `bindings-wasm`
// has to be built.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { keep } from "./keep.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const OURS = "../../bindings-wasm/dist/esm";
const PROGRAMS = {
  "tidegate: its code": `import { policy } from "${OURS}/index.js"; globalThis.fetch2 = policy({ preset: "http" }).fetch;`,
  "cockatiel: retry, breaker, bulkhead, timeout": `import * as it from "cockatiel";
    const breaker = it.circuitBreaker(it.handleAll, { halfOpenAfter: 5000, breaker: new it.SamplingBreaker({ threshold: 0.5, duration: 10_000 }) });
    const all = it.wrap(it.bulkhead(100), breaker, it.retry(it.handleAll, { maxAttempts: 3 }), it.timeout(5000, it.TimeoutStrategy.Cooperative));
    globalThis.fetch2 = (url) => all.execute(({ signal }) => fetch(url, { signal }));`,
  "ky": `import ky from "ky"; globalThis.fetch2 = ky;`,
};

/** Bytes of a program's bundle. */
function bundled(program) {
  const options = ["--bundle", "--minify", "--format=esm", "--platform=browser", "--log-level=error"];
  const esbuild = at("../../bindings-wasm/node_modules/.bin/esbuild");
  return brotliCompressSync(execFileSync(esbuild, options, { cwd: at("."), input: program })).length;
}

const sizes = Object.fromEntries(Object.entries(PROGRAMS).map(([name, program]) => [name, bundled(program)]));
const module = brotliCompressSync(readFileSync(at(`${OURS}/small.wasm`))).length;
const all = { "tidegate: code and small.wasm": sizes["tidegate: its code"] + module, ...sizes };
console.log("\nbytes that a page loads for its first call, with brotli");
for (const [name, bytes] of Object.entries(all)) {
  keep("what a page loads, with brotli", name, "bytes", bytes);
  console.log(`  ${name.padEnd(46)} ${bytes.toString().padStart(8)}`);
}
