/**
 * Page-by-page reading of an engine with many routes blocks the event loop for one page at a time (docs/adr/0022). The tests count
 * work, not time.
 */

import { Registry } from "prom-client";
import { expect, test, vi } from "vitest";
import type { Native } from "../ts/engine/native.js";
import { policy } from "../ts/node.js";
import * as prometheus from "../ts/prometheus.js";
import { FakeClock } from "../ts/testing.js";
import { failure, reset } from "./support/functions.js";
import { engine } from "./support/setup.js";

const SETTINGS = { retry: { maxAttempts: 1 }, breaker: { consecutive: 5, breakDuration: 60_000 } } as const;

/** An engine with this many routes, each with state, that counts the pages read from its module. */
async function many(routes: number) {
  const some = engine({ clock: new FakeClock() });
  const busy = policy({
    engine: some,
    name: "busy",
    ...SETTINGS,
  });
  for (let number = 0; number < routes; number += 1) {
    await failure(busy.at({ route: `key ${number}` }).run(() => Promise.reject(reset())));
  }
  const pages: string[] = [];
  const real = some.native;
  const page = (of: number, reader: number, now: number) => {
    const more = real.page(of, reader, now);
    pages.push(
      new TextDecoder().decode(new Uint8Array(real.memory.buffer, real.output(), real.output_length())),
    );
    return more;
  };
  some.native = { ...real, page } as Native;
  return { some, busy, pages };
}

const routesIn = (page: string) => (page.startsWith("[") ? (JSON.parse(page) as unknown[]).length : 0);

test("a snapshot comes in pages of at most 16 routes, and is the one that is taken at once", async () => {
  const { some, pages } = await many(300);
  const whole = some.snapshot();
  expect(await some.snapshotInPages()).toEqual(whole);
  expect(whole.routes).toHaveLength(300);
  expect(Math.max(...pages.map(routesIn))).toBe(16);
  expect(JSON.parse(pages.at(-1) as string)).toEqual({ ...whole, routes: [] });
});

test("a state is saved in pages of at most 64 routes, and is the one that is saved at once", async () => {
  const { some, pages } = await many(300);
  const { state } = some.save();
  const saved = await some.saveInPages();
  expect(saved.state).toEqual(state);
  expect(Math.max(...pages.map(routesIn))).toBe(64);
  const other = engine({ clock: new FakeClock() });
  policy({ engine: other, name: "busy", ...SETTINGS });
  expect(other.restore(saved)).toMatchObject({ routes: 300, unknown: [], dropped: [] });
  const empty = engine();
  expect((await empty.saveInPages()).state).toEqual(empty.save().state);
});

test("calls run between two pages, and two readings at a time do not disturb each other", async () => {
  const { some, busy, pages } = await many(100);
  let done = false;
  let calls = 0;
  const reading = Promise.all([some.snapshotInPages(), some.saveInPages(), some.snapshotInPages()]).then(
    (all) => {
      done = true;
      return all;
    },
  );
  while (!done) {
    await busy.at({ route: `key ${calls % 120}` }).run(() => 1);
    calls += 1;
    await new Promise((go) => setImmediate(go));
  }
  const [one, saved, other] = await reading;
  expect(calls).toBeGreaterThan(10);
  for (const view of [one, other]) {
    expect(new Set(view.routes.map(({ key }) => key)).size).toBe(view.routes.length);
    expect(view.routes.length).toBeGreaterThanOrEqual(100);
  }
  expect(pages.length).toBeGreaterThan(30);
  const next = engine({ clock: new FakeClock() });
  policy({ engine: next, name: "busy", ...SETTINGS });
  expect(next.restore(saved).routes).toBeGreaterThanOrEqual(100);
});

test("a scrape reads the series in pages of at most 16, once for all families", async () => {
  const { some, busy, pages } = await many(100);
  const registry = new Registry();
  prometheus.instrument(registry, { engine: some, maxRoutes: 1000 });
  for (let number = 0; number < 100; number += 1) await busy.at({ route: `key ${number}` }).run(() => 1);
  const text = await registry.metrics();
  expect(text.match(/^tidegate_calls_total.*outcome="ok"} 1$/gm)).toHaveLength(100);
  expect(Math.max(...pages.map(routesIn))).toBe(16);
  const once = pages.length;
  expect(await registry.metrics()).toBe(text);
  expect(pages.length).toBe(2 * once);
});

test("a reading comes to its end with the fake timers of a test framework", async () => {
  const { some } = await many(20);
  vi.useFakeTimers();
  try {
    expect((await some.snapshotInPages()).routes).toHaveLength(20);
  } finally {
    vi.useRealTimers();
  }
});
