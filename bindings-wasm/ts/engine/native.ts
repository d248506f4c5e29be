/** What the WebAssembly module exports, as `src/` declares it, and how texts cross its border. */

import { load } from "./module.js";

/** What the full module exports; the small one has fewer. */
export type { Native } from "../surface_gen.js";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes bytes into the module's input. */
export function sayBytes(bytes: Uint8Array): void {
  const wasm = load();
  const at = wasm.input(bytes.length);
  new Uint8Array(wasm.memory.buffer).set(bytes, at);
}

/** Writes a text into the module's input. */
export function say(text: string): void {
  sayBytes(encoder.encode(text));
}

/** What a text is in the table of keys (`wire::about` of core). */
export function about(text: string): number {
  say(text);
  return load().about();
}

/** The texts that the module has put into its output, each with a NUL behind it. */
export function pieces(): string[] {
  return said().split("\0").slice(0, -1);
}

/** What the module has put into its output. */
export function said(): string {
  const wasm = load();
  return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
}

/** A pair of a dotted key and a number or a word. */
export type Pair = readonly [key: string, value: number | string];

/** Stages pairs for `policy`, `retune` or `pool`, and then the name that these take. */
export function stage(name: string, pairs: readonly Pair[]): void {
  const wasm = load();
  for (const [key, value] of pairs) {
    if (typeof value === "number") {
      say(key);
      wasm.number(value);
    } else {
      say(key + value);
      wasm.word(encoder.encode(key).length);
    }
  }
  say(name);
}
