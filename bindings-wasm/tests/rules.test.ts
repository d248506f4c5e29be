/** Rules × adapters: every cell has a test that runs. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { ADAPTERS } from "./support/adapters.js";

const RULES: Readonly<Record<number, string>> = {
  1: "replayability is judged before attempt 1",
  2: "which requests retry is decided from the request",
  3: "the last response, or the original error, is what the user gets",
  4: "a failed response is released before the next attempt",
  5: "Retry-After is never cut short",
  6: "every wait can be left, and nothing stays behind",
  7: "two timeouts, two names; the deadline covers everything",
  8: "slots and deadlines span the body",
  9: "nested policies do not multiply",
  10: "clocks are injected",
  11: "repeats carry their number",
  12: "finite, safe, on by default",
  13: "every suppressed retry has a reason",
  14: "nothing leaks",
};
const NAMES = Object.keys(ADAPTERS);
const FILES = ["adapters.test.ts", "aborts.test.ts", ...NAMES.map((name) => `${name}.test.ts`)];
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Number of tests that vitest collects for each rule and adapter: `fetch > 5: …`, or `5: …` in the adapter's own file. */
const cells = new Map<string, number>();

beforeAll(() => {
  const vitest = here("../node_modules/vitest/vitest.mjs");
  const list = join(mkdtempSync(join(tmpdir(), "tidegate-rules-")), "tests.json");
  const args = [vitest, "list", `--json=${list}`, ...FILES];
  execFileSync(process.execPath, args, { cwd: here(".."), timeout: 60_000 });
  const tests = JSON.parse(readFileSync(list, "utf8")) as { name: string; file: string }[];
  rmSync(dirname(list), { recursive: true });
  for (const { name, file } of tests) {
    const path = name.split(" > ");
    const adapter = NAMES.find((it) => path.includes(it) || file.endsWith(`/${it}.test.ts`));
    const rules = path.map((part) => /^(\d+)(?: and (\d+))?: /.exec(part)).find((found) => found !== null);
    if (adapter === undefined || !rules) continue;
    for (const rule of rules.slice(1).filter((number) => number !== undefined)) {
      const cell = `${rule} ${adapter}`;
      cells.set(cell, (cells.get(cell) ?? 0) + 1);
    }
  }
}, 60_000);

test.each(Object.keys(RULES).flatMap((rule) => NAMES.map((name) => [rule, name] as const)))(
  "rule %s has a test for %s",
  (rule, name) => {
    expect(cells.get(`${rule} ${name}`) ?? 0, RULES[Number(rule)]).toBeGreaterThan(0);
  },
);

test("none of them is skipped, and no cell is of a rule that there is not", () => {
  for (const file of FILES) {
    expect(readFileSync(here(file), "utf8"), file).not.toMatch(/\.(?:skip|skipIf|runIf|todo|fails|only)\b/);
  }
  expect([...cells.keys()].filter((cell) => RULES[Number.parseInt(cell, 10)] === undefined)).toEqual([]);
  expect(cells.size).toBe(14 * NAMES.length);
});
