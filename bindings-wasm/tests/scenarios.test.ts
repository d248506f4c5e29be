/** The scenarios that every language plays (`tests/README.md`), through the public interface and on a fake clock. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as tidegate from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { engine } from "./support/setup.js";

/** Milliseconds that an attempt takes, `ok` or the class of its failure, milliseconds of Retry-After. */
type Script = [takes: number, kind: string, after?: number];

interface Ended {
  readonly starts: number[];
  readonly ended: number;
  readonly end: string;
}

interface Given extends Ended {
  readonly at: number;
  readonly policy: string;
  readonly criticality?: tidegate.Criticality;
  readonly attempts: Script[];
}

interface Scenario {
  readonly name: string;
  readonly seed: number;
  readonly tolerance: number;
  readonly document: object;
  readonly calls: Given[];
}

const FILE = new URL("../../tests/scenarios/scenarios.json", import.meta.url);
const { scenarios } = JSON.parse(readFileSync(FILE, "utf8")) as { scenarios: Scenario[] };

/** The scripted end of an attempt. */
class Failed extends Error {
  constructor(
    readonly kind: string,
    readonly after: number | undefined,
  ) {
    super(kind);
  }
}

function classify(error: unknown): tidegate.Outcome | undefined {
  return error instanceof Failed ? { kind: error.kind, retryAfter: error.after } : undefined;
}

/** A sleep that ends at once when the attempt is stopped. */
function sleep(clock: FakeClock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, stop) => {
    signal.addEventListener("abort", () => stop(signal.reason), { once: true });
    clock.sleep(ms).then(done);
  });
}

async function call(
  given: Given,
  policies: Record<string, tidegate.Policy>,
  clock: FakeClock,
): Promise<Ended> {
  await clock.sleep(given.at);
  const starts: number[] = [];
  const attempt = async ({ signal }: tidegate.Attempt) => {
    starts.push(Math.ceil(clock.now()));
    const script = given.attempts[Math.min(starts.length, given.attempts.length) - 1];
    if (script === undefined) throw new Error("a call without attempts");
    const [takes, kind, after] = script;
    await sleep(clock, takes, signal);
    if (kind !== "ok") throw new Failed(kind, after);
  };
  const end = await policies[given.policy]?.run(attempt, { criticality: given.criticality }).then(
    () => "ok",
    (error: unknown) => {
      if (error instanceof Failed) return "failure";
      if (error instanceof tidegate.TidegateError) return error.code.replace("_exceeded", "");
      throw error;
    },
  );
  return { starts, ended: Math.ceil(clock.now()), end: end ?? "there is no such policy" };
}

/** Is every moment as expected, but for the tolerance? */
function close(found: Ended, given: Given, tolerance: number): boolean {
  const due = [...given.starts, given.ended];
  const moments = [...found.starts, found.ended];
  return (
    moments.length === due.length && moments.every((at, n) => Math.abs(at - (due[n] ?? -1)) <= tolerance)
  );
}

test("there are scenarios", () => {
  expect(scenarios.length).toBeGreaterThanOrEqual(20);
});

test.each(scenarios)("$name", async ({ seed, document, calls, tolerance }) => {
  const clock = new FakeClock();
  const policies = tidegate.load(document, { engine: engine({ seed, clock }), classify });
  const found = await clock.run(Promise.all(calls.map((given) => call(given, policies, clock))), 30_000);
  for (const [place, given] of calls.entries()) {
    const ours = found[place];
    if (ours === undefined) throw new Error("a call is missing");
    expect(ours.end, JSON.stringify({ given, ours })).toBe(given.end);
    expect(close(ours, given, tolerance), JSON.stringify({ given, ours })).toBe(true);
  }
});
