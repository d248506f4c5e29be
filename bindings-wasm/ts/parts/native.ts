/** The module of the parts (`parts/src`), separate from the engine's: its source, and the transfer of texts to and from it. */

import type { Code } from "../engine/module.js";
import type { Pair } from "../engine/native.js";
import { isModule } from "../engine/platform.js";
import { ModuleUnavailable, NotReady } from "../errors/errors.js";
import type { Native } from "./exports.js";

/** The source of the module: synchronous, or a download. */
export interface Source {
  readonly now?: (() => Code) | undefined;
  readonly later?: (() => Promise<Code>) | undefined;
}

let source: Source = {};
let native: Native | undefined;
let coming: Promise<void> | undefined;

/** Sets the source of the module; an entry calls it. */
export function provide(from: Source): void {
  if (source.now === undefined || from.now !== undefined) source = from;
}

function start(code: Code): void {
  const module = isModule(code) ? code : new WebAssembly.Module(code);
  native ??= new WebAssembly.Instance(module, {}).exports as unknown as Native;
}

/**
 * The module, instantiated on first use.
 *
 * @throws NotReady If it must be fetched and has not been.
 */
export function load(): Native {
  if (native === undefined && source.now !== undefined) {
    try {
      start(source.now());
    } catch (error) {
      if (source.later === undefined) throw error;
      source = { later: source.later };
    }
  }
  if (native === undefined) {
    throw new NotReady('a part needs its WebAssembly module: await ready() of "tidegate/parts" first');
  }
  return native;
}

/**
 * Resolves when the parts' module is loaded. Pages must fetch it before they make the first part. Elsewhere it is available at once.
 *
 * @throws ModuleUnavailable If it cannot be loaded; the next call tries again.
 * @example
 * ```ts
 * await parts.ready();
 * const bucket = new parts.TokenBucket({ permits: 1, per: 1000 }, 0);
 * ```
 */
export async function ready(): Promise<void> {
  try {
    load();
  } catch (error) {
    const { later } = source;
    if (later === undefined) throw error;
    coming ??= fetched(later).finally(() => {
      coming = undefined;
    });
    await coming;
  }
}

async function fetched(later: () => Promise<Code>): Promise<void> {
  try {
    const code = await later();
    start(isModule(code) ? code : await WebAssembly.compile(code));
  } catch (cause) {
    const text = `the parts' module parts.wasm cannot be loaded: ${(cause as Error).message}`;
    throw new ModuleUnavailable(text, { cause });
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes a text into the module's input and returns its length, in bytes. */
export function say(text: string): number {
  const wasm = load();
  const bytes = encoder.encode(text);
  const at = wasm.input(bytes.length);
  new Uint8Array(wasm.memory.buffer).set(bytes, at);
  return bytes.length;
}

/** What a text is in core's table of keys (`wire::about`). */
export function about(text: string): number {
  say(text);
  return load().about();
}

/** The text in the module's output. */
export function said(): string {
  const wasm = load();
  return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
}

/** Writes the settings of a part: each key and its value, after `=` (a number) or `'` (a word). */
export function sayPairs(pairs: readonly Pair[]): void {
  const texts = pairs.flatMap(([key, value]) => [key, (typeof value === "number" ? "=" : "'") + value]);
  say(texts.map((text) => `${text.replaceAll("\0", "\ufffd")}\0`).join(""));
}

/** Writes 64-bit words into the module. */
export function sayWords(words: readonly bigint[]): void {
  const wasm = load();
  const at = wasm.words(words.length);
  new BigUint64Array(wasm.memory.buffer, at, words.length).set(words);
}

/** Reads this many 64-bit words from the module. */
export function saidWords(count: number): bigint[] {
  const wasm = load();
  return [...new BigUint64Array(wasm.memory.buffer, wasm.sketch_words(), count)];
}
