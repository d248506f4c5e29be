/** The shared vectors, through the small module that pages load first: the same decisions, bit for bit. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { load, use } from "../ts/engine/module.js";
import { pieces, stage } from "../ts/engine/native.js";
import { needsFull } from "../ts/engine/options.js";
import { Engine, policy } from "../ts/main.js";
import { vectors } from "./support/vectors.js";
import { wasm } from "./support/wasm.js";

await use(wasm("small"), "small");
vectors(wasm("small"), true);

/** An engine without nesting, which would need the full module. */
const engine = () => new Engine({ seed: 1, nesting: false });

const told = (work: () => unknown): string => {
  try {
    work();
    return "nothing";
  } catch (error) {
    return (error as Error).message;
  }
};

test("a mistake is told with key, value and rule, and numbers are as they were given", () => {
  expect(
    told(() =>
      policy({
        engine: engine(),
        retry: { maxAttempts: 0.5, backoff: { multiplier: -1.25 } },
        deadline: -1.5,
      }),
    ),
  ).toBe(
    [
      "retry.maxAttempts = 0.5: must be a whole number from 1 to 255",
      "retry.backoff.multiplier = -1.25: must be a finite number from 1 to 1000",
      "deadline = -1.5 ms: must be a span from 1us to 365 days",
    ].join("; "),
  );
  expect(
    told(() => policy({ engine: engine(), rateLimit: { permits: 1, per: 1000, wait: true } })),
    "keys have their names here",
  ).toMatch(/^rateLimit\.wait = true: needs a bound: rateLimit\.maxWait or deadline$/);
  // @ts-expect-error the types say it too
  expect(told(() => policy({ engine: engine(), bulkhead: {} }))).toMatch(
    /maxConcurrency = \(absent\): is required where there is a bulkhead$/,
  );
});

test("memory that has been given back is used again, and what is large is served", async () => {
  const some = policy({
    engine: engine(),
    retry: {},
    bulkhead: { maxConcurrency: 3, maxQueue: 5000, acquireTimeout: 60_000 },
  });
  const size = () => some.engine.native.memory.buffer.byteLength;
  const round = async () => {
    const answers = await Promise.all(
      Array.from({ length: 4000 }, (_, n) => some.at({ route: `route ${n % 500}` }).run(async () => n)),
    );
    expect(answers).toEqual(Array.from({ length: 4000 }, (_, n) => n));
  };
  await round();
  const after = size();
  for (let n = 0; n < 5; n += 1) await round();
  expect(size()).toBe(after);
});

interface Schema {
  readonly properties?: Record<string, Schema>;
  readonly enum?: readonly (string | number)[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly type?: string;
  readonly minimum?: number;
}

/** Each key of the table by its path, with a value, or with each of its words. */
function* keys(schema: Schema, above: readonly string[] = []): Generator<[string[], string | number]> {
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const path = [...above, name];
    if (each.properties !== undefined) yield* keys(each, path);
    else if (name !== "kinds") {
      const words = (each.enum ?? each.items?.enum ?? []).filter((word) => typeof word === "string");
      const number = each.type === "integer" || each.type === "number" || each.anyOf !== undefined;
      const plain = each.type === "boolean" ? 1 : number ? Math.max(each.minimum ?? 1, 1) : 1_000_000;
      if (each.type === "array" && words.length === 0) words.push("transient");
      for (const value of words.length > 0 ? words : [plain]) yield [path, value];
    }
  }
}

/** Keys of the full module that have no effect without another key or word that is recognized. */
const BESIDE = new Set(
  [
    "store_timeout store_exchange retry.max_held rate_limit.lease rate_limit.on_loss rate_limit.fair_by rate_limit.shares",
    "retry.budget.min_throughput retry.budget.min_retries retry.budget.max retry.budget.capacity",
    "retry.budget.share retry.budget.cost retry.budget.timeout_cost retry.budget.throttled_cost",
    "bulkhead.min_concurrency bulkhead.latency_threshold bulkhead.increase_step bulkhead.backoff_ratio",
    "bulkhead.cut_interval bulkhead.latency_quantile bulkhead.long_window bulkhead.rtt_tolerance",
    "bulkhead.signal bulkhead.headroom bulkhead.variant bulkhead.queue_interval bulkhead.codel bulkhead.lease_ttl",
    "bulkhead.on_loss breaker.quorum breaker.on_loss",
  ].flatMap((line) => line.split(" ")),
);
/** Defaults that are written out, and a status that no module has: the small one cannot know that. */
const DEFAULTS = ["retry.statuses = transient", "retry.send_rate = none"];

test("what only the full module has is known before it is asked, and nothing else is taken for it", () => {
  const file = new URL("../../docs/policy.schema.json", import.meta.url);
  const schema = JSON.parse(readFileSync(file, "utf8")) as { $defs: { policy: Schema } };
  const native = load();
  const number = native.engine(0, 1, 10, 0, 0);
  const missed: string[] = [];
  const needless: string[] = [];
  let known = 0;
  for (const [path, value] of keys(schema.$defs.policy)) {
    const [key, told] = [path.join("."), `${path.join(".")} = ${value}`];
    stage("some", [[key, value]]);
    const lacks = native.policy(number) < 0 && pieces().some((text) => text.includes("tidegate/full"));
    const camel = path.map((name) => name.replace(/_./g, (two) => two.slice(1).toUpperCase()));
    const settings = camel.reduceRight<unknown>((below, name) => ({ [name]: below }), value) as object;
    const guessed = needsFull(settings);
    if (lacks && guessed) known += 1;
    if (guessed && !lacks) needless.push(told);
    if (lacks && !guessed && !BESIDE.has(key) && !told.endsWith("store = local")) missed.push(told);
  }
  expect(known).toBeGreaterThan(50);
  expect(needless).toEqual([]);
  expect(missed).toEqual(DEFAULTS);
});
