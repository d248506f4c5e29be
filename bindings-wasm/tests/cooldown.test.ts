/** Cooldown through `fetch` and through functions (semantics 16); `core/tests/cooldown.rs` has the rules. */

import { expect, test } from "vitest";
import { CoolingDown, type Engine, PolicyError, policy } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { engine } from "./support/setup.js";

const URL = "https://models.example/v1";

const cooling = (lab: Engine) => lab.snapshot().routes[0]?.cooldown;

test("one 429 keeps everybody away (16.3.1, 16.4.2)", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  let sent = 0;
  const fetch = async () => {
    sent += 1;
    return sent === 1
      ? new Response("slow down", { status: 429, headers: { "retry-after": "10" } })
      : new Response("ok");
  };
  const some = policy({ engine: lab, cooldown: { base: 1_000, max: 60_000 }, fetch: fetch as never });
  expect((await some.fetch(URL)).status).toBe(429);
  const refused = (await some.fetch(URL).catch((error: unknown) => error)) as CoolingDown;
  expect(refused).toBeInstanceOf(CoolingDown);
  expect([refused.code, refused.httpStatus]).toEqual(["cooling_down", 429]);
  expect(refused.retryIn).toBeGreaterThanOrEqual(10_000);
  expect(refused.retryIn).toBeLessThanOrEqual(11_000);
  expect([cooling(lab)?.state, sent]).toEqual(["closed", 1]);
  await clock.advance(11_000);
  expect(await (await some.fetch(URL)).text()).toBe("ok");
  expect([cooling(lab)?.state, sent]).toEqual(["open", 2]);
});

test("attempts come back gradually (16.5.1, 16.5.2)", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const some = policy({
    engine: lab,
    classify: (what) => (what instanceof RangeError ? "throttled" : undefined),
    cooldown: { base: 1_000, max: 60_000, wait: true, maxWait: 60_000 },
    bulkhead: { kind: "fixed", maxConcurrency: 3, maxQueue: 10 },
  });
  await expect(
    some.run(() => {
      throw new RangeError("slow down");
    }),
  ).rejects.toBeInstanceOf(RangeError);
  const running: (() => void)[] = [];
  const calls = Array.from({ length: 4 }, () =>
    some.run(() => new Promise<void>((end) => running.push(end))),
  );
  await clock.advance(2_000);
  expect([running.length, cooling(lab)]).toMatchObject([
    1,
    { state: "reopening", places: 1, taken: 1, waiting: 3 },
  ]);
  running[0]?.();
  await calls[0];
  await clock.advance(0);
  expect([running.length, cooling(lab)?.places]).toEqual([3, 2]);
  running[1]?.();
  running[2]?.();
  await clock.advance(0);
  expect([running.length, cooling(lab)?.state]).toEqual([4, "open"]);
  running[3]?.();
  await Promise.all(calls);
});

test("a mistake is told (16.1.2)", () => {
  const wrong = () =>
    policy({ engine: engine(), cooldown: { base: 1_000, max: 60_000 }, retry: { hold: true } });
  expect(wrong).toThrow(PolicyError);
  expect(wrong).toThrow(/retry\.hold/);
});
