/** The shared vectors, through the module that pages begin with: the same decisions, bit for bit. */

import { expect, test } from "vitest";
import { use } from "../ts/engine/module.js";
import { Engine, policy } from "../ts/main.js";
import { vectors } from "./support/vectors.js";
import { wasm } from "./support/wasm.js";

await use(wasm("small"), "small");
vectors(wasm("small"), true);

/** An engine that does not follow asynchronous work, which takes the full module. */
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
      "deadline = -0.0015s: must be a span from 1us to 365 days",
    ].join("; "),
  );
  expect(
    told(() => policy({ engine: engine(), rateLimit: { permits: 1, per: 1000, wait: true } })),
    "keys have their names here",
  ).toMatch(/^rateLimit\.wait = true: needs a bound: rateLimit\.maxWait or deadline$/);
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
