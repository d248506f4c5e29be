/** `onRetry`: who is called when, with what, and that a broken callback breaks nothing (J11). */

import { Agent, request } from "undici";
import { expect, expectTypeOf, test, vi } from "vitest";
import { type PolicyOptions, policy, type Retrying, type RunOptions } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { failing, failure, hang, reset } from "./support/functions.js";
import { origin } from "./support/server.js";
import { engine } from "./support/setup.js";

/** A policy that waits 10, 20, 40 ms … without jitter, and what its `onRetry` is told. */
function listening(settings: PolicyOptions<unknown> = {}) {
  const clock = new FakeClock();
  const told: Retrying[] = [];
  const lab = engine({ clock });
  const retry = { maxAttempts: 4, backoff: { base: 10, jitter: "none" } } as const;
  const some = policy({
    name: "p",
    engine: lab,
    retry,
    onRetry: (it) => told.push(it),
    ...(settings as PolicyOptions),
  });
  return { clock, told, some, lab };
}

test("it is called before each wait, with the error, the attempt, the wait and the reason", async () => {
  const { clock, told, some } = listening();
  expect(await clock.run(some.at({ route: "eu" }).run(failing(2)))).toBe(3);
  const common = { result: undefined, reason: "transient", policy: "p", route: "eu" };
  expect(told).toMatchObject([
    { ...common, attempt: 1, wait: 10 },
    { ...common, attempt: 2, wait: 20 },
  ]);
  expect(String(told[0]?.error)).toBe("Error: reset");
  expectTypeOf<Retrying["wait"]>().toEqualTypeOf<number>();
});

test("it is not called where no further attempt follows", async () => {
  const { clock, told, some } = listening();
  await clock.run(failure(some.run(failing(9))));
  expect(told.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  await clock.run(failure(some.run(() => Promise.reject(new TypeError("a mistake")))));
  expect(await some.run(() => 1)).toBe(1);
  expect(told.length).toBe(3);
});

test("a timeout, a wait of nothing, and a response", async () => {
  const timed = listening({ attemptTimeout: 50 });
  await clock(
    timed,
    timed.some.run((it) => (it.attempt === 1 ? hang(it) : 1)),
  );
  expect(timed.told).toMatchObject([{ attempt: 1, reason: "timeout", wait: 10 }]);
  expect(String(timed.told[0]?.error)).toMatch(/^AttemptTimeout/);
  const quick = listening({ retry: { maxAttempts: 2, backoff: { base: 0 } } });
  await clock(quick, quick.some.run(failing(1)));
  expect(quick.told).toMatchObject([{ attempt: 1, wait: 0 }]);
  const statuses = [429, 200];
  const fetch = async () =>
    new Response("", { status: statuses.shift() ?? 500, headers: { "retry-after": "3" } });
  const asked = listening({ fetch });
  await (await clock(asked, asked.some.fetch("http://far.example/x"))).text();
  expect(asked.told).toMatchObject([
    { attempt: 1, reason: "throttled", error: undefined, route: "http://far.example:80" },
  ]);
  expect(asked.told[0]?.wait).toBeGreaterThanOrEqual(3000);
  expect((asked.told[0]?.result as Response | undefined)?.status).toBe(429);
});

function clock<T>({ clock }: { clock: FakeClock }, work: Promise<T>): Promise<T> {
  return clock.run(work);
}

test("with hedges it is called only once no other attempt runs", async () => {
  const hedged = listening({
    hedge: { delay: 5, maxAttempts: 2 },
    retry: { maxAttempts: 3, backoff: { base: 10, jitter: "none" } },
  });
  const work = async ({ attempt }: { attempt: number }) => {
    await hedged.clock.sleep(attempt === 1 ? 7 : 1);
    if (attempt < 3) throw reset();
    return attempt;
  };
  expect(await clock(hedged, hedged.some.run(work))).toBe(3);
  expect(
    hedged.told.map(({ attempt }) => attempt),
    "the hedge failed first, and caused no retry",
  ).toEqual([1]);
});

test("a call has its own, in place of the policy's", async () => {
  const { clock, told, some } = listening();
  const own: number[] = [];
  const onRetry = ({ attempt }: Retrying) => own.push(attempt);
  await clock.run(some.run(failing(1), { onRetry }));
  await clock.run(some.at({ onRetry }).run(failing(2)));
  expect([own, told]).toEqual([[1, 1, 2], []]);
  const answers = listening({ fetch: failing(1) as never });
  await clock.run(answers.clock.run(answers.some.fetch("http://far.example/", { tidegate: { onRetry } })));
  expect([own.length, answers.told]).toEqual([4, []]);
});

test("with undici's dispatchers too", async () => {
  const url = await origin(503, 200);
  const told: Retrying[] = [];
  const some = policy({ engine: engine(), retry: { backoff: { base: 0 } }, onRetry: (it) => told.push(it) });
  const agent = new Agent();
  const { statusCode, body } = await request(url, { dispatcher: agent.compose(interceptor(some)) });
  await body.dump();
  await agent.close();
  expect([statusCode, told.length, (told[0]?.result as { status: number } | undefined)?.status]).toEqual([
    200, 1, 503,
  ]);
});

test.each([
  [
    "throws",
    () => {
      throw new Error("broken");
    },
  ],
  ["rejects", () => Promise.reject(new Error("broken"))],
])("a callback that %s changes nothing, and is reported once", async (_, onRetry) => {
  const warned = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const { clock, some } = listening({ onRetry });
  expect(await clock.run(some.run(failing(3)))).toBe(4);
  expect(warned.mock.calls.map(String)).toEqual([
    "tidegate: onRetry failed, and is ignored where it does:,Error: broken",
  ]);
  warned.mockRestore();
});

test("a callback may cancel its call, before a wait and before an attempt", async () => {
  for (const base of [0, 10]) {
    const stop = new AbortController();
    const gone = new Error("enough");
    const retry = { maxAttempts: 4, backoff: { base, jitter: "none" } } as const;
    const { clock, some } = listening({
      retry,
      bulkhead: { maxConcurrency: 1 },
      onRetry: () => stop.abort(gone),
    });
    expect(await clock.run(failure(some.run(failing(2), { signal: stop.signal })))).toBe(gone);
    expect(await clock.run(some.run(() => "next"))).toBe("next");
  }
});

test("what is no function is refused", () => {
  const some = policy({ retry: {} });
  expect(() => policy({ retry: {}, onRetry: 5 as never })).toThrow("onRetry = 5: must be a function");
  expect(() => some.run(() => 1, { onRetry: 5 } as unknown as RunOptions)).toThrow(
    "onRetry = 5: must be a function",
  );
  expect(() => some.at({ onRetry: null as never })).toThrow("onRetry = null: must be a function");
});
