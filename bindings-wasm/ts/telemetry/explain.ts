/** Explanations of policies and calls, and the journals from which an engine can be rebuilt. */

import type { Halves } from "../engine/engine_types.js";
import { shared } from "../engine/shared.js";
import type { Verdict } from "../engine/wire.js";
import type { TidegateEvent } from "./events.js";

/** One component of a policy. */
export interface Component {
  /** Its name; for a part of another component, dotted. */
  readonly name: string;
  /** Its purpose. */
  readonly meaning: string;
  /** Its keys with the values in force, in the notation of a document. */
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * An upper bound on the attempts that calls cause: attempts ≤ `perCall` · calls + `perSecond` · seconds + `burst`; null means
 * unbounded.
 */
export interface Load {
  readonly perCall: number | null;
  readonly perSecond: number | null;
  readonly burst: number | null;
}

/** The explanation of a policy. */
export interface PolicyExplanation {
  /** The policy's name. */
  readonly policy: string;
  /** Its components, outermost first. */
  readonly components: readonly Component[];
  /** Most attempts of a call, hedges included. */
  readonly maxAttempts: number;
  /** Longest time that a call spends waiting, not in attempts, in milliseconds; null means unbounded. */
  readonly maxWait: number | null;
  /** Longest time that a call takes, in milliseconds; null means unbounded. */
  readonly maxTime: number | null;
  /** The load bound, for each retry budget: that is for each route, unless the budget is a pool. */
  readonly load: Load;
  /** Bytes of state per route, without its key and the counts of a hold. */
  readonly memoryPerRoute: number;
  /** Settings that may not do what their author expects. */
  readonly warnings: readonly string[];
  /** The whole explanation as text, also returned by `toString`. */
  readonly text: string;
  toString(): string;
}

/** The state of a call, or how it ended. Moments are milliseconds on the engine's clock. */
export interface CallExplanation {
  /** The call's number, as events have it. */
  readonly call: number;
  /** The policy's name. */
  readonly policy: string;
  /** The route's key. */
  readonly route: string;
  /** When it began. */
  readonly began: number;
  /** The moment that the explanation describes. */
  readonly at: number;
  /** Number of attempts started. */
  readonly attempts: number;
  /** Its state, in words. */
  readonly standing: string;
  /** The reason for waiting: `backoff`, `queue` …; null if it does not wait. */
  readonly why: string | null;
  /** When the wait ends at the latest; null if it has no bound. */
  readonly until: number | null;
  /** Its deadline; null if it has none. */
  readonly deadline: number | null;
  /** How it ended, or the verdict that it will end with; null while that is undecided. */
  readonly reason: Verdict | null;
  /** The numbers of its route. For a call that has ended: just before the step that ended it. */
  readonly numbers: readonly string[];
  /** For a call that has ended: the decisions about it. */
  readonly story: readonly TidegateEvent[];
  /** The whole explanation as text, also returned by `toString`. */
  readonly text: string;
  toString(): string;
}

/** Adds a `toString` that returns the explanation's text. */
export function spoken<T extends { readonly text: string }>(of: T): T {
  return Object.defineProperty(of, "toString", { value: () => of.text });
}

/** The first line of a journal; the engine's lines follow it. */
export function headOf(seed: bigint, maxRoutes: number): string {
  return `tidegate journal 1 seed ${seed} routes ${maxRoutes}\n`;
}

/**
 * Splits a journal into the seed, the limit on routes and the lines.
 *
 * @throws RangeError If the text does not begin like a journal.
 */
export function journalOf(text: string): { seed: bigint; maxRoutes: number; lines: string[] } {
  const [first = "", ...lines] = text.split("\n").filter((line) => line !== "");
  const head = /^tidegate journal 1 seed ([0-9]{1,20}) routes ([0-9]{1,6})$/.exec(first);
  const seed = BigInt(head?.[1] ?? -1);
  if (head === null || seed >= 1n << 64n) {
    const shown = JSON.stringify(first.slice(0, 80));
    throw new RangeError(`journal = ${shown}: must begin with "tidegate journal 1 seed … routes …"`);
  }
  return { seed, maxRoutes: Number(head[2]), lines };
}

interface Ended {
  readonly engine: { explain(of: object): CallExplanation | undefined };
  readonly call: number;
}

const ended = shared("ended", () => new WeakMap<object, Ended>());

/** Remembers which call ended with this error or response. */
export function mark(value: unknown, engine: Ended["engine"], call: number): void {
  if ((typeof value === "object" && value !== null) || typeof value === "function") {
    ended.set(value, { engine, call });
  }
}

/** The engine and the call that ended with this error or response. */
export function endOf(value: unknown): Ended | undefined {
  return ended.get(value as object);
}

/**
 * Explains why the call ended as it did that returned this error or response, with the numbers that decided.
 *
 * @returns Undefined if the call's first attempt succeeded, if no policy returned the value, or if its engine has forgotten the call:
 * an engine keeps the last 512 records about calls with trouble (`history`).
 * @throws NotReady In a page that has only the small engine; `await ready({ full: true })` first.
 */
export function explain(of: object): CallExplanation | undefined {
  return endOf(of)?.engine.explain(of);
}

/** A seed as one number. */
export function seedOf([high, low]: Halves): bigint {
  return (BigInt(high) << 32n) | BigInt.asUintN(32, BigInt(low));
}

/** The halves of a seed. */
export function halvesOf(seed: bigint): Halves {
  return [Number(seed >> 32n), Number(seed & 0xffff_ffffn)];
}
