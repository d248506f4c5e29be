/** Queues in which keys and criticalities share a limit, with the typed options (spec 3.10). */

import { expect, test } from "vitest";
import { type Criticality, PolicyError, Pool, policy, RateLimited } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { engine, turns } from "./support/setup.js";

const LIMITS = ["tpm: permits=60000 per=1m burst=1000 weight=tokens"];

/** A policy whose pool has the tokens of one call a second, of which `acme` gets three shares. */
function shared(maxWaiters = 100) {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const provider = new Pool("provider", {
    engine: lab,
    rateLimit: { limits: LIMITS, fairBy: "key", shares: ["acme=3"], prioritized: true },
  });
  const some = policy({
    engine: lab,
    rateLimit: { pool: provider, unit: "attempt", wait: true, maxWait: 60_000, maxWaiters },
  });
  const order: string[] = [];
  const calls: Promise<unknown>[] = [];
  const start = async (route: string, count: number, criticality: Criticality = "normal") => {
    const caller = some.at({ route, criticality, weights: { tokens: 1_000 } });
    for (let call = 0; call < count; call += 1)
      calls.push(caller.run(() => void order.push(`${route}, ${criticality}`)));
    await turns();
  };
  /** Moves the clock on, and returns how many calls were admitted, by key and criticality. */
  const seconds = async (count: number) => {
    const before = order.length;
    for (let second = 0; second < count; second += 1) await clock.advance(1_000);
    const admitted: Record<string, number> = {};
    for (const name of order.slice(before)) admitted[name] = (admitted[name] ?? 0) + 1;
    return admitted;
  };
  return { start, seconds, calls };
}

test("keys get tokens by their shares (3.10.3, 3.10.5)", async () => {
  const { start, seconds, calls } = shared();
  await start("other", 13); // the first one takes the burst
  await start("acme", 12);
  expect(await seconds(4), "in turns, and not one key after the other").toEqual({
    "acme, normal": 3,
    "other, normal": 1,
  });
  expect(await seconds(8)).toEqual({ "acme, normal": 6, "other, normal": 2 });
  await seconds(12);
  await Promise.all(calls);
});

test("critical calls get four tokens to one (3.10.2)", async () => {
  const { start, seconds, calls } = shared();
  await start("other", 6);
  await start("other", 8, "critical");
  expect(await seconds(10)).toEqual({ "other, normal": 2, "other, critical": 8 });
  await seconds(3);
  await Promise.all(calls);
});

test("a full queue gives a place of the longest key to another (3.10.11)", async () => {
  const { start, seconds, calls } = shared(8);
  await start("other", 7);
  await start("acme", 2);
  await start("small", 1);
  expect(await seconds(8)).toEqual({ "other, normal": 5, "acme, normal": 2, "small, normal": 1 });
  const ends = await Promise.allSettled(calls);
  const refused = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
  expect(refused).toHaveLength(1);
  expect(refused[0]).toBeInstanceOf(RateLimited);
  expect(refused[0]).toMatchObject({ route: "other" });
});

test("a policy's own limit cannot be fair by key (3.10.13)", () => {
  const own = () => policy({ engine: engine(), rateLimit: { limits: LIMITS, fairBy: "key" } });
  expect(own).toThrow(PolicyError);
  expect(own).toThrow(/fair_?by/i);
});
