// Checks the package as a user gets it: node scripts/package.mjs. Packs the tarball from the output of the build, installs it in a
// new folder outside the tree, and checks it there: import, require, an explicit module, types, bundles and their size.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { LARGEST } from "./largest.mjs";

/** The most bytes of one file of types. Modules in base 64 have half a million, and TypeScript would read all of them. */
const LARGEST_TYPES = 60_000;

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
import { AttemptTimeout, Engine, Pool, policy, ready, reportOf, within, type Attempt, type TidegateEvent } from "tidegate";
import { FakeClock } from "tidegate/testing";
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
const there: Promise<void> = ready({ full: true });
export { length, there };
`;

/** A program in whose types there is neither `fetch` nor `AbortSignal`. */
const BARE = `
import { policy, reportOf } from "tidegate";
import { TokenBucket } from "tidegate/parts";
import { FakeClock } from "tidegate/testing";
const some = policy({ preset: "http", deadline: 5000 });
const answer: Promise<number> = some.run(async ({ signal }) => (signal.aborted ? 0 : 1));
const bucket = new TokenBucket({ permits: 1, per: 1000 }, 0);
export const all = [answer, bucket, new FakeClock(), reportOf, some.fetch];
`;

/** A bundle of a program: its path and its bytes. */
function bundled(name, program, options) {
  file(`${name}.mjs`, program);
  const out = join(outside, `${name}-bundled.mjs`);
  const args = [`${name}.mjs`, "--bundle", "--minify", `--outfile=${out}`, "--log-level=error", ...options];
  run(join(here, "node_modules/.bin/esbuild"), args);
  return { out, bundle: readFileSync(out) };
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
      "dist/esm/inline.js",
      "dist/esm/tidegate.wasm",
      "dist/esm/small.wasm",
      "dist/esm/parts.wasm",
      "dist/cjs/require.js",
      "dist/esm/node.d.ts",
      "README.md",
      "LICENSE-MIT",
    ]) {
      if (!names.includes(name)) throw new Error(`${name} is not in it`);
    }
    const others = names.filter((name) => !/^(dist\/|README|LICENSE|package\.json)/.test(name));
    if (others.length > 0) throw new Error(`${others} do not belong in it`);
    for (const name of names.filter((name) => name.endsWith(".d.ts"))) {
      const types = readFileSync(join(here, name), "utf8");
      if (types.length > LARGEST_TYPES)
        throw new Error(`${name} has ${types.length} bytes: a module in its types?`);
      if (types.includes("@internal")) throw new Error(`${name} has members that no user should touch`);
    }
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
  "inline, by import and require": () => {
    file("inline.mjs", `import { policy } from "tidegate/inline";${USE}`);
    file("inline.cjs", `const { policy } = require("tidegate/inline");${USE}`);
    return run("node", ["inline.mjs"]) + run("node", ["inline.cjs"]);
  },
  "a page's entry, with the module in hand": () => {
    file(
      "hand.mjs",
      `import { readFileSync } from "node:fs";
       import { policy, ready } from "./node_modules/tidegate/dist/esm/index.js";
       await ready({ from: readFileSync(new URL(import.meta.resolve("tidegate/tidegate.wasm"))) });${USE}`,
    );
    return run("node", ["hand.mjs"]);
  },
  "a bundle for Node, which leaves the module behind": () => {
    const { out } = bundled("server", `import { policy } from "tidegate";${USE}`, [
      "--platform=node",
      "--format=esm",
    ]);
    const cjs = bundled("server-cjs", `import { policy } from "tidegate";${USE}`, [
      "--platform=node",
      "--format=cjs",
    ]).out.replace(".mjs", ".cjs");
    writeFileSync(cjs, readFileSync(cjs.replace(".cjs", ".mjs")));
    return run("node", [out]) + run("node", [cjs]);
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
      ["typed.cts", "nodenext", TYPED],
      ["bundled.ts", "preserve", TYPED],
    ]) {
      file(name, text);
      run(tsc, [...strict, "--module", module, "--lib", "es2022,dom", "--types", "", name]);
    }
    file("inline.mts", TYPED.replace('from "tidegate"', 'from "tidegate/inline"'));
    run(tsc, [...strict, "--module", "nodenext", "--lib", "es2022,dom", "--types", "", "inline.mts"]);
    return "works";
  },
  "types without those of a page or of Node": () => {
    const tsc = join(here, "node_modules/.bin/tsc");
    for (const entry of ["tidegate", "tidegate/inline"]) {
      file("bare.mts", BARE.replace("tidegate", entry));
      run(tsc, [
        "--strict",
        "--noEmit",
        "--module",
        "nodenext",
        "--lib",
        "es2022",
        "--types",
        "",
        "bare.mts",
      ]);
    }
    return "works";
  },
  [`a page begins with at most ${LARGEST} bytes with brotli`]: () => {
    const { bundle } = bundled(
      "page",
      `import { policy } from "tidegate"; globalThis.fetch2 = policy({ preset: "http" }).fetch;`,
      ["--format=esm", "--platform=browser"],
    );
    const sizes = (of) =>
      `${of.length} bytes, ${gzipSync(of, { level: 9 }).length} with gzip, ${brotliCompressSync(of).length} with brotli`;
    const [small, full] = ["small", "tidegate"].map((name) =>
      readFileSync(join(here, `dist/esm/${name}.wasm`)),
    );
    console.log(`   code of core and fetch: ${sizes(bundle)}`);
    console.log(`   small.wasm: ${sizes(small)}`);
    console.log(`   tidegate.wasm, where a policy asks for it: ${sizes(full)}`);
    const all = brotliCompressSync(bundle).length + brotliCompressSync(small).length;
    console.log(`   in all: ${all} with brotli`);
    if (all > LARGEST) throw new Error(`${all} bytes`);
    return "works";
  },
  "a page's bundle in one file": () => {
    const { out, bundle } = bundled("one", `import { policy } from "tidegate/inline";${USE}`, [
      "--format=esm",
      "--platform=browser",
    ]);
    console.log(
      `   tidegate/inline: ${bundle.length} bytes, ${brotliCompressSync(bundle).length} with brotli`,
    );
    return run("node", [out]);
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
