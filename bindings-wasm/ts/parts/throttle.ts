/** The adaptive throttle. */

import type { Throttle } from "../options_gen.js";
import { type Class, KINDS } from "../wire.js";
import { load } from "./native.js";
import { type May, made, moment, Part, placeOf, type Seed, seedOf, word64 } from "./part.js";

/** The keys of a throttle. */
export type ThrottleSettings = May<
  Throttle,
  "k" | "window" | "windowKind" | "minThroughput" | "maxReject" | "probeInterval"
>;

/** How an `AdaptiveThrottle` is made. */
export type ThrottleOptions = ThrottleSettings & {
  /** All the randomness there is; drawn from the platform where it is left out. */
  readonly seed?: Seed | undefined;
};

/**
 * Refuses a share of the calls to a downstream that does not accept enough of them.
 *
 * With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling as in the SRE book,
 * "Handling Overload". About k times what is still accepted is let through, so that recovery is noticed without a special state
 * (`docs/spec.md`, 6). By default k is 2 over 120 s.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const throttle = new parts.AdaptiveThrottle({ seed: 1 }, 0);
 * for (let n = 0; n < 100; n += 1) throttle.record(n < 40, 0);
 * assert.equal(throttle.probability(0), 20 / 101);
 * ```
 */
export class AdaptiveThrottle extends Part {
  /** `now` is the present, on your clock. */
  constructor(options: ThrottleOptions, now: number) {
    const { seed, ...settings } = options;
    const drawn = seedOf(seed);
    moment(now);
    super(made("throttle", settings, () => load().throttle(drawn, now)));
  }

  /** Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? Undefined: it does not count. */
  static accepted(kind: Class): boolean | undefined {
    return [false, true, undefined][load().throttle_accepted(placeOf("kind", kind, KINDS))];
  }

  /**
   * May a call go through? One that is refused has been counted; record one that is let through.
   *
   * @param now The present.
   * @param bits 64 random bits, in the place of the seed's.
   */
  admit(now: number, bits?: Seed): boolean {
    const draw = bits === undefined ? 0n : word64("bits", bits);
    return load().throttle_admit(this.handle, moment(now), bits === undefined ? 0 : 1, draw) === 1;
  }

  /** A call that was let through has ended. Do not record one that says neither yes nor no. */
  record(accepted: boolean, now: number): void {
    load().throttle_record(this.handle, accepted ? 1 : 0, moment(now));
  }

  /** The probability that a call is refused now, 0 to 1. */
  probability(now: number): number {
    return load().throttle_probability(this.handle, moment(now));
  }

  /** Requests and accepts in the window. */
  counts(now: number): { readonly requests: number; readonly accepts: number } {
    const { handle } = this;
    moment(now);
    return {
      requests: load().throttle_requests(handle, now),
      accepts: load().throttle_accepts(handle, now),
    };
  }

  /** Is nothing in the window? */
  isFresh(now: number): boolean {
    return load().throttle_fresh(this.handle, moment(now)) === 1;
  }

  /** Goes on with other settings. The counts are kept where the window's length and kind are the same. */
  retune(settings: ThrottleSettings, now: number): void {
    const { handle } = this;
    moment(now);
    made("throttle", settings, () => load().throttle_retune(handle, now));
  }
}
