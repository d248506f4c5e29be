// What a user gets: node scripts/package.mjs. Packs the tarball that a build has left, installs it in a new folder outside the
// tree, and looks at it from there: import, require, slim with the raw module, types, a bundle and its size.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { LARGEST } from "./largest.mjs";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const outside = mkdtempSync(join(tmpdir(), "tidegate-package-"));
const run = (command, args) => execFileSync(command, args, { cwd: outside, encoding: "utf8" });
const file = (name, text) => writeFileSync(join(outside, name), text);

const USE = `
let tries = 0;
const some = policy({ retry: { backoff: { base: 1 } } });
const work = async () => { tries += 1; if (tries < 3) throw Object.assign(new Error("reset"), { code: "ECONNRESET" }); return tries; };
some.run(work).then((value) => {
  if (value !== 3 || typeof some.fetch !== "function") throw new Error("got " + value);
  console.log("works");
});
`;

const TYPED = `
import { AttemptTimeout, Engine, Pool, policy, reportOf, within, type Attempt, type TidegateEvent } from "tidegate";
import { FakeClock } from "tidegate/testing";
import { initSync } from "tidegate/slim";
import { Aimd, type AimdSettings, MemoryStore } from "tidegate/parts";
import { attach, RedisStore, type Store } from "tidegate/fleet";

const settings: AimdSettings = { maxConcurrency: 5, latencyThreshold: 100 };
const limit: number = new Aimd(settings).limit;
const store: Store = new RedisStore({ execute: (words: readonly string[], key: number) => words[key] ?? null });
attach(limit > 9 ? store : new MemoryStore(), { namespace: "shop" });
// @ts-expect-error no client
new RedisStore({ port: 6379 });
// @ts-expect-error no threshold
new Aimd({ maxConcurrency: limit });
const engine = new Engine({ seed: 7, clock: new FakeClock() });
const pool = new Pool("db", { bulkhead: { maxConcurrency: 5 }, engine });
const some = policy({ engine, preset: "http", deadline: 5000, retry: { maxAttempts: 3, statuses: [503] }, bulkhead: { pool } });
const { fetch } = some;
const same: typeof globalThis.fetch = fetch;
const answer: Promise<number> = some.run(async ({ signal, attempt }: Attempt) => (signal.aborted ? 0 : attempt), { signal: null });
const client = some.wrap({ read: async (id: string) => id.length }, { methods: ["read"] });
const length: Promise<number> = client.read("x");
some.on("retry_scheduled", (event: TidegateEvent) => console.log(event.attempt)).dispose();
answer.catch((error: unknown) => (error instanceof AttemptTimeout ? error.retryIn : reportOf(error)?.note));
void within({ deadline: 100, criticality: "critical" }, () => same("http://x/", { tidegate: { route: "x", cost: 2 } }));
// @ts-expect-error no such key
policy({ retry: { maxAttempt: 3 } });
// @ts-expect-error a word, not a number
policy({ preset: "https" });
export { initSync, length };
`;

/** What a page's engine does not do is refused by the name of the import that does, and nothing else goes wrong. */
const LACKS = `
const some = policy({ name: "some", preset: "http" });
const { engine } = some;
const refused = (what, work, pattern) => {
  try { work(); } catch (error) { if (pattern.test(error.message)) return; throw error; }
  throw new Error(what + " is not refused");
};
for (const name of ["retune", "forceOpen", "snapshot", "explain", "on"]) {
  refused(name, () => some[name]({}), new RegExp("^tidegate: " + name + " is not in the small engine .*tidegate/full"));
}
for (const name of ["snapshot", "snapshotInPages", "save", "saveInPages", "restore", "listen", "explain", "journal"]) {
  refused(name, () => engine[name]({}), new RegExp("^tidegate: " + name + " is not in the small engine .*tidegate/full"));
}
refused("replay", () => Engine.replay(""), /tidegate.full/);
refused("journal", () => new Engine({ journal: true }), /tidegate.full/);
refused("pool", () => new Pool("p", { bulkhead: { maxConcurrency: 1 } }), /tidegate.full/);
refused("within", () => within({ deadline: 5 }, () => 1), /AsyncLocalStorage/);
if (Object.keys(some.kinds).length > 0) throw new Error("there are kinds");
const call = some.run(async () => some.run(() => 1)).then((value) => {
  if (value !== 1) throw new Error("got " + value);
});
const full = policy({ bulkhead: { maxConcurrency: 1 }, retry: { maxAttempts: 1 } });
const held = full.run(() => new Promise((done) => setTimeout(done, 10)));
const told = full.run(() => 2).then(
  () => { throw new Error("no refusal"); },
  (error) => {
    const { name, code, httpStatus, reason, limits } = error;
    const said = [name, code, httpStatus, reason, limits?.maxConcurrency, error instanceof Rejected].join();
    if (said !== "BulkheadFull,bulkhead_full,503,queue_full,1,true") throw new Error(said);
  },
);
await Promise.all([call, held, told]);
`;

/** A bundle of a program for pages, and what it says when it runs. */
function bundled(from, program, more = "") {
  file("bundle.mjs", `import { policy${more} } from "${from}"; ${program} console.log("works");`);
  run(join(here, "node_modules/.bin/esbuild"), [
    "bundle.mjs",
    "--bundle",
    "--minify",
    "--format=esm",
    "--platform=browser",
    "--outfile=bundled.mjs",
    "--log-level=warning",
  ]);
  const bundle = readFileSync(join(outside, "bundled.mjs"));
  return { told: run("node", ["bundled.mjs"]), bundle, gzip: gzipSync(bundle, { level: 9 }).length };
}

const CHECKS = {
  "the tarball has what it should, and installs": () => {
    cpSync(join(here, "../LICENSE-APACHE"), join(here, "LICENSE-APACHE"));
    cpSync(join(here, "../LICENSE-MIT"), join(here, "LICENSE-MIT"));
    const [packed] = JSON.parse(
      execFileSync("npm", ["pack", "--json", "--pack-destination", outside], { cwd: here, encoding: "utf8" }),
    );
    const names = packed.files.map(({ path }) => path);
    for (const name of [
      "dist/esm/index.js",
      "dist/esm/full.js",
      "dist/esm/tidegate.wasm",
      "dist/esm/small.wasm",
      "dist/esm/parts.wasm",
      "dist/cjs/node.js",
      "dist/esm/node.d.ts",
      "README.md",
      "LICENSE-MIT",
    ]) {
      if (!names.includes(name)) throw new Error(`${name} is not in it`);
    }
    const others = names.filter((name) => !/^(dist\/|README|LICENSE|package\.json)/.test(name));
    if (others.length > 0) throw new Error(`${others} do not belong in it`);
    file("package.json", '{ "private": true }');
    run("npm", ["install", "--no-audit", "--no-fund", "--offline", join(outside, packed.filename)]);
    console.log(`   tarball: ${packed.size} bytes, ${packed.unpackedSize} unpacked`);
  },
  import: () => {
    file("use.mjs", `import { policy } from "tidegate";${USE}`);
    return run("node", ["use.mjs"]);
  },
  require: () => {
    file("use.cjs", `const { policy } = require("tidegate");${USE}`);
    return run("node", ["use.cjs"]);
  },
  "parts, by import and require": () => {
    const use =
      "const bucket = new TokenBucket({ permits: 1, per: 1000 }, 0); bucket.acquire(0);" +
      'if (bucket.acquire(0) !== 1000) throw new Error("no wait"); console.log("works");';
    file("parts.mjs", `import { TokenBucket } from "tidegate/parts"; ${use}`);
    file("parts.cjs", `const { TokenBucket } = require("tidegate/parts"); ${use}`);
    return run("node", ["parts.mjs"]) + run("node", ["parts.cjs"]);
  },
  "both at once share one engine": () => {
    file(
      "both.mjs",
      `import { createRequire } from "node:module";
       import { defaultEngine } from "tidegate";
       const again = createRequire(import.meta.url)("tidegate");
       if (again.defaultEngine() !== defaultEngine()) throw new Error("two engines");
       again.policy({ name: "one", deadline: 5000 }).run(() => 1).then(() => console.log("works"));`,
    );
    return run("node", ["both.mjs"]);
  },
  "slim, with the raw module": () => {
    file(
      "slim.mjs",
      `import { readFileSync } from "node:fs";
       import { init, policy } from "tidegate/slim";
       try { policy({ deadline: 1 }); throw new Error("it is ready?"); } catch (error) { if (!/initSync/.test(error.message)) throw error; }
       await init(readFileSync(new URL(import.meta.resolve("tidegate/tidegate.wasm"))));${USE}`,
    );
    return run("node", ["slim.mjs"]);
  },
  "what it imports costs little": () => {
    file(
      "time.mjs",
      `const start = performance.now(); const { policy } = await import("tidegate"); const there = performance.now();
       policy({ deadline: 5 }); const ready = performance.now();
       console.log("works: import " + (there - start).toFixed(1) + " ms, first policy " + (ready - there).toFixed(1) + " ms");`,
    );
    const told = run("node", ["time.mjs"]);
    console.log(`   ${told.trim()}`);
    return told;
  },
  "types, strict, by tsc": () => {
    const strict = [
      "--strict",
      "--noEmit",
      "--exactOptionalPropertyTypes",
      "--noUncheckedIndexedAccess",
      "--target",
      "es2022",
    ];
    const tsc = join(here, "node_modules/.bin/tsc");
    for (const [name, module, text] of [
      ["typed.mts", "nodenext", TYPED],
      ["typed.cts", "nodenext", TYPED.replace(/import \{ initSync.*\n/, "const initSync = 1;\n")],
      ["bundled.ts", "preserve", TYPED],
    ]) {
      file(name, text);
      run(tsc, [...strict, "--module", module, "--lib", "es2022,dom", "--types", "", name]);
    }
    return "works";
  },
  [`a bundle of core and fetch is at most ${LARGEST} bytes with gzip`]: () => {
    const { told, bundle, gzip } = bundled(
      "tidegate",
      `globalThis.fetch2 = policy({ preset: "http" }).fetch;
       try { policy({ hedge: { delay: 5 } }); throw new Error("no refusal"); }
       catch (error) { if (!/tidegate\\/full/.test(error.message)) throw error; }`,
    );
    const wasm = readFileSync(join(here, "dist/esm/small.wasm"));
    console.log(
      `   core and fetch: ${bundle.length} bytes, ${gzip} with gzip, ${brotliCompressSync(bundle).length} with brotli`,
    );
    console.log(
      `   of which WebAssembly: ${wasm.length}, ${gzipSync(wasm, { level: 9 }).length} with gzip, less as it is packed`,
    );
    if (gzip > LARGEST) throw new Error(`${gzip} bytes`);
    return told;
  },
  "what a page's engine lacks is refused by name": () =>
    bundled("tidegate", LACKS, ", Engine, Pool, Rejected, within").told,
  "a bundle of all of it": () => {
    const { told, bundle, gzip } = bundled("tidegate/full", "policy({ hedge: { delay: 5 } }).snapshot();");
    console.log(`   tidegate/full: ${bundle.length} bytes, ${gzip} with gzip`);
    return told;
  },
};

let [passed, failed] = [0, 0];
for (const [name, check] of Object.entries(CHECKS)) {
  try {
    const told = check();
    if (told !== undefined && !told.startsWith("works")) throw new Error(`it says ${told}`);
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`${name}: ${error.message}\n${error.stdout ?? ""}`);
  }
}
rmSync(outside, { recursive: true, force: true });
console.log(`test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; 0 ignored`);
process.exitCode = failed ? 1 : 0;
