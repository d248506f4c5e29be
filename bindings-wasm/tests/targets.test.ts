/** Targets: attempts learn which model, provider or key they go to (semantics 17). */

import { Agent, request } from "undici";
import { describe, expect, test } from "vitest";
import {
  type Engine,
  load,
  NoTarget,
  type Policy,
  PolicyError,
  type PolicyOptions,
  policy,
  target,
} from "../ts/node.js";
import { FakeClock } from "../ts/testing.js";
import { interceptor } from "../ts/undici.js";
import { origin } from "./support/server.js";
import { engine } from "./support/setup.js";

const LADDER = {
  targets: {
    chat: {
      pick: "ladder",
      members: ["large", "small"],
      default: { breaker: { consecutive: 1, break_duration: "10s" } },
    },
  },
  policy: {
    chat: { targets: "chat", retry: { max_attempts: 3, backoff: { base: "1ms", max: "1ms" } } },
  },
};

function chat(document: object = LADDER, more: PolicyOptions = {}, lab: Engine = engine()): Policy {
  return load(document, { engine: lab, ...more }).get("chat");
}

const broken = () => Object.assign(new Error("down"), { code: "ECONNREFUSED" });

test("a function learns its target and fails over (17.4.1, 17.2.11)", async () => {
  const seen: unknown[] = [];
  const some = chat();
  const ask = async (attempt: { target?: string | undefined }) => {
    await Promise.resolve();
    seen.push([attempt.target, target()]);
    if (attempt.target === "large") throw broken();
    return `from ${attempt.target}`;
  };
  expect(target()).toBeUndefined();
  expect(await some.run(ask)).toBe("from small");
  expect(await some.run(ask), "the first one's breaker is open").toBe("from small");
  expect(seen).toEqual([
    ["large", "large"],
    ["small", "small"],
    ["small", "small"],
  ]);
  expect(target()).toBeUndefined();
});

test("an inner call without targets sees the target around it, and its attempt has none", async () => {
  const lab = engine();
  const inner = policy({ deadline: 5_000, engine: lab });
  const some = chat(LADDER, {}, lab);
  expect(await some.run(() => inner.run((attempt) => [attempt.target, target()]))).toEqual([
    undefined,
    "large",
  ]);
});

test("each attempt of a race keeps its own target (17.4.6)", async () => {
  const clock = new FakeClock();
  const hedge = { delay: "1ms", max_attempts: 2, budget: { kind: "none" } };
  const { targets } = LADDER;
  const some = chat({ targets, policy: { chat: { targets: "chat", hedge } } }, {}, engine({ clock }));
  const seen: unknown[] = [];
  let hedged = () => {};
  const other = new Promise<void>((done) => (hedged = done));
  const going = some.run(async (attempt) => {
    if (attempt.target === "large") await other; // the hedge is the newest attempt then
    seen.push([attempt.attempt, attempt.target, target()]);
    hedged();
    return attempt.target;
  });
  await clock.advance(1);
  expect(await going).toBe("small");
  await other;
  expect(seen).toEqual([
    [2, "small", "small"],
    [1, "large", "large"],
  ]);
});

test("no target is a rejection (17.3.1)", async () => {
  const some = chat();
  await expect(some.run(() => Promise.reject(broken()))).rejects.toThrow("down");
  const refused = await some.run(() => 7).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(NoTarget);
  expect(refused).toMatchObject({ code: "no_target", httpStatus: 503 });
  expect((refused as NoTarget).retryIn).toBeGreaterThan(0);
});

describe("the adapters map the target to a host", () => {
  test("fetch, by the policy's own fetch", async () => {
    const hosts: string[] = [];
    const some = chat(LADDER, {
      async fetch(input) {
        const url = new URL(input as string);
        url.hostname = `${target()}.example`;
        hosts.push(url.hostname);
        return new Response(url.hostname, { status: url.hostname === "large.example" ? 503 : 200 });
      },
    });
    const response = await some.fetch("https://chat.example/");
    expect([response.status, await response.text()]).toEqual([200, "small.example"]);
    expect(hosts).toEqual(["large.example", "small.example"]);
  });

  test("undici, by an interceptor within", async () => {
    const url = new URL(await origin(503, 200));
    const seen: unknown[] = [];
    const agent = new Agent();
    const dispatcher = agent
      .compose((dispatch) => (options, handler) => {
        seen.push(target());
        return dispatch({ ...options, origin: url.origin }, handler);
      })
      .compose(interceptor(chat()));
    const { statusCode, body } = await request(`http://chat.example${url.pathname}`, { dispatcher });
    await body.dump();
    expect([statusCode, seen]).toEqual([200, ["large", "small"]]);
    await agent.close();
  });
});

test("a snapshot shows the targets, and an operator closes one (17.2.14, 17.3.5)", async () => {
  const { targets } = LADDER;
  const retry = { max_attempts: 1 };
  const some = chat({
    targets: {
      chat: { ...targets.chat, default: { ...targets.chat.default, rate_limit: { permits: 5, per: "1m" } } },
    },
    policy: { chat: { targets: "chat", retry } },
  });
  await expect(
    some.run(() => {
      throw broken();
    }),
  ).rejects.toThrow("down");
  expect(await some.run(({ target }) => target)).toBe("small");
  const [large, small, ...rest] = some.engine.snapshot().targets;
  expect(rest).toEqual([]);
  expect(large).toMatchObject({
    group: "chat",
    name: "large",
    forced: false,
    attempts: 1,
    skipped: 1,
    inFlight: 0,
    estimate: null,
    pool: null,
    rate: { tokens: 4, limits: {} },
    breaker: { state: "open" },
  });
  expect(large?.breaker?.retryIn).toBeGreaterThan(9_000);
  expect(small).toMatchObject({ name: "small", attempts: 1, skipped: 0, breaker: { state: "closed" } });
  expect(small?.estimate).toBeGreaterThan(0);

  some.forceTarget("large", false);
  expect(await some.run(({ target }) => target), "its breaker is reset").toBe("large");
  some.forceTarget("large");
  expect(await some.run(({ target }) => target)).toBe("small");
  expect(some.engine.snapshot().targets.map(({ forced }) => forced)).toEqual([true, false]);
  expect((await some.engine.snapshotInPages()).targets).toEqual(some.engine.snapshot().targets);
  expect(() => some.forceTarget("none")).toThrow(/target = chat\/none: there is no such target/);
  expect(() => policy({ retry: {}, engine: some.engine }).forceTarget("large")).toThrow(PolicyError);
});

test("a reload changes the members of a group (17.1.8)", async () => {
  const policies = load(LADDER, { engine: engine() });
  expect(await policies.get("chat").run(() => target())).toBe("large");
  const text = JSON.stringify(LADDER).replace('["large","small"]', '["tiny","large"]');
  const { added, changed, removed } = policies.reload(text);
  expect([added, changed, removed]).toEqual([[], ["targets.chat"], []]);
  expect(await policies.get("chat").run(() => target())).toBe("tiny");
});

test("mistakes of a group name key, value and rule (17.1.2)", () => {
  const text = JSON.stringify(LADDER).replace('"ladder"', '"steps"');
  expect(() => chat(JSON.parse(text))).toThrow(PolicyError);
  expect(() => chat(JSON.parse(text))).toThrow(
    'targets.chat.pick = "steps": must be one of ladder, balanced',
  );
});
