// Shared by the scripts of this folder: the tarball installed in a new folder outside the tree, the origin, and a runner whose last
// line `cargo xtask test` reads.

import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const pack = join(here, "..");
const executing = promisify(execFile);

/** The tarball made by `npm run build`, installed in a new folder. */
export class Fresh {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "tidegate-e2e-"));
    for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) cpSync(join(pack, "..", name), join(pack, name));
    const packing = ["pack", "--json", "--pack-destination", this.folder];
    const [packed] = JSON.parse(
      execFileSync("npm", packing, { cwd: pack, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
    );
    this.tarball = join(this.folder, packed.filename);
    this.write("package.json", '{ "private": true, "type": "module" }');
    const installing = ["install", "--no-audit", "--no-fund", "--offline", this.tarball];
    execFileSync("npm", installing, { cwd: this.folder, stdio: ["ignore", "ignore", "pipe"] });
  }

  /** Writes a file and returns its path. */
  write(name, text) {
    const path = join(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Copies a file of `e2e/pages`. */
  copy(name, as = name) {
    const path = join(this.folder, as);
    mkdirSync(dirname(path), { recursive: true });
    cpSync(join(here, "pages", name), path);
    return path;
  }

  /** Runs a program in the folder, for at most a minute, and returns its output. */
  async run(program, args, env = {}) {
    const options = { cwd: this.folder, timeout: 60_000, env: { ...process.env, NO_COLOR: "1", ...env } };
    const { stdout } = await executing(program, args, options);
    return stdout;
  }

  close() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A program that npm has installed for this folder. */
export function tool(name) {
  return join(here, "node_modules/.bin", name);
}

/** The faulty server of tests/origin; `TIDEGATE_ORIGIN` names its program. */
export class Origin {
  static async start() {
    const program = process.env.TIDEGATE_ORIGIN;
    if (!program)
      throw new Error("TIDEGATE_ORIGIN names no program (cargo build --release -p tidegate-origin)");
    const child = spawn(program, [], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = await once(child.stdout, "data");
    return Object.assign(new Origin(), JSON.parse(line.toString()), { child });
  }

  async #control(method, path, body) {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(this.control + path, { method, ...init });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text === "" ? undefined : JSON.parse(text);
  }

  script(script) {
    return this.#control("PUT", "/script", script);
  }

  log() {
    return this.#control("GET", "/log");
  }

  close() {
    this.child.stdin.end();
  }
}

/** A check that cannot run on this machine, and why. */
export class NotRun extends Error {}

/** Runs the checks in order and prints the last line. A check that cannot run counts as ignored, never as passed. */
export async function runAll(checks) {
  let [passed, failed, ignored] = [0, 0, 0];
  for (const [name, check] of Object.entries(checks)) {
    try {
      const told = await check();
      console.log(`   ${name}${told === undefined ? "" : `: ${told}`}`);
      passed += 1;
    } catch (error) {
      if (error instanceof NotRun) {
        ignored += 1;
        console.log(`   ${name}: not run: ${error.message}`);
      } else {
        failed += 1;
        console.log(`${name}: FAILED: ${error.stack}\n${error.stdout ?? ""}${error.stderr ?? ""}`);
      }
    }
  }
  console.log(
    `test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; ${ignored} ignored`,
  );
  process.exitCode = failed ? 1 : 0;
}
