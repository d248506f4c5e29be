// What `policy.fetch` adds to a bare `fetch`, beside ky: node fetch.mjs. A plain server in a process of its own answers with a small
// JSON text over connections that are kept. Turns of requests alternate; of the processor's time of each turn counts the tenth
// percentile, which a busy machine disturbs least, and the median of the differences to the bare turn of the same round.

import { fork } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import ky from "ky";
import { Engine, policy } from "../../bindings-wasm/dist/esm/node.js";
import { keep } from "./keep.mjs";

const [TURNS, REQUESTS] = [Number(process.argv[2] ?? 400), 20];

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
    "… with a signal": async () => (await fetch(url, { signal: new AbortController().signal })).text(),
    "tidegate: policy.fetch": async () => (await some.fetch(url)).text(),
    "ky": () => ky(url).text(),
  };
  const used = {};
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (const [name, request] of Object.entries(contenders)) {
      const before = process.cpuUsage();
      for (let n = 0; n < REQUESTS; n += 1) await request();
      const { user, system } = process.cpuUsage(before);
      used[name] ??= [];
      used[name].push((user + system) / REQUESTS);
    }
  }
  const at = (list, part) => [...list].sort((one, other) => one - other)[Math.floor(list.length * part)];
  console.log(`\na request through fetch, CPU time of ${TURNS} turns of ${REQUESTS}`);
  const bare = used["a bare fetch"];
  const floor = at(bare, 0.1);
  for (const [name, turns] of Object.entries(used)) {
    const tenth = at(turns, 0.1);
    const pairs = at(turns.map((each, turn) => each - bare[turn]), 0.5);
    const above = `+ ${(tenth - floor).toFixed(1).padStart(5)}, in pairs + ${pairs.toFixed(1)}`;
    console.log(`  ${name.padEnd(24)} ${tenth.toFixed(1).padStart(8)} µs   ${above}`);
    if (turns === bare) keep("a request through fetch", name, "µs", tenth);
    else keep("a request through fetch", name, "µs above", tenth - floor);
  }
  server.disconnect();
  process.exit(0);
}
