/** What a call leaves with its result for the call around it, and for no other (semantics 1.6). */

import { Agent, request } from "undici";
import { describe, expect, test } from "vitest";
import { KIND_UNIT, KINDS, OPINION_UNIT, OPINIONS, packOutcome } from "../ts/engine/wire.js";
import { judge } from "../ts/errors/judge.js";
import { valuesLeft } from "../ts/errors/marks.js";
import { type PolicyOptions, policy } from "../ts/node.js";
import { interceptor } from "../ts/undici.js";
import { failure, reset } from "./support/functions.js";
import { origin, stats } from "./support/server.js";
import { engine } from "./support/setup.js";

const twice = { maxAttempts: 2, backoff: { base: 0 }, budget: "none" } as const;

function some(options: PolicyOptions = {}) {
  const lab = engine();
  const make = (more: PolicyOptions = {}) => policy({ engine: lab, retry: twice, ...more });
  return { outer: make({ name: "outer" }), inner: make({ name: "inner", ...options }), make };
}

/** How many attempts a policy's call makes. */
async function attempts(of: { run(work: () => unknown): Promise<unknown> }, work: () => unknown) {
  let made = 0;
  const result = await of
    .run(() => {
      made += 1;
      return work();
    })
    .catch(() => undefined);
  if (result instanceof Response) await result.text();
  return made;
}

/** Answers with this status, each time with a new response. */
const answering = (status: number) => async () => new Response("no", { status });

describe("a judgement is for the call around, and for no other", () => {
  test("an error that many calls throw", async () => {
    class Shared extends Error {}
    const shared = new Shared("the same object each time");
    const { outer, inner, make } = some({ on: [Shared] });
    const bad = () => {
      throw shared;
    };
    await expect(outer.run(() => inner.run(bad).catch(() => "replaced"))).resolves.toBe("replaced");
    expect(await attempts(make(), bad)).toBe(1);
    expect(await attempts(outer, () => inner.run(bad))).toBe(2);
  });

  test("a value that many calls return", async () => {
    const { outer, inner, make } = some({ classify: (it) => (it === false ? "transient" : undefined) });
    await outer.run(async () => {
      await inner.run(() => false);
      return "replaced";
    });
    expect(await attempts(make(), () => false)).toBe(1);
    expect(await attempts(outer, () => inner.run(() => false))).toBe(2);
    expect(await attempts(outer, () => false)).toBe(1);
  });

  test("a thrown value that is no object", async () => {
    const { outer, inner } = some({ classify: (it) => (it === "busy" ? "transient" : undefined) });
    const bad = () => {
      throw "busy";
    };
    expect(await attempts(outer, () => inner.run(bad))).toBe(2);
    expect(await attempts(outer, bad)).toBe(1);
  });

  test("a value is forgotten once its judgement has been taken", async () => {
    const { outer, inner } = some({ classify: () => "transient" });
    const left: number[] = [];
    const work = (n: number) => async () => {
      const answer = await inner.run(() => `answer ${n}`);
      left.push(valuesLeft(outer.engine));
      return answer;
    };
    for (let n = 0; n < 10; n += 1) await outer.run(work(n));
    expect([Math.min(...left), Math.max(...left), valuesLeft(outer.engine)]).toEqual([1, 1, 0]);
  });

  test("of values that no call asks for the newest are kept", async () => {
    const { outer, inner } = some({ classify: () => "transient" });
    const work = async () => {
      for (let n = 0; n < 64; n += 1) await inner.run(() => `answer ${n}`);
      await inner.run(() => "answer 0");
      await inner.run(() => "one more");
      return "answer 0";
    };
    expect(await attempts(outer, work)).toBe(2);
    expect(valuesLeft(outer.engine)).toBeLessThanOrEqual(64);
  });

  test("a function that returns nothing has not returned the inner call's result", async () => {
    const { outer, inner } = some({ classify: () => "transient" });
    const work = async () => {
      await inner.run(() => undefined);
    };
    expect(await attempts(outer, work)).toBe(1);
  });
});

test("an inner call's error keeps its judgement as the cause of another one", async () => {
  const { outer, inner } = some();
  const once = inner.at({ idempotent: false });
  const wrapped = async () => {
    throw new Error("the SDK's own", { cause: await failure(once.run(() => Promise.reject(reset()))) });
  };
  expect(await attempts(outer, wrapped)).toBe(1);
  const grouped = async () => {
    throw new AggregateError([reset(), await failure(once.run(() => Promise.reject(reset())))]);
  };
  expect(await attempts(outer, grouped)).toBe(1);
});

describe("an error with the status of an answer that must not be repeated (1.6.7)", () => {
  const signal = new AbortController().signal;

  /** Errors as clients make them: with the answer, with its status and headers, or as the cause of another one. */
  const errors: [string, (answer: Response) => unknown][] = [
    ["has the answer", (answer) => Object.assign(new Error("ky"), { response: answer })],
    [
      "has an answer of the client's own",
      ({ status }) => Object.assign(new Error("axios"), { response: { status } }),
    ],
    ["has its status", ({ status }) => Object.assign(new Error("openai"), { status })],
    ["is a cause", ({ status }) => new Error("SDK", { cause: Object.assign(new Error("own"), { status }) })],
  ];

  /** A client over a policy's `fetch`, which throws where an answer has failed. */
  const client =
    (inner: ReturnType<typeof some>["inner"], method: string, error: (answer: Response) => unknown) =>
    async () => {
      const answer = await inner.fetch("http://here.test/", { method, signal });
      await answer.text();
      if (!answer.ok) throw error(answer);
    };

  test.each(errors)("%s", async (_, error) => {
    const { outer, inner, make } = some({ preset: "http", fetch: answering(503) });
    expect(await attempts(outer, client(inner, "POST", error))).toBe(1);
    expect(await attempts(outer, client(inner, "GET", error))).toBe(2);
    const other = engine();
    const foreign = policy({ name: "foreign", engine: other, retry: twice });
    expect(await attempts(foreign, client(inner, "POST", error))).toBe(1);
    expect(await attempts(make({ on: [Error] }), client(inner, "POST", error))).toBe(2);
    expect(await attempts(make({ classify: () => "transient" }), client(inner, "POST", error))).toBe(2);
  });

  test("is another's with another status, in another call, or as a value", async () => {
    const { outer, inner, make } = some({ preset: "http", fetch: answering(503) });
    const post = client(inner, "POST", ({ status }) =>
      Object.assign(new Error("own"), { status: status - 1 }),
    );
    expect(await attempts(outer, post)).toBe(2);
    const failing = () => Promise.reject(Object.assign(new Error("own"), { status: 503 }));
    await attempts(
      outer,
      client(inner, "POST", () => new Error("without a status")),
    );
    expect(await attempts(outer, failing)).toBe(2);
    const beside = make();
    const both = async () => {
      await beside.run(client(inner, "POST", () => new Error("no"))).catch(() => undefined);
      await failing();
    };
    expect(await attempts(outer, both)).toBe(2);
    let made = 0;
    await outer.run(async () => {
      made += 1;
      const answer = await inner.fetch("http://here.test/", { method: "POST" });
      await answer.text();
      return answer.status;
    });
    expect(made).toBe(1);
  });

  test("is that of an inner call's error, too", async () => {
    const { outer, inner } = some();
    const once = inner.at({ idempotent: false });
    const work = async () => {
      const error = await failure(
        once.run(() => Promise.reject(Object.assign(new Error(), { statusCode: 503 }))),
      );
      throw Object.assign(new Error("another"), { status: (error as { statusCode: number }).statusCode });
    };
    expect(await attempts(outer, work)).toBe(1);
  });
});

test("a group with a member that must not be repeated has the class of its first member (1.5.14)", () => {
  const { outer } = some();
  const busy = Object.assign(new Error("busy"), { status: 429 });
  const forbidden = new Error("written");
  const left = (error: unknown) =>
    error === forbidden ? packOutcome(KINDS.indexOf("transient"), OPINIONS.indexOf("do_not")) : undefined;
  for (const group of [
    [busy, forbidden],
    [busy, busy, forbidden, busy],
  ]) {
    const outcome = judge(new AggregateError(group), outer.core, left);
    expect(KINDS[Math.floor(outcome / KIND_UNIT) % 32]).toBe("throttled");
    expect(OPINIONS[Math.floor(outcome / OPINION_UNIT) % 4]).toBe("do_not");
  }
});

test("a fallback that is not used leaves the judgement to the call around", async () => {
  const { outer, make } = some();
  const inner = make({ fallback: () => undefined as never, retry: { ...twice, maxAttempts: 1 } });
  expect(
    await attempts(outer, () => inner.at({ idempotent: false }).run(() => Promise.reject(reset()))),
  ).toBe(1);
});

describe("the answer of a nested fetch", () => {
  const signal = new AbortController().signal;

  test.each([
    ["plain", {}, {}],
    ["that follows a signal", {}, { signal }],
    ["with a deadline", { deadline: 5000 }, {}],
  ])("is repeated by the call around: %s", async (_, options, init) => {
    const { outer, inner } = some({ preset: "http", fetch: answering(503), ...options });
    expect(await attempts(outer, () => inner.fetch("http://here.test/", init))).toBe(2);
  });

  test("forbids no repeat where the policy reads errors (15.8.6)", async () => {
    const retry = { ...twice, readErrors: true };
    const { outer, inner } = some({ preset: "llm", retry, fetch: answering(503) });
    const forbids: unknown[] = [];
    const made = await attempts(outer, async () => {
      const answer = await inner.fetch("http://here.test/");
      forbids.push(answer.headers.get("x-should-retry"));
      return answer;
    });
    expect([made, forbids]).toEqual([2, [null, null]]);
    const alone = await inner.fetch("http://here.test/");
    expect(alone.headers.get("x-should-retry")).toBe("false");
    await alone.text();
  });

  test("is judged so by a fetch around it", async () => {
    let sent = 0;
    const counted = async () => {
      sent += 1;
      return new Response("no", { status: 500 });
    };
    const { inner, make } = some({ preset: "http", retry: { ...twice, statuses: [500] }, fetch: counted });
    await (await make({ preset: "http", fetch: inner.fetch }).fetch("http://here.test/")).text();
    expect(sent).toBe(2);
    const posts = make({
      preset: "http",
      fetch: (input, init) => inner.fetch(input, { ...init, method: "POST" }),
      retry: { ...twice, statuses: [500] },
    });
    await (await posts.fetch("http://here.test/")).text();
    expect(sent).toBe(3);
  });

  test("of undici too", async () => {
    const url = await origin(503, 503);
    const { outer, inner } = some({ preset: "http" });
    const dispatcher = new Agent().compose(interceptor(inner));
    expect(
      await attempts(outer, async () => {
        const answer = await request(url, { dispatcher });
        await answer.body.dump();
        return answer;
      }),
    ).toBe(2);
    expect((await stats()).requests).toBe(2);
    await dispatcher.close();
  });
});
