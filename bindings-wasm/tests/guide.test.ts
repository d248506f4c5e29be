/** The blocks of docs/javascript.md, in order, as one module. */

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { origin } from "./support/server.js";

const GUIDE = new URL("../../docs/javascript.md", import.meta.url);
const MODULE = fileURLToPath(new URL("./guide_gen.ts", import.meta.url));

test("the guide does what it says", async () => {
  const blocks = [...readFileSync(GUIDE, "utf8").matchAll(/```ts\n(.*?)```/gs)].map(([, block]) => block);
  expect(blocks.length).toBeGreaterThan(8);
  const url = await origin(503, 200, 503, 503, 200);
  const text = blocks
    .join("\n")
    .replaceAll('from "tidegate"', 'from "../ts/node.js"')
    .replaceAll('from "tidegate/parts"', 'from "../ts/parts/index.js"')
    .replace(/from "tidegate\/(\w+)"/g, 'from "../ts/$1.js"');
  const head = `import assert from "node:assert/strict";\nconst ORIGIN = ${JSON.stringify(url)};\n`;
  writeFileSync(MODULE, `${head}${text}\nexport const done = true;\n`);
  try {
    const { done } = (await import(/* @vite-ignore */ MODULE)) as { done: boolean };
    expect(done).toBe(true);
  } finally {
    rmSync(MODULE);
  }
});
