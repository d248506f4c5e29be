/** Sets of limits, weights of calls, and what their attempts settle (semantics 3.4 to 3.6). */

import { expect, test } from "vitest";
import { policy, RateLimited } from "../ts/node.js";
import { engine } from "./support/setup.js";

test("a set of limits is written as a list (3.4.1)", async () => {
  const lab = engine();
  const some = policy({
    engine: lab,
    rateLimit: { limits: ["rpm: permits=60 per=1m burst=3", "rps: permits=9 per=1s"] },
  });
  for (let call = 0; call < 3; call += 1) expect(await some.run(() => call)).toBe(call);
  await expect(some.run(() => 3)).rejects.toBeInstanceOf(RateLimited);
  const { limits } = lab.snapshot().routes[0]?.rate ?? {};
  expect(limits?.["rpm"]).toMatchObject({ weight: null, tokens: 0, burst: 3 });
  expect(limits?.["rps"]).toMatchObject({ tokens: 6, burst: 9 });
});
