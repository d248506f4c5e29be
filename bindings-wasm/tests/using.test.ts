/** The recipes of docs/javascript/using-with.md: each runs against a server whose first answer is a 503. */

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { type Dropping, droppingMysql, droppingPostgres } from "./support/databases.js";

const PAGE = readFileSync(new URL("../../docs/javascript/using-with.md", import.meta.url), "utf8");
const { devDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  devDependencies: Record<string, string>;
};

/** The page's sections with a block: anchor, block. */
const RECIPES = PAGE.split("\n## ").flatMap((section): [string, string][] => {
  const block = /```ts\n(.*?)```/s.exec(section)?.[1];
  const title = (section.split("\n")[0] ?? "").toLowerCase().replaceAll(" ", "-");
  return block === undefined ? [] : [[title, block]];
});

/** One answer that satisfies every client. */
const ANSWER = {
  "/chat/completions": { choices: [{ index: 0, message: { role: "assistant", content: "hi" } }] },
  "/v1/messages": { type: "message", content: [{ type: "text", text: "hi" }] },
};

/** A server that is busy at first; `seen` are the requests, with their keys. */
async function busyServer() {
  const seen: { method: string; again: unknown; key: unknown }[] = [];
  const server = createServer((request, answer) => {
    request.resume();
    const { method = "", headers, url = "" } = request;
    seen.push({ method, again: headers["retry-attempt"], key: headers["idempotency-key"] });
    answer.setHeader("content-type", "application/json");
    if (seen.length === 1) {
      answer.writeHead(503, { "retry-after": "0" }).end('{"error":{"message":"busy"}}');
      return;
    }
    answer.end(JSON.stringify(ANSWER[url as keyof typeof ANSWER] ?? { id: "1" }));
  });
  await new Promise<void>((there) => server.listen(0, "127.0.0.1", there));
  const end = async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  };
  return { seen, end, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** A Redis that drops the connection at its first GET; `seen` are the commands GET. */
async function droppingRedis(): Promise<Dropping> {
  const seen: string[] = [];
  const server = createSocketServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      for (const [, word = ""] of chunk.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g)) {
        const command = word.toLowerCase();
        if (command === "get") seen.push(command);
        if (command === "get" && seen.length === 1) socket.destroy();
        else if (command === "get") socket.write("$3\r\nAda\r\n");
        else socket.write(command === "info" ? "$9\r\nloading:0\r\n" : "+OK\r\n");
      }
    });
  });
  await new Promise<void>((there) => server.listen(0, "127.0.0.1", there));
  const end = () => new Promise((closed) => server.close(closed));
  return { seen, end, url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** The recipes whose server is not the busy one over HTTP, and that server. */
const STORES: Record<string, () => Promise<Dropping>> = {
  ioredis: droppingRedis,
  "node-redis": droppingRedis,
  pg: droppingPostgres,
  mysql2: droppingMysql,
};
/** The recipes over HTTP whose repeats carry no header of ours, because the client makes its requests itself. */
const SILENT = ["got", "aws-sdk"];

test.each(RECIPES)("%s: the policy repeats the request, once", async (title, block) => {
  const http = await busyServer();
  const store = await STORES[title]?.();
  const file = fileURLToPath(new URL(`./using_${title}_gen.ts`, import.meta.url));
  const body = block
    .replace(/(attemptTimeout|deadline): \d\w*/g, "$1: 60_000") // the machine may be busy
    .replaceAll('from "tidegate"', 'from "../ts/node.js"')
    .replace(/from "tidegate\/(\w+)"/g, 'from "../ts/$1.js"');
  writeFileSync(
    file,
    `import assert from "node:assert/strict";\nconst ORIGIN = "${http.url}";\n` +
      `const [REDIS, POSTGRES, MYSQL] = Array(3).fill("${store?.url}");\n${body}\nexport const done = true;\n`,
  );
  try {
    expect(await import(/* @vite-ignore */ file)).toMatchObject({ done: true });
  } finally {
    rmSync(file);
    await http.end();
    await store?.end();
  }
  if (store !== undefined) {
    expect([store.seen.length, http.seen.length]).toEqual([2, 0]);
    return;
  }
  const { seen } = http;
  const [first, second] = seen;
  expect(seen.length).toBe(2);
  expect(second?.key).toBe(first?.key);
  if (first?.method === "POST") expect(first.key).toBeTypeOf("string");
  if (!SILENT.includes(title)) expect([first?.again, second?.again]).toEqual([undefined, "1"]);
});

test("the table has a row for each recipe, and no other; each client is installed here", () => {
  const rows = [...PAGE.matchAll(/^\| \[([^\]]+)\]\(#([\w-]+)\)/gm)].map(([, name, anchor]) => [
    name,
    anchor,
  ]);
  expect(rows.map(([, anchor]) => anchor).sort()).toEqual(RECIPES.map(([title]) => title).sort());
  expect(rows.length).toBeGreaterThanOrEqual(8);
  for (const [name] of rows) expect(devDependencies).toHaveProperty([name as string]);
});
