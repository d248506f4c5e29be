/** The shared vectors, through the module that pages load: the same decisions, bit for bit. */

import { expect, test } from "vitest";
import { Pool, policy } from "../ts/main.js";
import { small } from "../ts/small.js";
import { vectors } from "./support/vectors.js";

vectors(small, true);

const told = (work: () => unknown): string => {
  try {
    work();
    return "nothing";
  } catch (error) {
    return (error as Error).message;
  }
};

test("what is in the full engine alone is refused by the name of its import", () => {
  for (const options of [
    { hedge: { delay: 5 } },
    { throttle: {} },
    { preset: "grpc" },
    { retry: { budget: { kind: "quota" } } },
    { retry: { sendRate: "cubic" } },
    { bulkhead: { kind: "aimd", maxConcurrency: 5, latencyThreshold: 5 } },
    { bulkhead: { maxConcurrency: 5, maxQueue: 5, prioritized: true } },
    { kinds: { spent: "throttled" }, preset: "http" },
  ] as const) {
    expect(
      told(() => policy(options)),
      JSON.stringify(options),
    ).toMatch(/tidegate\/full/);
  }
  const some = policy({ preset: "http" });
  for (const work of [
    () => some.snapshot(),
    () => some.explain(),
    () => some.retune({ preset: "occ" }),
    () => new Pool("p", { bulkhead: { maxConcurrency: 1 }, engine: some.engine }),
    () => some.forceOpen(),
    () => some.on("*", () => undefined),
    () => some.engine.save(),
    () => some.engine.restore({ at: 0, state: {} }),
    () => some.engine.snapshot(),
  ]) {
    expect(told(work)).toMatch(/is not in the small engine .* "tidegate\/full"/);
  }
  expect(
    told(() => policy({ deadline: 5 })),
    "nothing of a refused call is left",
  ).toBe("nothing");
});

test("a mistake is told with key, value and rule, and numbers are as they were given", () => {
  expect(
    told(() => policy({ retry: { maxAttempts: 0.5, backoff: { multiplier: -1.25 } }, deadline: -1.5 })),
  ).toBe(
    [
      "retry.maxAttempts = 0.5: must be a whole number from 1 to 255",
      "retry.backoff.multiplier = -1.25: must be a finite number from 1 to 1000",
      "deadline = -0.0015s: must be a span from 1us to 365 days",
    ].join("; "),
  );
  expect(
    told(() => policy({ rateLimit: { permits: 1, per: 1000, wait: true }, retry: { retryOn: ["reset"] } })),
    "keys have their names here, and words are words",
  ).toMatch(
    /^(?=.*rateLimit\.wait = true: needs a bound: rateLimit\.maxWait or deadline)(?=.*retryOn = "reset": must be one of .* never_sent, )/,
  );
  expect(told(() => policy({ bulkhead: {} }))).toMatch(
    /maxConcurrency = \(absent\): is required where there is a bulkhead$/,
  );
});

test("memory that has been given back is used again, and what is large is served", async () => {
  const some = policy({ retry: {}, bulkhead: { maxConcurrency: 3, maxQueue: 5000, acquireTimeout: 60_000 } });
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
