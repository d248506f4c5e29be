/** Policies that are no longer referenced are released, and a definition that runs again changes its policy (J3, J6). */

import { expect, test, vi } from "vitest";
import { definedIn } from "../ts/engine/place.js";
import { Engine, PolicyError, policy } from "../ts/node.js";

const RETRY = { retry: { maxAttempts: 2, backoff: { base: 0 } } };

/** Collects garbage until the condition holds; vitest runs with --expose-gc. */
async function collected(is: () => boolean): Promise<void> {
  const { gc } = globalThis as { gc?: () => void };
  if (gc === undefined) throw new Error("the tests run with --expose-gc");
  for (let turn = 0; turn < 200 && !is(); turn += 1) {
    gc();
    await new Promise((done) => setTimeout(done, 1));
  }
  expect(is()).toBe(true);
}

test("unnamed policies that nobody holds leave nothing in the engine (J3)", async () => {
  const engine = new Engine({ seed: 7 });
  const held = policy({ engine, ...RETRY });
  for (let number = 0; number < 500; number += 1) await policy({ engine, ...RETRY }).run(() => number);
  await collected(() => engine.wanted.size === 1);
  expect(Object.keys(engine.snapshot().policies)).toEqual([held.name]);
  expect(engine.snapshot().routes).toHaveLength(0);
});

test("a call, a caller and a listener hold their policy", async () => {
  const engine = new Engine({ seed: 7 });
  let end = (_: number) => {};
  const running = policy({ engine, ...RETRY }).run(() => new Promise<number>((done) => (end = done)));
  const caller = policy({ engine, ...RETRY }).at({ route: "a" });
  const heard: string[] = [];
  policy({ engine, name: "heard", ...RETRY }).on("*", ({ type }) => heard.push(type));
  await policy({ engine, ...RETRY }).run(() => 1); // is collected
  await collected(() => engine.wanted.size === 3);
  end(1);
  expect(await running).toBe(1);
  expect(await caller.run(() => 2)).toBe(2);
  await policy({ engine, name: "heard", ...RETRY }).run(() => 3);
  expect(heard).toContain("call_done");
});

test("a named policy keeps what it owes while nobody holds it", async () => {
  const engine = new Engine({ seed: 7 });
  const settings = { engine, name: "quota", rateLimit: { permits: 1, per: 3_600_000 } };
  await policy(settings).run(() => 1);
  await collected(() => engine.wanted.size === 0);
  await expect(policy(settings).run(() => 2)).rejects.toThrow("rate");
});

test("a definition that runs again in its file changes the policy, and says so (J6)", async () => {
  const engine = new Engine({ seed: 7 });
  const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  try {
    const before = policy({ engine, name: "orders", retry: { maxAttempts: 2 } });
    const after = policy({ engine, name: "orders", retry: { maxAttempts: 5 } });
    expect([before.explain().maxAttempts, after.explain().maxAttempts]).toEqual([5, 5]);
    expect(warn.mock.calls.map(String)).toEqual([
      expect.stringContaining('policy "orders" is defined again in '),
    ]);
    expect(() => policy({ engine, name: "orders", retry: { maxAttempts: 0 } })).toThrow(PolicyError);
    expect(after.explain().maxAttempts).toBe(5);
  } finally {
    warn.mockRestore();
  }
});

test("another file's policy of the same name, with other settings, is an error with the ways out", async () => {
  const engine = new Engine({ seed: 7 });
  const held = policy({ engine, name: "orders", retry: { maxAttempts: 2 } });
  const elsewhere = new Function("policy", "options", "return policy(options)");
  expect(() => elsewhere(policy, { engine, name: "orders", retry: { maxAttempts: 5 } })).toThrow(
    /somebody holds a policy of this name with other settings: `retune` that one/,
  );
  expect(held.explain().maxAttempts).toBe(2);
});

test("a file is its address without what a development server adds", () => {
  expect(definedIn(definedIn)).toMatch(/owners\.test\.ts$/);
  const hook = Error.prepareStackTrace;
  try {
    for (const [frame, file] of [
      ["    at http://localhost:5173/src/api.ts?t=1763:3:5", "http://localhost:5173/src/api.ts"],
      ["    at eval (webpack-internal:///(app)/./src/api.ts:3:5)", "webpack-internal:///(app)/./src/api.ts"],
      ["    at Object.<anonymous> (/srv/a b/api.js:1:7)", "/srv/a b/api.js"],
      ["    at <anonymous>:1:7", undefined],
    ]) {
      Error.prepareStackTrace = () => `Error\n${frame}`;
      expect(definedIn(definedIn)).toBe(file);
    }
    Error.prepareStackTrace = () => {
      throw new Error("a hook of the program's own");
    };
    expect(definedIn(definedIn)).toBeUndefined();
  } finally {
    if (hook === undefined) Reflect.deleteProperty(Error, "prepareStackTrace");
    else Error.prepareStackTrace = hook;
  }
});
