/** The default engine, for policies that name none. */

import { Engine } from "./engine.js";

const KEY = Symbol.for("tidegate/0.1/engine");

/** @internal Makes an engine the default of the process and returns the one before, if there was one. */
export function use(engine: Engine | undefined): Engine | undefined {
  const shared = globalThis as { [KEY]?: Engine | undefined };
  const before = shared[KEY];
  shared[KEY] = engine;
  return before;
}

/** The engine of the process, made on first use; ESM and CommonJS share it. */
export function defaultEngine(): Engine {
  const shared = globalThis as { [KEY]?: Engine };
  shared[KEY] ??= new Engine();
  return shared[KEY];
}
