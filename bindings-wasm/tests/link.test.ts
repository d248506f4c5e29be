/** The device's link (semantics 2.22); `arrival.test.ts` has the change between the modules. */

import { expect, test } from "vitest";
import { type Link, policy } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failing } from "./support/functions.js";
import { engine } from "./support/setup.js";

/** A policy with a deadline of a minute, and when its attempts began, in ms. */
function tried() {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const some = policy({ name: "p", engine: lab, deadline: 60_000, retry: { backoff: { base: 0 } } });
  const began: number[] = [];
  const work = failing(1);
  const run = () =>
    some.run(() => {
      began.push(clock.us() / 1000);
      return work();
    });
  return { clock, lab, began, run };
}

test("a retry waits until the link is back, and starts within a second then", async () => {
  const { clock, lab, began, run } = tried();
  lab.setLink("offline");
  const start = clock.us() / 1000;
  const call = run();
  await clock.advance(20_000);
  expect(began).toEqual([start]);
  lab.setLink("ok");
  await clock.advance(1000);
  expect(await call).toBe(2);
  expect(began[1]).toBeGreaterThan(start + 20_000);
});

test("a state that there is not is told", () => {
  const lab = engine();
  expect(() => lab.setLink("slow" as Link)).toThrow("state = slow: must be one of ok, metered, offline");
});
