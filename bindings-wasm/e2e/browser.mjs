// The package in Chromium: a page without a bundler under a strict Content-Security-Policy, a worker, builds by Vite and
// esbuild. `CHROMIUM` names the program; by default Debian's. node e2e/browser.mjs

import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";
import { build as vite } from "vite";
import { Fresh, NotRun, Origin, runAll } from "./fresh.mjs";
import { script, sent } from "./pages/scenario.mjs";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
};
const program = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Serves a folder under this policy of security: its address, and how to end it. */
async function served(folder, csp) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
    const file = join(folder, path.endsWith("/") ? `${path}index.html` : path);
    if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
    const type = TYPES[extname(file)] ?? "application/octet-stream";
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

/** Opens a page of the folder; what it is asked, and what its console says. */
async function opened(folder, path, csp, ask) {
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
    // Debian's runs as root in a container only without its sandbox.
    const args = process.getuid?.() === 0 ? [...quiet, "--no-sandbox"] : quiet;
    browser = await chromium.launchPersistentContext(profile, {
      executablePath: program,
      headless: true,
      args,
    });
  }
  const server = await served(folder, csp);
  const tab = await browser.newPage();
  const said = [];
  tab.on("pageerror", (error) => said.push(String(error)));
  tab.on("console", (message) => /Content Security Policy/.test(message.text()) && said.push(message.text()));
  try {
    await tab.goto(server.url + path, { waitUntil: "load" });
    return await ask(tab, said);
  } finally {
    await tab.close();
    server.close();
  }
}

/** The scenario, asked of a function of the page. */
async function holds(folder, path, name, csp = strict(WASM, hash(MAP))) {
  await origin.script(script());
  await opened(folder, path, csp, async (tab, said) => {
    await tab
      .waitForFunction((name) => name in globalThis, name, { timeout: 20_000 })
      .catch((error) => {
        throw new Error(`the page did not start: ${said.join("; ")}`, { cause: error });
      });
    const wrong = await tab.evaluate(([name, url]) => globalThis[name](url), [name, origin.url]);
    wrong.push(...said, ...sent(await origin.log(), { browser: true }));
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  });
}

const CHECKS = {
  "a page without a bundler, under a strict policy of security": async () => {
    fresh.copy("scenario.mjs");
    fresh.write("main.js", MAIN + IN_WORKER('new Worker("/worker.js", { type: "module" })'));
    fresh.write("worker.js", WORKER("/node_modules/tidegate/dist/esm/index.js")); // import maps are not for workers
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
  "a build by Vite": async () => {
    const folder = "vite";
    fresh.copy("scenario.mjs", `${folder}/scenario.mjs`);
    fresh.write(
      `${folder}/main.js`,
      MAIN + IN_WORKER('new Worker(new URL("./worker.js", import.meta.url), { type: "module" })'),
    );
    fresh.write(`${folder}/worker.js`, WORKER("tidegate"));
    fresh.write(
      `${folder}/slim.js`,
      `
      import * as tidegate from "tidegate/slim";
      import url from "tidegate/tidegate.wasm?url";
      import { scenario } from "./scenario.mjs";
      globalThis.slim = async (origin) => { await tidegate.init(url); return scenario(tidegate, origin, { browser: true }); };
    `,
    );
    fresh.write(`${folder}/index.html`, page('<script type="module" src="/slim.js"></script>', "/main.js"));
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
  "slim in that build, the module beside it": () =>
    holds(join(fresh.folder, "vite/dist"), "/", "slim", strict(WASM)),
  "a bundle by esbuild, as a script": async () => {
    fresh.copy("scenario.mjs", "esbuild/scenario.mjs");
    fresh.write("esbuild/main.js", MAIN);
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
};

try {
  await runAll(CHECKS);
} finally {
  await browser?.close();
  origin.close();
  fresh.close();
  rmSync(profile, { recursive: true, force: true });
}
