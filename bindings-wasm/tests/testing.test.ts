/** `tidegate/testing`: the clock, the switches, and the check for leftovers. */

import { afterEach, describe, expect, test } from "vitest";
import { defaultEngine, Engine, policy, type Settings } from "../ts/node.js";
import {
  assertIdle,
  FakeClock,
  isActive,
  isTesting,
  setActive,
  setTesting,
  useEngine,
} from "../ts/testing.js";
import { examples } from "./support/examples.js";
import { failing, failure } from "./support/functions.js";
import { engine } from "./support/setup.js";

const broken = failing(Number.POSITIVE_INFINITY);

afterEach(() => {
  expect([isActive(), isTesting()]).toEqual([true, false]);
});

test("the examples are true", async () => {
  const head =
    'import { Engine, policy } from "../ts/node.js";\n' +
    'import { assertIdle, FakeClock, isActive, isTesting, setActive, setTesting, useEngine } from "../ts/testing.js";\n';
  expect(await examples(["testing/fake.ts", "testing/switches.ts"], head)).toEqual([
    "run",
    "setActive",
    "setTesting",
    "useEngine",
    "assertIdle",
  ]);
});

describe("switched off", () => {
  test("policies do nothing: one attempt, no limit, no deadline, and nothing is learned", async () => {
    const clock = new FakeClock();
    const strict = policy({
      engine: engine({ clock }),
      deadline: 1000,
      attemptTimeout: 500,
      retry: { maxAttempts: 5 },
      bulkhead: { maxConcurrency: 1 },
      breaker: { consecutive: 1, breakDuration: 1000 },
    });
    const off = setActive(false);
    const fn = failing(3);
    for (let n = 0; n < 3; n += 1) await failure(strict.run(fn));
    const long = strict.run(({ signal }) => clock.sleep(5000).then(() => signal.aborted));
    expect(await strict.run(() => "beside it")).toBe("beside it");
    await clock.advance(10_000);
    expect(await long).toBe(false);
    off.dispose();
    off.dispose();
    expect(strict.snapshot().attempts).toBe(0);
    expect(await strict.run(() => "on again")).toBe("on again");
    await failure(strict.run(failing(9), { idempotent: false }));
    await expect(strict.run(() => 1)).rejects.toThrow(/breaker is open/);
  });

  test("so it is for fetch, for engines to come, and for routes that were evicted", async () => {
    const off = setActive(false);
    const lab = engine({ maxRoutes: 1 });
    const some = policy({
      engine: lab,
      preset: "http",
      fetch: async () => new Response("no", { status: 503 }),
    });
    expect((await some.fetch("http://one.example/")).status).toBe(503);
    for (let n = 0; n < 20; n += 1) await some.at({ route: `${n}` }).run(() => n);
    off.dispose();
    expect(lab.snapshot().policies["tidegate.inactive"]?.attempts).toBe(21);
  });
});

describe("tested", () => {
  const PRESETS: Settings[] = [
    ...(["http", "httpware", "transient", "graph", "aws_standard", "aws_2026"] as const).map((preset) => ({
      preset,
    })),
    {
      retry: {
        maxAttempts: 4,
        hold: true,
        backoff: { kind: "polynomial", exponent: 2, base: 3000, max: 90_000 },
      },
    },
    { retry: { backoff: { jitter: "bounded", jitterRatio: 0.5, throttledBase: 1000 } } },
  ];

  test.each(PRESETS)("so many attempts and no waits: $preset", async (settings) => {
    const clock = new FakeClock();
    const made = policy({ engine: engine({ clock }), ...settings });
    const quick = setTesting({ attempts: 7 });
    const later = policy({ engine: made.engine, ...settings });
    for (const some of [made, later]) {
      expect(await some.run(failing(2))).toBe(3);
      expect(await failure(some.run(broken))).toMatchObject({ code: "ECONNRESET" });
      expect(clock.now()).toBe(0);
    }
    quick.dispose();
    expect(isTesting()).toBe(false);
    const waits = clock.run(made.run(failing(1)));
    await waits;
    expect(clock.now()).toBeGreaterThan(0);
  });

  test("no budget refuses an attempt, and each goes on from where it was", async () => {
    const lab = engine();
    const budget = { kind: "earned", start: 1 } as const;
    const one = policy({ engine: lab, retry: { maxAttempts: 3, backoff: { base: 0 }, budget } });
    const made = async () => {
      const before = one.snapshot().attempts;
      await failure(one.run(broken));
      return one.snapshot().attempts - before;
    };
    const quick = setTesting({ attempts: 7 });
    expect([await made(), await made()]).toEqual([7, 7]);
    quick.dispose();
    expect([await made(), await made()]).toEqual([2, 1]);
  });

  test("a cap keeps fewer, and a policy without retries stays without", async () => {
    const lab = engine();
    const two = policy({ engine: lab, retry: { maxAttempts: 2 } });
    const none = policy({ engine: lab, deadline: 1000 });
    const quick = setTesting({ attempts: 9, cap: true });
    await failure(two.run(broken));
    await failure(none.run(broken));
    expect([two.snapshot().attempts, none.snapshot().attempts]).toEqual([2, 1]);
    quick.dispose();
    expect(() => setTesting({ attempts: 0 })).toThrow("attempts = 0: must be a whole number from 1 to 100");
  });

  test("the same name is the same policy, other settings are still a clash, and a retune is kept", async () => {
    const lab = engine();
    const settings = { name: "shared", retry: { maxAttempts: 3 } };
    const some = policy({ engine: lab, ...settings });
    const quick = setTesting({ attempts: 5 });
    expect(policy({ engine: lab, ...settings }).explain().maxAttempts).toBe(5);
    const elsewhere = new Function("policy", "options", "return policy(options)"); // not defined in any file
    const other4 = { engine: lab, name: "shared", retry: { maxAttempts: 4 } };
    expect(() => elsewhere(policy, other4)).toThrow(/shared/);
    expect(some.explain().maxAttempts).toBe(5);
    expect(() => some.retune({ retry: { maxAttempts: 0 } })).toThrow(/maxAttempts = 0/);
    some.retune({ retry: { maxAttempts: 4 } });
    expect(some.explain().maxAttempts).toBe(5);
    const other = setTesting({ attempts: 2 });
    expect(some.explain().maxAttempts).toBe(2);
    other.dispose();
    expect(some.explain().maxAttempts).toBe(5);
    quick.dispose();
    expect(some.explain().maxAttempts).toBe(4);
  });
});

test("an engine in the place of the process's own", async () => {
  const mine = new Engine({ seed: 1 });
  const before = defaultEngine();
  const used = useEngine(mine);
  expect(policy({ retry: {} }).engine).toBe(mine);
  used.dispose();
  expect(defaultEngine()).toBe(before);
});

test("what is left is told", async () => {
  const clock = new FakeClock();
  const lab = new Engine({ seed: 1, clock });
  const one = policy({
    name: "one",
    engine: lab,
    deadline: 1000,
    bulkhead: { maxConcurrency: 1, maxQueue: 3 },
  });
  assertIdle(lab);
  const calls = [one.run(() => clock.sleep(50)), one.run(() => 2)];
  expect(() => assertIdle(lab)).toThrow(
    "tidegate is not idle: 2 live, 1 waiting, 1 waiters, 2 timers, 2 active (policy one, route default), " +
      "1 permits out (policy one, route default)",
  );
  await clock.run(Promise.all(calls));
  assertIdle(lab);
});

test("a clock that runs by itself does not wait for what nobody has promised it", async () => {
  const clock = new FakeClock();
  await expect(clock.run(new Promise(() => undefined), 20)).rejects.toThrow(/nothing falls due/);
  await expect(clock.run(async () => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
  const real = new Promise((done) => setTimeout(done, 20));
  await clock.run(real);
  expect(clock.now()).toBe(0);
});

test("a loop over sleep does not keep real I/O from a clock's work", async () => {
  const clock = new FakeClock();
  let stopped = false;
  const loop = (async () => {
    while (!stopped) await clock.sleep(10);
  })();
  await clock.run(new Promise((done) => setTimeout(done, 20)));
  expect(clock.now()).toBeGreaterThan(0);
  stopped = true;
  await clock.run(loop);
});
