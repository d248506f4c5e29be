/** Attempts of Node's own `fetch` stop without a signal (ADR 0078), and end as they would with one. All other requests get a signal. */

import { once } from "node:events";
import { type AddressInfo, type Socket, createServer as tcp } from "node:net";
import { Agent, MockAgent, setGlobalDispatcher, fetch as undicis } from "undici";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { stopping } from "../ts/fetch/nodes_fetch.js";
import { policy } from "../ts/node.js";
import { Lane } from "../ts/run/lane.js";
import { FakeClock } from "../ts/testing.js";
import { origin, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

const KEY = Symbol.for("undici.globalDispatcher.1");
const globals = globalThis as unknown as Record<symbol, Agent>;

/** The error of a request. */
const errorOf = (request: Promise<unknown>): Promise<unknown> =>
  request.then(
    () => undefined,
    (error: unknown) => error,
  );

describe("a signal", () => {
  const url = "http://one.test/";
  const wants = (fetch: unknown, input: unknown, init: object): boolean => {
    const given = init as RequestInit & { dispatcher?: unknown };
    const lane = new Lane(1, engine(), 1);
    const without = stopping(fetch, input, given, lane);
    expect(lane.controller === undefined).toBe(!without);
    return !without;
  };

  test("is not needed by Node's own fetch", async () => {
    await origin(200); // Node has a dispatcher after its first request
    const { fetch } = globalThis;
    expect(wants(fetch, url, {})).toBe(false);
    expect(
      wants(fetch, new URL(url), { method: "POST", body: "text", signal: new AbortController().signal }),
    ).toBe(false);
  });

  test.each<[string, unknown, unknown, object]>([
    ["a function around it", (input: string, init: object) => globalThis.fetch(input, init), url, {}],
    ["a bound one", globalThis.fetch.bind(undefined), url, {}],
    ["a proxy of it", new Proxy(globalThis.fetch, {}), url, {}],
    ["that of the package", undicis, url, {}],
    ["no function", "fetch", url, {}],
    ["a Request", globalThis.fetch, new Request(url), {}],
    ["a body that is a stream", globalThis.fetch, url, { body: new ReadableStream(), duplex: "half" }],
    ["a form", globalThis.fetch, url, { body: new FormData() }],
    ["a dispatcher of its own", globalThis.fetch, url, { dispatcher: new Agent() }],
  ])("is needed by %s", (_, fetch, input, init) => {
    expect(wants(fetch, input, init)).toBe(true);
  });

  test("is there for code that asks for one", () => {
    const early = new Lane(1, engine(), 1);
    expect(stopping(globalThis.fetch, url, {}, early)).toBe(true);
    const { signal } = early;
    expect(signal.aborted).toBe(false);
    const late = new Lane(2, engine(), 1);
    stopping(globalThis.fetch, url, {}, late);
    const why = new Error("why");
    early.stop(why);
    late.stop(why);
    expect([early.signal === signal, signal.reason, late.signal.reason]).toEqual([true, why, why]);
  });
});

describe("an attempt that is stopped", () => {
  const strict = { attemptTimeout: 60 } as const;

  test("ends after a redirect", async () => {
    const hangs = await origin({ status: 302, headers: [["location", "/x"]] }, { fault: "hang" });
    const clock = new FakeClock();
    const call = errorOf(policy({ engine: engine({ clock }), ...strict }).fetch(hangs));
    await until(async () => (await stats()).requests === 2);
    await clock.advance(60);
    expect(await call).toMatchObject({ reason: "attempt_timeout" });
    await until(async () => (await stats()).in_flight === 0);
  });

  test("ends while it waits for a connection", async () => {
    const sockets: Socket[] = [];
    const mute = tcp((socket) => sockets.push(socket.on("error", () => undefined))).listen(0, "127.0.0.1");
    await once(mute, "listening");
    const { port } = mute.address() as AddressInfo;
    const clock = new FakeClock();
    const lab = engine({ clock });
    const some = policy({ engine: lab, name: "some", bulkhead: { maxConcurrency: 1 }, ...strict });
    const tidegate = { route: "same" };
    const call = errorOf(some.fetch(`https://127.0.0.1:${port}/`, { tidegate }));
    await until(async () => sockets.length === 1);
    await clock.advance(60);
    expect(await call).toMatchObject({ reason: "attempt_timeout" });
    // Its slot comes back although no connection is there yet.
    expect(await (await some.fetch(await origin(200), { tidegate })).text()).toBe("OK\n");
    for (const socket of sockets) socket.destroy();
    mute.close();
    await once(mute, "close");
  });

  test("ends before undici has sent anything", async () => {
    const url = await origin(200);
    const caller = new AbortController();
    const call = policy({ engine: engine(), retry: {} }).fetch(url, { signal: caller.signal });
    const why = new Error("why");
    caller.abort(why);
    expect(await errorOf(call)).toBe(why);
  });

  test("leaves nothing as soon as its caller has given up", async () => {
    const hangs = await origin({ fault: "hang" }, { fault: "hang" });
    const lab = engine();
    const some = policy({ engine: lab, preset: "http" });
    // The first request of a process has a signal.
    for (const sent of [1, 2]) {
      const caller = new AbortController();
      const call = errorOf(some.fetch(hangs, { signal: caller.signal }));
      await until(async () => (await stats()).requests === sent);
      caller.abort();
      await call;
    }
    expect(lab.snapshot()).toMatchObject({ live: 0, lingering: 0 });
  });

  test("sends no request after it was stopped", () => {
    const lane = new Lane(1, engine(), 1);
    const init = {} as { dispatcher: { dispatch(options: object, handler: object): boolean } };
    stopping(globalThis.fetch, "http://one.test/", init as RequestInit, lane);
    const why = new Error("why");
    lane.stop(why);
    const seen: unknown[] = [];
    init.dispatcher.dispatch(
      {},
      { onConnect: () => seen.push("sent"), onError: (error: unknown) => seen.push(error) },
    );
    init.dispatcher.dispatch({}, { onResponseError: (_: unknown, error: unknown) => seen.push(error) });
    expect(seen).toEqual([why, why]);
  });

  test.each(["onConnect", "onRequestStart"])("is broken off by what %s got", (method) => {
    const before = globals[KEY];
    onTestFinished(() => void Object.assign(globals, { [KEY]: before }));
    const seen: unknown[] = [];
    const abort = (reason: unknown) => seen.push("aborted", reason);
    type Told = Record<string, (given: unknown, more: unknown) => void>;
    globals[KEY] = {
      dispatch: (_: object, handler: Told) =>
        handler[method]?.(method === "onConnect" ? abort : { abort }, "context"),
    } as unknown as Agent;
    const lane = new Lane(1, engine(), 1);
    const init = {} as { dispatcher: { dispatch(options: object, handler: object): boolean } };
    stopping(globalThis.fetch, "http://one.test/", init as RequestInit, lane);
    const handler = {
      [method]: (_: unknown, more: unknown) => seen.push(more),
      [method === "onConnect" ? "onError" : "onResponseError"]: (...given: unknown[]) =>
        seen.push(given.at(-1)),
    };
    init.dispatcher.dispatch({}, handler);
    lane.stop("why");
    lane.stop("again");
    expect(seen).toEqual(["context", "aborted", "why", "why"]);
  });
});

describe("a dispatcher", () => {
  const before = globals[KEY];
  afterEach(() => setGlobalDispatcher(before as Agent));

  test("of the whole program is used", async () => {
    const mock = new MockAgent();
    mock.disableNetConnect();
    mock.get("http://one.test").intercept({ path: "/", method: "POST", body: "asked" }).reply(200, "mocked");
    setGlobalDispatcher(mock);
    const some = policy({ engine: engine(), retry: {} });
    expect(await (await some.fetch("http://one.test/", { method: "POST", body: "asked" })).text()).toBe(
      "mocked",
    );
  });

  test("that answers late is not waited for", async () => {
    const mock = new MockAgent();
    mock.get("http://one.test").intercept({ path: "/" }).reply(200, "mocked").delay(60_000);
    setGlobalDispatcher(mock);
    const some = policy({ engine: engine(), attemptTimeout: 30 });
    await expect(some.fetch("http://one.test/")).rejects.toMatchObject({ reason: "attempt_timeout" });
  });

  test("of one request is used", async () => {
    let asked = 0;
    const dispatch = (options: never, handler: never) => {
      asked += 1;
      return (before as Agent).dispatch(options, handler);
    };
    const init = { dispatcher: { dispatch } };
    const some = policy({ engine: engine(), retry: {} });
    expect(await (await some.fetch(await origin(200), init as unknown as RequestInit)).text()).toBe("OK\n");
    expect(asked).toBe(1);
  });
});
