/** Events are a union by `type`: what the types say about their fields is what the engine sends (J11). */

import { expect, expectTypeOf, test } from "vitest";
import { type EventOf, type EventType, policy, type TidegateEvent } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { failing, failure, gate, hang } from "./support/functions.js";
import { engine } from "./support/setup.js";

type Field = Exclude<keyof EventOf<"call_done">, "type" | "seq" | "at">;
/** Whether a type always has a field (true), or only sometimes (false); absent if it never has. */
type Table = {
  [T in EventType]: {
    [K in Field as [EventOf<T>[K]] extends [undefined] ? never : K]: undefined extends EventOf<T>[K]
      ? false
      : true;
  };
};

const call = { policy: true, route: true, call: true, elapsed: true } as const;
const TABLE: Table = {
  call_done: { ...call, reason: true, attempt: false, kind: false, wait: false, quiet: false },
  attempt_started: { ...call, attempt: true, hedge: false },
  attempt_done: { ...call, attempt: true, kind: true, hedge: false },
  retry_scheduled: { ...call, attempt: true, kind: true, wait: true },
  retry_suppressed: { ...call, reason: true, attempt: true, kind: false, wait: false },
  gave_up: { ...call, reason: true, attempt: true, kind: false, wait: false },
  rejected: { ...call, reason: true, attempt: false, wait: false, suppressed: false },
  queued: { ...call, why: true, attempt: false, wait: false },
  granted: { ...call, why: true, attempt: false, wait: false },
  shed: { ...call, reason: true, why: true, attempt: false },
  hedge_started: { ...call, attempt: true, hedge: true, wait: true },
  hedge_won: { ...call, attempt: true, hedge: true, kind: true },
  breaker_changed: {
    policy: true,
    route: true,
    from: true,
    to: true,
    call: false,
    attempt: false,
    elapsed: false,
    wait: false,
  },
  limit_changed: {
    route: true,
    from: true,
    to: true,
    policy: false,
    call: false,
    attempt: false,
    elapsed: false,
  },
  throttle_changed: { ...call, from: true, to: true, attempt: false },
  hold_changed: {
    policy: true,
    route: true,
    from: true,
    to: true,
    call: false,
    attempt: false,
    elapsed: false,
  },
  cooldown_changed: {
    policy: true,
    route: true,
    from: true,
    to: true,
    call: false,
    attempt: false,
    elapsed: false,
    wait: false,
  },
  stream_delivered: { ...call, attempt: true, kind: true, hedge: false },
  stream_stalled: { ...call, attempt: true, reason: false },
  deadline_exceeded: { ...call, reason: true, attempt: false, kind: false, wait: false },
  lease_reclaimed: { route: true, policy: false, call: false, attempt: false, elapsed: false, why: false },
  store_degraded: { reason: true, policy: false, route: false },
  store_recovered: { policy: false, route: false },
  policy_retuned: { policy: false, route: false },
  forced_open: { policy: true, route: false },
  forced_cleared: { policy: true, route: false },
  fallback: { policy: true, route: true, kind: true },
};

test("each event has the fields of its type, and no other", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const events: TidegateEvent[] = [];
  lab.listen((event) => events.push(event));
  const end = (work: Promise<unknown>) => clock.run(work.catch(() => undefined));
  const retried = policy({ engine: lab, retry: { maxAttempts: 2, backoff: { base: 5 } } });
  await end(retried.run(failing(1)));
  await end(retried.run(failing(9)));
  await end(retried.run(() => Promise.reject(new TypeError("a mistake"))));
  const full = policy({ engine: lab, bulkhead: { maxConcurrency: 1, maxQueue: 1 }, deadline: 50 });
  const { work, open } = gate();
  const [first, second] = [full.run(work), full.run(() => 1)];
  await failure(full.run(() => 1));
  open[0]?.("done");
  await Promise.all([first, second]);
  await end(full.run(hang));
  full.retune({ bulkhead: { maxConcurrency: 2 } });
  full.forceOpen();
  full.forceOpen(false);
  const hedged = policy({ engine: lab, hedge: { delay: 5 } });
  await end(hedged.run((it) => (it.attempt === 1 ? hang(it) : it.attempt)));
  const broken = policy({ engine: lab, breaker: { consecutive: 1, breakDuration: 20 }, fallback: () => 0 });
  await end(broken.run(failing(1)));
  await end(broken.run(() => 1));
  await clock.advance(30);
  await end(broken.run(() => 1));
  expect(new Set(events.map(({ type }) => type)).size).toBeGreaterThanOrEqual(17);
  for (const { type, seq, at, ...rest } of events) {
    const fields = TABLE[type] as Record<string, boolean>;
    expect([seq > 0, at >= 0]).toEqual([true, true]);
    for (const key of Object.keys(rest)) expect(fields, `${type} has ${key}`).toHaveProperty(key);
    for (const [key, always] of Object.entries(fields))
      if (always) expect(rest, `${type}`).toHaveProperty(key);
  }
});

test("a test of the type gives the fields", () => {
  const some = policy({ engine: engine(), retry: {} });
  some.on("retry_scheduled", (event) => {
    expectTypeOf(event.wait).toEqualTypeOf<number>();
    expectTypeOf(event.from).toEqualTypeOf<undefined>();
  });
  some.on("*", (event) => {
    if (event.type === "breaker_changed")
      expectTypeOf(event.to).toEqualTypeOf<"closed" | "open" | "half_open">();
    else if (event.type === "call_done") expectTypeOf(event.kind).not.toEqualTypeOf<string>();
  });
  expectTypeOf<TidegateEvent["attempt"]>().toEqualTypeOf<number | undefined>();
  expect(some.snapshot().attempts).toBe(0);
});
