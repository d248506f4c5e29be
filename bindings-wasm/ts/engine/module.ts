/**
 * The WebAssembly modules: which one is in force, where they come from, and when they are there (docs/adr/0025-one-import.md).
 *
 * The small module decides as the full one does, and lacks what pages seldom ask for. A page begins with it unless a policy asks
 * for more; when the full module comes, it takes over (`takeover.ts`), and the small one is gone.
 */

import { ModuleUnavailable, NotReady } from "../errors.js";
import { engines } from "../testing/tested.js";
import type { Native } from "./native.js";
import { isBrowser } from "./platform.js";

/** The two modules. */
export type Which = "small" | "full";

/** A compiled module, or its bytes. */
export type Code = WebAssembly.Module | Uint8Array<ArrayBuffer> | ArrayBuffer;

/** Where the modules come from; an entry of the package says it. */
export interface Source {
  /** Gives the full module at once. It throws where it cannot. */
  readonly now?: (() => Code) | undefined;
  /** Fetches a module. */
  readonly later?: ((which: Which) => Promise<Code>) | undefined;
}

/** Milliseconds that a module may take to come. */
const PATIENCE = 30_000;
/** Milliseconds after a failure in which nobody tries again: its error stands for them. */
const PAUSE = 1000;

let source: Source = {};
let native: Native | undefined;
let full = false;
/** Has the platform failed to give the full module at once? */
let fetches = false;

/** Says where the modules come from. A source that gives the module at once goes before one that fetches. */
export function provide(from: Source): void {
  if (source.now === undefined || from.now !== undefined) source = from;
}

/** Is the full module in force? */
export function isFull(): boolean {
  return full;
}

/** The module in force; undefined while there is none. It is made ready here where the platform can give it at once. */
export function there(): Native | undefined {
  if (native === undefined && source.now !== undefined && !fetches) {
    try {
      const module = compiled(source.now());
      install(new WebAssembly.Instance(module, importsOf(module)), "full");
    } catch (error) {
      if (source.later === undefined) throw error;
      fetches = true;
    }
  }
  return native;
}

/**
 * The module in force.
 *
 * @throws NotReady While there is none.
 */
export function load(what = "this"): Native {
  const found = there();
  if (found === undefined) {
    throw new NotReady(
      `${what} needs the engine's WebAssembly module, which is still on its way: await ready() first`,
    );
  }
  return found;
}

/**
 * For what only the full module has.
 *
 * @throws NotReady While that is not there.
 */
export function needs(what: string): Native {
  const found = load(what);
  if (full) return found;
  throw new NotReady(
    `${what} needs the full engine, which this page has not loaded so far: await ready({ full: true }) first`,
  );
}

interface Download {
  readonly done: Promise<void>;
  /** When it failed, on the platform's clock. */
  failed?: number;
}

const downloads = new Map<Which, Download>();
let asked: Which | undefined;
let begun: Promise<void> | undefined;

/**
 * Resolves once a module is there that is enough. What is fetched is chosen in a microtask: by then the code at hand has declared
 * all of its policies.
 */
export function want(which: Which): Promise<void> {
  if (there() !== undefined && (full || which === "small")) return Promise.resolve();
  for (const name of which === "full" ? (["full"] as const) : (["full", "small"] as const)) {
    const known = downloads.get(name);
    if (known === undefined) continue;
    if (known.failed === undefined || performance.now() - known.failed < PAUSE) return known.done;
    downloads.delete(name);
  }
  if (asked !== "full") asked = which;
  begun ??= Promise.resolve().then(() => {
    const wanted = asked as Which;
    asked = undefined;
    begun = undefined;
    return begin(wanted);
  });
  return begun;
}

function begin(which: Which): Promise<void> {
  const known = downloads.get(which);
  if (known !== undefined) return known.done;
  const download: Download = { done: fetched(which) };
  downloads.set(which, download);
  download.done.catch(() => {
    download.failed = performance.now();
  });
  return download.done;
}

async function fetched(which: Which): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it has not come within ${PATIENCE / 1000} s`)), PATIENCE);
  });
  try {
    if (source.later === undefined) throw new Error("no entry of the package has been imported");
    await use(await Promise.race([source.later(which), late]), which);
  } catch (cause) {
    throw unavailable(which, cause);
  } finally {
    clearTimeout(timer);
  }
}

/** Puts a module in force, wherever it comes from. */
export async function use(code: Code, which: Which): Promise<void> {
  checkPlatform();
  const module = code instanceof WebAssembly.Module ? code : await WebAssembly.compile(code);
  install(await WebAssembly.instantiate(module, importsOf(module)), which);
}

/**
 * What wasm-bindgen has a module import: a function that fills a table of JavaScript's values, of which our exports take none. So it
 * does nothing here, and the module cannot do anything but answer.
 */
function importsOf(module: WebAssembly.Module): WebAssembly.Imports {
  const imports: Record<string, Record<string, () => void>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    imports[from] = { ...imports[from], [name]: () => undefined };
  }
  return imports;
}

function unavailable(which: Which, cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause);
  const then = isForbidden(cause)
    ? isBrowser()
      ? "the page's Content-Security-Policy forbids WebAssembly; add 'wasm-unsafe-eval' to its script-src"
      : 'this runtime compiles no WebAssembly from bytes; import "tidegate/tidegate.wasm" as a module, and await ready({ from: it })'
    : `${why}. Serve it where the bundler has put it, import "tidegate/inline" instead, or await ready({ from }) with its URL`;
  const file = which === "full" ? "tidegate.wasm" : "small.wasm";
  return new ModuleUnavailable(`the engine's module ${file} cannot be loaded: ${then}`, { cause });
}

function install(instance: WebAssembly.Instance, which: Which): void {
  if (native !== undefined && (full || which === "small")) return; // what is there has as much
  native = instance.exports as unknown as Native;
  full = which === "full";
  for (const engine of engines()) engine.arrived();
}

function checkPlatform(): void {
  if (typeof WebAssembly === "undefined") {
    throw new ModuleUnavailable(
      "this platform has no WebAssembly, which the engine needs (React Native has none)",
    );
  }
}

/** A module of this code, or what the page must allow. */
function compiled(code: Code): WebAssembly.Module {
  checkPlatform();
  if (code instanceof WebAssembly.Module) return code;
  try {
    return new WebAssembly.Module(code);
  } catch (cause) {
    throw isForbidden(cause) ? unavailable("full", cause) : cause;
  }
}

function isForbidden(error: unknown): boolean {
  const { message } = error as { message?: unknown };
  return (
    error instanceof WebAssembly.CompileError &&
    /content security|unsafe-eval|code generation/i.test(String(message))
  );
}

/** Compiles what a URL answers, while it streams. A server that names another type of content costs the streaming alone. */
export async function streamed(url: string | URL): Promise<Code> {
  const response = await globalThis.fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  const { compileStreaming } = WebAssembly;
  if (
    compileStreaming !== undefined &&
    /^application\/wasm\b/i.test(response.headers.get("content-type") ?? "")
  ) {
    return WebAssembly.compileStreaming(response);
  }
  const bytes = await response.arrayBuffer();
  const head = new Uint8Array(bytes, 0, Math.min(4, bytes.byteLength));
  if (String(head) !== "0,97,115,109") throw new Error(`${url} is no WebAssembly`);
  return bytes;
}

/** Where `ready` may take the module from. */
export interface ReadyOptions {
  /** Is the full module wanted, for `snapshot`, `explain`, `retune` and the like? Not if left out: what the policies need. */
  readonly full?: boolean | undefined;
  /** The full module (`tidegate/tidegate.wasm`), its bytes, its answer or its URL, for hosts whose bundler loses it. */
  readonly from?: string | URL | Response | Code | undefined;
}

/**
 * Resolves once the engine's module is there and every policy that has been made is taken in. On Node, Deno, Bun and Workers that
 * is at once. No call needs it, since the first one waits by itself; what cannot wait does: `snapshot`, `explain`, `retune`.
 *
 * @throws PolicyError With the mistakes of the first policy that has any.
 * @throws ModuleUnavailable If the module cannot be loaded.
 * @example
 * ```ts
 * const some = policy({ retry: {} });
 * await ready({ full: true });
 * some.snapshot();
 * ```
 */
export async function ready(options: ReadyOptions = {}): Promise<void> {
  const { from } = options;
  const waiting = engines().flatMap((engine) => engine.declared);
  if (from !== undefined && !full) {
    if (from instanceof Response && !from.ok)
      throw new Error(`tidegate: ${from.url} answered ${from.status}`);
    const code =
      typeof from === "string" || from instanceof URL
        ? await streamed(from)
        : from instanceof Response
          ? await from.arrayBuffer()
          : from;
    await use(code, "full");
  }
  await want(options.full === true ? "full" : "small");
  for (const each of waiting) await each.taken();
}
