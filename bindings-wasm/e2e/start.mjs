// Measures how long a page's main thread is busy from the import until the first call's request is sent, and how much time passes:
// node e2e/start.mjs [rounds]. Prints the best and the median of each. `CHROMIUM` names the program. Peers, whose code is all that a page
// has to run, and the browser's own compiling of the module are measured beside it; `bench/js` has to be installed.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { keep } from "../../bench/js/keep.mjs";
import { Fresh } from "./fresh.mjs";

const ROUNDS = Number(process.argv[2] ?? 7);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
/** What sends a request of each program: it notes the moment. */
const SENT = 'async () => { globalThis.left = performance.now(); return new Response("x"); }';
const PROGRAMS = {
  tidegate: `import { policy } from "tidegate";
    const { fetch } = policy({ preset: "http", fetch: ${SENT} });
    globalThis.first = fetch("/");`,
  cockatiel: `import * as it from "cockatiel";
    const all = it.wrap(it.retry(it.handleAll, { maxAttempts: 3 }), it.timeout(5000, it.TimeoutStrategy.Cooperative));
    globalThis.first = all.execute(${SENT});`,
  ky: `import ky from "ky"; globalThis.first = ky("http://127.0.0.1/", { fetch: ${SENT} });`,
  "a bare module, by compileStreaming": `globalThis.first = WebAssembly.compileStreaming(fetch("/small.wasm")).then(${SENT});`,
};

const fresh = new Fresh();
const out = join(fresh.folder, "out");
await build({
  entryPoints: Object.values(PROGRAMS).map((program, at) => fresh.write(`main-${at}.js`, program)),
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  platform: "browser",
  logLevel: "error",
  nodePaths: [fileURLToPath(new URL("../../bench/js/node_modules", import.meta.url))],
});
fresh.write("out/index.html", '<!doctype html><link rel="icon" href="data:,">');
const server = createServer((request, response) => {
  const file = request.url === "/" ? "/index.html" : request.url;
  const from = file.endsWith(".wasm") ? join(fresh.folder, "node_modules/tidegate/dist/esm") : out;
  response.writeHead(200, { "content-type": TYPES[extname(file)] }).end(readFileSync(join(from, file)));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const profile = mkdtempSync(join(tmpdir(), "tidegate-start-"));
const args = ["--disable-gpu", "--no-first-run", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args });

/** Script time and wall time of one start, in milliseconds. */
async function started(main, rate) {
  const tab = await browser.newPage();
  const cdp = await browser.newCDPSession(tab);
  try {
    await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
    await cdp.send("Network.setCacheDisabled", { cacheDisabled: true });
    await tab.goto(`http://127.0.0.1:${server.address().port}/`);
    await cdp.send("Emulation.setCPUThrottlingRate", { rate });
    const script = async () => {
      const { metrics } = await cdp.send("Performance.getMetrics");
      return 1000 * metrics.find(({ name }) => name === "ScriptDuration").value;
    };
    const before = await script();
    const wall = await tab.evaluate(async (main) => {
      const began = performance.now();
      await import(main);
      await globalThis.first;
      return globalThis.left - began;
    }, main);
    return [(await script()) - before, wall];
  } finally {
    await tab.close();
  }
}

const shown = (list) => {
  const sorted = list.toSorted((one, other) => one - other);
  const median = sorted[sorted.length >> 1];
  return [`${sorted[0].toFixed(1)} (median ${median.toFixed(1)})`, median];
};
for (const rate of [1, 4]) {
  console.log(`CPU ${rate}x slower, ms of script, and ms in all`);
  const all = Object.keys(PROGRAMS).map(() => []);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, list] of all.entries()) list.push(await started(`/main-${at}.js`, rate));
  }
  for (const [at, name] of Object.keys(PROGRAMS).entries()) {
    const [[script, median], [wall]] = [0, 1].map((which) => shown(all[at].map((each) => each[which])));
    console.log(`  ${name.padEnd(38)} ${script.padStart(20)} ${wall.padStart(20)}`);
    const slower = rate === 1 ? "" : `, CPU ${rate} × slower`;
    keep(`script of a page from import to first request${slower}`, name, "ms", median);
  }
}
await browser.close();
server.close();
fresh.close();
rmSync(profile, { recursive: true, force: true });
