/** What an engine says about itself when it is asked: explanations, and the journals that it can be made again from. */

import type { Halves } from "../engine/engine_types.js";
import type { Verdict } from "../engine/wire.js";
import type { TidegateEvent } from "./events.js";

/** One component of a policy. */
export interface Component {
  /** Its name; of a part of another component, dotted. */
  readonly name: string;
  /** What it is for. */
  readonly meaning: string;
  /** Its keys with the values in force, as a document writes them. */
  readonly settings: Readonly<Record<string, string>>;
}

/** The most load that calls become: attempts ≤ `perCall` · calls + `perSecond` · seconds + `burst`; null is without bound. */
export interface Load {
  readonly perCall: number | null;
  readonly perSecond: number | null;
  readonly burst: number | null;
}

/** What a policy comes to. */
export interface PolicyExplanation {
  /** The policy's name. */
  readonly policy: string;
  /** Its components, outermost first. */
  readonly components: readonly Component[];
  /** The most attempts that a call makes, hedges included. */
  readonly maxAttempts: number;
  /** The most milliseconds that a call spends waiting, not in attempts; null where nothing bounds it. */
  readonly maxWait: number | null;
  /** The most milliseconds that a call takes; null where nothing bounds it. */
  readonly maxTime: number | null;
  /** The most load that calls become, for each retry budget: so for each route, unless the budget is a pool. */
  readonly load: Load;
  /** Bytes that each route keeps, its key and what a hold counts apart. */
  readonly memoryPerRoute: number;
  /** What may not be as its author thinks. */
  readonly warnings: readonly string[];
  /** All of it for people, as `toString` gives it. */
  readonly text: string;
  toString(): string;
}

/** How things stand with a call, or how it ended. Moments are milliseconds on the engine's clock. */
export interface CallExplanation {
  /** The call's number, as events have it. */
  readonly call: number;
  /** The policy's name. */
  readonly policy: string;
  /** The route's key. */
  readonly route: string;
  /** When it began. */
  readonly began: number;
  /** The moment that this is about. */
  readonly at: number;
  /** Attempts started. */
  readonly attempts: number;
  /** How it stands, in words. */
  readonly standing: string;
  /** What it waits for: `backoff`, `queue` …; null where it does not. */
  readonly why: string | null;
  /** Until when at most; null where nothing bounds it. */
  readonly until: number | null;
  /** Its deadline; null without one. */
  readonly deadline: number | null;
  /** How it ended, or what its owner will be told; null while that is open. */
  readonly reason: Verdict | null;
  /** The numbers of its route: of a call that has ended, just before the step that ended it. */
  readonly numbers: readonly string[];
  /** What was decided about it, of a call that has ended. */
  readonly story: readonly TidegateEvent[];
  /** All of it for people, as `toString` gives it. */
  readonly text: string;
  toString(): string;
}

/** An explanation that is its text where a text is wanted. */
export function spoken<T extends { readonly text: string }>(of: T): T {
  return Object.defineProperty(of, "toString", { value: () => of.text });
}

/** The first line of a journal, which the lines of the engine follow. */
export function headOf(seed: bigint, maxRoutes: number): string {
  return `tidegate journal 1 seed ${seed} routes ${maxRoutes}\n`;
}

/**
 * The seed, the bound on routes and the lines of a journal.
 *
 * @throws RangeError If it does not begin as one.
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
  readonly engine: object;
  readonly call: number;
}

const ended = new WeakMap<object, Ended>();

/** Keeps which call an error or an answer ended. */
export function mark(value: unknown, engine: object, call: number): void {
  if ((typeof value === "object" && value !== null) || typeof value === "function") {
    ended.set(value, { engine, call });
  }
}

/** The engine and the call that something ended. */
export function endOf(value: unknown): Ended | undefined {
  return typeof value === "object" && value !== null ? ended.get(value) : undefined;
}

/** A seed as one number. */
export function seedOf([high, low]: Halves): bigint {
  return (BigInt(high) << 32n) | BigInt.asUintN(32, BigInt(low));
}

/** Its halves. */
export function halvesOf(seed: bigint): Halves {
  return [Number(seed >> 32n), Number(seed & 0xffff_ffffn)];
}
