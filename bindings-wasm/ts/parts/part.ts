/** Base of all parts: settings checked by core, copies, and disposal. */

import { type Form, mistakesOf, OPTIONS, pairsOf } from "../engine/options.js";
import { randomSeed } from "../engine/platform.js";
import { PolicyError } from "../errors/errors.js";
import { about, load, pieces, stage } from "./native.js";

/** A seed for reproducible randomness: a whole number from 0 to 2^53 − 1, or 64 bits as a `bigint`. */
export type Seed = number | bigint;

/** The notation of a policy's options, with keys looked up in the parts' own module. */
const FORM: Form = { ...OPTIONS, about };

const freed =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<number>((handle) => load().part_free(handle));

/** One of core's parts. `dispose()`, `using` or garbage collection frees its memory. */
export class Part {
  #handle: number;

  /** Each part has its own constructor. */
  constructor(handle: number) {
    this.#handle = handle;
    freed?.register(this, handle, this);
  }

  /** @internal Its handle in the module. */
  get handle(): number {
    if (this.#handle < 0) throw new TypeError(`this ${this.constructor.name} has been disposed of`);
    return this.#handle;
  }

  /** Copies the part with its state; the two change independently from then on. */
  copy(): this {
    // Made by the base's constructor, because the module holds the part's kind and state.
    return Reflect.construct(Part, [load().part_copy(this.handle)], this.constructor) as this;
  }

  /** Frees its memory. Using the part afterwards is an error; disposing of it again is not. */
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

/** Settings that a part needs; all others may be left out. */
export type Needs<T, K extends keyof T> = { readonly [P in K]-?: Exclude<T[P], undefined> };
/** Settings that may be left out. */
export type May<T, K extends keyof T> = { readonly [P in K]?: T[P] };

/** Creates or changes a part with the settings of this table of a policy. A mistake names the part's own key, not the policy's. */
export function made(table: string, settings: object, make: () => number): number {
  let nested = settings;
  for (const name of table.split(".").reverse()) nested = { [name]: nested };
  let mistakes: readonly { key: string; value: string; rule: string }[];
  try {
    const pairs = pairsOf(nested, FORM);
    stage("part", pairs);
    const handle = make();
    if (handle >= 0) return handle;
    mistakes = mistakesOf(pieces(), FORM, pairs);
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

/** The given seed, or a random one. */
export function seedOf(seed: Seed | undefined): bigint {
  if (seed !== undefined) return word64("seed", seed);
  const [high, low] = randomSeed();
  return (BigInt(high) << 32n) | BigInt(low);
}

/** A 64-bit word. */
export function word64(key: string, value: Seed): bigint {
  const is = typeof value === "bigint" ? value : Number.isSafeInteger(value) ? BigInt(value) : -1n;
  if (is < 0n || is >= 1n << 64n) {
    throw new RangeError(
      `${key} = ${String(value)}: must be a whole number from 0 to 2^53 - 1, or a bigint below 2^64`,
    );
  }
  return is;
}

/** The caller's own draw, or a marker that the part draws. */
export function drawOf(key: string, bits: Seed | undefined): [own: number, bits: bigint] {
  return bits === undefined ? [0, 0n] : [1, word64(key, bits)];
}

const LONGEST = 365 * 86_400_000;

/** How long a probe keeps its place, in milliseconds; NaN to derive it from the other settings. */
export function lease(probeLease: number | undefined): number {
  return probeLease === undefined ? Number.NaN : real("probeLease", probeLease, 0.001, LONGEST);
}

/** The failures after which a retry quota charges for a retry. */
export const PAID_FOR = ["transient", "timeout", "throttled"] as const;

/** The handle of a part that another part uses. */
export function handleOf<P extends Part>(key: string, part: P, kind: new (...args: never[]) => P): number {
  if (!(part instanceof kind)) throw new TypeError(`${key} = ${String(part)}: must be a ${kind.name}`);
  return part.handle;
}

/** Checks a whole number against its range. */
export function whole(key: string, value: number, low: number, high: number): number {
  if (!(Number.isInteger(value) && value >= low && value <= high)) {
    throw new RangeError(`${key} = ${String(value)}: must be a whole number from ${low} to ${high}`);
  }
  return value;
}

/** Checks a number against its range. */
export function real(key: string, value: number, low: number, high: number): number {
  if (!(typeof value === "number" && value >= low && value <= high)) {
    throw new RangeError(`${key} = ${String(value)}: must be a number from ${low} to ${high}`);
  }
  return value;
}

/** A moment on the user's clock. Farther from the origin, a number would no longer be exact to about a microsecond. */
export function moment(at: number, key = "now"): number {
  if (!(typeof at === "number" && Math.abs(at) <= 1e15)) {
    throw new RangeError(
      `${key} = ${String(at)}: must be a finite number of milliseconds from -1e15 to 1e15`,
    );
  }
  return at;
}

/** Checks a measured span. */
export function span(key: string, ms: number): number {
  if (!(typeof ms === "number" && ms >= 0)) {
    throw new RangeError(`${key} = ${String(ms)}: must be a number of milliseconds, 0 or more`);
  }
  return ms;
}

/** Converts the module's value for "none" (NaN) to undefined. */
export function maybe(value: number): number | undefined {
  return Number.isNaN(value) ? undefined : value;
}

/** The index of a word in its list. */
export function placeOf(key: string, value: string, words: readonly string[]): number {
  const place = words.indexOf(value);
  if (place < 0) throw new RangeError(`${key} = ${String(value)}: must be one of ${words.join(", ")}`);
  return place;
}

export const U16 = 2 ** 16 - 1;
export const U32 = 2 ** 32 - 1;
