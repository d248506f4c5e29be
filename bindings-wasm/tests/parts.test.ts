/** `tidegate/parts`: tests besides the vectors, for mistakes, copies, disposal and examples. */

import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import * as parts from "../ts/parts/index.js";
import { load } from "../ts/parts/native.js";
import { examples } from "./support/examples.js";
import { collected } from "./support/garbage.js";
import { random } from "./support/random.js";
import { wasm } from "./support/wasm.js";

const SOURCE = new URL("../ts/parts/", import.meta.url);
const CLASSES = Object.entries(parts).filter(
  ([, it]) => typeof it === "function" && it.prototype?.copy !== undefined,
);

/** One part of each kind, with minimal settings. */
const EACH: Record<string, () => parts.Part> = {
  Backoff: () => new parts.Backoff(),
  EarnedBudget: () => new parts.EarnedBudget(),
  RetryBudget: () => new parts.RetryBudget(),
  RatioBudget: () => new parts.RatioBudget({ ratio: 0.1 }),
  ShareBudget: () => new parts.ShareBudget(),
  TokenBudget: () => new parts.TokenBudget({ max: 10, ratio: 0.1 }),
  RetryQuota: () => new parts.RetryQuota(),
  RetryStrategy: () => new parts.RetryStrategy(),
  RetryToken: () => {
    const strategy = new parts.RetryStrategy();
    const token = strategy.acquireInitialRetryToken();
    strategy.dispose();
    return token;
  },
  TokenBucket: () => new parts.TokenBucket({ permits: 1, per: 1 }, 0),
  Gcra: () => new parts.Gcra({ permits: 1, per: 1 }),
  CubicRate: () => new parts.CubicRate(0),
  Aimd: () => new parts.Aimd({ maxConcurrency: 1, latencyThreshold: 1 }),
  Gradient2: () => new parts.Gradient2({ maxConcurrency: 1 }),
  CoDel: () => new parts.CoDel({ queueTarget: 5 }, 0),
  CircuitBreaker: () => new parts.CircuitBreaker({ breakDuration: 1, consecutive: 1 }),
  AdaptiveThrottle: () => new parts.AdaptiveThrottle({}, 0),
  P2Quantile: () => new parts.P2Quantile(0.5),
  WindowedP2Quantile: () => new parts.WindowedP2Quantile(0.5, 10),
  DDSketch: () => new parts.DDSketch(),
  MemoryStore: () => new parts.MemoryStore(() => 5),
};

test("the module can do nothing but answer", () => {
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(wasm("parts"))).map(({ name }) => name);
  expect(imports).toEqual(["__wbindgen_init_externref_table"]);
});

test("every part and every function has an example, and they are true", async () => {
  const files = readdirSync(SOURCE).map((name) => `parts/${name}`);
  const told = await examples(files, 'import * as parts from "../ts/parts/index.js";\n');
  const wanted = CLASSES.map(([name]) => name).filter((name) => name !== "RetryToken");
  expect(told.sort()).toEqual([...wanted, "parseRetryAfter", "ready"].sort());
});

test.each<[() => unknown, string]>([
  [() => new parts.Backoff({ base: -1 }), "base = -1 ms: must be a span from 0s to 365 days"],
  [() => new parts.Backoff({ base: 6000 }), "max = 5s: must be at least base (6s)"],
  [
    () => new parts.Backoff({ kind: "polynomial" }),
    "exponent = (absent): is required where kind is polynomial",
  ],
  [() => new parts.Backoff({ kind: "wild" as "linear" }), "must be one of exponential, constant, linear"],
  [
    () => new parts.Backoff({ jitter: "bounded", jitterRatio: 2 }),
    "jitterRatio = 2: must be a finite number",
  ],
  [
    () => new parts.Backoff({ seed: -1 }),
    "seed = -1: must be a whole number from 0 to 2^53 - 1, or a bigint",
  ],
  [() => new parts.Backoff({ wide: 1 } as object), "wide = 1: "],
  [() => new parts.Backoff().delay(0), "n = 0: must be a whole number from 1 to 255"],
  [() => new parts.Backoff().ceiling(256), "n = 256: must be a whole number from 1 to 255"],
  [() => new parts.Backoff().delay(1, 1.5), "call = 1.5: must be a whole number"],
  [() => new parts.RetryBudget({ ttl: 0 }), "ttl = 0 ms: must be a span from 10us"],
  [() => new parts.RetryBudget().deposit(Number.NaN), "now = NaN: must be a finite number of milliseconds"],
  [() => new parts.RatioBudget({ ratio: 0 }), "ratio = 0: must be a finite number from 0.000001 to 1"],
  [() => new parts.RatioBudget({} as { ratio: number }), "ratio = (absent): is required"],
  [() => new parts.ShareBudget({ minRetries: 2.5 }), "minRetries = 2.5: must be a whole number"],
  [() => new parts.ShareBudget().tryAcquire(-1), "calls = -1: must be a whole number from 0"],
  [() => new parts.TokenBudget({ max: 0, ratio: 0.1 }), "max = 0: must be a whole number from 1 to 1000"],
  [() => new parts.RetryQuota().onSuccess(65_536), "cost = 65536: must be a whole number from 0 to 65535"],
  [
    () => new parts.RetryQuota().tryAcquire("odd" as "timeout"),
    "kind = odd: must be one of transient, timeout",
  ],
  [() => new parts.CubicRate(2e15), "now = 2000000000000000: must be a finite number of milliseconds"],
  [
    () => new parts.RetryStrategy({ maxAttempts: 0 }),
    "maxAttempts = 0: must be a whole number from 1 to 255",
  ],
  [() => refreshed(-1), "retryAfter = -1: must be a number of milliseconds, 0 or more"],
  [() => parts.parseRetryAfter("1", -1), "now = -1: must be milliseconds since 1970"],
  [
    () => parts.parseRetryAfter("1", new Date(Number.NaN)),
    "now = Invalid Date: must be milliseconds since 1970",
  ],
  [() => new parts.CircuitBreaker({ breakDuration: 1 }), "is required"],
  [
    () => new parts.CircuitBreaker({ breakDuration: 1, consecutive: 1, probeLease: 0 }),
    "probeLease = 0: must be a number from 0.001",
  ],
  [
    () => new parts.CircuitBreaker({ breakDuration: 1, consecutive: 1 }).evidenceOf("odd" as "ok"),
    "kind = odd: must be one of ok, transient",
  ],
  [() => new parts.P2Quantile(1), "p = 1: must be a number from 0.001 to 0.999"],
  [() => new parts.WindowedP2Quantile(0.5, 9), "window = 9: must be a whole number from 10"],
  [() => new parts.DDSketch(0.5), "alpha = 0.5: must be a number from 0.001 to 0.25"],
  [() => new parts.DDSketch().quantile(2), "q = 2: must be a number from 0 to 1"],
  [() => parts.DDSketch.fromWords([-1]), "words[0] = -1: must be a whole number"],
  [() => parts.DDSketch.fromWords(["1e3"]), "words[0] = -1: must be a whole number"],
  [() => parts.DDSketch.fromWords(forever()), "words: there are more than a sketch can have"],
  [() => new parts.Gcra({ permits: 0, per: 1 }), "permits = 0: must be a whole number from 1"],
  [() => new parts.CoDel({ queueTarget: 500 }, 0), "queueTarget"],
])("mistakes are told by key, value and rule: %#", (make, told) => {
  let error: unknown;
  try {
    make();
  } catch (caught) {
    error = caught;
  }
  expect(error instanceof RangeError || error instanceof parts.PolicyError, String(error)).toBe(true);
  expect((error as Error).message).toContain(told);
  expect((error as Error).message).not.toMatch(/(?:^|; )\w+\.\w/);
});

function refreshed(retryAfter: number): parts.RetryToken {
  const strategy = new parts.RetryStrategy();
  const first = strategy.acquireInitialRetryToken();
  return strategy.refreshRetryTokenForRetry(first, { isRetrySafe: true, retryAfter });
}

function* forever(): Generator<number> {
  for (;;) yield 1;
}

test("all mistakes at once, and none of them is left for the next part", () => {
  try {
    new parts.RetryQuota({ capacity: 0, cost: 0 });
    expect.unreachable();
  } catch (error) {
    expect((error as parts.PolicyError).mistakes.map(({ key }) => key)).toEqual(["capacity", "cost"]);
  }
  const gone = new parts.Backoff();
  gone.dispose();
  expect(() => new parts.RetryStrategy({ backoff: gone })).toThrow(/disposed/);
  expect(new parts.RetryQuota().available).toBe(500);
});

test.each(Object.keys(EACH))("a %s is copied, ends once, and is given back", (name) => {
  const before = load().part_count();
  const part = (EACH[name] as () => parts.Part)();
  const copy = part.copy();
  expect(load().part_count()).toBe(before + 2);
  expect(copy.constructor).toBe(part.constructor);
  expect(copy.constructor.name).toBe(name);
  part.dispose();
  part.dispose();
  (part as unknown as Record<symbol, () => void>)[Symbol.dispose]?.();
  expect(() => part.copy()).toThrow(`this ${name} has been disposed of`);
  expect(load().part_count()).toBe(before + 1);
  copy.copy().dispose();
  copy.dispose();
  expect(load().part_count()).toBe(before);
});

test("every class is in the table above", () => {
  expect(CLASSES.map(([name]) => name).sort()).toEqual(Object.keys(EACH).sort());
});

test("a part that nobody has any more is given back", async () => {
  const before = load().part_count();
  for (let n = 0; n < 100; n += 1) new parts.DDSketch().add(n);
  expect(load().part_count()).toBe(before + 100);
  await collected(() => load().part_count() <= before);
  // Collecting a part must not free a handle that has been reused.
  for (let n = 0; n < 100; n += 1) new parts.DDSketch().dispose();
  const medians = Array.from({ length: 100 }, () => new parts.P2Quantile(0.5));
  for (const median of medians) median.observe(7);
  for (let n = 0; n < 5; n += 1) await collected(() => true);
  expect(medians.map(({ estimate }) => estimate)).toEqual(Array(100).fill(7));
});

test("copies go their own ways", () => {
  const one = new parts.TokenBucket({ permits: 2, per: 1000 }, 0);
  const other = one.copy();
  expect([one.tryTake(0, 2), one.level(0), other.level(0)]).toEqual([true, 0, 2]);
  const [here, there] = [new parts.Backoff({ seed: 3 }), new parts.Backoff({ seed: 3n })];
  const draws = (backoff: parts.Backoff) => [1, 2, 3].map(() => backoff.delay(1));
  expect(draws(here)).toEqual(draws(there));
  expect(draws(here.copy())).toEqual(draws(here));
  expect(new parts.Backoff().delay(1)).not.toBe(new parts.Backoff().delay(1));
});

test.each([0, -1e9, 1.7e12, -5])("the origin of the clock does not matter: %d", (origin) => {
  const budget = new parts.RetryBudget({ ttl: 10_000, minRetriesPerSec: 0, percentCanRetry: 1 });
  budget.deposit(origin);
  expect(budget.tryWithdraw(origin + 1000) && !budget.tryWithdraw(origin + 1000)).toBe(true);
  budget.refund(origin + 1000, origin + 2000);
  expect([budget.balance(origin + 8900), budget.balance(origin + 10_000)]).toEqual([1, 0]);
  const rate = new parts.CubicRate(origin);
  rate.onResponse(true, origin + 1000);
  const wait = rate.acquire(origin + 1000);
  expect(wait).toBeGreaterThan(0);
  expect(rate.acquire(origin + 1000 + wait)).toBe(0);
});

test("an earned budget keeps what the calls of 14 seconds could earn", () => {
  const budget = new parts.EarnedBudget();
  expect([1, 2, 3].map(() => budget.tryWithdraw(0))).toEqual([true, true, false]);
  for (let n = 0; n < 100; n += 1) {
    budget.onCall(0);
    budget.onAnswer(0);
  }
  expect([0, 12_000, 14_000].map((now) => budget.balance(now))).toEqual([18, 18, 4]);
  const other = budget.copy();
  expect([1, 2, 3, 4, 5].map(() => other.tryWithdraw(14_000))).toEqual([true, true, true, true, false]);
  other.refund(14_000);
  expect([other.balance(14_000), budget.balance(14_000)]).toEqual([1, 4]);
  expect(() => new parts.EarnedBudget({ ratio: 2 })).toThrow("ratio = 2: must be a finite number");
});

test("retry tokens: quotas by scope, refusals, waits", () => {
  const backoff = new parts.Backoff({ base: 25, jitter: "none" });
  const quota = new parts.RetryQuota({ capacity: 14, cost: 14, throttledCost: 5 });
  const strategy = new parts.RetryStrategy({ maxAttempts: 3, backoff, quota });
  const why = (token: parts.RetryToken, error: parts.ErrorInfo) => {
    try {
      strategy.refreshRetryTokenForRetry(token, error);
      return undefined;
    } catch (refused) {
      const { reason, retryDelay } = refused as parts.RetryError;
      return [reason, retryDelay];
    }
  };
  const first = strategy.acquireInitialRetryToken("a");
  expect(why(first, {})).toEqual(["not_safe", undefined]);
  expect(why(first, { isRetrySafe: false })).toEqual(["not_safe", undefined]);
  const asked = { isRetrySafe: true, retryAfter: 3000 };
  const second = strategy.refreshRetryTokenForRetry(first, asked);
  expect([second.retryCount, second.retryDelay]).toEqual([1, 3000]);
  expect(why(second, asked)).toEqual(["quota", 3000]);
  expect([strategy.available("a"), strategy.available("b")]).toEqual([0, 14]);
  const other = strategy.acquireInitialRetryToken("b");
  strategy.refreshRetryTokenForRetry(other, { isRetrySafe: true, isThrottlingError: true });
  expect(strategy.available("b")).toBe(9);
  strategy.recordSuccess(second);
  expect(strategy.available("a")).toBe(14);
  const free = new parts.RetryStrategy({ quota: null, retryUnknown: true });
  free.refreshRetryTokenForRetry(free.acquireInitialRetryToken(), {});
  expect(free.available()).toBeUndefined();
});

test("nothing that a part is told breaks it, and its numbers stay within their bounds", () => {
  const draw = random();
  const odd = [0, -0, 1, -1, 1e15, -1e15, 0.001, 1e9, 2 ** 31, 2 ** 32 - 1, Number.NaN, Infinity, -Infinity];
  const any = () => (draw() < 0.3 ? (odd[Math.floor(draw() * odd.length)] as number) : draw() * 1e4);
  const given = (): unknown => {
    const kind = draw();
    if (kind < 0.8) return any();
    if (kind < 0.9) return { number: Math.floor(draw() * 70_000), probe: draw() < 0.5 };
    return ["success", "failure", "neutral", "timeout", true, 5n, -5n][Math.floor(draw() * 7)];
  };
  let told = 0;
  for (const [name, make] of Object.entries(EACH)) {
    const part = make();
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(part)).filter(
      (method) => method !== "constructor" && method !== "retune",
    );
    for (let n = 0; n < 400; n += 1) {
      const method = methods[Math.floor(draw() * methods.length)] as string;
      let answer: unknown;
      try {
        const member = (part as unknown as Record<string, unknown>)[method];
        answer =
          typeof member === "function" ? member.call(part, given(), given(), given(), given()) : member;
        told += 1;
      } catch (error) {
        const known =
          error instanceof RangeError || error instanceof TypeError || (error as Error).name === "StoreError";
        if (!known || error instanceof WebAssembly.RuntimeError)
          throw new Error(`${name}.${method}`, { cause: error });
      }
      if (typeof answer === "number") expect(Number.isNaN(answer), `${name}.${method}`).toBe(false);
    }
    part.dispose();
  }
  expect(told).toBeGreaterThan(1500);
});
