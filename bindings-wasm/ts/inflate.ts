/**
 * DEFLATE (RFC 1951), for the module that stands in the source: what platforms have for it is asynchronous, or Node's only.
 * The input is ours, so it is not checked.
 */

const LENGTHS = [
  3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195,
  227, 258,
];
const DISTANCES = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097,
  6145, 8193, 12289, 16385, 24577,
];
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/** Codes of a length, and the symbols in their order. */
interface Codes {
  readonly counts: Uint16Array;
  readonly symbols: Uint16Array;
}

function codesOf(lengths: Uint8Array): Codes {
  const counts = new Uint16Array(16);
  const symbols = new Uint16Array(lengths.length);
  for (const length of lengths) counts[length] = (counts[length] as number) + 1;
  counts[0] = 0;
  const at = new Uint16Array(16);
  for (let length = 1; length < 15; length += 1)
    at[length + 1] = (at[length] as number) + (counts[length] as number);
  lengths.forEach((length, symbol) => {
    if (length !== 0) {
      symbols[at[length] as number] = symbol;
      at[length] = (at[length] as number) + 1;
    }
  });
  return { counts, symbols };
}

/** What was deflated, of which it is known how long it was. */
export function inflate(input: Uint8Array, size: number): Uint8Array {
  const output = new Uint8Array(size);
  let written = 0;
  let at = 0;
  let held = 0;
  let bits = 0;
  const take = (count: number): number => {
    while (bits < count) {
      held |= (input[at++] as number) << bits;
      bits += 8;
    }
    const value = held & ((1 << count) - 1);
    held >>>= count;
    bits -= count;
    return value;
  };
  const symbol = ({ counts, symbols }: Codes): number => {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length += 1) {
      code |= take(1);
      const count = counts[length] as number;
      if (code - count < first) return symbols[index + code - first] as number;
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new RangeError("tidegate: the WebAssembly in the source is damaged");
  };
  const fixed = new Uint8Array(288).map((_, n) => (n < 144 ? 8 : n < 256 ? 9 : n < 280 ? 7 : 8));
  for (let last = 0; last === 0; ) {
    last = take(1);
    const kind = take(2);
    if (kind === 0) {
      held = bits = 0;
      const length = (input[at] as number) | ((input[at + 1] as number) << 8);
      output.set(input.subarray(at + 4, at + 4 + length), written);
      at += 4 + length;
      written += length;
      continue;
    }
    let literals = codesOf(fixed);
    let distances = codesOf(new Uint8Array(30).fill(5));
    if (kind === 2) {
      const many = take(5) + 257;
      const far = take(5) + 1;
      const coded = new Uint8Array(19);
      for (let place = take(4) + 4, n = 0; n < place; n += 1) coded[ORDER[n] as number] = take(3);
      const codes = codesOf(coded);
      const lengths = new Uint8Array(many + far);
      for (let n = 0; n < lengths.length; ) {
        const what = symbol(codes);
        if (what < 16) {
          lengths[n++] = what;
          continue;
        }
        const again = what === 16 ? (lengths[n - 1] as number) : 0;
        const times = what === 16 ? 3 + take(2) : what === 17 ? 3 + take(3) : 11 + take(7);
        lengths.fill(again, n, n + times);
        n += times;
      }
      literals = codesOf(lengths.subarray(0, many));
      distances = codesOf(lengths.subarray(many));
    }
    for (;;) {
      const what = symbol(literals);
      if (what < 256) output[written++] = what;
      else if (what === 256) break;
      else {
        const n = what - 257;
        const length = (LENGTHS[n] as number) + (n < 8 || n === 28 ? 0 : take((n - 4) >> 2));
        const d = symbol(distances);
        const from = written - (DISTANCES[d] as number) - (d < 4 ? 0 : take((d - 2) >> 1));
        for (let k = 0; k < length; k += 1) output[written++] = output[from + k] as number;
      }
    }
  }
  return output;
}
