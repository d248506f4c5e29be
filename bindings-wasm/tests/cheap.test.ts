/**
 * What calls do not spend: reading what a function returns, parsing a known origin again. What `policy.fetch` keeps: signals of the platform.
 */

import { afterEach, describe, expect, test, vi } from "vitest";
import { policy } from "../ts/node.js";
import { failure, reset } from "./support/functions.js";
import { log, origin, stats, until } from "./support/server.js";
import { engine } from "./support/setup.js";

afterEach(() => {
  vi.unstubAllGlobals();
});

describe("results", () => {
  test("an error that an inner call has left makes no later result be read", async () => {
    const retry = { maxAttempts: 2, backoff: { base: 0 } } as const;
    const outer = policy({ engine: engine(), retry });
    const inner = policy({ engine: outer.engine, retry });
    await failure(outer.run(() => inner.run(() => Promise.reject(reset()))));
    let reads = 0;
    const result = {
      get context() {
        reads += 1;
        return {};
      },
    };
    const seen: unknown[] = [];
    seen.push(await outer.run(() => result));
    seen.push(await outer.run(() => inner.run(() => result)));
    expect([seen, reads]).toEqual([[result, result], 0]);
  });

  test("an error that a function returns is judged as the inner call has left it", async () => {
    const retry = { maxAttempts: 2, backoff: { base: 0 } } as const;
    const outer = policy({ engine: engine(), retry });
    const inner = policy({ engine: outer.engine, retry });
    let made = 0;
    const error = await outer.run(() => {
      made += 1;
      return inner.run(() => Promise.reject(reset())).catch((error: unknown) => error);
    });
    expect([error, made]).toMatchObject([{ message: "reset" }, 2]);
  });
});

describe("signals", () => {
  test("a fetch that is not Node's own gets a signal of the platform", async () => {
    const url = await origin({ fault: "hang" });
    const seen: AbortSignal[] = [];
    const own = globalThis.fetch;
    vi.stubGlobal("fetch", (input: string, init: RequestInit) => {
      const signal = init.signal as AbortSignal;
      seen.push(signal);
      return own(input, { ...init, signal: AbortSignal.any([signal, AbortSignal.timeout(60_000)]) });
    });
    const some = policy({ engine: engine(), attemptTimeout: 50 });
    await expect(some.fetch(url)).rejects.toMatchObject({ reason: "attempt_timeout" });
    expect(seen.map(({ aborted }) => aborted)).toEqual([true]);
    vi.unstubAllGlobals();
    await until(async () => (await stats()).in_flight === 0);
  });

  test("a fetch of the policy's own does too", async () => {
    let kind: unknown;
    const send = async (_: unknown, init?: RequestInit) => {
      kind = AbortSignal.any([init?.signal as AbortSignal]).aborted;
      return new Response("ok");
    };
    const some = policy({ engine: engine(), retry: {}, fetch: send as typeof fetch });
    expect(await (await some.fetch("http://one.test/")).text()).toBe("ok");
    expect(kind).toBe(false);
  });

  test("what stops an attempt of Node's own fetch closes its connection", async () => {
    const url = await origin({ fault: "hang" }, { fault: "hang" }, 200);
    const some = policy({ engine: engine(), attemptTimeout: 500, retry: { backoff: { base: 1, max: 2 } } });
    expect(await (await some.fetch(url)).text()).toBe("OK\n");
    expect((await log()).length).toBe(3);
    await until(async () => (await stats()).in_flight === 0);
  });

  test("a signal without a reason of its own aborts as the platform's does", async () => {
    const url = await origin({ fault: "hang" });
    const controller = new AbortController();
    const call = policy({ engine: engine(), retry: {} }).fetch(url, { signal: controller.signal });
    await until(async () => (await stats()).requests === 1);
    controller.abort();
    await expect(call).rejects.toBe(controller.signal.reason);
  });
});

describe("routes", () => {
  // Each is the origin that the platform's parser finds, whatever the spelling.
  test.each([
    ["http://one.test/a?b=http://two.test/", "http://one.test:80"],
    ["http://one.test/", "http://one.test:80"],
    ["http://one.test", "http://one.test:80"],
    ["http://one.test?a=/", "http://one.test:80"],
    ["http://one.test#/", "http://one.test:80"],
    ["https://one.test:443/a", "https://one.test:443"],
    ["https://ONE.test:8443/a", "https://one.test:8443"],
    ["HTTP://one.test/a", "http://one.test:80"],
    ["http://one.test\\a/b", "http://one.test:80"],
    ["http:\\\\one.test\\a", "http://one.test:80"],
    ["http://user:two.test@one.test/a", "http://one.test:80"],
    [" http://one.test/a", "http://one.test:80"],
    ["http://one\t.test/a", "http://one.test:80"],
    ["http://one%2etest/a", "http://one.test:80"],
    ["http://b\u00fccher.test/a", "http://xn--bcher-kva.test:80"],
    ["http://[::1]:8080/a", "http://[::1]:8080"],
    ["http://0x7f.1/a", "http://127.0.0.1:80"],
    ["http://one.test:99999/a", "default"],
    ["/a", "default"],
  ])("of %j", async (url, route) => {
    const lab = engine();
    const some = policy({
      engine: lab,
      name: "some",
      retry: {},
      fetch: (async () => new Response("")) as typeof fetch,
    });
    for (let turn = 0; turn < 2; turn += 1) await (await some.fetch(url)).text();
    await (await some.fetch(url, { method: "POST" })).text();
    expect(lab.snapshot().routes.map(({ key }) => key)).toEqual([route]);
  });
});
