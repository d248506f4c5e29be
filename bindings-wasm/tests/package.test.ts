/** How the modules stand in the source. */

import { readFileSync } from "node:fs";
import lzma from "lzma/src/lzma_worker.js";
import { describe, expect, test } from "vitest";
import * as full from "../ts/full_gen.js";
import { inlined } from "../ts/inline.js";
import { small } from "../ts/small.js";
import { unpack } from "../ts/unpack.js";

describe("unpack", () => {
  const random = (size: number, symbols: number) => {
    let state = 7;
    return Uint8Array.from({ length: size }, () => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >> 16) % symbols;
    });
  };
  const inputs: [string, Uint8Array][] = [
    ["a byte", new Uint8Array([7])],
    ["zeros", new Uint8Array(20_000)],
    ["noise", random(20_000, 256)],
    ["few symbols", random(50_000, 3)],
    ["text", new TextEncoder().encode("the core decides; the host does the I/O. ".repeat(3000))],
    [
      "the same far away",
      Uint8Array.from([...random(3000, 256), ...new Uint8Array(20_000), ...random(3000, 256)]),
    ],
  ];
  test.each(inputs)("gives back %s", (_, input) => {
    for (const level of [1, 5, 9]) {
      const packed = Uint8Array.from(lzma.LZMA.compress(input, level).slice(13));
      expect(Buffer.compare(unpack(packed, input.length), input), `level ${level}`).toBe(0);
    }
  });

  test.each([
    ["tidegate", () => inlined(full.PACKED, full.SIZE)],
    ["small", small],
  ])("gives back %s.wasm", (name, there) => {
    const code = readFileSync(new URL(`../dist/esm/${name}.wasm`, import.meta.url));
    expect(Buffer.compare(there(), code)).toBe(0);
  });
});
