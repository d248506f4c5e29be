/**
 * Callers that give up at every possible point. A scheduler plays a scenario turn by turn (a turn of the microtask queue, or a step of
 * the clock) and aborts at the k-th turn, for every k; with two callers, at every pair. In every case each call ends, with the caller's
 * reason or as it would have without the abort, and nothing is left: no call, waiter, timer, listener or open body.
 */

import { describe, expect, test } from "vitest";
import { type Engine, type PolicyOptions, policy } from "../ts/node.js";
import { assertIdle, FakeClock } from "../ts/testing.js";
import { ADAPTERS, type Client, open } from "./support/adapters.js";
import { failing, reset } from "./support/functions.js";
import { engine } from "./support/setup.js";

/** Number of turns without visible progress after which the clock advances. */
const QUIET = 16;
const MOST_TURNS = 5000;

/** A signal whose listeners are counted. */
class Counted {
  readonly controller = new AbortController();
  readonly #kept = new Set<unknown>();

  constructor() {
    const { signal } = this.controller;
    const { addEventListener: add, removeEventListener: remove } = signal;
    signal.addEventListener = (type: string, listener: unknown, options?: unknown) => {
      this.#kept.add(listener);
      if ((options as { once?: boolean } | undefined)?.once === true) {
        Reflect.apply(add, signal, [type, () => this.#kept.delete(listener), { once: true }]);
      }
      return Reflect.apply(add, signal, [type, listener, options]);
    };
    signal.removeEventListener = (type: string, listener: unknown, options?: unknown) => {
      this.#kept.delete(listener);
      return Reflect.apply(remove, signal, [type, listener, options]);
    };
  }

  get listeners(): number {
    return this.#kept.size;
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }
}

interface Stage {
  readonly lab: Engine;
  readonly clock: FakeClock;
  readonly signals: readonly AbortSignal[];
}

/** Starts the calls of a scenario. The first calls have callers with signals; the others have none. */
type Scenario = (stage: Stage) => Promise<unknown>[];

const AS_WITHOUT = /reset|503|breaker|slots|deadline|attemptTimeout|budget/;

/** Plays a scenario and aborts each caller at its turn (−1: never). Returns the number of turns. */
async function play(scenario: Scenario, aborts: readonly number[]): Promise<number> {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const counted = aborts.map(() => new Counted());
  const reasons = aborts.map((turn, place) => new Error(`caller ${place} gave up at turn ${turn}`));
  const bodies = open.bodies;
  let pending = 0;
  const errors: unknown[] = [];
  const calls = scenario({ lab, clock, signals: counted.map(({ signal }) => signal) });
  calls.forEach((call, place) => {
    pending += 1;
    call
      .catch((error: unknown) => {
        errors[place] = error;
      })
      .finally(() => {
        pending -= 1;
      });
  });
  let [turn, quiet] = [0, 0];
  while (pending > 0) {
    aborts.forEach((at, place) => {
      if (at === turn) counted[place]?.controller.abort(reasons[place]);
    });
    turn += 1;
    quiet += 1;
    if (turn > MOST_TURNS) throw new Error(`it does not end: ${aborts}`);
    if (quiet <= QUIET) await Promise.resolve();
    else {
      quiet = 0;
      clock.step();
      await new Promise((done) => setImmediate(done)); // streams of Node have a queue of their own
    }
  }
  // Stopped work that ignores its signal ends in its own time.
  for (let n = 0; n < 50; n += 1) {
    for (let m = 0; m < QUIET; m += 1) await Promise.resolve();
    if (!clock.step()) break;
  }
  await new Promise((done) => setImmediate(done));
  for (const [place, at] of aborts.entries()) {
    const error = errors[place];
    const gaveUp = at >= 0 && counted[place]?.signal.aborted === true;
    if (!gaveUp) expect(reasons, `${aborts}`).not.toContain(error);
    else if (error !== undefined) {
      const known = error === reasons[place] || AS_WITHOUT.test(String(error));
      expect(known, `${aborts}: caller ${place} got ${String(error)}`).toBe(true);
    }
    expect(counted[place]?.listeners, `${aborts}: listeners of caller ${place}`).toBe(0);
  }
  expect(open.bodies - bodies, `${aborts}: requests and bodies`).toBe(0);
  assertIdle(lab);
  return turn;
}

/** Aborts one caller at each turn and, with two callers, both at each pair of turns. */
async function everywhere(scenario: Scenario, callers: number): Promise<[turns: number, plays: number]> {
  const none = Array.from({ length: callers }, () => -1);
  const turns = await play(scenario, none);
  let plays = 1;
  for (let caller = 0; caller < callers; caller += 1) {
    for (let at = 0; at <= turns; at += 1) {
      const one = none.map((never, place) => (place === caller ? at : never));
      await play(scenario, one);
      plays += 1;
    }
  }
  if (callers === 2) {
    const step = Math.max(Math.ceil(turns / 60), 1);
    for (let one = 0; one <= turns; one += step) {
      for (let other = one % step; other <= turns; other += step) {
        await play(scenario, [one, other]);
        plays += 1;
      }
    }
  }
  return [turns, plays];
}

const RETRY = { maxAttempts: 3, backoff: { base: 100, jitter: "none" as const } };
/** A function that takes this long. */
const slow = (clock: FakeClock, ms: number) => async () => {
  await clock.sleep(ms);
  return ms;
};

const FUNCTIONS: Record<string, [callers: number, scenario: Scenario]> = {
  "a call that works": [
    2,
    ({ lab, signals }) => {
      const some = policy({ engine: lab, retry: RETRY });
      return signals.map((signal) => some.run(async () => 1, { signal }));
    },
  ],
  backoff: [
    2,
    ({ lab, signals }) => {
      const some = policy({ engine: lab, retry: RETRY });
      return signals.map((signal) => some.run(failing(2), { signal }));
    },
  ],
  "a queue": [
    2,
    ({ lab, clock, signals }) => {
      const some = policy({ engine: lab, bulkhead: { maxConcurrency: 1, maxQueue: 5 } });
      return [...signals.map((signal) => some.run(slow(clock, 50), { signal })), some.run(slow(clock, 20))];
    },
  ],
  "a queue, retries and a breaker": [
    2,
    ({ lab, clock, signals }) => {
      const some = policy({
        engine: lab,
        retry: RETRY,
        bulkhead: { maxConcurrency: 1, maxQueue: 5, unit: "attempt" },
        breaker: { consecutive: 4, breakDuration: 80 },
      });
      const flaky = (times: number) => {
        const fn = failing(times);
        return async () => {
          await clock.sleep(10);
          return fn();
        };
      };
      return signals.map((signal, place) => some.run(flaky(2 - place), { signal }));
    },
  ],
  "a hedge whose attempts listen": [
    1,
    ({ lab, clock, signals }) => {
      const some = policy({ engine: lab, hedge: { delay: 20 }, retry: RETRY });
      const work = ({ attempt, signal }: { attempt: number; signal: AbortSignal }) =>
        new Promise<number>((resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          void clock.sleep(attempt === 1 ? 500 : 30).then(() => resolve(attempt));
        });
      return signals.map((signal) => some.run(work, { signal }));
    },
  ],
  "a hedge whose attempts do not listen": [
    1,
    ({ lab, clock, signals }) => {
      const some = policy({ engine: lab, hedge: { delay: 20 } });
      return signals.map((signal) => some.run(slow(clock, 50), { signal }));
    },
  ],
  "an attempt timeout": [
    1,
    ({ lab, clock, signals }) => {
      const some = policy({ engine: lab, attemptTimeout: 30, deadline: 1000, retry: RETRY });
      let tries = 0;
      const work = async ({ signal }: { signal: AbortSignal }) => {
        tries += 1;
        await clock.sleep(tries < 3 ? 60 : 5);
        if (signal.aborted) throw signal.reason;
        return tries;
      };
      return signals.map((signal) => some.run(work, { signal }));
    },
  ],
  "a rate limit that waits": [
    2,
    ({ lab, signals }) => {
      const some = policy({ engine: lab, rateLimit: { permits: 1, per: 100, wait: true, maxWait: 5000 } });
      const first = some.run(() => 0);
      return [...signals.map((signal) => some.run(() => 1, { signal })), first];
    },
  ],
  "calls within calls, and a fallback": [
    1,
    ({ lab, clock, signals }) => {
      const outer = policy({
        engine: lab,
        retry: RETRY,
        bulkhead: { maxConcurrency: 1 },
        fallback: () => "instead",
      });
      const inner = policy({ engine: lab, retry: RETRY, deadline: 500 });
      const fails = async () => {
        await clock.sleep(10);
        throw reset();
      };
      return signals.map((signal) => outer.run((attempt) => inner.run(fails, attempt), { signal }));
    },
  ],
};

describe("functions", () => {
  test.each(Object.entries(FUNCTIONS))(
    "%s",
    async (_, [callers, scenario]) => {
      const [turns, plays] = await everywhere(scenario, callers);
      expect(turns).toBeGreaterThan(1);
      expect(plays).toBeGreaterThan(callers * turns);
    },
    120_000,
  );
});

/** Requests: retries with a body to drain, and a response that is read. */
function requests(name: keyof typeof ADAPTERS, settings: PolicyOptions): Scenario {
  return ({ lab, clock, signals }) => {
    const client: Client = ADAPTERS[name](
      { engine: lab, preset: "http", retry: RETRY, ...settings },
      async (attempt, _headers, signal) => {
        await clock.sleep(10);
        if (signal.aborted) throw signal.reason;
        return attempt < 3
          ? { status: 503, body: ["a failed ", "answer"] }
          : { status: 200, body: ["a ", "good ", "one"] };
      },
    );
    return signals.map(async (signal) => (await client.ask({ signal })).text());
  };
}

describe.each(Object.keys(ADAPTERS) as (keyof typeof ADAPTERS)[])("%s", (name) => {
  test("6: one request is left at every turn, and nothing stays behind", async () => {
    const [turns] = await everywhere(requests(name, {}), 1);
    expect(turns).toBeGreaterThan(50);
  }, 120_000);

  test("6: two requests with one slot, at every pair of turns", async () => {
    const bulkhead = { maxConcurrency: 1, maxQueue: 2, acquireTimeout: 5000 };
    const [, plays] = await everywhere(requests(name, { bulkhead }), 2);
    expect(plays).toBeGreaterThan(500);
  }, 240_000);

  test("6: a request that is hedged, at every turn", async () => {
    const [turns] = await everywhere(requests(name, { hedge: { delay: 5 } }), 1);
    expect(turns).toBeGreaterThan(20);
  }, 120_000);
});
