// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** Delays: the backoff, and what a server asks for. */

import type { BackoffKeys } from "../options_gen.js";
import { load, say } from "./native.js";
import { drawOf, type May, made, maybe, Part, type Seed, seedOf, whole } from "./part.js";

/**
 * Reads a `Retry-After` value: milliseconds to wait, or undefined where it says nothing (RFC 9110, 10.2.3).
 *
 * Delay-seconds, or one of the three HTTP dates against the wall clock. A negative number and a past date are 0; decimals,
 * units, signs, other digits than ASCII's, wrong dates and garbage are undefined. Never throws for a value, whatever it is.
 *
 * @param value The header's value, as `headers.get` tells it.
 * @param now The wall clock: a `Date`, or milliseconds since 1970; the present if left out.
 * @throws RangeError If `now` is no moment from 1970 to 287396.
 * @example
 * ```ts
 * assert.equal(parts.parseRetryAfter("120"), 120_000);
 * assert.equal(parts.parseRetryAfter("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_770_000), 7000);
 * assert.equal(parts.parseRetryAfter("1.5"), undefined);
 * ```
 */
export function parseRetryAfter(
  value: string | null | undefined,
  now: Date | number = Date.now(),
): number | undefined {
  const wall = Number(now);
  if (!(wall >= 0 && wall <= Number.MAX_SAFE_INTEGER / 1000)) {
    throw new RangeError(`now = ${String(now)}: must be milliseconds since 1970, at most 2^53 us`);
  }
  if (value === null || value === undefined) return undefined;
  say(String(value));
  return maybe(load().retry_after(Math.round(wall * 1000)));
}

/** Settings of a `Backoff`. */
export type BackoffOptions =
  May<BackoffKeys, "kind" | "base" | "max" | "multiplier" | "exponent" | "jitter" | "jitterRatio"> &
  {
  /** Seed of all random draws, 64 bits; by default from the operating system. */
  readonly seed?: Seed | undefined;
};

/**
 * The delay before retry n = 1, 2, …: growth, cap, jitter.
 *
 * Growth: `constant` base, `linear` base·n, `exponential` base·multiplier^(n−1), `polynomial`
 * base·n^exponent, each capped at `max` before jitter. Jitter of a delay d: `none`, `full` U(0, d),
 * `full_floor` U(0.1·d, d), `equal` d/2 + U(0, d/2), `decorrelated` U(base, min(max, 3·previous)), `bounded`
 * U((1−j)·d, (1+j)·d). Names after "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015);
 * `docs/spec.md`, 2.4 and 2.5.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const backoff = new parts.Backoff({ base: 100, max: 5000, jitter: "none" });
 * assert.deepEqual([1, 2, 3, 7].map((n) => backoff.delay(n)), [100, 200, 400, 5000]);
 * ```
 */
export class Backoff extends Part {
  constructor(options: BackoffOptions = {}) {
    const { seed, ...rest } = options;
    const given = [seedOf(seed)] as const;
    super(made("retry.backoff", rest, () => load().backoff(...given)));
  }

  /**
   * Milliseconds to wait before retry `n`, 1 to 255.
   *
   * Without `call` every delay is a draw of its own. With one, a number of your own for the call that is
   * retried, the delay is a function of seed, call and n, and `decorrelated` follows the call's own draws.
   */
  delay(n: number, call?: Seed): number {
    return load().backoff_delay(this.handle, whole("n", n, 1, 255), ...drawOf("call", call));
  }

  /** Milliseconds before retry `n`, 1 to 255, without jitter. */
  ceiling(n: number): number {
    return load().backoff_ceiling(this.handle, whole("n", n, 1, 255));
  }
}
