/** Options of a call, encoded for `begin`. */

import {
  COST_UNIT,
  CRITICALITIES,
  type Criticality,
  IDEMPOTENT,
  packRemaining,
  REPLAYABLE,
  SOLO,
} from "../engine/wire.js";
import { checkWhole, outOfRange } from "../errors/errors.js";
import { metering } from "./metering.js";
import type { CallOptions } from "./policy.js";

/** The flags of a call with these options. */
export function flagsOf(options: CallOptions): number {
  const { cost = 1, weights } = options;
  checkWhole("cost", cost, 0, 0xffff);
  if (weights !== undefined) metering().check("weights", weights);
  return (
    criticalityOf(options.criticality ?? "normal") |
    (cost * COST_UNIT) |
    (options.idempotent === false ? 0 : IDEMPOTENT) |
    (options.replayable === false ? 0 : REPLAYABLE) |
    (options.solo === true ? SOLO : 0)
  );
}

/** Encodes a deadline for `begin`. */
export function limitOf(deadline: number | undefined): number {
  if (deadline === undefined) return 0;
  checkDeadline(deadline);
  return packRemaining(deadline);
}

/** The earlier of two limits; 0 means none. */
export function least(one: number, other: number): number {
  return one === 0 ? other : other === 0 ? one : Math.min(one, other);
}

/** Checks that a deadline is valid. */
export function checkDeadline(deadline: unknown): asserts deadline is number {
  if (typeof deadline !== "number" || Number.isNaN(deadline)) {
    outOfRange("deadline", deadline, "a number of milliseconds");
  }
}

/** The number of a criticality. */
export function criticalityOf(name: Criticality): number {
  const number = CRITICALITIES.indexOf(name);
  if (number < 0) outOfRange("criticality", name, `one of ${CRITICALITIES.join(", ")}`);
  return number;
}
