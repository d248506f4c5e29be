/** Judgement of errors of plain functions: real errors, `on`, notes and nesting (semantics 1.5, 1.6). */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { KIND_UNIT, KINDS, RETRY_AFTER_UNIT } from "../ts/engine/wire.js";
import { judge, UNLISTED } from "../ts/errors/judge.js";
import { Engine, type PolicyOptions, policy, reportOf } from "../ts/node.js";
import { Here, ROWS } from "./errors.table.js";

const PAGE = fileURLToPath(new URL("../../docs/errors-javascript.md", import.meta.url));
const AT_ONCE = { maxAttempts: 3, backoff: { base: 0, max: 0, jitter: "none" }, budget: null } as const;
const engine = new Engine({ seed: 1 });
const make = (more: PolicyOptions = {}) => policy({ retry: AT_ONCE, engine, ...more });

/** The class of an error under a policy, and the wait that it asks for, in milliseconds. */
function judged(error: unknown, by = make()): { kind: string; wait: number; unlisted: boolean } {
  const outcome = judge(error, by.core);
  const unlisted = outcome === UNLISTED;
  const kind = unlisted ? "permanent" : String(KINDS[Math.floor(outcome / KIND_UNIT) % 32]);
  return { kind, wait: unlisted ? 0 : Math.floor(outcome / RETRY_AFTER_UNIT), unlisted };
}

async function failure(work: () => unknown): Promise<unknown> {
  try {
    await work();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

test("an error without a name and a code is unknown, also where no word means throttled", () => {
  const nameless = Object.assign(new Error("no words"), { name: "", code: "" });
  expect(judged(nameless)).toEqual({ kind: "permanent", wait: 0, unlisted: true });
});

/** The number of times that the policy calls `work`, and the result. */
async function tries(
  by: ReturnType<typeof make>,
  work: (attempt: number) => unknown,
): Promise<[number, unknown]> {
  let made = 0;
  const result = await by
    .run(async () => {
      made += 1;
      return await work(made);
    })
    .catch((error: unknown) => error);
  return [made, result];
}

const fails = (error: unknown) => () => {
  throw error;
};

class Mine extends Error {}

describe("a real error has the class of the table", () => {
  for (const { library, error, how, expected, make: raise } of ROWS) {
    test(`${library}: ${error}, ${how}`, async () => {
      const here = new Here();
      try {
        const raised = (await failure(() => raise(here))) as Error;
        expect(raised.constructor.name, String(raised)).toBe(error);
        const { cause, code } = raised as { cause?: unknown; code?: unknown };
        expect(judged(raised).kind, `${raised} ${String(code)} ${String(cause)}`).toBe(expected);
      } finally {
        here.close();
      }
    });
  }

  test("the page lists them", () => {
    const lines = ROWS.map(
      ({ library, error, how, expected }) => `| ${library} | \`${error}\` | ${how} | ${expected} |`,
    );
    const text = `# Errors that JavaScript's libraries raise, and what they mean

Each line is an error that the tests raise for real, with the library itself (\`bindings-wasm/tests/errors.table.ts\`, from which this page is made).
[errors.md](errors.md) has the rules and the whole table.

| Library | Error | How it was made | Class |
|---|---|---|---|
${lines.join("\n")}
`;
    if (process.env["UPDATE"] !== undefined) writeFileSync(PAGE, text);
    expect(readFileSync(PAGE, "utf8"), "UPDATE=1 writes the page").toBe(text);
    expect(ROWS.length).toBeGreaterThanOrEqual(40);
  });
});

describe("what is judged", () => {
  test("a status wherever it is, with its Retry-After", () => {
    for (const error of [
      { status: 503 },
      { statusCode: 503 },
      { response: { status: 503 } },
      { response: { statusCode: 503 } },
      { $metadata: { httpStatusCode: 503 } },
    ]) {
      expect(judged(error)).toEqual({ kind: "transient", wait: 0, unlisted: false });
    }
    for (const headers of [
      { "retry-after": "7" },
      new Headers({ "retry-after": "7" }),
      new Map([["retry-after", "7"]]),
      [["Retry-After", "7"]],
    ]) {
      expect(judged({ status: 429, headers })).toEqual({ kind: "throttled", wait: 7001, unlisted: false });
      expect(judged({ response: { status: 429, headers } }).wait).toBe(7001);
    }
    for (const status of ["503", true, 200, 600, 503.5, Number.NaN, null]) {
      expect(judged({ status }).unlisted).toBe(true);
    }
    expect(judged({ name: "ThrottlingException", $metadata: { httpStatusCode: 400 } }).kind).toBe(
      "throttled",
    );
  });

  test("codes of gRPC and SQLSTATEs", () => {
    const metadata = { getMap: () => ({ "grpc-retry-pushback-ms": "250" }) };
    expect(judged({ code: 14, metadata })).toEqual({ kind: "transient", wait: 251, unlisted: false });
    expect(judged({ code: 8, metadata: {} }).kind).toBe("throttled");
    expect(judged({ code: 10, metadata: {} }).kind).toBe("conflict");
    expect(judged({ code: 3, metadata: {} }).kind).toBe("permanent");
    expect(judged({ code: 14 }).unlisted).toBe(true);
    expect(judged({ severity: "ERROR", code: "40001" }).kind).toBe("conflict");
    expect(judged({ severity: "ERROR", code: "23505" }).kind).toBe("permanent");
    expect(judged({ sqlState: "08S01", code: "ECONNRESET" }).kind).toBe("transient");
  });

  test("causes, eight deep and each once; groups whose members all may pass", () => {
    const chain = (length: number): unknown =>
      length === 1
        ? Object.assign(new Error("reset"), { code: "ECONNRESET" })
        : new Mine("outer", { cause: chain(length - 1) });
    expect(judged(chain(2)).kind).toBe("transient");
    expect(judged(chain(8)).kind).toBe("transient");
    expect(judged(chain(9)).unlisted).toBe(true);
    const cycle = new Mine("cycle");
    cycle.cause = cycle;
    expect(judged(cycle).unlisted).toBe(true);
    expect(judged(new AggregateError([chain(1), chain(2)])).kind).toBe("transient");
    expect(judged(new AggregateError([chain(1), new Mine("no")])).unlisted).toBe(true);
    let deep = new AggregateError([chain(1), chain(1)]);
    for (let depth = 0; depth < 30; depth += 1) deep = new AggregateError([deep, deep]);
    expect(judged(deep).unlisted).toBe(true);
  });

  test("nothing of an error that cannot be looked at", () => {
    const hostile = new Proxy(new Error("hostile"), {
      get() {
        throw new Error("get");
      },
      getPrototypeOf: () => Mine.prototype,
    });
    for (const odd of [hostile, null, undefined, "text", 5, () => 1, Object.create(null)]) {
      expect(judged(odd).unlisted).toBe(true);
    }
    const forged = { status: 503, headers: hostile };
    expect(judged(forged).kind).toBe("transient");
  });
});

describe("errors that nothing is known of", () => {
  test("are not repeated, and their note says how to", async () => {
    const error = new Mine("no");
    expect(await tries(make(), fails(error))).toEqual([1, error]);
    expect(reportOf(error)?.note).toBe(
      "not retried: Mine is not listed as an error that may pass; to repeat it: on: [Mine], or classify",
    );
    const bare = new Mine("no retries");
    await tries(policy({ bulkhead: { maxConcurrency: 1 }, engine }), fails(bare));
    expect(reportOf(bare)?.note).toBeUndefined();
    const found = Object.assign(new Mine("not found"), { status: 404 });
    await tries(make(), fails(found));
    expect(reportOf(found)?.note).toBeUndefined();
  });

  test("are repeated where `on` names them, and `classify` goes before it", async () => {
    const by = make({ on: [Mine, SyntaxError] });
    expect((await tries(by, fails(new Mine("a"))))[0]).toBe(3);
    expect((await tries(by, fails(Object.assign(new Mine("b"), { status: 500 }))))[0]).toBe(3);
    expect((await tries(by, fails(new TypeError("c"))))[0]).toBe(1);
    const told = make({ on: [Mine], classify: (value) => (value instanceof Mine ? "permanent" : undefined) });
    expect((await tries(told, fails(new Mine("d"))))[0]).toBe(1);
  });

  test("`on` takes classes alone", () => {
    for (const on of [[], Mine, ["Mine"], "Mine", 5]) {
      expect(() => make({ on: on as never })).toThrow(/on = .*must be an array of classes of errors/);
    }
  });
});

describe("a policy around another", () => {
  test("keeps what that one repeats: errors, kinds and failed answers", async () => {
    const inners: PolicyOptions[] = [
      { on: [Mine] },
      { classify: (value) => (value instanceof Mine ? "throttled" : undefined) },
      {
        kinds: { mine: "conflict" },
        classify: (value) => (value instanceof Mine ? "mine" : undefined),
      },
    ];
    for (const options of inners) {
      const inner = make(options);
      const work = (attempt: number) => inner.run(() => (attempt < 3 ? fails(new Mine("m"))() : "done"));
      expect(await tries(make(), work)).toEqual([3, "done"]);
    }
    let asked = 0;
    const { fetch } = make({
      fetch: async () => {
        asked += 1;
        return new Response("", { status: asked < 3 ? 503 : 200 });
      },
    });
    const [made, answer] = await tries(make(), () => fetch("http://h/"));
    expect([made, asked, (answer as Response).status]).toEqual([3, 3, 200]);
    await (answer as Response).text();
  });

  test("does not repeat what that one must not, and takes a judgement once", async () => {
    const reset = Object.assign(new Error("reset"), { code: "ECONNRESET" });
    const inner = make().at({ idempotent: false });
    expect((await tries(make(), () => inner.run(fails(reset))))[0]).toBe(1);
    const error = new Mine("once");
    const knows = make({ on: [Mine] });
    expect((await tries(make(), () => knows.run(fails(error))))[0]).toBe(3);
    expect((await tries(make(), fails(error)))[0]).toBe(1);
  });
});

afterAll(() => {
  expect(engine.snapshot().live).toBe(0);
});
