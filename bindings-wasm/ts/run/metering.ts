/**
 * Where weights, settlements and the usage of answers are: `metered.ts`, which a page imports as `tidegate/metered`, and the other entries
 * have.
 */

import type { Engine } from "../engine/engine.js";
import { reportWall } from "../engine/wall.js";
import { FIRST } from "../engine/wire.js";
import { TidegateError } from "../errors/errors.js";
import type { Known } from "../fetch/request.js";
import type { Core } from "./core.js";
import type { Lane } from "./lane.js";
import type { BodyEnds } from "./run.js";
import type { Used, Weigh, Weights } from "./weights.js";

/** What `metered.ts` does for calls. */
export interface Metering {
  /**
   * Checks amounts.
   *
   * @throws RangeError If they are no amounts.
   */
  check(key: string, amounts: unknown): void;
  /**
   * Begins a call with weights, as `Native.begin`.
   *
   * @throws RangeError If they are not those of its limits.
   */
  begin(
    engine: Engine,
    weights: Weights,
    route: number,
    flags: number,
    limit: number,
    parent: number,
    target: number,
  ): number;
  /**
   * Checks the first step of a call without weights.
   *
   * @throws RangeError If its limits need weights.
   */
  unweighted(engine: Engine, route: number, step: number): void;
  /** Settles what an attempt has used. */
  settle(lane: Lane, totals: Weights): boolean;
  /** Reports the headers of an attempt's answer, which may say what is left of the service's quotas. */
  learn(lane: Lane, headers: Listed): void;
  /** The weights of a request: those of its caller, else those of `weigh`. */
  weigh(core: Core, weigh: Weigh, known: Known, given: Weights | undefined): Weights | undefined;
  /** The ends of a body, of which what it has used is read on the way. */
  read(core: Core, ends: BodyEnds, lane: Lane, used: Used): BodyEnds;
}

let provided: Metering | undefined;

/** Sets the code. */
export function provideMetering(by: Metering): void {
  provided = by;
}

/**
 * The code.
 *
 * @throws TidegateError If it is not there.
 */
export function metering(): Metering {
  if (provided === undefined)
    throw new TidegateError('weights, weigh, usage and learn need `import "tidegate/metered"` in a page');
  return provided;
}

/** Headers, in the form that `classify` reads. */
export interface Listed {
  forEach?(each: (value: string, name: string) => void): void;
}

/**
 * Reports what an answer says is left of the service's quotas, where limits of the policy learn from it.
 *
 * @throws TidegateError If the policy itself says so and the code is not there.
 */
export function learn(core: Core, lane: Lane, headers: Listed | undefined): void {
  if (core.setting("rate_limit.learn") !== "down" || headers === undefined) return;
  const by = core.setting("own rate_limit.learn") === null ? provided : metering();
  by?.learn(lane, headers);
}

/**
 * Begins a call, and returns its first step.
 *
 * @throws RangeError If its limits need other weights.
 */
export function begin(
  engine: Engine,
  weights: Weights | undefined,
  route: number,
  flags: number,
  limit: number,
  parent: number,
  target: number,
): number {
  if (engine.windows) reportWall(engine);
  if (weights !== undefined) return metering().begin(engine, weights, route, flags, limit, parent, target);
  const step = engine.native.begin(engine.handle, route, flags, limit, parent, target, engine.time());
  if (step !== FIRST) provided?.unweighted(engine, route, step);
  return step;
}
