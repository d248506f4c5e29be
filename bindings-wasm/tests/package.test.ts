/** How the module stands in the source. */

import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { inflate } from "../ts/inflate.js";
import { DEFLATED, SIZE } from "../ts/inline_gen.js";

describe("inflate", () => {
  const random = (size: number, symbols: number) => {
    let state = 7;
    return Uint8Array.from({ length: size }, () => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return (state >> 16) % symbols;
    });
  };
  const inputs: [string, Uint8Array][] = [
    ["nothing", new Uint8Array()],
    ["a byte", new Uint8Array([7])],
    ["zeros", new Uint8Array(100_000)],
    ["noise", random(200_000, 256)],
    ["few symbols", random(200_000, 3)],
    ["text", new TextEncoder().encode("the core decides; the host does the I/O. ".repeat(3000))],
  ];
  const { Z_FIXED, Z_HUFFMAN_ONLY, Z_DEFAULT_STRATEGY } = constants;
  test.each(inputs)("gives back %s", (_, input) => {
    for (const level of [0, 1, 9]) {
      for (const strategy of [Z_DEFAULT_STRATEGY, Z_FIXED, Z_HUFFMAN_ONLY]) {
        const output = inflate(deflateRawSync(input, { level, strategy }), input.length);
        expect(Buffer.compare(output, input), `level ${level}, strategy ${strategy}`).toBe(0);
      }
    }
  });

  test("gives back the module", () => {
    const deflated = Buffer.from(DEFLATED, "base64");
    expect(Buffer.compare(inflate(deflated, SIZE), inflateRawSync(deflated))).toBe(0);
  });
});
