/** Reproducible randomness: a failing test prints its seed. `TIDEGATE_SEED=… npm test` repeats it. */

import { onTestFailed } from "vitest";

/** Numbers from 0 to 1 (mulberry32). The seed is printed if the test fails. */
export function random(seed = Number(process.env["TIDEGATE_SEED"] ?? Date.now() % 2 ** 32)): () => number {
  let state = seed >>> 0;
  onTestFailed(() => console.error(`seed ${seed}: again with TIDEGATE_SEED=${seed}`));
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
