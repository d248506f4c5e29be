/** The code blocks of the pages of docs, each page in order as one module. */

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Redis as IORedis } from "ioredis";
import { expect, test } from "vitest";
import type { Policy } from "../ts/node.js";
import { PROGRAM, Redis } from "./support/redis.js";
import { origin, scripted, stats } from "./support/server.js";

const GUIDE = new URL("../../docs/javascript.md", import.meta.url);
const COMING_FROM = new URL("../../docs/javascript/coming-from.md", import.meta.url);
const TUTORIAL = new URL("../../docs/tutorial/javascript.md", import.meta.url);
const MODELS = new URL("../../docs/javascript/language-models.md", import.meta.url);
const FLEET = new URL("../../docs/fleet.md", import.meta.url);
const MODULE = fileURLToPath(new URL("./guide_gen.ts", import.meta.url));

/** The code blocks of a page, with imports from the source of this package. */
function blocksOf(page: URL): string[] {
  const blocks = [...readFileSync(page, "utf8").matchAll(/```ts\n(.*?)```/gs)].map(
    ([, block]) => block as string,
  );
  return blocks.map((block) =>
    block
      .replaceAll('from "tidegate"', 'from "../ts/node.js"')
      .replaceAll('from "tidegate/parts"', 'from "../ts/parts/index.js"')
      .replace(/from "tidegate\/(\w+)"/g, 'from "../ts/$1.js"'),
  );
}

/** Runs a module made of a page's blocks, and returns its exports. */
async function run(text: string): Promise<Record<string, unknown>> {
  writeFileSync(MODULE, text);
  try {
    return (await import(/* @vite-ignore */ `${MODULE}?${text.length}`)) as Record<string, unknown>;
  } finally {
    rmSync(MODULE);
  }
}

/** Runs the blocks of a page against an origin that answers with these statuses. */
async function follow(page: URL, least: number, ...statuses: number[]): Promise<void> {
  await followAt(page, least, await origin(...statuses));
}

async function followAt(page: URL, least: number, url: string): Promise<void> {
  const blocks = blocksOf(page);
  expect(blocks.length).toBeGreaterThanOrEqual(least);
  const head = `import assert from "node:assert/strict";\nconst ORIGIN = ${JSON.stringify(url)};\n`;
  const { done } = await run(`${head}${blocks.join("\n")}\nexport const done = true;\n`);
  expect(done).toBe(true);
}

test("the guide does what it says", () => follow(GUIDE, 18, 503, 200, 503, 503, 200, 503, 503, 503));

test("the tutorial prints what it says", () => follow(TUTORIAL, 10, 200));

test("who comes from another library gets what the page says", () => follow(COMING_FROM, 4, 503, 200));

test("calls to language models do what the page says", async () => {
  const faults = [{ fault: "unavailable", first: 1 }];
  await followAt(MODELS, 6, await scripted({ provider: { faults } }));
  expect((await stats()).requests).toBe(8);
});

test.skipIf(PROGRAM === undefined)(
  "the fleet's sketch for all languages runs (needs redis-server)",
  async () => {
    const redis = await Redis.start();
    const [sketch, ...others] = blocksOf(FLEET);
    expect(others).toEqual([]);
    const head = `
    import { Redis as Client } from "ioredis";
    import { policy } from "../ts/node.js";
    export let client;
    class Redis extends Client {
      constructor(options) {
        super({ ...options, port: ${redis.port} });
        client = this;
      }
    }
  `;
    try {
      const { client, partner } = (await run(`${head}${sketch}\nexport { partner };\n`)) as {
        client: IORedis;
        partner: Policy;
      };
      if (client.status !== "ready") await new Promise<void>((done) => client.once("ready", () => done()));
      expect(await partner.run(() => "sent")).toBe("sent");
      expect(await redis.command("KEYS", "*")).toContain("shop:{r|partner|default}:rl");
      client.disconnect();
    } finally {
      await redis.end();
    }
  },
);
