// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed? */

import { load, said, say } from "./native.js";
import { handleOf, maybe, Part, real, type Seed, U32, whole, word64 } from "./part.js";

/** A sketch has 2,053 at most; what is far beyond that is not even copied. */
const MOST_WORDS = 65_536;

function parsed(word: string): bigint {
  return /^[0-9]{1,20}$/.test(word) ? BigInt(word) : -1n;
}

/**
 * One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).
 *
 * Jain and Chlamtac, CACM 28(10), 1985. 88 bytes, whatever the number of values; there is no forgetting.
 * Exact below five values; a quantile far from the middle is estimated too low (or high) until some 3 ÷ (1 −
 * p) values have moved the marker to its place.
 *
 * @throws RangeError If one is outside its range.
 * @example
 * ```ts
 * const median = new parts.P2Quantile(0.5);
 * for (let value = 1; value <= 1001; value += 1) median.observe(value);
 * assert.deepEqual([median.estimate, median.count], [501, 1001]);
 * ```
 */
export class P2Quantile extends Part {
  /** @param p The quantile, 0.001 to 0.999; 0.5 is the median. */
  constructor(p: number) {
    super(load().p2_quantile(real("p", p, 0.001, 0.999)));
  }

  /** Adds one value. NaN and the infinities are ignored. */
  observe(x: number): void {
    load().p2_quantile_observe(this.handle, x);
  }

  /** The estimate; undefined before the first value. */
  get estimate(): number | undefined {
    return maybe(load().p2_quantile_estimate(this.handle));
  }

  /** Number of values. */
  get count(): number {
    return load().p2_quantile_count(this.handle);
  }
}

/**
 * One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).
 *
 * Two overlapping `P2Quantile`s, so that old values are forgotten and there is always an answer.
 *
 * @throws RangeError If one is outside its range.
 * @example
 * ```ts
 * const p95 = new parts.WindowedP2Quantile(0.95, 512);
 * for (let n = 0; n < 10_512; n += 1) p95.observe(n < 10_000 ? 20 : 80);
 * assert.equal(p95.estimate, 80);
 * ```
 */
export class WindowedP2Quantile extends Part {
  /**
   * @param p The quantile, 0.001 to 0.999; 0.5 is the median.
   * @param window How many values are remembered at most; 10 to 2^32 − 1. An odd window is one value shorter.
   */
  constructor(p: number, window: number) {
    super(load().windowed_p2_quantile(real("p", p, 0.001, 0.999), whole("window", window, 10, U32)));
  }

  /** Adds one value. NaN and the infinities are ignored. */
  observe(x: number): void {
    load().windowed_p2_quantile_observe(this.handle, x);
  }

  /** The estimate; undefined before the first value, exact below five. */
  get estimate(): number | undefined {
    return maybe(load().windowed_p2_quantile_estimate(this.handle));
  }

  /** Number of values behind the estimate. */
  get count(): number {
    return load().windowed_p2_quantile_count(this.handle);
  }

  /** Forgets all values. */
  reset(): void {
    load().windowed_p2_quantile_reset(this.handle);
  }
}

/**
 * All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).
 *
 * Masson, Rim and Lee, VLDB 2019, with integer arithmetic: the same bins on every machine and in every
 * language. At most 2,048 bins, 16 KiB; a negative value counts as zero. A sketch is data: equal ones compare
 * equal, and it can be sent as words.
 *
 * @throws RangeError If one is outside its range.
 * @example
 * ```ts
 * const [here, there] = [new parts.DDSketch(), new parts.DDSketch()];
 * for (let ms = 1; ms <= 500; ms += 1) {
 *   here.add(ms);
 *   there.add(ms + 500);
 * }
 * here.merge(parts.DDSketch.fromWords(JSON.parse(JSON.stringify(there)) as string[]));
 * assert.equal(here.count, 1000);
 * assert.ok(Math.abs((here.quantile(0.99) ?? 0) - 990) <= 9.9);
 * ```
 */
export class DDSketch extends Part {
  /** @param alpha The relative accuracy, 0.001 to 0.25; by default 0.01, so 1 %. */
  constructor(alpha = 0.01) {
    super(load().dd_sketch(real("alpha", alpha, 0.001, 0.25)));
  }

  /** Adds one value. NaN and the infinities are ignored. */
  add(x: number): void {
    load().dd_sketch_add(this.handle, x);
  }

  /**
   * Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
   *
   * Those two are exact, all others within `alpha` of the true value, relative to it. Undefined of an empty
   * sketch. `q` is 0 to 1.
   *
   * @throws RangeError If `q` is outside its range.
   */
  quantile(q: number): number | undefined {
    return maybe(load().dd_sketch_quantile(this.handle, real("q", q, 0, 1)));
  }

  /** Number of values. */
  get count(): number {
    return load().dd_sketch_count(this.handle);
  }

  /** The sum of the values, in the order in which they came. */
  get sum(): number {
    return load().dd_sketch_sum(this.handle);
  }

  /** The least value, exactly; undefined of an empty sketch. */
  get min(): number | undefined {
    return maybe(load().dd_sketch_min(this.handle));
  }

  /** The greatest value, exactly; undefined of an empty sketch. */
  get max(): number | undefined {
    return maybe(load().dd_sketch_max(this.handle));
  }

  /** The relative accuracy that is kept: at most what was asked for. */
  get alpha(): number {
    return load().dd_sketch_alpha(this.handle);
  }

  /** (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged. */
  get gamma(): number {
    return load().dd_sketch_gamma(this.handle);
  }

  /** Forgets all values and keeps the accuracy. */
  clear(): void {
    load().dd_sketch_clear(this.handle);
  }

  /** The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact. */
  toWords(): bigint[] {
    load().dd_sketch_to_words(this.handle);
    return said().split(" ").map(BigInt);
  }

  /**
   * Takes in all that another sketch holds, as if each of its values had been added here.
   *
   * @throws RangeError If the other has another `alpha`, or the two hold more than 2^53 − 1 values. Neither
   * has changed.
   */
  merge(other: DDSketch): void {
    if (load().dd_sketch_merge(this.handle, handleOf("other", other, DDSketch)) < 0) throw new RangeError(`other: ${said()}`);
  }

  /**
   * The sketch that these words are: `toWords` of one in any language.
   *
   * @throws RangeError If they are no sketch; with the rule that they break.
   */
  static fromWords(words: Iterable<Seed | string>): DDSketch {
    const all: bigint[] = [];
    for (const word of words) {
      if (all.length === MOST_WORDS) throw new RangeError("words: there are more than a sketch can have");
      all.push(word64(`words[${all.length}]`, typeof word === "string" ? parsed(word) : word));
    }
    say(all.join(" "));
    const handle = load().sketch_from_words();
    if (handle < 0) throw new RangeError(`words: ${said()}`);
    return Reflect.construct(Part, [handle], DDSketch) as DDSketch;
  }

  /** Its words, as JSON can hold them. */
  toJSON(): string[] {
    return this.toWords().map(String);
  }

  /** Does it hold the same, to the last count? */
  equals(other: DDSketch): boolean {
    return load().dd_sketch_equals(this.handle, handleOf("other", other, DDSketch)) === 1;
  }
}
