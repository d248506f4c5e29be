// Tests the tarball on Node, Deno, Bun and workerd, against the origin: node e2e/runtimes.mjs. A missing runtime counts as "not
// run". All runtimes are npm packages.

import { AsyncLocalStorage } from "node:async_hooks";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";
import { Fresh, NotRun, Origin, runAll, tool } from "./fresh.mjs";
import { script, sent } from "./pages/scenario.mjs";

const fresh = new Fresh();
const origin = await Origin.start();

/** The last line of a program's output: the list of failed expectations. */
async function holds(told) {
  const wrong = JSON.parse(told.trim().split("\n").at(-1));
  wrong.push(...sent(await origin.log(), { browser: false }));
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
}

async function there(program, args) {
  return fresh.run(program, args).then(
    (told) => told.trim().split("\n")[0],
    (error) => {
      throw new NotRun(`there is none: ${error.message.split("\n")[0]}`);
    },
  );
}

async function onRuntime(program, args, files = ["use.mjs"]) {
  const version = await there(program, ["--version"]);
  for (const file of files) {
    await origin.script(script());
    await holds(await fresh.run(program, [...args, file, origin.url]));
  }
  return version;
}

fresh.copy("scenario.mjs");
const USE = (head) => `${head}
  import("./scenario.mjs").then(async ({ scenario }) => {
    console.log(JSON.stringify(await scenario(tidegate, process.argv.at(-1), { browser: false })));
    process.exit(0);
  });
`;
fresh.write("use.mjs", USE('import * as tidegate from "tidegate";'));
fresh.write("use.cjs", USE('const tidegate = require("tidegate");'));

const WORKER = `
  import * as tidegate from "tidegate";
  import { scenario } from "./scenario.mjs";
  const backoff = { base: 60, max: 60, jitter: "none" };
  // Made while the script is loaded, when a Worker may neither draw random values nor set timers.
  const shared = tidegate.policy({ attemptTimeout: 5000, retry: { maxAttempts: 3, budget: "none", backoff } });
  async function one(fails) {
    const work = async ({ attempt }) => {
      if (attempt <= fails) throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
      await new Promise((done) => setTimeout(done, 20));
      return attempt;
    };
    return new Response(await shared.run(work));
  }
  export default {
    async fetch(request, { ORIGIN }) {
      const { searchParams } = new URL(request.url);
      if (searchParams.has("fails")) return one(Number(searchParams.get("fails")));
      try {
        return Response.json(await scenario(tidegate, ORIGIN, { browser: false, queues: false }));
      } catch (error) {
        return Response.json([String(error?.stack ?? error)]);
      }
    },
  };
`;
const CONFIG = (port, date) => `
  using Workerd = import "/workerd/workerd.capnp";
  const config :Workerd.Config = (
    services = [
      (name = "main", worker = (
        modules = [(name = "worker.js", esModule = embed "worker.js"), (name = "tidegate.wasm", wasm = embed "tidegate.wasm")],
        compatibilityDate = "${date}",
        compatibilityFlags = ["nodejs_compat"],
        bindings = [(name = "ORIGIN", text = "${origin.url}")],
      )),
      (name = "internet", network = (allow = ["private", "public"])),
    ],
    sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
  );
`;

const EDGE = `
  import * as tidegate from "tidegate";
  import { TokenBucket } from "tidegate/parts";
  import { scenario } from "./scenario.mjs";
  if (!new TokenBucket({ permits: 1, per: 1000 }, 0).tryTake(0)) throw new Error("no token");
  globalThis.answer = scenario(tidegate, origin, { browser: false });
`;
/** What the Edge Runtime offers to a program: https://edge-runtime.vercel.app/features/available-apis. */
const OFFERED =
  `AbortController AbortSignal Blob DOMException Event EventTarget FormData Headers ReadableStream ReadableStreamBYOBReader
  ReadableStreamDefaultReader Request Response
  TextDecoder TextEncoder TransformStream URL URLSearchParams WritableStream WritableStreamDefaultWriter
  clearInterval clearTimeout console crypto fetch
  performance queueMicrotask setInterval setTimeout structuredClone`.split(/\s+/);

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function answered(url, child) {
  for (let tries = 0; tries < 200; tries += 1) {
    if (child.exitCode !== null) throw new Error(`workerd has ended with ${child.exitCode}`);
    const response = await fetch(url).catch(() => undefined);
    if (response !== undefined) return response.text();
    await new Promise((turn) => setTimeout(turn, 50));
  }
  throw new Error("workerd does not listen");
}

const CHECKS = {
  Node: () => onRuntime(process.execPath, [], ["use.mjs", "use.cjs"]),
  Deno: () =>
    onRuntime(tool("deno"), ["run", "--quiet", "--allow-all", "--node-modules-dir=manual", "--cached-only"]),
  Bun: () => onRuntime(tool("bun"), ["run"], ["use.mjs", "use.cjs"]),
  // Next.js builds for its Edge Runtime with the condition `edge-light`, and puts each `.wasm?module` into a global variable. The
  // context has what that runtime has, and compiles no WebAssembly.
  "edge-light": async () => {
    fresh.write("edge/in.js", EDGE);
    fresh.copy("scenario.mjs", "edge/scenario.mjs");
    const modules = {};
    const asVariable = {
      name: "wasm",
      setup({ onResolve, onLoad }) {
        onResolve({ filter: /\.wasm\?module$/ }, ({ path, resolveDir }) => ({
          path: join(resolveDir, path.replace("?module", "")),
          namespace: "wasm",
        }));
        onLoad({ filter: /./, namespace: "wasm" }, ({ path }) => {
          const name = `wasm_${Object.keys(modules).length}`;
          modules[name] = new WebAssembly.Module(readFileSync(path));
          return { contents: `export default globalThis.${name}` };
        });
      },
    };
    const { outputFiles } = await build({
      entryPoints: [join(fresh.folder, "edge/in.js")],
      bundle: true,
      write: false,
      format: "iife",
      conditions: ["edge-light", "import"],
      plugins: [asVariable],
      logLevel: "error",
    });
    const offered = Object.fromEntries(OFFERED.map((name) => [name, globalThis[name]]));
    const context = createContext(
      { ...offered, ...modules, AsyncLocalStorage, origin: origin.url, EdgeRuntime: "edge-runtime" },
      { codeGeneration: { strings: false, wasm: false } },
    );
    await origin.script(script());
    runInContext(outputFiles[0].text, context);
    await holds(JSON.stringify(await context.answer));
    return `a context of Node ${process.version}`;
  },
  workerd: async () => {
    if (!existsSync(tool("workerd"))) throw new NotRun("there is none");
    const version = await there(tool("workerd"), ["--version"]);
    fresh.write("worker/in.js", WORKER);
    fresh.copy("scenario.mjs", "worker/scenario.mjs");
    const folder = join(fresh.folder, "worker");
    // Like wrangler, whose bundler leaves WebAssembly as a separate module.
    const wasm = {
      name: "wasm",
      setup({ onResolve }) {
        onResolve({ filter: /\.wasm$/ }, () => ({ path: "./tidegate.wasm", external: true }));
      },
    };
    await build({
      entryPoints: [join(folder, "in.js")],
      outfile: join(folder, "worker.js"),
      bundle: true,
      format: "esm",
      conditions: ["workerd", "worker", "browser"],
      external: ["node:*"],
      plugins: [wasm],
      logLevel: "error",
    });
    copyFileSync(
      join(fresh.folder, "node_modules/tidegate/dist/esm/tidegate.wasm"),
      join(folder, "tidegate.wasm"),
    );
    // Before May 2025 there are neither `WeakRef` nor `FinalizationRegistry`.
    for (const date of ["2026-01-01", "2024-09-23"]) await onWorkerd(date);
    return version;
  },
};

/** Runs the bundled Worker under a compatibility date. */
async function onWorkerd(date) {
  const port = await freePort();
  const config = fresh.write("worker/config.capnp", CONFIG(port, date));
  await origin.script(script());
  const child = spawn(tool("workerd"), ["serve", config], { stdio: ["ignore", "inherit", "inherit"] });
  try {
    await holds(await answered(`http://127.0.0.1:${port}/`, child));
    // A timer belongs to its request: it ends with it and cannot wake calls of others. So concurrent calls each have their own
    // timer.
    const calls = [0, 2, 0, 2, 2, 1, 0, 2, 1, 2].map(async (fails, place) => {
      await new Promise((turn) => setTimeout(turn, place * 17));
      const response = await fetch(`http://127.0.0.1:${port}/?fails=${fails}`);
      return (await response.text()) === String(fails + 1);
    });
    const together = await Promise.all(calls);
    if (together.includes(false)) throw new Error(`requests at the same time: ${together}`);
  } finally {
    child.kill();
  }
}

try {
  await runAll(CHECKS);
} finally {
  origin.close();
  fresh.close();
}
