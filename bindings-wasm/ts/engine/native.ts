/** The exports of the WebAssembly module, as declared in `src/`, and the transfer of texts to and from it. */

import type { Native } from "../surface_gen.js";
import { load } from "./module.js";

/** The exports of the full module; the small one has fewer. */
export type { Native };

/** A setting: a dotted key with a number or a word. */
export type Pair = readonly [key: string, value: number | string];

/** What a module exports for texts (`src/texts.rs`). */
type Texts = Pick<Native, "memory" | "input" | "output" | "output_length" | "number" | "word" | "about">;

/** The transfer of texts to and from the module that `load` returns. */
export function transfer(load: () => Texts) {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();

  /** Writes bytes into the module's input and returns how many there are. */
  function sayBytes(bytes: Uint8Array): number {
    const wasm = load();
    const at = wasm.input(bytes.length);
    new Uint8Array(wasm.memory.buffer).set(bytes, at);
    return bytes.length;
  }

  /** Writes a text into the module's input and returns its length, in bytes. */
  function say(text: string): number {
    return sayBytes(encoder.encode(text));
  }

  /** What a text is in core's table of keys (`wire::about`). */
  function about(text: string): number {
    say(text);
    return load().about();
  }

  /** The texts in the module's output, each terminated by NUL. */
  function pieces(): string[] {
    return said().split("\0").slice(0, -1);
  }

  /** The text in the module's output. */
  function said(): string {
    const wasm = load();
    return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
  }

  /** Stages pairs for `policy`, `retune` or `pool`, then the name that these functions take. */
  function stage(name: string, pairs: readonly Pair[]): void {
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

  return { sayBytes, say, about, pieces, said, stage };
}

export const { sayBytes, say, about, pieces, said, stage } = transfer(() => load());
