/**
 * LZMA, for the module that stands in the source: a fifth smaller than DEFLATE. What platforms have for either is
 * asynchronous, or Node's only. The input is ours, so it is not checked; the literal bits are 3 and the position bits 2.
 */

const HALF = 1 << 10;

/** What was packed, of which it is known how long it was. */
export function unpack(input: Uint8Array, size: number): Uint8Array {
  const output = new Uint8Array(size);
  let at = 1;
  let range = -1 >>> 0;
  let code = 0;
  const next = () => {
    code = ((code << 8) | (input[at++] as number)) >>> 0;
  };
  for (let n = 0; n < 4; n += 1) next();
  // All chances, each at its place: a bit's context is a number.
  const chances = new Uint16Array(8192).fill(HALF);
  const normal = () => {
    if (range < 1 << 24) {
      range = (range << 8) >>> 0;
      next();
    }
  };
  const bit = (place: number): number => {
    const chance = chances[place] as number;
    const bound = (range >>> 11) * chance;
    const one = code >= bound;
    if (one) {
      range -= bound;
      code -= bound;
      chances[place] = chance - (chance >> 5);
    } else {
      range = bound;
      chances[place] = chance + ((2048 - chance) >> 5);
    }
    normal();
    return one ? 1 : 0;
  };
  const tree = (place: number, bits: number): number => {
    let symbol = 1;
    for (let n = 0; n < bits; n += 1) symbol = symbol * 2 + bit(place + symbol);
    return symbol - (1 << bits);
  };
  const reversed = (place: number, bits: number): number => {
    let symbol = 1;
    let value = 0;
    for (let n = 0; n < bits; n += 1) {
      const one = bit(place + symbol);
      symbol = symbol * 2 + one;
      value |= one << n;
    }
    return value;
  };
  const length = (place: number, state: number): number => {
    if (bit(place) === 0) return 2 + tree(place + 2 + state * 8, 3);
    if (bit(place + 1) === 0) return 10 + tree(place + 34 + state * 8, 3);
    return 18 + tree(place + 66, 8);
  };
  // Contexts: matches 0, repeats 192, lengths 432 and 754, slots 1076, distances 1332, their ends 1460, literals 1476.
  let state = 0;
  const repeats = [0, 0, 0, 0];
  for (let written = 0; written < size; ) {
    const pos = written & 3;
    const before = written > 0 ? (output[written - 1] as number) : 0;
    if (bit(state * 16 + pos) === 0) {
      const literals = 1476 + 768 * (before >> 5);
      let symbol = 1;
      if (state > 6) {
        let like = output[written - (repeats[0] as number) - 1] as number;
        while (symbol < 256) {
          const expected = (like >> 7) & 1;
          like <<= 1;
          const one = bit(literals + 256 * (1 + expected) + symbol);
          symbol = symbol * 2 + one;
          if (one !== expected) break;
        }
      }
      while (symbol < 256) symbol = symbol * 2 + bit(literals + symbol);
      output[written++] = symbol;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let count: number;
    if (bit(192 + state) === 0) {
      repeats.pop();
      count = length(432, pos);
      const slot = tree(1076 + 64 * Math.min(count - 2, 3), 6);
      let distance = slot;
      if (slot > 3) {
        const bits = (slot >> 1) - 1;
        distance = (2 | (slot & 1)) << bits;
        if (slot < 14) distance += reversed(1332 + distance - slot, bits);
        else {
          let high = 0;
          for (let n = 4; n < bits; n += 1) {
            range >>>= 1;
            const one = code >= range ? 1 : 0;
            if (one) code -= range;
            high = high * 2 + one;
            normal();
          }
          distance += high * 16 + reversed(1460, 4);
        }
      }
      repeats.unshift(distance);
      state = state < 7 ? 7 : 10;
    } else {
      if (bit(204 + state) === 0) {
        if (bit(240 + state * 16 + pos) === 0) {
          state = state < 7 ? 9 : 11;
          output[written] = output[written - (repeats[0] as number) - 1] as number;
          written += 1;
          continue;
        }
      } else {
        const which = bit(216 + state) === 0 ? 1 : 2 + bit(228 + state);
        repeats.unshift(repeats.splice(which, 1)[0] as number);
      }
      count = length(754, pos);
      state = state < 7 ? 8 : 11;
    }
    for (; count > 0; count -= 1) {
      output[written] = output[written - (repeats[0] as number) - 1] as number;
      written += 1;
    }
  }
  return output;
}
