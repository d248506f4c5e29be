// Builds the package: node scripts/build.mjs [--wasm-only]. `cargo xtask test` runs it; so does `npm run build`.
//
// 1. The engine as WebAssembly, by cargo. Cargo also builds the standard library, for size and without panic messages, which saves
// a sixth. This needs the source of the standard library (`rustup component add rust-src`) and permission to use unstable features,
// which is harmless because rust-toolchain.toml names one exact compiler.
// Three modules: the whole engine, a small one with which pages start (docs/adr/0025-one-import.md), and the parts on their own.
// 2. wasm-bindgen (glue/), which generates the types of the exports. Then wasm-opt (npm's binaryen), without all features, because
// Node 20 cannot read that output.
// 3. The modules as files beside the code (dist/esm/*.wasm), and in base 64 for hosts that need a single file (ts/*_gen.ts).
// 4. TypeScript: ESM with types, and CommonJS.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");
const root = join(here, "..");
const built = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const level = process.env.TIDEGATE_WASM_OPT_LEVEL;
const binaryen = JSON.parse(readFileSync(join(here, "package.json"), "utf8")).devDependencies.binaryen;

const bin = (name) => join(here, "node_modules/.bin", name);
const run = (command, args, env = {}) =>
  execFileSync(command, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, ...env },
  });

const FEATURES = [
  "bulk-memory",
  "nontrapping-float-to-int",
  "sign-ext",
  "mutable-globals",
  "reference-types",
  "multivalue",
];

/** Builds a module into `dist/esm` and returns its code. */
function module(crate, name, flags, level, passes) {
  const folder = join(here, "dist/esm");
  const target = join(built, flags === "" ? "wasm-std" : "wasm-small"); // other flags need another build of the standard library
  run(
    "cargo",
    [
      "build",
      "--lib",
      "--quiet",
      "--profile",
      "wasm",
      "--target",
      "wasm32-unknown-unknown",
      "-p",
      crate,
      "-Zbuild-std=std,panic_abort",
      "-Zbuild-std-features=optimize_for_size",
    ],
    {
      RUSTC_BOOTSTRAP: "1",
      RUSTFLAGS: `-Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none -Zfmt-debug=none ${flags}`,
      CARGO_TARGET_DIR: target,
      ...(level === undefined ? {} : { CARGO_PROFILE_WASM_OPT_LEVEL: level }),
    },
  );
  const file = join(folder, `${name}.wasm`);
  mkdirSync(folder, { recursive: true });
  const cargos = join(target, "wasm32-unknown-unknown/wasm", `${crate.replaceAll("-", "_")}.wasm`);
  const code = optimised(surface(cargos, name), [
    ...passes,
    "--converge",
    "--strip-debug",
    "--strip-producers",
    "--strip-target-features",
    ...FEATURES.map((feature) => `--enable-${feature}`),
  ]);
  writeFileSync(file, code);
  console.log(`   ${name}.wasm: ${code.length} bytes, ${brotliCompressSync(code).length} with brotli`);
  return code;
}

/** Optimizes a module with wasm-opt. That takes most of a build's time, so the result is cached by the input bytes. */
function optimised(module, passes) {
  const folder = join(built, "wasm-opt");
  const hash = createHash("sha256").update(binaryen).update(passes.join(" ")).update(readFileSync(module));
  const file = join(folder, `${hash.digest("hex")}.wasm`);
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    run(bin("wasm-opt"), [...passes, module, "-o", `${file}.new`]);
    renameSync(`${file}.new`, file);
  }
  return readFileSync(file);
}

/**
 * Runs wasm-bindgen, which reads and removes the description of the module's exports, and returns the module's path. The source is checked
 * against the types of the full module (ts/surface_gen.ts) and of the parts' (ts/parts/surface_gen.ts). Only numbers cross, so the
 * exports are called directly, without the glue.
 */
function surface(from, name) {
  const folder = join(built, "wasm-bindgen");
  const manifest = join(here, "glue/Cargo.toml");
  const cargo = ["run", "--quiet", "--manifest-path", manifest, "--target-dir", join(built, "glue")];
  run("cargo", [...cargo, "--", from, folder, name]);
  if (name !== "small") {
    const [, ...exported] = readFileSync(join(folder, `${name}.d.ts`), "utf8").split("\n\n");
    const methods = exported.join("\n").replaceAll("export function ", "").trim();
    const [file, types] =
      name === "parts" ? ["parts/surface_gen.ts", "../engine"] : ["surface_gen.ts", "./engine"];
    write(file, [
      `import type { Memory } from "${types}/global_types.js";`,
      "/** What the module exports. */",
      "export interface Native {",
      "readonly memory: Memory;",
      methods,
      "}",
    ]);
  }
  return join(folder, `${name}_bg.wasm`);
}

/** Writes a source file. */
function write(file, lines) {
  const place = join(here, "ts", file);
  writeFileSync(
    `${place}.new`,
    ["// Generated by scripts/build.mjs; not committed.", ...lines, ""].join("\n"),
  );
  renameSync(`${place}.new`, place);
}

/** Writes a module into the source, in base 64. */
function inline(file, code) {
  write(file, [
    "/** The module, in base 64. */",
    `export const MODULE: string = "${code.toString("base64")}";`,
  ]);
}

function wasm() {
  const speed = [level === "3" ? "-O3" : "-Oz"];
  inline("full_gen.ts", module("tidegate-wasm", "tidegate", "", level, speed));
  // `--flatten` first saves 1 %. Rust leaves the lowest kilobyte to the end of the stack.
  const passes = ["--flatten", "--rereloop", "-Oz", "-Oz", "--low-memory-unused"];
  // A stack of 1 MB would make all addresses longer. An overflow traps, because nothing lies below the stack.
  const flags = "--cfg tidegate_small -Clink-arg=-zstack-size=65536";
  inline("small_gen.ts", module("tidegate-wasm", "small", flags, "z", passes));
  inline("parts/inline_gen.ts", module("tidegate-wasm-parts", "parts", "", level, speed));
}

function typescript() {
  for (const name of readdirSync(join(here, "dist/esm"))) {
    if (!name.endsWith(".wasm")) rmSync(join(here, "dist/esm", name), { recursive: true });
  }
  rmSync(join(here, "dist/cjs"), { recursive: true, force: true });
  run(bin("tsc"), ["-p", join(here, "tsconfig.json")]);
  declared(join(here, "dist/esm"));
  run(bin("tsc"), ["-p", join(here, "tsconfig.cjs.json")]);
  writeFileSync(join(here, "dist/cjs/package.json"), '{ "type": "commonjs" }\n');
}

/** Names the types of each file in its first line, which is where JSR and Deno look for them. */
function declared(folder) {
  for (const name of readdirSync(folder, { recursive: true })) {
    if (!name.endsWith(".js")) continue;
    const [place, types] = [join(folder, name), basename(name).replace(/js$/, "d.ts")];
    writeFileSync(place, `/* @ts-self-types="./${types}" */\n${readFileSync(place, "utf8")}`);
  }
}

wasm();
if (!process.argv.includes("--wasm-only")) typescript();
