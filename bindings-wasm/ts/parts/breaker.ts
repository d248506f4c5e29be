// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** Who is let through: the circuit breaker and the adaptive throttle. */

import type { BreakerKeys, Throttle } from "../options_gen.js";
import { type Class, KINDS } from "../engine/wire.js";
import { load } from "./native.js";
import { drawOf, lease, type May, made, maybe, moment, type Needs, Part, placeOf, type Seed, seedOf, U16, whole } from "./part.js";

const STATES = ["closed", "open", "half_open"] as const;
const EVIDENCE = ["success", "failure", "neutral"] as const;

/** Where a breaker stands. */
export type BreakerState = (typeof STATES)[number];
/** What came of a call, as a breaker sees it. */
export type Evidence = (typeof EVIDENCE)[number];

/** Proof of an admission, to be handed back with what came of it. Plain data. */
export interface Ticket {
  /** The generation while closed, the probe while half-open. */
  readonly number: number;
  readonly probe: boolean;
}

function wordOf({ number, probe }: Ticket): number {
  return whole("ticket.number", number, 0, U16) + (probe ? U16 + 1 : 0);
}

function ticketOf(word: number): Ticket | undefined {
  return word < 0 ? undefined : { number: word & U16, probe: word > U16 };
}

function change(word: number): [BreakerState, BreakerState] | undefined {
  if (word === 0) return undefined;
  return [STATES[Math.floor((word - 1) / 3)] as BreakerState, STATES[(word - 1) % 3] as BreakerState];
}

/** Settings of a `CircuitBreaker`. */
export type BreakerSettings =
  Needs<BreakerKeys, "breakDuration"> &
  May<BreakerKeys, "failureRatio" | "window" | "minThroughput" | "windowKind" | "consecutive" | "breakFactor" | "maxBreakDuration" | "halfOpenMaxCalls" | "successesToClose"> &
  {
  /**
   * How long a probe keeps its place without reporting; 1 µs to 365 days, by default `breakDuration`. In a
   * policy it follows from the attempt timeout. In milliseconds.
   */
  readonly probeLease?: number | undefined;
};

/** How a `CircuitBreaker` is made. */
export type BreakerOptions =
  BreakerSettings &
  {
  /** Seed of all random draws, 64 bits; by default from the operating system. */
  readonly seed?: Seed | undefined;
};

/**
 * Refuses calls to a downstream that fails too often, and lets a few through after a break.
 *
 * It opens when failures ≥ `failureRatio`·results with at least `minThroughput` results in the window, or
 * after `consecutive` failures. Probes are leases: one that never reports loses its place, so that no lost
 * call keeps a breaker half-open. A result that comes too late changes nothing (`docs/spec.md`, 5).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const breaker = new parts.CircuitBreaker({ breakDuration: 5000, consecutive: 2, breakFactor: 1 });
 * for (const now of [0, 1000]) {
 *   const ticket = breaker.admit(now);
 *   if (ticket !== undefined) breaker.record(ticket, "failure", now);
 * }
 * assert.deepEqual([breaker.state, breaker.admit(2000), breaker.refuses(2000)], ["open", undefined, 4000]);
 * const probe = breaker.admit(6000);
 * assert.deepEqual(probe && breaker.record(probe, "success", 7000), ["half_open", "closed"]);
 * ```
 */
export class CircuitBreaker extends Part {
  constructor(options: BreakerOptions) {
    const { probeLease, seed, ...rest } = options;
    const given = [lease(probeLease), seedOf(seed)] as const;
    super(made("breaker", rest, () => load().circuit_breaker(...given)));
  }

  /**
   * `closed`, `open` or `half_open`.
   *
   * A break that has ended is `open` until the first admission after it.
   */
  get state(): BreakerState {
    return STATES[load().circuit_breaker_state(this.handle)] as BreakerState;
  }

  /**
   * Lets a call through: a ticket to hand back with what came of it.
   *
   * Undefined where it is refused; `refuses` says for how long.
   */
  admit(now: number): Ticket | undefined {
    return ticketOf(load().circuit_breaker_admit(this.handle, moment(now)));
  }

  /**
   * Takes what came of an admitted call: the transition that it made, or undefined.
   *
   * @param ticket What `admit` gave. One of an older generation changes nothing.
   * @param evidence `neutral` gives a probe's place back and counts nothing.
   * @param bits 64 random bits for the jitter of a break that this opens, in the place of the seed's.
   */
  record(ticket: Ticket, evidence: Evidence, now: number, bits?: Seed): [from: BreakerState, to: BreakerState] | undefined {
    return change(load().circuit_breaker_record(this.handle, wordOf(ticket), placeOf("evidence", evidence, EVIDENCE), moment(now), ...drawOf("bits", bits)));
  }

  /**
   * The body failed of a call that was recorded as a success at its head.
   *
   * Its success becomes a failure.
   */
  onBodyFailure(ticket: Ticket, now: number, bits?: Seed): [from: BreakerState, to: BreakerState] | undefined {
    return change(load().circuit_breaker_on_body_failure(this.handle, wordOf(ticket), moment(now), ...drawOf("bits", bits)));
  }

  /**
   * What an outcome of one of the nine classes says (`docs/spec.md`, 1.2).
   *
   * `permanent`, a healthy server's "no", is a success.
   *
   * @throws RangeError If `kind` is none of the classes.
   */
  evidenceOf(kind: Class): Evidence {
    return EVIDENCE[load().circuit_breaker_evidence_of(this.handle, placeOf("kind", kind, KINDS))] as Evidence;
  }

  /**
   * Milliseconds until another try makes sense if an admission now would be refused, else undefined.
   *
   * Changes nothing.
   */
  refuses(now: number): number | undefined {
    return maybe(load().circuit_breaker_refuses(this.handle, moment(now)));
  }

  /** The end of the break while open, on your clock; else undefined. */
  get openUntil(): number | undefined {
    return maybe(load().circuit_breaker_open_until(this.handle));
  }

  /** Failures in the window; while open, what is left of those that opened it. */
  failures(now: number): number {
    return load().circuit_breaker_failures(this.handle, moment(now));
  }

  /** Results in the window, failures included. */
  throughput(now: number): number {
    return load().circuit_breaker_throughput(this.handle, moment(now));
  }

  /** Whether a new breaker would decide the same from now on. */
  isFresh(now: number): boolean {
    return load().circuit_breaker_is_fresh(this.handle, moment(now)) === 1;
  }

  /** Closed again, with nothing counted. Results of calls admitted before change nothing. */
  reset(): void {
    load().circuit_breaker_reset(this.handle);
  }

  /** Releases the places of all probes: after a fork, they belong to the parent process. */
  forgetProbes(): void {
    load().circuit_breaker_forget_probes(this.handle);
  }

  /**
   * Applies new settings, with the same keys as before.
   *
   * State, probes out and failures in a row are kept, and so are the window's counts where its length and
   * kind are the same. A break under way is cut to the longest that the new settings could give.
   */
  retune(settings: BreakerSettings, now: number): void {
    const { probeLease, ...rest } = settings;
    const given = [this.handle, lease(probeLease), moment(now)] as const;
    made("breaker", rest, () => load().circuit_breaker_retune(...given));
  }
}

/** Settings of a `AdaptiveThrottle`. */
export type ThrottleSettings =
  May<Throttle, "k" | "window" | "windowKind" | "minThroughput" | "maxReject" | "probeInterval">;

/** How a `AdaptiveThrottle` is made. */
export type ThrottleOptions =
  ThrottleSettings &
  {
  /** Seed of all random draws, 64 bits; by default from the operating system. */
  readonly seed?: Seed | undefined;
};

/**
 * Refuses a share of the calls to a downstream that does not accept enough of them.
 *
 * With probability p = max(0, (requests − k·accepts)/(requests + 1)) over a window: client-side throttling as
 * in the SRE book, "Handling Overload". About k times what is still accepted is let through, so that recovery
 * is noticed without a special state (`docs/spec.md`, 6).
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
  /** @param now The present, on your clock. */
  constructor(options: ThrottleOptions, now: number) {
    const { seed, ...rest } = options;
    const given = [moment(now), seedOf(seed)] as const;
    super(made("throttle", rest, () => load().adaptive_throttle(...given)));
  }

  /**
   * May a call go through? One that is refused has been counted; record one that is let through.
   *
   * @param bits 64 random bits, in the place of the seed's.
   */
  admit(now: number, bits?: Seed): boolean {
    return load().adaptive_throttle_admit(this.handle, moment(now), ...drawOf("bits", bits)) === 1;
  }

  /** A call that was let through has ended. Do not record one that says neither yes nor no. */
  record(accepted: boolean, now: number): void {
    load().adaptive_throttle_record(this.handle, accepted ? 1 : 0, moment(now));
  }

  /**
   * Was a call of one of the nine classes accepted (`docs/spec.md`, 1.2)? Undefined: it does not count.
   *
   * @throws RangeError If `kind` is none of the classes.
   */
  accepted(kind: Class): boolean | undefined {
    return [false, true, undefined][load().adaptive_throttle_accepted(this.handle, placeOf("kind", kind, KINDS))];
  }

  /** Requests in the window. */
  requests(now: number): number {
    return load().adaptive_throttle_requests(this.handle, moment(now));
  }

  /** Those of them that the downstream accepted. */
  accepts(now: number): number {
    return load().adaptive_throttle_accepts(this.handle, moment(now));
  }

  /** The probability that a call is refused now, 0 to 1. */
  probability(now: number): number {
    return load().adaptive_throttle_probability(this.handle, moment(now));
  }

  /** Is nothing in the window? */
  isFresh(now: number): boolean {
    return load().adaptive_throttle_is_fresh(this.handle, moment(now)) === 1;
  }

  /**
   * Applies new settings, with the same keys as before.
   *
   * The counts are kept where the window's length and kind are the same.
   */
  retune(settings: ThrottleSettings, now: number): void {
    const given = [this.handle, moment(now)] as const;
    made("throttle", settings, () => load().adaptive_throttle_retune(...given));
  }
}
