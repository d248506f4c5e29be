/**
 * The vectors that every language shares (`tests/README.md`), through `tidegate/parts`.
 *
 * Moments are relative to the first one of a case: only differences matter, and milliseconds as a number are exact to the microsecond.
 * Core accepts any settings, a part only those that a policy may have. So a part rejects some cases, and this file states their number,
 * so that no more cases can be skipped unnoticed.
 */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import * as parts from "../ts/parts/index.js";

// biome-ignore lint/suspicious/noExplicitAny: vectors have many shapes, and what is wrong with one shows
type Any = any;

const VECTORS = new URL("../../tests/vectors/", import.meta.url);

function file(path: string): Any {
  return JSON.parse(readFileSync(new URL(path, VECTORS), "utf8"));
}

const us = (ms: number) => (ms === Number.POSITIVE_INFINITY ? "never" : Math.round(ms * 1000));
const seen = (value: unknown) => value ?? null;
const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** The settings of a vector for a part: null is left out, and `spans` names the keys that are spans. */
function settings(given: Record<string, Any>, ...spans: string[]): Any {
  const there = Object.entries(given).filter(([, value]) => value !== null);
  return Object.fromEntries(
    there.map(([key, value]) => [camel(key), spans.includes(key) ? (value as number) / 1000 : value]),
  );
}

type At = (moment: number) => number;

/** Plays every step of a file. Returns the number of steps played, and of cases that no policy allows. */
function told<P extends parts.Part | [parts.Part, ...unknown[]]>(
  path: string,
  make: (each: Any, now: number) => P,
  answer: (part: P, step: Any, at: At) => object,
): [played: number, refused: number] {
  let [played, refused] = [0, 0];
  for (const each of file(path).cases) {
    const origin: number = each.origin ?? each.steps[0].at;
    const at: At = (moment) => (moment - origin) / 1000;
    let part: P | undefined;
    try {
      part = make(each, at(origin));
      for (const step of each.steps) {
        const found = answer(part, step, at);
        expect({ ...step, ...found }, `${path}: ${JSON.stringify(step)}`).toEqual(step);
        played += 1;
      }
    } catch (error) {
      if (!(error instanceof parts.PolicyError)) throw error;
      refused += 1;
    }
    const made: parts.Part | undefined = Array.isArray(part) ? part[0] : part;
    made?.dispose();
  }
  return [played, refused];
}

const rate = ({ permits, per, burst }: Any) => settings({ permits, per, burst }, "per");

test("token buckets", () => {
  const made = told(
    "rate/bucket.json",
    (each, now) => new parts.TokenBucket(rate(each.settings), now),
    (bucket, step, at) => {
      const now = at(step.at);
      let found = {};
      if (step.op === "take") {
        const twin = bucket.copy();
        const wait = bucket.acquire(now, step.cost);
        expect(twin.tryTake(now, step.cost)).toBe(wait === 0);
        twin.dispose();
        found = wait === 0 ? { granted: true } : { granted: false, wait: us(wait) };
      } else if (step.op === "wait_for") found = { wait: us(bucket.waitFor(now, step.tokens)) };
      else bucket.retune(rate(step), now);
      return { ...found, level: bucket.level(now) };
    },
  );
  expect(made).toEqual([320, 2]);
});

test("gcra", () => {
  const made = told(
    "rate/gcra.json",
    (each) => new parts.Gcra(rate(each.settings)),
    (limit, step, at) => {
      const wait = limit.acquire(at(step.at), step.cost);
      return wait === 0 ? { granted: true } : { granted: false, wait: us(wait) };
    },
  );
  expect(made).toEqual([160, 1]);
});

test("both rates follow the published vector", () => {
  const limit = new parts.Gcra({ permits: 1, per: 1000, burst: 3 });
  const bucket = new parts.TokenBucket({ permits: 1, per: 1000, burst: 3 }, 0);
  const { steps } = file("published/gcra.json");
  for (const { t, allow, retry_in } of steps) {
    const expected = allow ? 0 : retry_in * 1000;
    expect(limit.acquire(t * 1000)).toBeCloseTo(expected, 6);
    expect(bucket.acquire(t * 1000)).toBeCloseTo(expected, 6);
  }
  expect(steps).toHaveLength(10);
});

/** The limit in both forms; the exact one to the last bit. */
function limited(part: parts.Aimd | parts.Gradient2, step: Any): object {
  return { limit: part.limit, exact: part.exact === Number(step.exact) ? step.exact : part.exact };
}

test("aimd limits", () => {
  const of = (given: Any) => settings(given, "latency_threshold", "cut_interval");
  const made = told(
    "limit/aimd.json",
    (each) => new parts.Aimd(of(each.settings)),
    (limit, step, at) => {
      const now = at(step.at);
      if (step.op === "latency") limit.onLatency(step.latency / 1000, now);
      else if (step.op === "failure") limit.onFailure(step.latency / 1000, now);
      else if (step.op === "timeout") limit.onTimeout(now);
      else limit.retune(of(step.settings));
      return limited(limit, step);
    },
  );
  expect(made).toEqual([720, 0]);
});

test("gradient2 limits", () => {
  const made = told(
    "limit/gradient2.json",
    (each) => new parts.Gradient2({ ...settings(each.settings), variant: each.variant }),
    (limit, step, at) => {
      const [started, now] = [at(step.started), at(step.at)];
      if (step.op === "latency") limit.onLatency(step.rtt / 1000, started, step.in_flight, now);
      else limit.onDrop(started, step.in_flight, now);
      return limited(limit, step);
    },
  );
  expect(made).toEqual([3682, 0]);
});

test.each(["facebook", "rfc8289"] as const)("queues under the law of %s", (law) => {
  // A queue as its owner keeps it: the owner asks the part about each waiter, and reports when the queue is empty.
  const made = told(
    `codel/${law}.json`,
    (each, now): [parts.CoDel, [number, number][]] => {
      const given = { queueTarget: each.target / 1000, queueInterval: each.interval / 1000, codel: law };
      return [new parts.CoDel(given, now), []];
    },
    ([codel, waiting], step, at) => {
      const now = at(step.at);
      if (step.op === "enqueue") {
        if (waiting.length === 0) codel.onEmpty(now);
        waiting.push([step.at, Number(step.scale)]);
        return {};
      }
      const congested = codel.congested(now);
      if (law === "facebook") expect([5, 20.001, 50, 100]).toContain(codel.allowance(now));
      let [shed, granted] = [0, false];
      while (waiting.length > 0 && !granted) {
        const [came, scale] = waiting.shift() as [number, number];
        granted = !codel.shouldShed((step.at - came) / 1000, now, scale);
        shed += granted ? 0 : 1;
      }
      if (waiting.length === 0) codel.onEmpty(now);
      return { congested, shed, granted };
    },
  );
  expect(made).toEqual([2765, 0]);
});

/** Steps played, and cases rejected: some of the random ones have break durations of a microsecond. */
const BREAKERS: Record<string, [number, number]> = {
  body: [31, 0],
  breaks: [57, 0],
  half_open: [87, 0],
  late: [71, 0],
  opening: [56, 0],
  random: [1434, 17],
  retune: [40, 1],
  time: [48, 1],
  window: [48, 0],
};

test.each(Object.keys(BREAKERS))("breakers: %s", (name) => {
  const of = (given: Any) => settings(given, "window", "break_duration", "max_break_duration", "probe_lease");
  const made = told(
    `breaker/${name}.json`,
    (each): [parts.CircuitBreaker, Map<string, parts.Ticket>] => [
      new parts.CircuitBreaker(of(each.settings)),
      new Map(),
    ],
    ([it, tickets], step, at) => {
      const now = at(step.at);
      let found = {};
      const given =
        step.forged === undefined
          ? (tickets.get(step.call) as parts.Ticket)
          : { number: step.forged[0], probe: step.forged[1] };
      if (step.op === "admit") {
        const early = it.refuses(now);
        const ticket = it.admit(now);
        expect(early === undefined).toBe(ticket !== undefined);
        if (ticket === undefined) found = { retry_in: us(early as number) };
        else {
          tickets.set(step.call, ticket);
          found = { probe: ticket.probe };
        }
      } else if (step.op === "record") {
        found = { transition: seen(it.record(given, step.evidence, now, BigInt(step.bits))) };
      } else if (step.op === "body") {
        found = { transition: seen(it.onBodyFailure(given, now, BigInt(step.bits))) };
      } else if (step.op === "retune") it.retune(of(step.settings), now);
      else if (step.op === "reset") it.reset();
      else if (step.op === "fork") it.forgetProbes();
      else expect(step.op).toBe("look");
      const more: Any = { state: it.state, failures: it.failures(now), throughput: it.throughput(now) };
      // The order matters: `isFresh` reads the clock, and `openUntil` depends on that reading.
      more.fresh = it.isFresh(now);
      if (it.openUntil !== undefined) more.open_until = Math.round((it.openUntil - at(0)) * 1000);
      return { ...found, ...more };
    },
  );
  expect(made).toEqual(BREAKERS[name]);
});

test.each([
  ["random", 1280],
  ["stories", 69],
] as const)("throttles: %s", (name, steps) => {
  const of = (given: Any) => ({
    maxReject: null,
    probeInterval: null,
    ...settings(given, "window", "probe_interval"),
  });
  const made = told(
    `throttle/${name}.json`,
    (each, now) => new parts.AdaptiveThrottle(of(each.settings), now),
    (it, step, at) => {
      const now = at(step.at);
      let found = {};
      if (step.op === "admit") found = { admitted: it.admit(now, BigInt(step.bits)) };
      else if (step.op === "record") {
        for (let n = 0; n < step.times; n += 1) it.record(step.accepted, now);
      } else if (step.op === "retune") it.retune(of(step.settings), now);
      const counts = { requests: it.requests(now), accepts: it.accepts(now) };
      expect(it.isFresh(now)).toBe(counts.requests === 0);
      const p = it.probability(now);
      return { ...found, ...counts, p: p === Number(step.p) ? step.p : p };
    },
  );
  expect(made).toEqual([steps, 0]);
});

test("who counts what", () => {
  const breakers = file("breaker/classes.json").classes;
  const breaker = new parts.CircuitBreaker({ breakDuration: 1, consecutive: 1 });
  for (const [kind, evidence] of Object.entries(breakers))
    expect(breaker.evidenceOf(kind as "ok")).toBe(evidence);
  const throttles = file("throttle/classes.json").classes;
  const throttle = new parts.AdaptiveThrottle({}, 0);
  for (const [kind, accepted] of Object.entries(throttles))
    expect(seen(throttle.accepted(kind as "ok"))).toBe(accepted);
  expect([Object.keys(breakers).length, Object.keys(throttles).length]).toEqual([9, 9]);
});

describe("budgets", () => {
  /** Plays a file's cases for any part; only the names of the operations differ. */
  const play = <P extends parts.Part>(
    kind: string,
    make: (given: Any) => P,
    answer: (part: P, step: Any, at: At) => object,
  ) => told(`budget/${kind}.json`, (each) => make(settings(each.settings, "ttl")), answer);
  const unknown = (step: Any): never => {
    throw new Error(`no such operation: ${step.op}`);
  };

  test("window", () => {
    const made = play(
      "window",
      (given) => new parts.RetryBudget(given),
      (it, step, at) => {
        const now = at(step.at);
        let found = {};
        if (step.op === "deposit") it.deposit(now);
        else if (step.op === "withdraw") found = { granted: it.tryWithdraw(now) };
        else if (step.op === "refund") it.refund(at(step.charged_at), now);
        else if (step.op !== "balance") unknown(step);
        return { ...found, balance: it.balance(now) };
      },
    );
    expect(made).toEqual([490, 0]);
  });

  test("ratio", () => {
    const made = play(
      "ratio",
      (given) => new parts.RatioBudget(given),
      (it, step) => {
        let found = {};
        if (step.op === "deposit") it.onCall();
        else if (step.op === "withdraw") found = { granted: it.tryWithdraw() };
        else if (step.op === "refund") it.refund();
        else if (step.op !== "balance") unknown(step);
        return { ...found, balance: it.balance };
      },
    );
    expect(made).toEqual([171, 0]);
  });

  test("share", () => {
    const made = play(
      "share",
      (given) => new parts.ShareBudget(given),
      (it, step) => {
        let found = {};
        if (step.op === "withdraw") found = { granted: it.tryAcquire(step.calls) };
        else if (step.op === "end" || step.op === "refund") it.onEnd();
        else unknown(step);
        return { ...found, in_flight: it.inFlight };
      },
    );
    expect(made).toEqual([21, 0]);
  });

  test("tokens", () => {
    const made = play(
      "tokens",
      (given) => new parts.TokenBudget(given),
      (it, step) => {
        if (step.op === "withdraw") return { granted: it.allows };
        if (step.op === "failure") it.onFailure();
        else if (step.op === "success") it.onSuccess();
        else unknown(step);
        return {};
      },
    );
    expect(made).toEqual([148, 0]);
  });

  test("quota", () => {
    const paidFor = (step: Any) => (step.class === "never_sent" ? "transient" : step.class); // the same price
    const made = play(
      "quota",
      (given) => new parts.RetryQuota(given),
      (it, step) => {
        let found = {};
        if (step.op === "withdraw") found = { granted: it.tryAcquire(paidFor(step)) !== undefined };
        else if (step.op === "success") it.onSuccess(step.cost);
        else if (step.op === "refund") it.refund(step.cost);
        else unknown(step);
        return { ...found, balance: it.available };
      },
    );
    expect(made).toEqual([13, 0]);
  });
});

test("backoffs", () => {
  let [ceilings, delays, refused] = [0, 0, 0];
  for (const each of file("backoff/delays.json").cases) {
    const { seed, bits, n, ceiling, delay, ...given } = each;
    let backoff: parts.Backoff;
    try {
      backoff = new parts.Backoff({ ...settings(given, "base", "max"), seed: BigInt(seed ?? 0) });
    } catch (error) {
      if (!(error instanceof parts.PolicyError)) throw error;
      refused += 1;
      continue;
    }
    if (ceiling !== undefined) {
      expect(us(backoff.ceiling(n)), JSON.stringify(each)).toBe(ceiling);
      ceilings += 1;
    }
    if (seed !== undefined) {
      expect(us(backoff.delay(n, 0)), JSON.stringify(each)).toBe(delay);
      delays += 1;
    }
    backoff.dispose();
  }
  expect([ceilings, delays, refused]).toEqual([360, 360, 0]);
});

test("Retry-After", () => {
  const { wall_us, cases } = file("retry_after/values.json");
  let read = 0;
  for (const each of cases) {
    const wait = parts.parseRetryAfter(each.value, wall_us / 1000);
    expect(wait, JSON.stringify(each)).toBe(each.delay_us === null ? undefined : each.delay_us / 1000);
    read += 1;
  }
  const published = file("published/retry_after.json");
  for (const { value, delay_s } of published.cases) {
    const wait = parts.parseRetryAfter(value, published.wall_clock_now_unix_s * 1000);
    const expected =
      delay_s === "saturated" ? (2 ** 53 - 1) / 1000 : delay_s === null ? undefined : delay_s * 1000;
    expect(wait, value).toBe(expected);
    read += 1;
  }
  expect(read).toBe(76);
});

const number = (text: string | null) => (text === null ? undefined : Number(text));
const within = (cases: Any[], key: string, low: number, high: number) =>
  cases.filter((each) => Number(each[key]) >= low && Number(each[key]) <= high);

test("p2", () => {
  let looks = 0;
  for (const each of within(file("quantile/p2.json").cases, "p", 0.001, 0.999)) {
    const it = new parts.P2Quantile(Number(each.p));
    const expected = new Map<number, Any>(each.looks.map((look: Any) => [look.after, look]));
    each.observations.forEach((x: string, place: number) => {
      it.observe(Number(x));
      const look = expected.get(place + 1);
      if (look === undefined) return;
      expect([it.count, it.estimate], each.name).toEqual([look.count, number(look.estimate)]);
      looks += 1;
    });
    it.dispose();
  }
  expect(looks).toBe(577);
});

test("windowed", () => {
  let looks = 0;
  for (const each of within(file("quantile/windowed.json").cases, "window", 10, 2 ** 32 - 1)) {
    const it = new parts.WindowedP2Quantile(Number(each.p), each.window);
    each.observations.forEach((x: string, place: number) => {
      it.observe(Number(x));
      const [estimate, count] = each.looks[place];
      expect([it.estimate, it.count], each.name).toEqual([number(estimate), count]);
      looks += 1;
    });
    it.dispose();
  }
  expect(looks).toBe(1678);
});

test("sketches", () => {
  const vector = file("quantile/ddsketch.json");
  let merged = 0;
  for (const each of within(vector.cases, "alpha", 0.001, 0.25)) {
    const all = new parts.DDSketch(Number(each.alpha));
    for (const values of each.parts) {
      const sketch = new parts.DDSketch(Number(each.alpha));
      for (const x of values) sketch.add(Number(x));
      all.merge(sketch);
      merged += 1;
    }
    expect([all.count, all.sum]).toEqual([each.count, Number(each.sum)]);
    expect([all.min, all.max]).toEqual([number(each.min), number(each.max)]);
    for (const [q, value] of each.quantiles) {
      if (Number(q) >= 0 && Number(q) <= 1) expect(all.quantile(Number(q)), q).toBe(number(value));
    }
    expect(all.toWords()).toEqual(each.words.map(BigInt));
    expect(parts.DDSketch.fromWords(each.words).equals(all)).toBe(true);
  }
  expect(merged).toBe(30);
  for (const { words } of vector.malformed) {
    expect(() => parts.DDSketch.fromWords(words)).toThrow(/^words: /);
  }
  expect(vector.malformed.length).toBeGreaterThan(10);
});
