/** The scenarios shared by all languages (`tests/README.md`), through the public interface and on a fake clock. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { attach } from "../ts/fleet.js";
import * as tidegate from "../ts/node.js";
import { MemoryStore } from "../ts/parts/index.js";
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
  /** The number of the process that makes the call. */
  readonly process?: number;
  readonly criticality?: tidegate.Criticality;
  /** The path of a request, which goes through `fetch`. */
  readonly path?: string;
  readonly attempts: Script[];
}

interface Scenario {
  readonly name: string;
  readonly seed: number;
  readonly tolerance: number;
  /** Number of processes that share a store. */
  readonly processes?: number;
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

/** A sleep that ends immediately when the attempt is stopped. */
function sleep(clock: FakeClock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done, stop) => {
    signal.addEventListener("abort", () => stop(signal.reason), { once: true });
    clock.sleep(ms).then(done);
  });
}

/** The init of a request, with the script for the service of a scenario. */
type Carried = RequestInit & { scripted: (signal: AbortSignal) => Promise<Script> };

/** The service of a scenario, in place of the global `fetch`. */
async function service(_input: unknown, init?: RequestInit): Promise<Response> {
  const { scripted, signal } = init as Carried;
  const [, kind, after] = await scripted(signal ?? new AbortController().signal);
  const headers = new Headers();
  if (after !== undefined) headers.set("Retry-After", `${after / 1000}`);
  return new Response(null, { status: kind === "ok" ? 200 : 429, headers });
}

async function request(
  path: string,
  policy: tidegate.Policy,
  scripted: Carried["scripted"],
): Promise<string> {
  const init: Carried = { scripted };
  const response = await policy.fetch(`http://service.example${path}`, init);
  return response.ok ? "ok" : "failure";
}

async function call(
  given: Given,
  policies: Record<string, tidegate.Policy>,
  clock: FakeClock,
): Promise<Ended> {
  await clock.sleep(given.at);
  const starts: number[] = [];
  const scripted = async (signal: AbortSignal): Promise<Script> => {
    starts.push(Math.ceil(clock.now()));
    const script = given.attempts[Math.min(starts.length, given.attempts.length) - 1];
    if (script === undefined) throw new Error("a call without attempts");
    await sleep(clock, script[0], signal);
    return script;
  };
  const attempt = async ({ signal }: tidegate.Attempt) => {
    const [, kind, after] = await scripted(signal);
    if (kind !== "ok") throw new Failed(kind, after);
    return "ok";
  };
  const policy = policies[given.policy];
  const ending =
    given.path === undefined
      ? policy?.run(attempt, { criticality: given.criticality })
      : policy && request(given.path, policy, scripted);
  const end = await ending?.catch((error: unknown) => {
    if (error instanceof Failed) return "failure";
    if (error instanceof tidegate.TidegateError) return error.code.replace("_exceeded", "");
    throw error;
  });
  return { starts, ended: Math.ceil(clock.now()), end: end ?? "there is no such policy" };
}

/** Whether every moment is as expected, within the tolerance. */
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

test.each(scenarios)("$name", async ({ seed, document, calls, tolerance, processes }) => {
  const clock = new FakeClock();
  const store = new MemoryStore(() => 1_000_000 + clock.now());
  const fleet = Array.from({ length: processes ?? 1 }, (_, process) => {
    const own = engine({ seed: seed + process, clock });
    if (processes !== undefined) attach(store, { engine: own });
    return tidegate.load(document, { engine: own, classify, fetch: service }).policies;
  });
  const going = calls.map((given) => call(given, fleet[given.process ?? 0] ?? {}, clock));
  const found = await clock.run(Promise.all(going), 30_000);
  for (const [place, given] of calls.entries()) {
    const ours = found[place];
    if (ours === undefined) throw new Error("a call is missing");
    expect(ours.end, JSON.stringify({ given, ours })).toBe(given.end);
    expect(close(ours, given, tolerance), JSON.stringify({ given, ours })).toBe(true);
  }
});
