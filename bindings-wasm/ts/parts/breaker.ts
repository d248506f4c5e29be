/** The circuit breaker. */

import type { Breaker } from "../options_gen.js";
import { type Class, KINDS } from "../wire.js";
import { load } from "./native.js";
import {
  type May,
  made,
  maybe,
  moment,
  type Needs,
  Part,
  placeOf,
  real,
  type Seed,
  seedOf,
  U16,
  whole,
  word64,
} from "./part.js";

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

/** The keys of a breaker. */
export interface BreakerSettings
  extends Needs<Breaker, "breakDuration">,
    May<Breaker, "failureRatio" | "window" | "minThroughput" | "windowKind" | "consecutive" | "breakFactor">,
    May<Breaker, "maxBreakDuration" | "halfOpenMaxCalls" | "successesToClose"> {
  /**
   * Milliseconds that a probe keeps its place without reporting; 0.001 to 365 days, by default `breakDuration`. In a policy it
   * follows from the attempt timeout.
   */
  readonly probeLease?: number | undefined;
}

/** How a `CircuitBreaker` is made. */
export interface BreakerOptions extends BreakerSettings {
  /** All the randomness there is; drawn from the platform where it is left out. */
  readonly seed?: Seed | undefined;
}

const LONGEST = 365 * 86_400_000;

function lease(ms: number | undefined): number {
  return ms === undefined ? Number.NaN : real("probeLease", ms, 0.001, LONGEST);
}

/**
 * Refuses calls to a downstream that fails too often, and lets a few through after a break.
 *
 * It opens when failures ≥ `failureRatio`·results with at least `minThroughput` results in the window, or after `consecutive`
 * failures. Probes are leases: one that never reports loses its place, so that no lost call keeps a breaker half-open. A
 * result that comes too late changes nothing (`docs/spec.md`, 5).
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
    const { seed, probeLease, ...settings } = options;
    const [held, drawn] = [lease(probeLease), seedOf(seed)];
    super(made("breaker", settings, () => load().breaker(held, drawn)));
  }

  /** What an outcome of one of the nine classes says: `permanent`, a healthy downstream's "no", is a success. */
  static evidenceOf(kind: Class): Evidence {
    return EVIDENCE[load().breaker_evidence(placeOf("kind", kind, KINDS))] as Evidence;
  }

  /** A break that has ended is `open` until the first admission after it. */
  get state(): BreakerState {
    return STATES[load().breaker_state(this.handle)] as BreakerState;
  }

  /** Milliseconds until another try makes sense where an admission now would be refused, else undefined. Changes nothing. */
  refuses(now: number): number | undefined {
    return maybe(load().breaker_refuses(this.handle, moment(now)));
  }

  /** Lets a call through: a ticket to hand back with what came of it. Undefined where it is refused. */
  admit(now: number): Ticket | undefined {
    const word = load().breaker_admit(this.handle, moment(now));
    return word < 0 ? undefined : { number: word & U16, probe: word > U16 };
  }

  /**
   * Takes what came of an admitted call: the transition that it made, or undefined.
   *
   * @param ticket What `admit` gave. One of an older generation changes nothing.
   * @param evidence `neutral` gives a probe's place back and counts nothing. `evidenceOf` knows.
   * @param now The present.
   * @param bits 64 random bits for the jitter of a break that this opens, in the place of the seed's.
   */
  record(
    ticket: Ticket,
    evidence: Evidence,
    now: number,
    bits?: Seed,
  ): [from: BreakerState, to: BreakerState] | undefined {
    const place = placeOf("evidence", evidence, EVIDENCE);
    const [own, draw] = drawOf(bits);
    return change(load().breaker_record(this.handle, wordOf(ticket), place, moment(now), own, draw));
  }

  /** The body failed of a call that was recorded as a success at its head: its success becomes a failure. */
  onBodyFailure(
    ticket: Ticket,
    now: number,
    bits?: Seed,
  ): [from: BreakerState, to: BreakerState] | undefined {
    const [own, draw] = drawOf(bits);
    return change(load().breaker_body(this.handle, wordOf(ticket), moment(now), own, draw));
  }

  /** The end of the break while open, on your clock. */
  get openUntil(): number | undefined {
    return maybe(load().breaker_until(this.handle));
  }

  /** Failures in the window; while open, what is left of those that opened it. */
  failures(now: number): number {
    return load().breaker_failures(this.handle, moment(now));
  }

  /** Results in the window, failures included. */
  throughput(now: number): number {
    return load().breaker_throughput(this.handle, moment(now));
  }

  /** Would a new breaker do the same from here on? */
  isFresh(now: number): boolean {
    return load().breaker_fresh(this.handle, moment(now)) === 1;
  }

  /** Closed again, with nothing counted. Results of calls admitted before change nothing. */
  reset(): void {
    load().breaker_reset(this.handle);
  }

  /** Gives all probes' places back. */
  forgetProbes(): void {
    load().breaker_forget_probes(this.handle);
  }

  /**
   * Goes on with other settings. State, probes out and failures in a row are kept, and so are the window's counts where its
   * length and kind are the same. A break under way is cut to the longest that the new settings could give.
   */
  retune(settings: BreakerSettings, now: number): void {
    const { handle } = this;
    const { probeLease, ...rest } = settings;
    const held = lease(probeLease);
    moment(now);
    made("breaker", rest, () => load().breaker_retune(handle, held, now));
  }
}

function wordOf({ number, probe }: Ticket): number {
  return whole("ticket.number", number, 0, U16) + (probe ? U16 + 1 : 0);
}

function drawOf(bits: Seed | undefined): [own: number, bits: bigint] {
  return bits === undefined ? [0, 0n] : [1, word64("bits", bits)];
}

function change(word: number): [BreakerState, BreakerState] | undefined {
  if (word === 0) return undefined;
  return [STATES[Math.floor((word - 1) / 3)] as BreakerState, STATES[(word - 1) % 3] as BreakerState];
}
