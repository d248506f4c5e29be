/** Exports of an engine that are asked for twice: with two of them, each event would count twice. */

import type { Engine } from "../engine/engine.js";
import { shared } from "../engine/shared.js";

type Export = { users: number; end(): void };

/** What is exported of each engine, by where it goes. */
const exporting = shared("exporting", () => new WeakMap<Engine, Map<unknown, Export>>());

/** Starts an export, unless it runs already; returns what ends it with its last user. */
export function once(engine: Engine, to: unknown, start: () => () => void): () => void {
  const all = exporting.get(engine) ?? new Map<unknown, Export>();
  exporting.set(engine, all);
  const running = all.get(to) ?? { users: 0, end: start() };
  all.set(to, running);
  running.users += 1;
  return () => {
    running.users -= 1;
    if (running.users > 0) return;
    all.delete(to);
    running.end();
  };
}
