/** Replays a journal into a new engine. */

import { halvesOf, journalOf, type PolicyExplanation } from "../telemetry/explain.js";
import { Standing } from "../time/clock.js";
import type { Engine } from "./engine.js";
import type { EngineOptions, Halves } from "./engine_types.js";
import { said, say } from "./native.js";

/** The engine of a journal; `make` creates an empty one. */
export function replayed(text: string, make: (options: EngineOptions, seed: Halves) => Engine): Engine {
  const { seed, maxRoutes, lines } = journalOf(text);
  const clock = new Standing();
  const engine = make({ clock, maxRoutes, journal: true }, halvesOf(seed));
  const native = engine.whole("replay");
  say(lines.join("\n"));
  const end = native.replay(engine.handle);
  if (end < 0) throw new RangeError(`journal, line ${-end}: ${said()}: ${lines[-end - 1]}`);
  clock.at = end;
  engine.answers = JSON.parse(said()) as string[];
  for (let number = 0; ; number += 1) {
    native.explain(engine.handle, number);
    const explanation = JSON.parse(said()) as PolicyExplanation | null;
    if (explanation === null) return engine;
    engine.wanted.own(number, explanation.policy, []);
  }
}
