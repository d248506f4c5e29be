// The page and its flaky origin: node examples/browser/serve.mjs [port]
//
// /work has workers behind a bounded queue, as servers have: it slows down under load, refuses with a 503 where the queue is
// full, works on for callers that have left, and fails at a given rate. POST /origin sets {workers, errorRate}.

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
};
const SERVICE_MS = 40;
const QUEUE = 40;

/** An origin of its own. */
function flaky() {
  const settings = { workers: 4, errorRate: 0 };
  const waiting = [];
  let busy = 0;
  const next = () => {
    while (busy < settings.workers && waiting.length > 0) {
      const response = waiting.shift();
      busy += 1;
      setTimeout(
        () => {
          busy -= 1;
          response.writeHead(200, { "content-type": "text/plain" }).end("done");
          next();
        },
        SERVICE_MS * (0.5 + Math.random()),
      );
    }
  };
  const work = (response) => {
    if (Math.random() < settings.errorRate || waiting.length >= QUEUE) {
      response.writeHead(503, { "content-type": "text/plain" }).end("busy");
    } else {
      waiting.push(response);
      next();
    }
  };
  return { settings, work };
}

/** Serves the page of a folder with an origin of its own: its address, and how to end it. */
export async function start({
  root = here,
  port = 0,
  packageFolder = join(here, "../../bindings-wasm"),
} = {}) {
  const { settings, work } = flaky();
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://x").pathname);
    if (path === "/work") return work(response);
    if (path === "/origin" && request.method === "POST") {
      let text = "";
      for await (const chunk of request) text += chunk;
      Object.assign(settings, JSON.parse(text));
      return response.writeHead(204).end();
    }
    const inside = path.startsWith("/tidegate/")
      ? join(packageFolder, path.slice("/tidegate".length))
      : join(root, path);
    const file = path === "/" ? join(root, "index.html") : inside;
    if (!existsSync(file) || extname(file) === "") return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
    return response.end(readFileSync(file));
  });
  await new Promise((listening) => server.listen(port, "127.0.0.1", listening));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, close };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await start({ port: Number(process.argv[2] ?? 8080) });
  console.log(`${url} (Ctrl-C ends it)`);
}
