/** What a program gives to a policy may be odd: hooks that are async or return nonsense, signals and promises of other makers. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { policy } from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
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

test("an async hook is told to be none, and changes nothing", async () => {
  const lost = async (): Promise<never> => {
    throw new Error("of the hook");
  };
  let requests = 0;
  const some = policy({
    engine: engine(),
    preset: "http",
    retry: RETRY,
    classify: lost as never,
    fetch: async () => {
      requests += 1;
      return new Response(null, { status: 404 });
    },
  });
  const never = (async () => false) as never;
  expect((await some.fetch(HTTP, { tidegate: { predicate: never } })).status).toBe(404);
  expect(requests, "a promise is no opinion").toBe(1);
  const standing = policy({
    engine: some.engine,
    retry: RETRY,
    fallback: () => "instead",
    fallbackOn: (async () => false) as never,
  });
  expect(await failure(standing.run(() => Promise.reject(new Error("lost"))))).toMatchObject({
    message: "lost",
  });
  const counting = policy({
    engine: some.engine,
    rateLimit: { limits: ["tpm: permits=10 per=1m weight=tokens default=3"] },
    weigh: (async () => ({ tokens: 1 })) as never,
    fetch: async () => new Response("ok"),
  });
  expect(await (await counting.fetch(HTTP, { method: "POST", body: "{}" })).text()).toBe("ok");
  const rule = "it returned a promise: it must not be async";
  expect(told.map((text) => text.replace(/ failed.*TypeError:/, ":"))).toEqual(
    ["classify", "predicate", "fallbackOn", "weigh"].map((hook) => `tidegate: ${hook}: ${rule}`),
  );
});

test("a bodyFactory that is async sends no promise", async () => {
  const bodies: unknown[] = [];
  const some = policy({
    engine: engine(),
    preset: "http",
    retry: RETRY,
    fetch: async (_, init) => {
      bodies.push(init?.body);
      return new Response(null, { status: 503 });
    },
  });
  const bodyFactory = (async () => "again") as never;
  const error = await failure(some.fetch(HTTP, { method: "PUT", body: "once", tidegate: { bodyFactory } }));
  expect(error).toMatchObject({ message: "bodyFactory returned a promise: it must not be async" });
  expect(bodies).toEqual(["once"]);
});

test("a route of wrap that is async is told by its name", async () => {
  const some = policy({ engine: engine(), retry: RETRY });
  const route = (async () => "reads") as never;
  const client = some.wrap({ read: async () => 1 }, { methods: ["read"], route });
  const error = await failure((async () => client.read())());
  expect(error).toMatchObject({ message: "route returned a promise: it must not be async" });
  expect(some.snapshot().routes).toEqual({});
});

test("a retryAfter that is no number is told, and ends no call without a result", async () => {
  for (const retryAfter of ["soon", "5", {}, [1], true, 5n]) {
    const some = policy({
      engine: engine(),
      retry: RETRY,
      classify: (() => ({ kind: "transient", retryAfter })) as never,
    });
    expect(await some.run(() => "done")).toBe("done");
    expect(told.pop()).toMatch(
      /classify failed.*RangeError: retryAfter = .*: must be a number of milliseconds/,
    );
  }
  const many = policy({
    engine: engine(),
    retry: RETRY,
    classify: () => ({ kind: "transient", retryAfter: -Infinity }),
  });
  expect(await many.run(() => "done")).toBe("done");
  expect(told).toEqual([]);
});

test("an async listener that rejects is told, and ends no process", async () => {
  const some = policy({ engine: engine(), retry: RETRY });
  some.on("call_done", async () => {
    throw new Error("of the listener");
  });
  expect(await some.run(() => 1)).toBe(1);
  await new Promise((done) => setImmediate(done));
  expect(told).toEqual(["tidegate: a listener failed: Error: of the listener"]);
});

test("a promise of a class of its own may break, and leaves nothing behind", async () => {
  class Odd<T> extends Promise<T> {
    // biome-ignore lint/suspicious/noThenProperty: a promise of somebody else's making
    override then(): never {
      throw new Error("of then");
    }
  }
  const some = policy({ engine: engine(), retry: { maxAttempts: 1 }, bulkhead: { maxConcurrency: 1 } });
  for (let call = 0; call < 2; call += 1) {
    expect(await failure(some.run(() => new Odd(() => undefined)))).toMatchObject({ message: "of then" });
  }
});

test("a frozen object can be wrapped, and one with fixed methods", async () => {
  const some = policy({ engine: engine(), retry: { maxAttempts: 2, backoff: { base: 0 } } });
  class Client {
    readonly name = "shop";
    readonly read = failing(1);
    #secret = "s";
    secret(): string {
      return this.#secret;
    }
    set secretly(value: string) {
      this.#secret = value;
    }
    self(): unknown {
      return this;
    }
    [Symbol.iterator](): Iterator<string> {
      return [this.#secret].values();
    }
  }
  const frozen = Object.freeze(new Client());
  const client = some.wrap(frozen, { methods: ["read"] });
  expect(await client.read()).toBe(2);
  expect([client.name, client.secret(), ...client]).toEqual(["shop", "s", "s"]);
  (client as Client).secretly = "t";
  expect(frozen.secret()).toBe("t");
  expect(client.self()).toBe(frozen);
  expect(client.secret).toBe(client.secret);
  expect(client).toBeInstanceOf(Client);
  const fixed = Object.defineProperty({ name: "a" }, "read", { value: failing(1) }) as unknown as Client;
  const other = policy({ engine: engine(), retry: { maxAttempts: 2, backoff: { base: 0 } } });
  expect(await other.wrap(fixed, { methods: ["read"] }).read()).toBe(2);
});

test("options of a fetch may be those of an instance: another request, or a class", async () => {
  const sent: unknown[] = [];
  const some = policy({
    engine: engine(),
    preset: "http",
    fetch: async (input, init) => {
      const request = new Request(input as string, init);
      sent.push([request.url, request.method, request.headers.get("x-shop"), await request.text()]);
      return new Response(null, { status: 204 });
    },
  });
  class Options {
    body = "of a class";
    get method(): string {
      return "PATCH";
    }
  }
  const headers = { "x-shop": "1" };
  const request = new Request("http://other.test/", { method: "POST", headers, body: "of a request" });
  await some.fetch(HTTP, request as RequestInit);
  await some.fetch(HTTP, new Options());
  await some.fetch(HTTP, Object.create({ method: "PUT", headers, body: "of a prototype" }) as RequestInit);
  await some.fetch(HTTP, Object.assign(Object.create(null) as RequestInit, { method: "DELETE" }));
  await some.fetch(HTTP, null as never);
  expect(sent).toEqual([
    [HTTP, "POST", "1", "of a request"],
    [HTTP, "PATCH", null, "of a class"],
    [HTTP, "PUT", "1", "of a prototype"],
    [HTTP, "DELETE", null, ""],
    [HTTP, "GET", null, ""],
  ]);
});

test("a signal that is null takes off that of the request", async () => {
  const some = policy({ engine: engine(), preset: "http", fetch: async () => new Response("sent") });
  const request = new Request(HTTP, { signal: AbortSignal.abort(new Error("left long ago")) });
  expect(await failure(some.fetch(request))).toMatchObject({ message: "left long ago" });
  expect(await (await some.fetch(request, { signal: null })).text()).toBe("sent");
});

test("headers that can be read once go out with each attempt", async () => {
  const sent: unknown[] = [];
  const some = policy({
    engine: engine(),
    preset: "http",
    retry: { ...RETRY, budget: "none" },
    idempotencyKey: true,
    fetch: async (_, init) => {
      sent.push(new Headers(init?.headers).get("authorization"));
      return new Response(null, { status: sent.length % 2 === 1 ? 503 : 200 });
    },
  });
  const headers = () => new Map([["authorization", "mine"]]).entries() as unknown as HeadersInit;
  await some.fetch(HTTP, { method: "GET", headers: headers() });
  await some.fetch(HTTP, { method: "POST", headers: headers() });
  await some.fetch(HTTP, Object.create({ method: "PUT", headers: headers() }) as RequestInit);
  expect(sent).toEqual(Array.from({ length: 6 }, () => "mine"));
  const dispatched: unknown[] = [];
  const dispatch = interceptor(some)((options, handler) => {
    dispatched.push(
      new Request(HTTP, { headers: pairsOf(options.headers as string[]) }).headers.get("authorization"),
    );
    const controller = { pause() {}, resume() {}, abort() {} } as never;
    handler.onResponseStart?.(controller, dispatched.length === 1 ? 503 : 200, {});
    handler.onResponseEnd?.(controller, {});
    return true;
  });
  await new Promise<void>((done) =>
    dispatch(
      { origin: HTTP, path: "/", method: "POST", headers: headers() as never },
      { onRequestStart: () => undefined, onResponseEnd: () => done() },
    ),
  );
  expect(dispatched).toEqual(["mine", "mine"]);
});

function pairsOf(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, at) =>
    at % 2 === 0 ? [[name, flat[at + 1] as string] as [string, string]] : [],
  );
}

test("a dispatcher that reports an error and then throws ends the request with one of them", async () => {
  const dispatch = interceptor(policy({ engine: engine(), preset: "http", retry: { maxAttempts: 1 } }))(
    (_, handler) => {
      handler.onResponseError?.({} as never, new Error("reported"));
      throw new Error("thrown");
    },
  );
  const error = await new Promise((onResponseError) =>
    dispatch(
      { origin: HTTP, path: "/", method: "GET" },
      { onRequestStart: () => undefined, onResponseError: (_, error) => onResponseError(error) },
    ),
  );
  expect(error).toMatchObject({ message: "thrown" });
});

test("a listener that makes events changes the order of none", async () => {
  const some = policy({ engine: engine(), retry: RETRY });
  const calls: Promise<unknown>[] = [];
  some.on("attempt_started", () => {
    if (calls.length < 3) calls.push(some.run(() => 1));
  });
  const seen: number[] = [];
  some.on("*", ({ seq }) => void seen.push(seq));
  await some.run(() => 1);
  await Promise.all(calls);
  expect(seen).toEqual(Array.from({ length: 12 }, (_, place) => place + 1));
});

test("a body is closed that is being looked into when its attempt is stopped", async () => {
  const clock = new FakeClock();
  let cancelled = 0;
  const some = policy({
    engine: engine({ clock }),
    attemptTimeout: 30,
    retry: { readErrors: true, maxAttempts: 1 },
    fetch: async () =>
      new Response(
        new ReadableStream({
          cancel: () => {
            cancelled += 1;
          },
        }),
        { status: 503 },
      ),
  });
  expect(await clock.run(failure(some.fetch(HTTP)))).toMatchObject({ code: "attempt_timeout" });
  await clock.advance(2000);
  expect(cancelled).toBe(1);
});

test("a handler of undici that throws at the end of its call ends no process", async () => {
  const some = policy({ engine: engine(), name: "handlers", deadline: 5000 });
  const fail = interceptor(some)((_, handler) => {
    handler.onResponseError?.({} as never, new Error("reported"));
    return true;
  });
  const answer = interceptor(some)((_, handler) => {
    const controller = { pause() {}, resume() {}, abort() {} } as never;
    handler.onRequestStart?.(controller, {});
    handler.onResponseStart?.(controller, 200, {});
    handler.onResponseEnd?.(controller, {});
    return true;
  });
  const heard: string[] = [];
  const send = (dispatch: typeof fail, abort = false) =>
    dispatch(
      { path: "/", method: "GET", origin: "http://here.test" },
      {
        onRequestStart: (controller) => abort && controller.abort(new Error("given up")),
        onResponseEnd() {
          throw new Error("at the end");
        },
        onResponseError(_, { message }) {
          heard.push(message);
          throw new Error("in the handler");
        },
      },
    );
  send(fail);
  send(answer);
  send(fail, true);
  await new Promise((done) => setImmediate(done)); // a rejection that nobody handles would fail the test
  expect(heard.sort()).toEqual(["at the end", "given up", "reported"]);
  expect(told).toEqual(Array(3).fill("tidegate: the handler of a request failed: Error: in the handler"));
});
