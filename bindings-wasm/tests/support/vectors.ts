/** The vectors shared by all languages (`tests/README.md`), through the WebAssembly alone: the decisions of one module. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { load } from "../../ts/engine/module.js";
import { type Native, type Pair, pieces, said, say, stage } from "../../ts/engine/native.js";
import {
  ATTEMPT,
  DONE,
  FINISHED_1,
  FIRST,
  finished,
  OK_1,
  OPINIONS,
  packOutcome,
  packRemaining,
  spanOf,
  VERDICTS,
  WAKES,
} from "../../ts/engine/wire.js";

const VECTORS = new URL("../../../tests/vectors/", import.meta.url);

interface Named {
  name: string;
  pairs: [string, number | string][];
}

function files<T>(family: string): T[] {
  const folder = new URL(`${family}/`, VECTORS);
  const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
  expect(names.length).toBeGreaterThan(0);
  return names.sort().map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")) as T);
}

function fresh(seed: number): [Native, number] {
  const native = load();
  return [native, native.engine(Math.floor(seed / 2 ** 32), seed % 2 ** 32, 10_000, 0, 0)];
}

/** The result for a policy that only the full module has. */
const FULL: string[] = ["it takes the full module"];

/** Takes a policy in. Returns its number, or the keys with mistakes. */
function take(native: Native, engine: number, { name, pairs }: Named): number | string[] {
  stage(name, pairs as readonly Pair[]);
  const number = native.policy(engine);
  if (number >= 0) return number;
  const told = pieces();
  if (told.some((text) => text.includes("tidegate/full"))) return FULL;
  return [...new Set(told.filter((_, at) => at % 3 === 0))].sort();
}

const POOLS = ["bulkhead", "rate_limit", "budget"];

function pool(native: Native, engine: number, name: string, kind: string, pairs: readonly Pair[]): void {
  stage(name, pairs);
  expect(native.pool(engine, POOLS.indexOf(kind), 0, 0), said()).toBe(0);
}

interface Entry {
  at: number;
  begin?: {
    policy: string;
    route: string | null;
    request: [number, number, number | string, number];
    path?: string;
  };
  call?: string;
  on?: string;
  event?: number;
  force?: { policy: string; route: string | null; on: boolean };
  step?: number;
  wakes: string[];
  says: string;
}

interface Script {
  name: string;
  seed: number;
  pools?: { name: string; kind: string; pairs: [string, number | string][] }[];
  policies: Named[];
  script: Entry[];
}

const all = files<{ vectors: Script[] }>("engine").flatMap(({ vectors }) => vectors);

/** Whether the small module can play a script, apart from its policies: no pools, no nested calls. */
function isPlain({ pools = [], script }: Script): boolean {
  return (
    pools.length === 0 &&
    script.every(({ begin, force }) => force === undefined && (begin?.request[2] ?? 0) === 0)
  );
}

/** Runs all vectors on a module with this code. For the small one, leaves out what it rejects. */
export function vectors(code: Uint8Array<ArrayBuffer>, small: boolean): void {
  const scripts = all.filter((script) => !small || isPlain(script));
  test("there are scripts", () => expect(scripts.length).toBeGreaterThan(small ? 100 : 200));

  let refused = 0;

  describe("engine", () => {
    test.each(scripts)("$name", (vector) => {
      const [native, engine] = fresh(vector.seed);
      for (const { name, kind, pairs } of vector.pools ?? []) {
        const table = kind === "budget" ? "retry.budget." : `${kind}.`;
        pool(
          native,
          engine,
          name,
          kind,
          pairs.map(([key, value]) => [key.replace(table, ""), value]),
        );
      }
      const policies = new Map(
        vector.policies.map((policy) => [policy.name, take(native, engine, policy) as number]),
      );
      if (small && [...policies.values()].some((number) => (number as unknown) === FULL)) {
        refused += 1;
        native.forget_engine(engine);
        return;
      }
      const calls = new Map<string, number>();
      const route = (policy: string, key: string, at: number) => {
        say(key);
        return native.route(engine, policies.get(policy) as number, at);
      };
      for (const entry of vector.script) {
        const { at, begin, force } = entry;
        let step: number | undefined;
        if (force !== undefined) {
          const which = force.route === null ? 0 : route(force.policy, force.route, at);
          native.force_open(engine, policies.get(force.policy) as number, which, force.on ? 1 : 0, at);
        } else if (begin !== undefined) {
          const [flags, remaining, parent, target] = begin.request;
          const id = begin.route === null ? 0 : route(begin.policy, begin.route, at);
          let aim = target;
          if (begin.path !== undefined && begin.path !== null) {
            say(begin.path);
            aim = native.target(engine, id, at);
          }
          const around = calls.get(String(parent)) ?? 0;
          step = native.begin(engine, id, flags, remaining, around, aim, at);
          calls.set(entry.call as string, native.begun(engine));
        } else {
          step = native.on(engine, calls.get(entry.on as string) as number, entry.event as number, at);
        }
        expect(step, entry.says).toBe(entry.step);
        const woken = Array.from({ length: native.wakes(engine) }, (_, place) => native.woken(engine, place));
        expect(woken, entry.says).toEqual(entry.wakes.map((name) => calls.get(name)));
      }
      native.forget_engine(engine);
    });
  });

  interface Answers {
    wall_us: number;
    policies: Named[];
    cases: { policy: string; status: number; headers: [string, string][]; word: number; body?: string }[];
  }

  test.each(files<Answers>("classify"))(
    "answers are classified ($cases.length)",
    ({ wall_us, policies, cases }) => {
      const [native, engine] = fresh(0);
      const numbers = new Map(
        policies.map((policy) => [policy.name, take(native, engine, policy) as number]),
      );
      let seen = 0;
      for (const each of cases) {
        if (small && (numbers.get(each.policy) as unknown) === FULL) continue;
        seen += 1;
        say(each.headers.map(([name, value]) => `${name}\0${value}\0`).join(""));
        const word = native.classify(engine, numbers.get(each.policy) as number, each.status, wall_us);
        expect(word, JSON.stringify(each)).toBe(each.word);
      }
      if (!small) expect(seen).toBeGreaterThan(50);
    },
  );

  test.skipIf(small).each(files<Answers>("classify_read"))(
    "answers are classified by what was read of them ($cases.length)",
    ({ wall_us, policies, cases }) => {
      const [native, engine] = fresh(0);
      const numbers = new Map(
        policies.map((policy) => [policy.name, take(native, engine, policy) as number]),
      );
      for (const each of cases) {
        const { headers, status, body = "" } = each;
        say(`${headers.map(([name, value]) => `${name}\0${value}\0`).join("")}${body}`);
        const policy = numbers.get(each.policy) as number;
        const word = native.classify_read(engine, policy, status, wall_us, headers.length);
        expect(word, JSON.stringify(each)).toBe(each.word);
      }
      expect(cases.length).toBeGreaterThan(500);
    },
  );

  const PRESENT: Record<string, [string, readonly Pair[]]> = {
    "bulkhead.pool": ["bulkhead", [["max_concurrency", 1]]],
    "rate_limit.pool": [
      "rate_limit",
      [
        ["permits", 1],
        ["per", 1e6],
      ],
    ],
    "retry.budget.pool": ["budget", [["kind", "window"]]],
  };

  test("policies and their mistakes", () => {
    let seen = 0;
    for (const { cases } of files<{ cases: { pairs: [string, number | string][]; wrong: string[] }[] }>(
      "policy",
    )) {
      for (const { pairs, wrong } of cases) {
        const [native, engine] = fresh(0);
        for (const [key, name] of pairs) {
          const known = PRESENT[key];
          if (!small && known !== undefined && name !== "") pool(native, engine, String(name), ...known);
        }
        const taken = take(native, engine, { name: "p", pairs });
        if (!small || taken !== FULL) {
          expect(typeof taken === "number" ? [] : taken, JSON.stringify(pairs)).toEqual(wrong);
          seen += 1;
        }
        native.forget_engine(engine);
      }
    }
    expect(seen).toBeGreaterThan(small ? 60 : 150);
  });

  interface Words {
    steps: {
      word: number;
      step: {
        action: string;
        verdict?: string;
        attempt?: number;
        wakes: number;
        retry_in_us?: number;
        next_us?: number;
      };
    }[];
    events: {
      word: number;
      event: { event: string; attempt: number; kind: number; opinion: string; retry_after_us: number | null };
    }[];
  }

  describe("words", () => {
    const [words] = files<Words>("wire");
    const { steps, events } = words as Words;

    test("of steps are read", () => {
      for (const { word, step } of steps) {
        const done = (word & 3) === DONE;
        expect(step.action, JSON.stringify(step)).toBe(["done", "attempt", "wait"][word & 3]);
        if (done) expect(VERDICTS[(word >>> 12) & 63]).toBe(step.verdict);
        if ((word & 3) === ATTEMPT) expect((word >>> 12) & 0xff).toBe(step.attempt);
        expect((word & WAKES) !== 0).toBe(step.wakes === 1);
        const us = (done ? step.retry_in_us : step.next_us) ?? null;
        const span = us === null ? -1 : Math.min(done ? Math.ceil(us / 1000) : us, 2 ** 31 - 2);
        expect(spanOf(word), JSON.stringify(step)).toBe(span);
      }
      expect(steps.length).toBeGreaterThan(500);
    });

    test("of finished attempts are written", () => {
      const ends = events.filter(({ event }) => event.event === "finished");
      for (const { word, event } of ends) {
        const { attempt, kind, retry_after_us: us } = event;
        const opinion = OPINIONS.indexOf(event.opinion as (typeof OPINIONS)[number]);
        const outcome = packOutcome(kind, opinion, us === null ? null : us / 1000);
        expect(finished(attempt, outcome), JSON.stringify(event)).toBe(word);
      }
      expect(ends.length).toBeGreaterThan(100);
    });

    test("of the happy path", () => {
      expect([FIRST, FINISHED_1, OK_1]).toEqual([0x1001, 12, 0x200000]);
      expect([packRemaining(0), packRemaining(-5), packRemaining(1.5), packRemaining(1e300)]).toEqual([
        1,
        1,
        1501,
        2 ** 53 - 1,
      ]);
      expect([packOutcome(2, 0, 0.2), packOutcome(1, 2, Number.NaN)]).toEqual([
        2 * 2 ** 18 + 4096,
        2048 + 2 * 2 ** 16,
      ]);
    });
  });

  test("what is no word is refused", () => {
    const [native, engine] = fresh(0);
    expect(native.on(engine, 1, 6, 0)).toBe(-1);
    expect(native.begin(engine, 0, 2 ** 31, 0, 0, 0, 0)).toBe(-1);
  });

  test("the module can do nothing but answer", () => {
    const imports = WebAssembly.Module.imports(new WebAssembly.Module(code)).map(({ name }) => name);
    expect(imports).toEqual(["__wbindgen_init_externref_table"]);
  });

  if (small) {
    test("what the small module refuses, it refuses by name", () => {
      // The module must accept enough policies of the scripts, otherwise this file would test nothing.
      expect(refused).toBeGreaterThan(20);
      expect(scripts.length - refused).toBeGreaterThan(60);
    });
  }
}
