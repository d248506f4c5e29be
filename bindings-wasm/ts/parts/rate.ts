// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** How fast: rate limits, and the cubic send rate. */

import type { RateLimitKeys } from "../options_gen.js";
import { load } from "./native.js";
import { type May, made, maybe, moment, type Needs, Part, U32, whole } from "./part.js";

/** Settings of a `TokenBucket`. */
export type RateSettings =
  Needs<RateLimitKeys, "permits" | "per"> &
  May<RateLimitKeys, "burst">;

/**
 * A rate and a burst: a bucket that starts full and refills continuously (`docs/spec.md`, 3.1).
 *
 * Integers only, so nothing drifts; a clock that runs back adds no tokens, and a silence of hours gives one
 * burst. Within any span t it grants at most `burst` + t·`permits`/`per`.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const bucket = new parts.TokenBucket({ permits: 3, per: 1000, burst: 2 }, 0);
 * assert.deepEqual([bucket.tryTake(0, 2), bucket.tryTake(0)], [true, false]);
 * assert.equal(bucket.acquire(0), 333.334);
 * assert.equal(bucket.acquire(333.334), 0);
 * ```
 */
export class TokenBucket extends Part {
  /** @param now The moment from which it fills, on your clock. */
  constructor(settings: RateSettings, now: number) {
    const given = [moment(now)] as const;
    super(made("rateLimit", settings, () => load().token_bucket(...given)));
  }

  /** Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted. */
  tryTake(now: number, cost = 1): boolean {
    return load().token_bucket_try_take(this.handle, moment(now), whole("cost", cost, 0, U32)) === 1;
  }

  /**
   * Takes `cost` tokens, or takes none and says when to come back.
   *
   * 0 where they were taken. Else the milliseconds until there are enough, rounded up to a microsecond;
   * Infinity for a cost above the burst.
   */
  acquire(now: number, cost = 1): number {
    return load().token_bucket_acquire(this.handle, moment(now), whole("cost", cost, 0, U32));
  }

  /**
   * Milliseconds until `tokens` in all (0 to 2^53 − 1) will have flowed in beyond what is used; takes none.
   *
   * Linear, also above the burst: the third of three waiters that need one token each waits for 3.
   */
  waitFor(now: number, tokens = 1): number {
    return load().token_bucket_wait_for(this.handle, moment(now), whole("tokens", tokens, 0, Number.MAX_SAFE_INTEGER));
  }

  /** Whole tokens that are available now. */
  level(now: number): number {
    return load().token_bucket_level(this.handle, moment(now));
  }

  /** Whether it is full, as a new one is. */
  isFresh(now: number): boolean {
    return load().token_bucket_is_fresh(this.handle, moment(now)) === 1;
  }

  /**
   * Applies new settings, with the same keys as before, and keeps the tokens.
   *
   * They are capped at the new burst; a larger burst fills at the new rate. Changing the settings back and
   * forth adds no tokens.
   */
  retune(settings: RateSettings, now: number): void {
    const given = [this.handle, moment(now)] as const;
    made("rateLimit", settings, () => load().token_bucket_retune(...given));
  }
}

/**
 * The same rate limit kept as one moment: the generic cell rate algorithm (`docs/spec.md`, 3.3).
 *
 * ITU-T I.371. It decides as a `TokenBucket` of the same settings wherever `permits` divide `per` in
 * microseconds; elsewhere its interval is rounded up to whole microseconds, so that it never grants more.
 * Starts full. A clock that runs back adds no tokens.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const limit = new parts.Gcra({ permits: 1, per: 1000, burst: 2 });
 * assert.equal(limit.tryTake(0, 2), true);
 * assert.equal(limit.acquire(400), 600);
 * ```
 */
export class Gcra extends Part {
  constructor(settings: RateSettings) {
    super(made("rateLimit", settings, () => load().gcra()));
  }

  /** Takes `cost` tokens (0 to 2^32 − 1), if there are enough. A cost of 0 is always granted. */
  tryTake(now: number, cost = 1): boolean {
    return load().gcra_try_take(this.handle, moment(now), whole("cost", cost, 0, U32)) === 1;
  }

  /**
   * Takes `cost` tokens, or takes none and says when to come back.
   *
   * 0 where they were taken. Else the milliseconds until there are enough, rounded up to a microsecond;
   * Infinity for a cost above the burst.
   */
  acquire(now: number, cost = 1): number {
    return load().gcra_acquire(this.handle, moment(now), whole("cost", cost, 0, U32));
  }

  /** Whether it is full, as a new one is. */
  isFresh(now: number): boolean {
    return load().gcra_is_fresh(this.handle, moment(now)) === 1;
  }
}

/**
 * A send rate that throttles cut, and that grows back along a cubic curve (the AWS SDKs' adaptive mode).
 *
 * Off, and free, until the first throttle; never below 0.5 sends a second. The curve is CUBIC's (RFC 9438)
 * with β = 0.7 and C = 0.4 (`docs/spec.md`, 2.14).
 *
 * @example
 * ```ts
 * const rate = new parts.CubicRate(0);
 * assert.deepEqual([rate.acquire(1000), rate.rate], [0, undefined]);
 * rate.onResponse(true, 1000);
 * assert.ok(rate.rate !== undefined && rate.acquire(1000) > 0);
 * ```
 */
export class CubicRate extends Part {
  /** @param now The moment from which sends are measured. */
  constructor(now: number) {
    super(load().cubic_rate(moment(now)));
  }

  /** Takes one send: 0, or the milliseconds to wait before asking again. */
  acquire(now: number): number {
    return load().cubic_rate_acquire(this.handle, moment(now));
  }

  /** Counts an answer: a throttled one cuts the rate, any other lets it grow. */
  onResponse(throttled: boolean, now: number): void {
    load().cubic_rate_on_response(this.handle, throttled ? 1 : 0, moment(now));
  }

  /** Sends per second that are allowed; undefined before the first throttle. */
  get rate(): number | undefined {
    return maybe(load().cubic_rate_rate(this.handle));
  }
}
