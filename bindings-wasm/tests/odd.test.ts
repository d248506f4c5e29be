/**
 * Values that `fetch` may return which are not a `Response` of the platform, and errors whose properties cannot be read. None breaks
 * its call, another call, or the shared timer.
 */

import { Readable } from "node:stream";
import { describe, expect, test, vi } from "vitest";
import { type Engine, type PolicyOptions, policy, reportOf } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { Ticker } from "../ts/time/ticker.js";
import { failure, hang } from "./support/functions.js";
import { collected } from "./support/garbage.js";
import { engine, turns } from "./support/setup.js";

const URL_ = "http://far.example/x";

/** A response as node-fetch returns it: the body is a Node stream. */
function nodeAnswer(status: number, body: Readable, headers: Record<string, string> = {}): Response {
  const text = async () => {
    let all = "";
    for await (const piece of body) all += String(piece);
    return all;
  };
  return { status, headers: new Headers(headers), body, bodyUsed: false, text } as unknown as Response;
}

function over(answers: unknown[], settings: PolicyOptions) {
  const fetch = async () => answers.shift() as Response;
  return policy({ retry: { backoff: { base: 10 } }, preset: "http", ...settings, fetch });
}

/** Checks that a timeout of another call of the engine still fires in time. */
async function keepsTime(lab: Engine, clock: FakeClock): Promise<void> {
  const other = policy({ engine: lab, attemptTimeout: 30 });
  const late = failure(other.run(hang));
  const start = clock.now();
  await clock.advance(30);
  expect(await late).toMatchObject({ reason: "attempt_timeout" });
  expect(clock.now()).toBe(start + 30);
}

describe("a fetch without web streams", () => {
  test("answers, and its slot is free at the head", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const some = over([nodeAnswer(200, Readable.from(["a ", "body"]))], {
      engine: lab,
      bulkhead: { maxConcurrency: 1 },
    });
    const response = await clock.run(some.fetch(URL_));
    expect(some.snapshot().routes["http://far.example:80"]?.pool?.inFlight).toBe(0);
    expect(await response.text()).toBe("a body");
    await new Promise((done) => setImmediate(done));
    await keepsTime(lab, clock);
  });

  test("failed answers are closed before the next attempt", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const bodies = [new Readable({ read() {} }), new Readable({ read() {} })];
    const answers = [
      ...bodies.map((body) => nodeAnswer(503, body, { "retry-after": "1" })),
      nodeAnswer(200, Readable.from(["ok"])),
    ];
    const response = await clock.run(over(answers, { engine: lab }).fetch(URL_));
    expect([response.status, reportOf(response)?.attempts]).toEqual([200, 3]);
    expect(bodies.map((body) => body.destroyed)).toEqual([true, true]);
    expect(clock.now()).toBeGreaterThanOrEqual(2000);
    expect(await response.text()).toBe("ok");
    await new Promise((done) => setImmediate(done));
  });

  test("a body that never ends is closed at the deadline, and nothing else is", async () => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const body = new Readable({ read() {} });
    body.push("a part");
    const response = await clock.run(
      over([nodeAnswer(200, body)], { engine: lab, deadline: 100 }).fetch(URL_),
    );
    const text = failure(response.text());
    await new Promise((done) => setImmediate(done));
    await clock.advance(100);
    expect(String(await text)).toMatch(/deadline/);
    expect(body.destroyed).toBe(true);
    await keepsTime(lab, clock);
  });

  test("a body that is kept without its response is closed when the caller gives up", async () => {
    const body = new Readable({ read() {} });
    let gone = false;
    const registry = new FinalizationRegistry(() => {
      gone = true;
    });
    const fetch = async () => {
      const answer = nodeAnswer(200, body);
      registry.register(answer, undefined);
      return answer;
    };
    const some = policy({ engine: engine(), retry: {}, fetch });
    const caller = new AbortController();
    await (async () => void (await some.fetch(URL_, { signal: caller.signal })).status)();
    await collected(() => gone);
    await new Promise((done) => setImmediate(done)); // other callbacks of the collection
    expect(body.destroyed).toBe(false);
    caller.abort();
    expect(body.destroyed).toBe(true);
    await new Promise((done) => setImmediate(done)); // its event "close"
  });
});

const broken = (name: string, of: object = {}) =>
  Object.defineProperty(of, name, {
    get() {
      throw new Error(`${name} cannot be read`);
    },
  });
const locked = (status: number) => {
  const response = new Response("taken", { status });
  response.body?.getReader();
  return response;
};

/** Values that are no response, or not quite one. */
const ODD: Record<string, () => unknown> = {
  nothing: () => undefined,
  null: () => null,
  "a text": () => "ok",
  "a status alone": () => ({ status: 200 }),
  "a failure without headers": () => ({ status: 503 }),
  "a failure with headers as an object": () => ({ status: 503, headers: { "retry-after": "1" }, body: null }),
  "a failure with headers as a map": () => ({ status: 429, headers: new Map([["retry-after", "0"]]) }),
  "a status that is none": () => ({ status: "teapot", headers: new Headers(), body: undefined }),
  "a body that is a text": () => ({ status: 200, headers: new Headers(), body: "text" }),
  "a failure whose body is a text": () => ({ status: 503, headers: new Headers(), body: "text" }),
  "a body with a reader": () => locked(200),
  "a failure whose body has a reader": () => locked(503),
  "a status that no response may have": () => ({
    status: 999,
    headers: new Headers(),
    body: new Response("x").body,
  }),
  "a status that cannot be read": () => broken("status"),
  "a body that cannot be read": () => broken("body", { status: 200, headers: new Headers() }),
  "a failure whose body cannot be read": () => broken("body", { status: 503, headers: new Headers() }),
  "headers that cannot be read": () => broken("headers", { status: 503, body: null }),
  "a reader that cannot be had": () => ({ status: 200, headers: new Headers(), body: { getReader: hangs } }),
  "a failure whose reader cannot be had": () => ({
    status: 503,
    headers: new Headers(),
    body: { getReader: hangs },
  }),
  "what nobody may change": () => Object.freeze({ status: 503, headers: Object.freeze({}), body: null }),
  "a revoked proxy": () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    queueMicrotask(revoke);
    return { status: 503, headers: new Headers(), body: proxy };
  },
};

function hangs(): never {
  throw new TypeError("no reader");
}

test.each(Object.entries(ODD))(
  "%s as an answer ends its call, with that or with an error",
  async (_, make) => {
    const clock = new FakeClock();
    const lab = engine({ clock });
    const answers = Array.from({ length: 5 }, make);
    for (const settings of [{}, { hedge: { delay: 5 } }, { deadline: 50 }] satisfies PolicyOptions[]) {
      const made = [...answers];
      const end = await clock.run(
        over(made, { engine: lab, ...settings })
          .fetch(URL_)
          .then(
            (answer) => ({ answer }),
            (error: unknown) => ({ error }),
          ),
      );
      expect("answer" in end || (end.error as Error) instanceof Error, String(Object.values(end)[0])).toBe(
        true,
      );
      // An answer that can be read keeps the call's deadline until it has been.
      await clock.advance(100_000);
    }
    await keepsTime(lab, clock);
  },
);

/** Whether it fails with this very object. No promise is resolved with the object, because that would read its `then`. */
const isItsError = (promise: Promise<unknown>, error: unknown) =>
  promise.then(
    () => false,
    (thrown: unknown) => thrown === error,
  );

/** Errors whose properties cannot be read. */
const UNREADABLE: Record<string, () => unknown> = {
  "a message that throws": () => broken("message", new Error("x")),
  "a name that throws": () => broken("name", new Error("x")),
  "a code that throws": () => broken("code", new Error("x")),
  "a cause whose code throws": () => new TypeError("fetch failed", { cause: broken("code") }),
  "everything throws": () =>
    new Proxy(new Error("x"), {
      get() {
        throw new Error("get");
      },
      getPrototypeOf() {
        throw new Error("getPrototypeOf");
      },
    }),
  "one that is frozen": () => Object.freeze(new Error("x")),
};

test.each(Object.entries(UNREADABLE))(
  "S13: an error with %s is the caller's, the same object",
  async (_, make) => {
    const error = make();
    const lab = engine({ journal: true });
    const seen: unknown[] = [];
    lab.listen((event) => seen.push(event.type));
    const some = policy({ engine: lab, preset: "http", fetch: () => Promise.reject(error) });
    expect(
      await isItsError(
        some.run(() => Promise.reject(error)),
        error,
      ),
    ).toBe(true);
    expect(await isItsError(some.fetch(URL_), error)).toBe(true);
    const thrown = some.run(() => {
      throw error;
    });
    expect(await isItsError(thrown, error)).toBe(true);
    const classified = policy({ engine: lab, retry: {}, classify: (of) => (of as Error).message });
    const silent = vi.spyOn(console, "warn").mockImplementation(() => {
      throw new Error("a console that fails");
    });
    silent.mockImplementationOnce(() => {
      throw new Error("an error that cannot be printed");
    });
    silent.mockImplementation(() => undefined);
    expect(
      await isItsError(
        classified.run(() => Promise.reject(error)),
        error,
      ),
    ).toBe(true);
    silent.mockRestore();
    expect(seen).toContain("call_done");
  },
);

/** Foreign thenables. */
const THENABLES: Record<string, () => unknown> = {
  "throws when its then is read": () => broken("then"),
  "throws when it is called": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is what is tested
    then() {
      throw new Error("then");
    },
  }),
  "calls back twice": () => ({
    // biome-ignore lint/suspicious/noThenProperty: that is what is tested
    then(done: (value: unknown) => void, fail: (error: unknown) => void) {
      done("first");
      fail(new Error("second"));
      done("third");
    },
  }),
};

test.each(Object.entries(THENABLES))("a thenable that %s ends its attempt once", async (_, make) => {
  const lab = engine();
  for (const settings of [{ retry: {} }, { hedge: { delay: 1000 } }] satisfies PolicyOptions[]) {
    const end = await policy({ engine: lab, ...settings, bulkhead: { maxConcurrency: 1 } })
      .run(make as () => string, { signal: new AbortController().signal })
      .catch((error: Error) => error.message);
    expect(["first", "then", "then cannot be read"]).toContain(end);
  }
});

test("a moment whose owner throws keeps no other from theirs, and the timer goes on", async () => {
  const loud = vi.spyOn(console, "error").mockImplementation(() => undefined);
  let us = 0;
  const ticker = new Ticker(() => us, undefined);
  const fired: string[] = [];
  const breaks = {
    tick() {
      throw new Error("ours");
    },
  };
  const places = [ticker.add(breaks, 10), ticker.add({ tick: () => fired.push("beside") }, 10)];
  us = 20;
  ticker.fire();
  expect(fired).toEqual(["beside"]);
  places.push(ticker.add({ tick: () => fired.push("later") }, 30));
  expect(ticker.next).toBe(30);
  us = 30;
  ticker.fire();
  expect(fired).toEqual(["beside", "later"]);
  expect(loud).toHaveBeenCalledOnce();
  for (const place of places) ticker.drop(place);
  loud.mockRestore();
});

test("what throws in a step ends its call alone, and gives its slot back", async () => {
  const clock = new FakeClock();
  const lab = engine({ clock });
  const some = policy({ engine: lab, attemptTimeout: 50, bulkhead: { maxConcurrency: 1 } });
  const call = failure(some.run(hang));
  await turns();
  const { native } = lab;
  const on = vi.fn(native.on).mockImplementationOnce(() => {
    throw new Error("a step that breaks");
  });
  lab.native = { ...native, on };
  await clock.advance(50);
  lab.native = native;
  expect(String(await call)).toContain("a step that breaks");
  expect(await some.run(() => "next")).toBe("next");
  await keepsTime(lab, clock);
});
