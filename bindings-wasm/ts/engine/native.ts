/** The exports of the WebAssembly module, as declared in `src/`, and the transfer of texts to and from it. */

import { load } from "./module.js";

/** The exports of the full module; the small one has fewer. */
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

/** What a text is in core's table of keys (`wire::about`). */
export function about(text: string): number {
  say(text);
  return load().about();
}

/** The texts in the module's output, each terminated by NUL. */
export function pieces(): string[] {
  return said().split("\0").slice(0, -1);
}

/** The text in the module's output. */
export function said(): string {
  const wasm = load();
  return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
}

/** A setting: a dotted key with a number or a word. */
export type Pair = readonly [key: string, value: number | string];

/** Stages pairs for `policy`, `retune` or `pool`, then the name that these functions take. */
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
