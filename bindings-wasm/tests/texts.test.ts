/** Texts of core that a user may see. The WebAssembly modules are built without `Debug` (`scripts/build.mjs`), which writes nothing there. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const CORE = fileURLToPath(new URL("../../core/src/", import.meta.url));

/** Files whose functions check invariants: no host calls them, and their texts are for tests. */
const CHECKS = new Set([
  "engine/fleet/rate/loss.rs",
  "engine/fleet/slots.rs",
  "engine/limits/order.rs",
  "engine/weights.rs",
]);

/** The lines of a source that format by `Debug`, without comments, assertions and tests. */
function debugged(source: string): string[] {
  const [code = ""] = source.split(/^#\[cfg\(test\)\]\nmod \w+ \{/m);
  return code
    .split("\n")
    .filter((line) => /:#?\?\}/.test(line) && !/^\s*\/\/|assert|panic!|unreachable!/.test(line));
}

test("no text of core is written by Debug", () => {
  const files = readdirSync(CORE, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".rs"),
  );
  expect(files.length).toBeGreaterThan(100);
  const found = files
    .filter((name) => !CHECKS.has(name))
    .map((name) => [name, readFileSync(join(CORE, name), "utf8")] as const)
    .filter(([, text]) => !/TestCaseError|proptest!/.test(text.split("#[cfg(test)]")[0] ?? ""))
    .flatMap(([name, text]) => debugged(text).map((line) => `${name}: ${line.trim()}`));
  expect(found).toEqual([]);
});
