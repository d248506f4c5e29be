/** Platforms that compile no WebAssembly, or not at once: each is told what to do (J14). */

import { afterEach, expect, test, vi } from "vitest";
import { Engine, policy } from "../ts/node.js";
import { alone } from "./support/copies.js";
import { engine } from "./support/setup.js";
import { wasm } from "./support/wasm.js";

const real = WebAssembly;

afterEach(() => vi.unstubAllGlobals());

/** The package where `WebAssembly` is this, with the module in the code, as `tidegate/inline` has it. */
async function platform(assembly: unknown) {
  vi.stubGlobal("WebAssembly", assembly);
  alone();
  const main = await import("../ts/main.js");
  const { provide } = await import("../ts/engine/module.js");
  provide({ now: () => wasm("tidegate"), later: async () => wasm("tidegate") });
  const engine = new main.Engine({ seed: 1, nesting: false });
  return { ...main, some: main.policy({ engine, retry: {} }) };
}

/** `WebAssembly` whose synchronous compiles fail, and others if `all`. */
function refusing(error: Error, all: boolean): object {
  class Module {
    constructor() {
      throw error;
    }

    static [Symbol.hasInstance](value: unknown): boolean {
      return value instanceof real.Module;
    }

    static imports = real.Module.imports;
  }
  const compile = all ? () => Promise.reject(error) : real.compile;
  return {
    Module,
    compile,
    instantiate: real.instantiate,
    CompileError: real.CompileError,
    Instance: real.Instance,
  };
}

const failed = (work: Promise<unknown>) => work.then(String, (error: Error) => error);

test("without WebAssembly every call fails with one error of ours that says what to do", async () => {
  const { some, ModuleUnavailable } = await platform(undefined);
  const error = (await failed(some.run(() => 1))) as Error;
  expect(error).toBeInstanceOf(ModuleUnavailable);
  expect(error.message).toBe(
    "this platform has no WebAssembly, which the engine needs; React Native has none: let your server make the calls",
  );
});

test("a limit on synchronous compiles, as Chrome has one, delays the first call only", async () => {
  const limit = new RangeError(
    "WebAssembly.Compile is disallowed on the main thread, if the buffer size is larger than 4KB.",
  );
  const { some } = await platform(refusing(limit, false));
  expect(await some.run(() => 1)).toBe(1);
  expect(some.snapshot().attempts).toBe(1);
});

test("an edge runtime that compiles no bytes is told to import the module, and not of a page's policy", async () => {
  const embedder = new real.CompileError("WebAssembly.Module(): Wasm code generation disallowed by embedder");
  const { some, ModuleUnavailable } = await platform(refusing(embedder, true));
  const error = (await failed(some.run(() => 1))) as Error;
  expect(error).toBeInstanceOf(ModuleUnavailable);
  expect(error.message).toContain(
    'import "tidegate/tidegate.wasm" as a module, and await ready({ from: it })',
  );
  expect(error.message).not.toContain("Content-Security-Policy");
});

test("a page whose policy forbids WebAssembly is not left blank: policy() works, and calls say what to allow", async () => {
  vi.stubGlobal("document", {});
  const csp = new real.CompileError(
    "Refused to compile: 'unsafe-eval' is not allowed in the Content Security Policy",
  );
  const { some } = await platform(refusing(csp, true));
  expect(((await failed(some.run(() => 1))) as Error).message).toContain(
    "add 'wasm-unsafe-eval' to its script-src",
  );
});

test("a page that came without TLS has no randomUUID, and its keys are random all the same", async () => {
  const { getRandomValues } = crypto;
  vi.stubGlobal("crypto", { getRandomValues: getRandomValues.bind(crypto) });
  const keys: (string | null)[] = [];
  const send = async (_: unknown, init?: RequestInit) => {
    keys.push(new Headers(init?.headers).get("idempotency-key"));
    return new Response(null, { status: keys.length === 1 ? 503 : 200 });
  };
  const { fetch } = policy({
    engine: engine(),
    preset: "http",
    idempotencyKey: true,
    retry: { backoff: { base: 1 } },
    fetch: send,
  });
  for (let call = 0; call < 2; call += 1) {
    expect((await fetch("http://shop.test/orders", { method: "POST", body: "tea" })).status).toBe(200);
  }
  expect(keys[0]).toMatch(/^\d+(-\d+){3}$/);
  expect(keys[1]).toBe(keys[0]);
  expect(keys[2]).not.toBe(keys[0]);
});

test("a Worker may make policies while its script is loaded, where its platform gives no random values", async () => {
  const refuse = () => {
    throw new Error("Disallowed operation called within global scope.");
  };
  vi.stubGlobal("crypto", { getRandomValues: refuse, randomUUID: refuse });
  const [one, other] = [new Engine(), new Engine()];
  expect(one.seed).not.toEqual(other.seed);
  expect([...one.seed, ...other.seed].every((half) => Number.isInteger(half) && half < 2 ** 32)).toBe(true);
  expect(await policy({ engine: one, retry: {} }).run(() => 1)).toBe(1);
});

test("a platform without weak references, as Workers with an older compatibility date, has policies all the same", async () => {
  vi.stubGlobal("WeakRef", undefined);
  vi.stubGlobal("FinalizationRegistry", undefined);
  const { some, Engine, policy: another } = await platform(real);
  expect(await some.run(() => 1)).toBe(1);
  const { FakeClock } = await import("../ts/testing.js");
  const clock = new FakeClock();
  const late = another({ engine: new Engine({ seed: 1, clock }), deadline: 5 }).run(
    () => new Promise(() => {}),
  );
  const error = failed(late);
  await clock.advance(5);
  expect(String(await error)).toContain("DeadlineExceeded");
});
