// Measures how long a page's main thread is busy from the import until the first call's request is sent, and how much time passes:
// node e2e/start.mjs [rounds]. Prints the best and the median of each. `CHROMIUM` names the program.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { Fresh } from "./fresh.mjs";

const ROUNDS = Number(process.argv[2] ?? 7);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm" };
const MAIN = `
import { policy } from "tidegate";
const { fetch } = policy({ preset: "http", fetch: async () => { globalThis.left = performance.now(); return new Response("x"); } });
globalThis.first = fetch("/");
`;

const fresh = new Fresh();
const out = join(fresh.folder, "out");
await build({
  entryPoints: [fresh.write("main.js", MAIN)],
  outfile: join(out, "main.js"),
  bundle: true,
  minify: true,
  format: "esm",
  platform: "browser",
  logLevel: "error",
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
async function started(rate) {
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
    const wall = await tab.evaluate(async () => {
      const began = performance.now();
      await import("/main.js");
      await globalThis.first;
      return globalThis.left - began;
    });
    return [(await script()) - before, wall];
  } finally {
    await tab.close();
  }
}

const shown = (list) => {
  const sorted = list.toSorted((one, other) => one - other);
  return `${sorted[0].toFixed(1)} (median ${sorted[sorted.length >> 1].toFixed(1)})`;
};
for (const rate of [1, 4]) {
  const all = [];
  for (let round = 0; round < ROUNDS; round += 1) all.push(await started(rate));
  const [script, wall] = [0, 1].map((which) => shown(all.map((each) => each[which])));
  console.log(`CPU ${rate}x slower: ${script} ms of script, ${wall} ms in all`);
}
await browser.close();
server.close();
fresh.close();
rmSync(profile, { recursive: true, force: true });
