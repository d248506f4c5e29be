/** What a program gives to a policy may be odd: hooks that are async or return nonsense, signals and promises of other makers. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Engine, load, policy, reportOf, within } from "../ts/node.js";
import { failing, failure, hang } from "./support/functions.js";
import { engine } from "./support/setup.js";

const RETRY = { maxAttempts: 3, backoff: { base: 0 } } as const;
const HTTP = "http://shop.test/";

let told: string[] = [];

beforeEach(() => {
  told = [];
  const tell = (text: string, error: unknown) => void told.push(`${text} ${String(error)}`);
  vi.spyOn(console, "warn").mockImplementation(tell);
  vi.spyOn(console, "error").mockImplementation(tell);
});

afterEach(async () => {
  await new Promise((done) => setImmediate(done)); // a rejection that nobody handles would fail the test
  vi.restoreAllMocks();
});

test("a signal without a reason ends its calls with an AbortError", async () => {
  class Older extends EventTarget {
    aborted = false;
  }
  const old = new Older();
  const signal = old as AbortSignal;
  const some = policy({
    engine: engine(),
    retry: RETRY,
    fetch: (_, init) => hang({ signal: init?.signal as AbortSignal } as never),
  });
  const going = [failure(some.run(hang, { signal })), failure(some.fetch(HTTP, { signal }))];
  old.aborted = true;
  old.dispatchEvent(new Event("abort"));
  for (const one of [...going, failure(some.run(hang, { signal })), failure(some.fetch(HTTP, { signal }))]) {
    expect(await one).toMatchObject({ name: "AbortError" });
  }
});
