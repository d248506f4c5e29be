// Runs package linters on the tarball, and checks that bundlers can leave out unused code: node e2e/tools.mjs

import { spawnSync } from "node:child_process";
import { closeSync, cpSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { build } from "vite";
import { LARGEST } from "../scripts/largest.mjs";
import { Fresh, runAll, tool } from "./fresh.mjs";

const fresh = new Fresh();

const CHECKS = {
  publint: async () => {
    const tarball = readFileSync(fresh.tarball);
    const buffer = tarball.buffer.slice(tarball.byteOffset, tarball.byteOffset + tarball.byteLength);
    const { messages, pkg } = await publint({ pack: { tarball: buffer }, level: "suggestion", strict: true });
    if (messages.length > 0)
      throw new Error(messages.map((message) => formatMessage(message, pkg)).join("\n"));
  },
  "are the types wrong? (attw)": async () => {
    // The linters must skip the WebAssembly modules.
    const modules = ["tidegate.wasm", "small.wasm", "parts.wasm"];
    const args = [fresh.tarball, "--format", "json", "--exclude-entrypoints", ...modules];
    // The linter exits before a pipe has received its whole output, so the output goes to a file.
    const report = join(fresh.folder, "attw.json");
    const out = openSync(report, "w");
    spawnSync(tool("attw"), args, { stdio: ["ignore", out, "inherit"] });
    closeSync(out);
    const { analysis, problems } = JSON.parse(readFileSync(report, "utf8"));
    const names = Object.keys(analysis?.entrypoints ?? {}).sort();
    const wanted = Object.keys(
      JSON.parse(readFileSync(`${fresh.folder}/node_modules/tidegate/package.json`)).exports,
    );
    const missing = wanted.filter((name) => !/wasm|package\.json/.test(name) && !names.includes(name));
    if (missing.length > 0) throw new Error(`it has not looked at ${missing}, only at ${names}`);
    const told = Object.entries(problems ?? {}).flatMap(([kind, of]) =>
      of.map((problem) => ({ kind, ...problem })),
    );
    // Resolution `node10` does not know subpaths; TypeScript no longer supports it either.
    const real = told.filter(({ resolutionKind }) => resolutionKind !== "node10");
    if (real.length > 0) throw new Error(JSON.stringify(real, null, 1));
    return names.join(", ");
  },
  "JSR's checks (deno publish --dry-run)": () => {
    // With `--allow-slow-types`, as RELEASING.md says. A folder of its own: JSR leaves out what git ignores, and looks for the files that it names.
    cpSync(`${fresh.folder}/node_modules/tidegate/dist`, join(fresh.folder, "jsr/dist"), { recursive: true });
    for (const name of ["jsr.json", "README.md", "LICENSE-APACHE", "LICENSE-MIT"])
      cpSync(new URL(`../${name}`, import.meta.url), join(fresh.folder, "jsr", name));
    const args = ["publish", "--dry-run", "--allow-dirty", "--allow-slow-types", "--config", "jsr.json"];
    const env = { ...process.env, NO_COLOR: "1", DENO_DIR: join(fresh.folder, "deno") };
    const told = spawnSync(tool("deno"), args, { cwd: join(fresh.folder, "jsr"), encoding: "utf8", env });
    if (told.status !== 0 || /warning\[/.test(told.stderr)) throw new Error(told.stderr);
    if (!/Check .*jsr\.js/.test(told.stderr)) throw new Error(`it checked no types: ${told.stderr}`);
  },
  "core and fetch in a page that Vite builds": async () => {
    fresh.write("two/index.html", '<script type="module" src="./main.js"></script>');
    fresh.write(
      "two/main.js",
      'import { policy } from "tidegate";\nglobalThis.answer = policy({ preset: "http" }).fetch("/");\n',
    );
    const root = join(fresh.folder, "two");
    const target = "es2022";
    await build({ root, configFile: false, logLevel: "error", build: { outDir: "dist", target } });
    const assets = readdirSync(join(root, "dist/assets")).map((name) => join(root, "dist/assets", name));
    const bytes = (kind) =>
      assets
        .filter((name) => kind.test(name))
        .map((name) => brotliCompressSync(readFileSync(name)).length)
        .reduce((sum, size) => sum + size, 0);
    const [code, small] = [bytes(/\.js$/), bytes(/small.*\.wasm$/)];
    if (!(code > 5_000 && small > 20_000))
      throw new Error(`${assets}: ${code} and ${small} bytes are not all of it`);
    if (code + small > LARGEST) throw new Error(`${code + small} bytes with brotli, ${LARGEST} at most`);
    return `${code} bytes of code and ${small} of the module with brotli, ${LARGEST} at most in all`;
  },
};

try {
  await runAll(CHECKS);
} finally {
  fresh.close();
}
