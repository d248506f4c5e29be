// What `policy.fetch` adds to a bare `fetch`, beside ky: node fetch.mjs. A plain server in a process of its own answers with a small
// JSON text over connections that are kept. Rounds of requests alternate; the best turn of each counts.

import { fork } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import ky from "ky";
import { Engine, policy } from "../../bindings-wasm/dist/esm/node.js";
import { keep } from "./keep.mjs";

const [TURNS, REQUESTS] = [60, 100];

if (process.argv[2] === "--server") {
  const server = createServer((_, answer) => answer.setHeader("content-type", "application/json").end('{"order":7}'));
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit(0));
} else {
  const server = fork(fileURLToPath(import.meta.url), ["--server"]);
  const port = await new Promise((resolve) => server.once("message", resolve));
  const url = `http://127.0.0.1:${port}/orders/7`;
  const some = policy({ preset: "http", engine: new Engine() });
  const contenders = {
    "a bare fetch": async () => (await fetch(url)).text(),
    "tidegate: policy.fetch": async () => (await some.fetch(url)).text(),
    "ky": () => ky(url).text(),
  };
  const best = {};
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [name, request] of Object.entries(contenders)) {
      const began = process.hrtime.bigint();
      for (let n = 0; n < REQUESTS; n += 1) await request();
      const each = Number(process.hrtime.bigint() - began) / REQUESTS / 1000;
      best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, each);
    }
  }
  console.log(`\na request through fetch, best of ${TURNS} turns of ${REQUESTS}`);
  const bare = best["a bare fetch"];
  for (const [name, each] of Object.entries(best)) {
    console.log(`  ${name.padEnd(24)} ${each.toFixed(1).padStart(8)} µs   + ${(each - bare).toFixed(1)}`);
    if (each === bare) keep("a request through fetch", name, "µs", each);
    else keep("a request through fetch", name, "µs above", each - bare);
  }
  server.disconnect();
  process.exit(0);
}
