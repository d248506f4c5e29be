/**
 * The WebAssembly modules: where they come from, when they are loaded, and which one is in use (docs/adr/0025-one-import.md).
 *
 * The small module makes the same decisions as the full one, without features that pages seldom use. A page starts with the small
 * module unless a policy needs more. When the full module is loaded, it takes over (`takeover.ts`) and the small one is dropped.
 */

import { checkNames, ModuleUnavailable, NotReady } from "../errors/errors.js";
import { engines } from "../testing/tested.js";
import type { Address, CompiledModule, Fetched } from "./global_types.js";
import type { Native } from "./native.js";
import { isBrowser, isModule } from "./platform.js";
import { shared } from "./shared.js";

/** The two modules. */
export type Which = "small" | "full";

/** A compiled module, or its bytes. */
export type Code = CompiledModule | Uint8Array<ArrayBuffer> | ArrayBuffer;

/** The source of the modules, set by an entry of the package. */
export interface Source {
  /** Gives the full module synchronously, or throws if it cannot. */
  readonly now?: (() => Code) | undefined;
  /** Fetches a module. */
  readonly later?: ((which: Which) => Promise<Code>) | undefined;
}

/** Longest time to load a module, in milliseconds. */
const PATIENCE = 30_000;
/** Milliseconds after a failed download during which calls get its error and no new download starts. */
const PAUSE = 1000;

let source: Source = {};
const used = shared("module", (): { native: Native | undefined; full: boolean } => ({
  native: undefined,
  full: false,
}));
/** Whether the platform failed to give the full module synchronously. */
let fetches = false;

/** Sets the source of the modules. A synchronous source takes precedence over one that fetches. */
export function provide(from: Source): void {
  if (source.now === undefined || from.now !== undefined) source = from;
}

/** Whether the full module is in use. */
export function isFull(): boolean {
  return used.full;
}

/** The module in use, or undefined. Instantiates the module here if the platform gives it synchronously. */
export function there(): Native | undefined {
  if (used.native === undefined && source.now !== undefined && !fetches) {
    try {
      const module = compiled(source.now());
      install(new WebAssembly.Instance(module, importsOf(module)), "full");
    } catch (error) {
      if (source.later === undefined) throw error;
      fetches = true;
    }
  }
  return used.native;
}

/**
 * The module in use.
 *
 * @throws NotReady While no module is loaded.
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
 * The full module, for features that only it has.
 *
 * @throws NotReady While the full module is not loaded.
 */
export function needs(what: string): Native {
  const found = load(what);
  if (used.full) return found;
  throw new NotReady(
    `${what} needs the full engine, which this page has not loaded so far: await ready({ full: true }) first`,
  );
}

interface Download {
  readonly done: Promise<void>;
  /** When it failed, in milliseconds of `performance.now()`. */
  failed?: number;
}

const downloads = new Map<Which, Download>();
let asked: Which | undefined;
let begun: Promise<void> | undefined;

/**
 * Resolves when a sufficient module is loaded. A microtask chooses which module to fetch, because by then the running code has declared
 * all of its policies.
 */
export function want(which: Which): Promise<void> {
  if (there() !== undefined && (used.full || which === "small")) return Promise.resolve();
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
    // A source that could give the full module at once has no other.
    await use(await Promise.race([source.later(which), late]), source.now === undefined ? which : "full");
  } catch (cause) {
    throw cause instanceof ModuleUnavailable ? cause : unavailable(which, cause);
  } finally {
    clearTimeout(timer);
  }
}

/** Starts to use this module. */
export async function use(code: Code, which: Which): Promise<void> {
  checkPlatform();
  const module = isModule(code) ? code : await WebAssembly.compile(code);
  install(await WebAssembly.instantiate(module, importsOf(module)), which);
}

/**
 * The imports that wasm-bindgen requires: a function that fills a table of JavaScript values. Our exports take no such values, so it
 * does nothing here, and the module can only return results.
 *
 * @internal
 */
export function importsOf(module: WebAssembly.Module): WebAssembly.Imports {
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
  if (used.native !== undefined && (used.full || which === "small")) return; // the current module is sufficient
  used.native = instance.exports as unknown as Native;
  used.full = which === "full";
  for (const engine of engines()) engine.arrived();
}

function checkPlatform(): void {
  if (typeof WebAssembly === "undefined") {
    throw new ModuleUnavailable(
      "this platform has no WebAssembly, which the engine needs; React Native has none: let your server make the calls",
    );
  }
}

/** Compiles a module. If the page forbids it, the error says what the page must allow. */
function compiled(code: Code): WebAssembly.Module {
  checkPlatform();
  if (isModule(code)) return code;
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

/** Compiles the response of a URL while it streams. With another content type than `application/wasm` it compiles after the download. */
export async function streamed(url: string | Address): Promise<Code> {
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

/** Options of `ready`. */
export interface ReadyOptions {
  /** Whether to load the full module, for `snapshot`, `explain`, `retune` and the like. If absent, the policies decide. */
  readonly full?: boolean | undefined;
  /** The full module (`tidegate/tidegate.wasm`), compiled or as bytes, response or URL, for hosts whose bundler drops the file. */
  readonly from?: string | Address | Fetched | Code | undefined;
}

/**
 * Resolves when the engine's module is loaded and every policy made so far is taken in. On Node, Deno, Bun and Workers that is
 * immediate. Calls do not need it, because the first one waits by itself. Synchronous methods do: `snapshot`, `explain`, `retune`.
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
  checkNames("ready", options, "full from");
  const { from } = options;
  const waiting = engines().flatMap((engine) => engine.declared);
  if (from !== undefined && !used.full) {
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
