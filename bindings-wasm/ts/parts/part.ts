/** What all parts have in common: settings that core checks, copies, and an end. */

import { type Form, mistakesOf, OPTIONS, pairsOf } from "../engine/options.js";
import { randomSeed } from "../engine/platform.js";
import { PolicyError } from "../errors.js";
import { about, load, said, stage } from "./native.js";

/** Randomness that can be had again: a whole number from 0 to 2^53 − 1, or 64 bits as a `bigint`. */
export type Seed = number | bigint;

/** As the options of a policy are written, of which the parts' own module knows the keys. */
const FORM: Form = { ...OPTIONS, about };

const freed =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<number>((handle) => load().part_free(handle));

/** One of core's parts. Its memory is given back by `dispose()`, by `using`, or when it is collected as garbage. */
export class Part {
  #handle: number;

  /** Each part has a constructor of its own. */
  constructor(handle: number) {
    this.#handle = handle;
    freed?.register(this, handle, this);
  }

  /** @internal Where it is in the module. */
  get handle(): number {
    if (this.#handle < 0) throw new TypeError(`this ${this.constructor.name} has been disposed of`);
    return this.#handle;
  }

  /** Another of the same state; the two then go their own ways. */
  copy(): this {
    // Made as the base alone makes it: what a part is, is in the module.
    return Reflect.construct(Part, [load().part_copy(this.handle)], this.constructor) as this;
  }

  /** Gives its memory back. To be used after that is an error; to be disposed of again is none. */
  dispose(): void {
    if (this.#handle < 0) return;
    freed?.unregister(this);
    load().part_free(this.#handle);
    this.#handle = -1;
  }
}

const symbol: symbol | undefined = (Symbol as { dispose?: symbol }).dispose;
if (symbol !== undefined) {
  Object.defineProperty(Part.prototype, symbol, { value: Part.prototype.dispose, configurable: true });
}

/** What a part is made of must be there, whatever else is left out. */
export type Needs<T, K extends keyof T> = { readonly [P in K]-?: Exclude<T[P], undefined> };
/** What may be left out. */
export type May<T, K extends keyof T> = { readonly [P in K]?: T[P] };

/**
 * Creates or changes a part with settings of this table of a policy. A mistake names the part's own key, not the policy's.
 */
export function made(table: string, settings: object, make: () => number): number {
  let nested = settings;
  for (const name of table.split(".").reverse()) nested = { [name]: nested };
  let mistakes: readonly { key: string; value: string; rule: string }[];
  try {
    const pairs = pairsOf(nested, FORM);
    stage(pairs);
    const handle = make();
    if (handle >= 0) return handle;
    mistakes = mistakesOf(said().split("\0"), FORM, pairs);
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    mistakes = error.mistakes;
  }
  const prefix = `${table}.`;
  throw new PolicyError(
    mistakes.map(({ key, value, rule }) => ({
      key: key.startsWith(prefix) ? key.slice(prefix.length) : key,
      value,
      rule: rule.replaceAll(prefix, ""),
    })),
  );
}

/** The seed that was given, or one of the platform's. */
export function seedOf(seed: Seed | undefined): bigint {
  if (seed !== undefined) return word64("seed", seed);
  const [high, low] = randomSeed();
  return (BigInt(high) << 32n) | BigInt(low);
}

/** A word of 64 bits. */
export function word64(key: string, value: Seed): bigint {
  const is = typeof value === "bigint" ? value : Number.isSafeInteger(value) ? BigInt(value) : -1n;
  if (is < 0n || is >= 1n << 64n) {
    throw new RangeError(
      `${key} = ${String(value)}: must be a whole number from 0 to 2^53 - 1, or a bigint below 2^64`,
    );
  }
  return is;
}

/** A draw of the caller's, or the part's own. */
export function drawOf(key: string, bits: Seed | undefined): [own: number, bits: bigint] {
  return bits === undefined ? [0, 0n] : [1, word64(key, bits)];
}

const LONGEST = 365 * 86_400_000;

/** How long a probe keeps its place; NaN for what follows from the other settings. */
export function lease(probeLease: number | undefined): number {
  return probeLease === undefined ? Number.NaN : real("probeLease", probeLease, 0.001, LONGEST);
}

/** What a retry is paid for after. */
export const PAID_FOR = ["transient", "timeout", "throttled"] as const;

/** Where a part is that another one is told of. */
export function handleOf<P extends Part>(key: string, part: P, kind: new (...args: never[]) => P): number {
  if (!(part instanceof kind)) throw new TypeError(`${key} = ${String(part)}: must be a ${kind.name}`);
  return part.handle;
}

/** A whole number within its range. */
export function whole(key: string, value: number, low: number, high: number): number {
  if (!(Number.isInteger(value) && value >= low && value <= high)) {
    throw new RangeError(`${key} = ${String(value)}: must be a whole number from ${low} to ${high}`);
  }
  return value;
}

/** A number within its range. */
export function real(key: string, value: number, low: number, high: number): number {
  if (!(typeof value === "number" && value >= low && value <= high)) {
    throw new RangeError(`${key} = ${String(value)}: must be a number from ${low} to ${high}`);
  }
  return value;
}

/** A moment on the user's clock. Further from its origin a number is no longer exact to the microsecond, nearly. */
export function moment(at: number, key = "now"): number {
  if (!(typeof at === "number" && Math.abs(at) <= 1e15)) {
    throw new RangeError(
      `${key} = ${String(at)}: must be a finite number of milliseconds from -1e15 to 1e15`,
    );
  }
  return at;
}

/** A span that was measured. */
export function span(key: string, ms: number): number {
  if (!(typeof ms === "number" && ms >= 0)) {
    throw new RangeError(`${key} = ${String(ms)}: must be a number of milliseconds, 0 or more`);
  }
  return ms;
}

/** What the module has where there is nothing. */
export function maybe(value: number): number | undefined {
  return Number.isNaN(value) ? undefined : value;
}

/** The place of a word in its list. */
export function placeOf(key: string, value: string, words: readonly string[]): number {
  const place = words.indexOf(value);
  if (place < 0) throw new RangeError(`${key} = ${String(value)}: must be one of ${words.join(", ")}`);
  return place;
}

export const U16 = 2 ** 16 - 1;
export const U32 = 2 ** 32 - 1;
