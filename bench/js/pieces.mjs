// What timeouts of a stream cost for each piece of a body: node --expose-gc pieces.mjs. A server in a process of its own sends events
// one after another, each in a write of its own; bodies are read bare and under a policy in turn. CPU time of the reading process for
// each event sent, because a reader gets several of them at once if it is busy; median of the ratios of pairs.

import { fork } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { Engine, policy } from "../../bindings-wasm/dist/esm/node.js";

const [ROUNDS, PIECES] = [Number(process.argv[2] ?? 41), 5_000];
const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":" tide"}}]}\n\n';

if (process.argv[2] === "--server") {
  // Each piece is written in a turn of the event loop of its own, so that most of them are received apart.
  const server = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.socket.setNoDelay(true);
    let left = PIECES;
    const write = () => {
      left -= 1;
      if (left < 0) answer.end();
      else if (answer.write(EVENT)) setImmediate(write);
      else answer.once("drain", write);
    };
    write();
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
  process.on("disconnect", () => process.exit(0));
} else {
  const server = fork(fileURLToPath(import.meta.url), ["--server"]);
  const port = await new Promise((resolve) => server.once("message", resolve));
  const url = `http://127.0.0.1:${port}/`;
  const headers = { accept: "text/event-stream" };
  const made = (counts) => policy({ firstByteTimeout: 60_000, idleTimeout: 60_000, counts, engine: new Engine() });
  const [bytes, events] = [made("bytes"), made("sse_data")];
  const read = async (response) => {
    let size = 0;
    for await (const piece of response.body) size += piece.length;
    if (size !== PIECES * EVENT.length) throw new Error(`${size} bytes`);
  };
  /** A stream around a body that only passes pieces on: the least that any guard of a body costs. */
  const passed = ({ body }) => {
    const reader = body.getReader();
    const pull = async (controller) => {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    };
    return { body: new ReadableStream({ pull }, { highWaterMark: 0 }) };
  };
  const ways = {
    "fetch": async () => read(await fetch(url, { headers })),
    "fetch, passed on": async () => read(passed(await fetch(url, { headers }))),
    "fetch, bytes": async () => read(await bytes.fetch(url, { headers })),
    "fetch, sse_data": async () => read(await events.fetch(url, { headers })),
  };
  let undici;
  try {
    undici = createRequire(new URL("../../bindings-wasm/package.json", import.meta.url))("undici");
  } catch {
    console.log("undici: NOT RUN (it is not installed)");
  }
  if (undici !== undefined) {
    const { interceptor } = await import("../../bindings-wasm/dist/esm/undici.js");
    const under = (some) => new undici.Agent().compose(interceptor(some));
    const dispatchers = [new undici.Agent(), under(bytes), under(events)];
    for (const [at, name] of ["undici", "undici, bytes", "undici, sse_data"].entries()) {
      ways[name] = async () => {
        const { body } = await undici.request(url, { headers, dispatcher: dispatchers[at] });
        return read({ body });
      };
    }
  }
  const used = {};
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [name, way] of Object.entries(ways)) {
      globalThis.gc?.();
      const before = process.cpuUsage();
      await way();
      const { user, system } = process.cpuUsage(before);
      used[name] ??= [];
      used[name].push((user + system) / PIECES);
    }
  }
  const median = (list) => [...list].sort((one, other) => one - other)[list.length >> 1];
  console.log(`\nan event of a body, CPU time, ${ROUNDS} rounds of ${PIECES} events`);
  for (const [name, times] of Object.entries(used)) {
    const bare = used[name.split(",")[0]];
    const ratio = median(times.map((each, round) => each / bare[round]));
    console.log(`  ${name.padEnd(20)} ${median(times).toFixed(2).padStart(7)} µs   × ${ratio.toFixed(3)}`);
  }
  server.disconnect();
  process.exit(0);
}
