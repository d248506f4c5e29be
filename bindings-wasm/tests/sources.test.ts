/** The structure of the sources: a class has its methods in its own body, where an editor finds them (J19). */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const FOLDER = fileURLToPath(new URL("../ts", import.meta.url));
const SOURCES = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !name.endsWith("_gen.ts"))
  .map((name) => [name, readFileSync(`${FOLDER}/${name}`, "utf8")] as const);

/** The first group of each match, behind the name of its file; `keep` sees the group and the file's text. */
function found(pattern: RegExp, keep: (name: string, text: string) => boolean = () => true): string[] {
  return SOURCES.flatMap(([file, text]) =>
    [...text.matchAll(pattern)]
      .map(([, name = ""]) => name)
      .filter((name) => keep(name, text))
      .map((name) => `${file}: ${name}`),
  );
}

const isClass = (name: string, text: string) => new RegExp(`\\bclass ${name}\\b`).test(text);

test("no file changes a class of another file", () => {
  const given = /(?:assign|definePropert(?:y|ies))\(\s*(\w+)\.prototype\b/g;
  const assigned = /(\w+)\.prototype(?:\.\w+|\[[^\]]+\])? = /g;
  expect(found(given, isClass).length, "those of the file itself").toBeGreaterThan(0);
  expect(found(given, (name, text) => !isClass(name, text))).toEqual([]);
  expect(found(assigned)).toEqual([]);
});

test("no declaration is merged into a class of ours", () => {
  expect(found(/declare module "(.*?)"/g)).toEqual(["undici.ts: undici"]);
  expect(found(/^(?:export )?(?:declare )?class (\w+)/gm)).toContain("run/policy.ts: Policy");
  expect(found(/^(?:export )?interface (\w+)/gm, isClass)).toEqual([]);
});

test("one driver runs every call: adapters implement an interface, and inherit nothing", () => {
  expect(found(/class (\w+) implements Adapter</g)).toEqual(
    expect.arrayContaining(["fetch/fetch.ts: FetchAdapter", "undici.ts: DispatchAdapter"]),
  );
  expect(found(/extends (\w*(?:Run|Adapter))\b/g)).toEqual([]);
});
