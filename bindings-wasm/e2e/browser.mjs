// Tests the package in Chromium: a page without a bundler under a strict Content-Security-Policy, a worker, builds by Vite,
// webpack, Rollup and esbuild, and Vite's development server. `CHROMIUM` names the program; Debian's by default. node
// e2e/browser.mjs

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import nodeResolve from "@rollup/plugin-node-resolve";
import { chromium } from "playwright-core";
import { rollup } from "rollup";
import { build as vite, createServer as viteServer } from "vite";
import webpack from "webpack";
import { start } from "../../examples/browser/serve.mjs";
import { Fresh, NotRun, Origin, runAll } from "./fresh.mjs";
import { script, sent } from "./pages/scenario.mjs";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};
const EXAMPLE = fileURLToPath(new URL("../../examples/browser", import.meta.url));
const program = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Serves a folder under this security policy. Returns its address and a function that stops it. `types` are content types. */
async function served(folder, csp, types = TYPES) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
    const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
    if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
    const type = types[extname(file)] ?? "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-security-policy": csp }).end(readFileSync(file));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const strict = (...scripts) =>
  `default-src 'none'; connect-src *; worker-src 'self'; img-src data:; script-src 'self' ${scripts.join(" ")}`;
const WASM = "'wasm-unsafe-eval'";
const MAP = '{"imports":{"tidegate":"/node_modules/tidegate/dist/esm/index.js"}}';
const page = (head, entry) =>
  `<!doctype html><meta charset="utf-8"><title>tidegate</title><link rel="icon" href="data:,">${head}<script type="module" src="${entry}"></script>`;
const MAIN = `
import * as tidegate from "tidegate";
import { scenario } from "./scenario.mjs";
globalThis.scenario = (url) => scenario(tidegate, url, { browser: true });
`;
const WORKER = (from) => `
import * as tidegate from "${from}";
import { scenario } from "./scenario.mjs";
onmessage = async ({ data }) => {
  try { postMessage(await scenario(tidegate, data, { browser: true })); } catch (error) { postMessage([String(error.stack)]); }
};
`;
const IN_WORKER = (made) => `
globalThis.inWorker = (url) => new Promise((resolve) => {
  const worker = ${made};
  worker.onmessage = ({ data }) => { worker.terminate(); resolve(data); };
  worker.onerror = (event) => resolve([event.message || "the worker did not start"]);
  worker.postMessage(url);
});
`;

const fresh = new Fresh();
const origin = await Origin.start();
let browser;
const profile = mkdtempSync(join(tmpdir(), "tidegate-chromium-"));

/** Opens a page of the folder. Returns its answer and its console output. */
async function opened(folder, path, csp, ask, types) {
  const server = await served(folder, csp, types);
  try {
    return await inTab(server.url + path, ask);
  } finally {
    server.close();
  }
}

/** Opens an address in a new tab. */
async function inTab(url, ask) {
  if (browser === undefined) {
    if (!existsSync(program)) throw new NotRun(`there is no ${program} (Debian: apt-get install chromium)`);
    const quiet = [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ];
    // In a container, Debian's Chromium runs as root only without its sandbox.
    const args = process.getuid?.() === 0 ? [...quiet, "--no-sandbox"] : quiet;
    browser = await chromium.launchPersistentContext(profile, {
      executablePath: program,
      headless: true,
      args,
    });
  }
  const tab = await browser.newPage();
  const said = [];
  tab.on("pageerror", (error) => said.push(String(error)));
  tab.on("console", (message) => /Content Security Policy/.test(message.text()) && said.push(message.text()));
  try {
    await tab.goto(url, { waitUntil: "load" });
    return await ask(tab, said);
  } finally {
    await tab.close();
  }
}

/** Runs the scenario through a function of the page. */
async function holds(folder, path, name, csp = strict(WASM, hash(MAP)), types = TYPES) {
  await opened(folder, path, csp, (tab, said) => scenarioHolds(tab, said, name), types);
}

async function scenarioHolds(tab, said, name) {
  await origin.script(script());
  {
    await tab
      .waitForFunction((name) => name in globalThis, name, { timeout: 20_000 })
      .catch((error) => {
        throw new Error(`the page did not start: ${said.join("; ")}`, { cause: error });
      });
    const wrong = await tab.evaluate(([name, url]) => globalThis[name](url), [name, origin.url]);
    wrong.push(...said, ...sent(await origin.log(), { browser: true }));
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  }
}

/** Adds the package's modules to the output of a bundler that does not handle assets. */
function modulesBeside(folder) {
  for (const name of ["small.wasm", "tidegate.wasm"])
    cpSync(join(fresh.folder, "node_modules/tidegate/dist/esm", name), join(fresh.folder, folder, name));
}

const CHECKS = {
  "a page without a bundler, under a strict policy of security": async () => {
    fresh.copy("scenario.mjs");
    fresh.write("main.js", MAIN + IN_WORKER('new Worker("/worker.js", { type: "module" })'));
    fresh.write("worker.js", WORKER("/node_modules/tidegate/dist/esm/index.js")); // workers do not support import maps
    fresh.write("index.html", page(`<script type="importmap">${MAP}</script>`, "/main.js"));
    await holds(fresh.folder, "/", "scenario");
  },
  "its worker": () => holds(fresh.folder, "/", "inWorker"),
  "a page that forbids WebAssembly is told what to allow": async () => {
    const told = await opened(fresh.folder, "/", strict(hash(MAP)), async (tab) => {
      await tab.waitForFunction(() => "scenario" in globalThis);
      return tab.evaluate(() => globalThis.scenario("http://127.0.0.1:9/").then(String, String));
    });
    if (!told.includes("add 'wasm-unsafe-eval' to its script-src")) throw new Error(told);
  },
  "a server that does not know WebAssembly": () =>
    holds(fresh.folder, "/", "scenario", strict(WASM, hash(MAP)), { ...TYPES, ".wasm": "text/plain" }),
  "a server that has lost the module says so, and what to do": async () => {
    const folder = "lost";
    fresh.copy("scenario.mjs", `${folder}/scenario.mjs`);
    cpSync(join(fresh.folder, "node_modules/tidegate/dist/esm"), join(fresh.folder, folder, "esm"), {
      recursive: true,
    });
    rmSync(join(fresh.folder, folder, "esm/small.wasm"));
    const map = '{"imports":{"tidegate":"/esm/index.js"}}';
    fresh.write(`${folder}/main.js`, MAIN);
    fresh.write(`${folder}/index.html`, page(`<script type="importmap">${map}</script>`, "/main.js"));
    const csp = strict(WASM, hash(map));
    const told = await opened(join(fresh.folder, folder), "/", csp, async (tab) => {
      await tab.waitForFunction(() => "scenario" in globalThis);
      return tab.evaluate(() => globalThis.scenario("http://127.0.0.1:9/").then(String, String));
    });
    if (!/small\.wasm cannot be loaded: .*answered 404.*"tidegate\/inline"/.test(told)) throw new Error(told);
  },
  "a build by Vite": async () => {
    const folder = "vite";
    fresh.copy("scenario.mjs", `${folder}/scenario.mjs`);
    fresh.write(
      `${folder}/main.js`,
      MAIN + IN_WORKER('new Worker(new URL("./worker.js", import.meta.url), { type: "module" })'),
    );
    fresh.write(`${folder}/worker.js`, WORKER("tidegate"));
    fresh.write(`${folder}/index.html`, page("", "/main.js"));
    const root = join(fresh.folder, folder);
    const worker = { format: "es" };
    await vite({
      root,
      configFile: false,
      logLevel: "error",
      worker,
      build: { outDir: "dist", assetsInlineLimit: 0 },
    });
    await holds(join(root, "dist"), "/", "scenario", strict(WASM));
  },
  "the worker of that build": () => holds(join(fresh.folder, "vite/dist"), "/", "inWorker", strict(WASM)),
  "Vite's server for development, which bundles dependencies beforehand": async () => {
    fresh.copy("scenario.mjs", "dev/scenario.mjs");
    fresh.write("dev/main.js", MAIN);
    fresh.write("dev/index.html", page("", "/main.js"));
    const root = join(fresh.folder, "dev");
    const server = await viteServer({ root, configFile: false, logLevel: "error", server: { port: 0 } });
    try {
      await server.listen();
      const { port } = server.httpServer.address();
      await inTab(`http://localhost:${port}/`, (tab, said) => scenarioHolds(tab, said, "scenario"));
    } finally {
      await server.close();
    }
  },
  "a build by webpack": async () => {
    fresh.copy("scenario.mjs", "webpack/scenario.mjs");
    const context = join(fresh.folder, "webpack");
    fresh.write("webpack/main.js", MAIN);
    await new Promise((done, fail) => {
      webpack(
        {
          context,
          mode: "production",
          entry: "./main.js",
          output: { path: join(context, "out"), filename: "main.js" },
        },
        (error, stats) => {
          if (error || stats.hasErrors()) fail(error ?? new Error(stats.toString("errors-only")));
          else done();
        },
      );
    });
    fresh.write("webpack/out/index.html", page("", "/main.js"));
    await holds(join(context, "out"), "/", "scenario", strict(WASM));
  },
  "a build by Rollup, the modules beside it": async () => {
    fresh.copy("scenario.mjs", "rollup/scenario.mjs");
    const input = fresh.write("rollup/main.js", MAIN);
    const build = await rollup({ input, plugins: [nodeResolve({ browser: true })], onwarn: () => undefined });
    await build.write({ dir: join(fresh.folder, "rollup/out"), format: "es" });
    await build.close();
    modulesBeside("rollup/out");
    fresh.write("rollup/out/index.html", page("", "/main.js"));
    await holds(join(fresh.folder, "rollup/out"), "/", "scenario", strict(WASM));
  },
  "a build by esbuild, the modules beside it": async () => {
    fresh.copy("scenario.mjs", "beside/scenario.mjs");
    const { build } = await import("esbuild");
    await build({
      entryPoints: [fresh.write("beside/main.js", MAIN)],
      outfile: join(fresh.folder, "beside/out/main.js"),
      bundle: true,
      minify: true,
      format: "esm",
      platform: "browser",
      logLevel: "error",
    });
    modulesBeside("beside/out");
    fresh.write("beside/out/index.html", page("", "/main.js"));
    await holds(join(fresh.folder, "beside/out"), "/", "scenario", strict(WASM));
  },
  "a bundle by esbuild in one file, as a script": async () => {
    fresh.copy("scenario.mjs", "esbuild/scenario.mjs");
    fresh.write("esbuild/main.js", MAIN.replace('"tidegate"', '"tidegate/inline"'));
    const { build } = await import("esbuild");
    const entryPoints = [join(fresh.folder, "esbuild/main.js")];
    const outfile = join(fresh.folder, "esbuild/out/main.js");
    await build({
      entryPoints,
      outfile,
      bundle: true,
      minify: true,
      format: "iife",
      platform: "browser",
      logLevel: "error",
    });
    fresh.write("esbuild/out/index.html", page("", "/main.js"));
    await holds(join(fresh.folder, "esbuild/out"), "/", "scenario", strict(WASM));
  },
  "examples/browser, as it stands: its origin loses workers, and gets them back": async () => {
    const packageFolder = join(fresh.folder, "node_modules/tidegate");
    const told = await watched({ root: EXAMPLE, packageFolder });
    return `${told.well.toFixed(0)} answers a second, ${told.ill.toFixed(0)} with one worker, ${told.again.toFixed(0)} after`;
  },
  "examples/browser, built by Vite": async () => {
    cpSync(EXAMPLE, join(fresh.folder, "example"), { recursive: true });
    const page = join(fresh.folder, "example/index.html");
    // Bundled pages have no import map.
    writeFileSync(page, readFileSync(page, "utf8").replace(/<script type="importmap">.*?<\/script>/, ""));
    const root = join(fresh.folder, "example");
    await vite({ root, configFile: false, logLevel: "error", build: { outDir: "dist", target: "es2022" } });
    const server = await start({ root: join(root, "dist") });
    try {
      await inTab(server.url, async (tab, said) => {
        await tab.waitForFunction(() => globalThis.chart?.points.some(({ goodput }) => goodput > 10));
        if (said.length > 0) throw new Error(said.join("\n"));
      });
    } finally {
      server.close();
    }
  },
};

/**
 * Runs the example under load: its goodput with four workers, with one, and with four again. `SCREENSHOT` names a file for a
 * picture.
 */
async function watched(options) {
  const server = await start(options);
  try {
    return await inTab(server.url, async (tab, said) => {
      await tab.setViewportSize({ width: 960, height: 720 });
      const points = (more) =>
        tab.evaluate(async (more) => {
          const { points } = globalThis.chart;
          const wanted = points.at(-1).t + more;
          const late = performance.now() + 1000 * more + 10_000;
          while (points.at(-1).t < wanted && performance.now() < late)
            await new Promise((turn) => setTimeout(turn, 50));
          return points.filter(({ t }) => t > wanted - 3);
        }, more);
      const workers = (count) => tab.locator('[name="workers"]').fill(String(count));
      const mean = (of, name) => of.reduce((sum, point) => sum + (point[name] ?? 0), 0) / of.length;
      await tab.waitForFunction(() => globalThis.chart?.points.length > 0);
      const well = await points(7);
      await workers(1);
      const ill = await points(9);
      await workers(4);
      const again = await points(9);
      // The other choice draws no limit, and keeps drawing.
      await tab.locator('[value="naive"]').check();
      const naive = await points(3);
      if (process.env.SCREENSHOT) await tab.screenshot({ path: process.env.SCREENSHOT, type: "png" });
      const told = { well: mean(well, "goodput"), ill: mean(ill, "goodput"), again: mean(again, "goodput") };
      const limits = { well: mean(well, "limit"), ill: mean(ill, "limit") };
      const wrong = [...said];
      if (naive.at(-1).limit !== undefined || mean(naive, "goodput") < 5)
        wrong.push("three tries alone draw nothing");
      if (told.well < 25) wrong.push(`only ${told.well} answers a second while all is well`);
      if (told.ill > told.well || told.ill < 5) wrong.push(`${told.ill} answers a second with one worker`);
      if (told.again < 0.7 * told.well)
        wrong.push(`only ${told.again} answers a second after, of ${told.well} before`);
      if (limits.ill >= limits.well)
        wrong.push(`the limit does not follow: ${limits.well}, then ${limits.ill}`);
      const attempts = mean(ill, "attempts");
      if (attempts > 1.5 * 50) wrong.push(`${attempts} attempts a second, of 50 calls`);
      if (wrong.length > 0) throw new Error(wrong.join("\n"));
      return told;
    });
  } finally {
    server.close();
  }
}

try {
  await runAll(CHECKS);
} finally {
  await browser?.close();
  origin.close();
  fresh.close();
  rmSync(profile, { recursive: true, force: true });
}
