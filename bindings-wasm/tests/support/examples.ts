/** The examples of doc comments, which run as tests. */

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const COMMENT =
  /\/\*\*((?:(?!\*\/)[\s\S])*?@example(?:(?!\*\/)[\s\S])*?)\*\/\s*(?:export )?(?:static )?(?:async )?(?:class |function )?(\w+)/g;
let made = 0;

/** Runs the examples of these files of `ts`, each in a block of its own, and returns the names of the documented items. */
export async function examples(files: readonly string[], head: string): Promise<string[]> {
  const blocks: string[] = [];
  const names: string[] = [];
  for (const name of files) {
    const source = readFileSync(new URL(`../../ts/${name}`, import.meta.url), "utf8");
    for (const [, comment, what] of source.matchAll(COMMENT)) {
      const plain = (comment as string).replaceAll(/^ *\* ?/gm, "");
      const [, block] = /```ts\n([\s\S]*?)```/.exec(plain) ?? [];
      if (block === undefined) throw new Error(`the example of ${what} in ${name} is no block`);
      blocks.push(`{\n${block}}\n`);
      names.push(what as string);
    }
  }
  made += 1;
  const file = fileURLToPath(new URL(`../examples_${process.pid}_${made}_gen.ts`, import.meta.url));
  writeFileSync(
    file,
    `import assert from "node:assert/strict";\n${head}${blocks.join("")}export const done = true;\n`,
  );
  try {
    const { done } = (await import(/* @vite-ignore */ file)) as { done: boolean };
    if (!done) throw new Error("they did not end");
  } finally {
    rmSync(file);
  }
  return names;
}
