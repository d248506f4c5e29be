/** Reports of the wall clock, by whose windows some limits refill. */

import type { Engine } from "./engine.js";

/** Reports the wall clock to the engine, and notes in `windows` whether there are limits that refill by it. */
export function reportWall(engine: Engine): void {
  if (!engine.full) return;
  const now = engine.time();
  // With a clock for tests the reported time continues from the real time at which that clock was first read.
  engine.wall ??= Date.now() - now / 1000;
  const wall = engine.clock === undefined ? Date.now() : engine.wall + now / 1000;
  engine.windows = engine.native.note_wall(engine.handle, wall, now) !== 0;
}
