/** The engine that policies belong to which name none. */

import { type CallExplanation, endOf } from "../telemetry/explain.js";
import { Engine } from "./engine.js";

/** Why the call ended that gave this error (or this answer): asked of the engine that it was one of. */
export function explain(of: object): CallExplanation | undefined {
  return (endOf(of)?.engine as Engine | undefined)?.explain(of);
}

const KEY = Symbol.for("tidegate/0.1/engine");

/** @internal Makes an engine the process's own: the one before, if there was one. */
export function use(engine: Engine | undefined): Engine | undefined {
  const shared = globalThis as { [KEY]?: Engine | undefined };
  const before = shared[KEY];
  shared[KEY] = engine;
  return before;
}

/** The engine of the process, made when it is first needed; one for ESM and CommonJS together. */
export function defaultEngine(): Engine {
  const shared = globalThis as { [KEY]?: Engine };
  shared[KEY] ??= new Engine();
  return shared[KEY];
}
