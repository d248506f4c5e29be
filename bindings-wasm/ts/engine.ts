/** An engine, and what the shell keeps beside it: who waits, how to wake them, who listens. */

import type { Clock } from "./clock.js";
import type { Core } from "./core.js";
import { checkWhole, PolicyError } from "./errors.js";
import type { Listener, Subscription } from "./events.js";
import { type CallExplanation, endOf, type PolicyExplanation } from "./explain.js";
import { lacking, load, type Native, needs, type Pair, pieces, said, say, stage } from "./native.js";
import { type Form, mistakesOf, type PoolKind } from "./options.js";
import { isWorker, randomSeed, type Storage, scopes } from "./platform.js";
import type { Inherited, Scope } from "./scope.js";
import type { Snapshot } from "./snapshot.js";
import { made, tester, type Wanted } from "./tested.js";
import { type Moments, Ticker } from "./ticker.js";
import { COMMANDS, KINDS, WAKES } from "./wire.js";

/** How an engine is made. */
export interface EngineOptions {
  /** All the randomness there is, 0 to 2^53 − 1; drawn from the platform where it is left out. */
  readonly seed?: number | undefined;
  /** A `FakeClock` of `tidegate/testing` in the place of `performance.now()`. */
  readonly clock?: Clock | undefined;
  /** How many routes it keeps state for, 1 to 524,288; 10,000 by default. */
  readonly maxRoutes?: number | undefined;
  /**
   * Do calls know the call that they are made in? By default where the platform has `AsyncLocalStorage`; `false` saves what
   * that costs, about 0.1 µs for each promise on Node 20 and 22 and 0.15 µs for each call on newer ones, and lets retries within
   * retries multiply.
   */
  readonly nesting?: boolean | undefined;
  /**
   * May calls wait in queues? By default everywhere but on Cloudflare Workers, where a promise of one request cannot be
   * settled by another.
   */
  readonly queues?: boolean | undefined;
  /**
   * Does it write down everything that is put into it: for `journal`, `replay`, and `explain` of calls that have ended? Not by
   * default: a journal grows by about 80 bytes an event, until it is taken, up to 100,000 inputs.
   */
  readonly journal?: boolean | undefined;
}

/** What `Engine.save` gives: plain JSON. */
export interface SavedState {
  /** When it was saved, in milliseconds of the epoch. */
  readonly at: number;
  /** What the engine has learned. */
  readonly state: unknown;
}

/** What a restore has done. */
export interface Restored {
  /** Routes that go on. */
  readonly routes: number;
  /** Routes for which there was no room. */
  readonly leftOut: number;
  /** Policies and pools of the saved state that this engine does not have: make them first, then restore. */
  readonly unknown: readonly (readonly [what: string, name: string])[];
  /** Components that have started fresh because their settings are others now. */
  readonly dropped: readonly (readonly [what: string, name: string, component: string])[];
}

/** A seed of 64 bits: its upper half, and a whole number that has the lower one. */
type Halves = readonly [high: number, low: number];

/** Something that waits, and can go on now. */
export interface Waiter {
  wake(): void;
}

/** What pages do not load with the small engine (`rare.ts` has it): there each throws an error that names `tidegate/full`. */
export interface RareEngine {
  /**
   * The state of everything, pulled: calls, waiters, and by policy, route and pool what has happened.
   *
   * It is of one moment, and so one step of the event loop: about 11 µs a route, 0.1 s with 10,000. `snapshotInPages` holds nothing up.
   */
  snapshot(): Snapshot;
  /**
   * The same in pages of at most 16 routes, between which the event loop goes on. Each route is consistent in itself; two of them may
   * be seen some calls apart.
   */
  snapshotInPages(): Promise<Snapshot>;
  /**
   * What it has learned (budgets, limits, breakers, throttles), as plain JSON to be kept and given to `restore`.
   *
   * It is of one moment, and so one step of the event loop: about 11 µs a route, 0.1 s with 10,000. `saveInPages` holds nothing up.
   */
  save(): SavedState;
  /**
   * The same in pages of at most 64 routes, between which the event loop goes on. Each route is consistent in itself, and nothing that
   * is restored is older than it was.
   */
  saveInPages(): Promise<SavedState>;
  /**
   * Goes on from a saved state, which has aged meanwhile. To be called when the policies and pools have been made, and before
   * the first call. It is one step of the event loop, whatever the number of routes: either all of the state is taken in or nothing.
   *
   * @throws TidegateError if it is no saved state, or the engine has begun calls; nothing has changed then.
   */
  restore(saved: SavedState): Restored;
  /** Tells of everything that the engine does, until the subscription ends. */
  listen(listener: Listener): Subscription;
  /**
   * Why a call waits, or ended as it did, with the numbers that were looked at.
   *
   * @param of A call's number, as events have it; or the error (or the answer) that a call ended with.
   * @returns Undefined where the engine knows nothing of it. A call that has ended is known from the journal, as long as nothing
   * has been taken from that.
   */
  explain(of: number | object): CallExplanation | undefined;
  /**
   * Everything that was put into the engine, one line each, for `Engine.replay`, of whatever language.
   *
   * At most the last 100,000 inputs are kept. A line `dropped` stands for those that are missing, and `replay` refuses it.
   *
   * @param options `take`: the lines are taken out, so that the journal stops growing. The next ones go on where these end: the
   * text of all of them, one behind the other, is what `replay` takes.
   * @throws TidegateError If the engine keeps none.
   * @example
   * ```ts
   * const engine = new Engine({ seed: 7, journal: true });
   * await policy({ engine, retry: {} }).run(() => 1);
   * const again = Engine.replay(engine.journal());
   * ```
   */
  journal(options?: { readonly take?: boolean | undefined }): string;
  /** @internal What a policy does. */
  explainPolicy(policy: number): PolicyExplanation;
  /** @internal Gives a policy other settings. */
  retune(number: number, name: string, pairs: readonly Pair[]): void;
  /** @internal The same, whatever its owner wants. */
  change(number: number, name: string, pairs: readonly Pair[]): void;
  /** @internal Takes a pool in, or gives it other settings. */
  pool(name: string, kind: PoolKind, pairs: readonly Pair[], again: boolean, form: Form): void;
  /** @internal Refuses all calls of a policy, or of one of its routes, until it is told otherwise. */
  forceOpen(policy: number, route: number, on: boolean): void;
  /** @internal What a call takes from around it; `own` if it says itself how much it matters. */
  inherit(around: Scope, flags: number, limit: number, own: boolean): Inherited;
  /** @internal Takes the records that there are, and tells whoever listens. */
  publish(): void;
}

let PlatformTicker: new (now: () => number, clock: undefined) => Moments = Ticker;

/** Says what keeps time where that is not one timer for all; the entry for Workers does. */
export function provideTicker(kind: typeof PlatformTicker): void {
  PlatformTicker = kind;
}

const RESOLVED = Promise.resolve();
const handles =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<number>((handle) => load().forget_engine(handle));

export interface Engine extends RareEngine {}
/** Holds everything that policies share: routes, slots, budgets. A process has one by default. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `lacking` below defines each of them, and `rare.ts` again
export class Engine {
  /**
   * An engine that was told what stands in a journal: the same seed, and so the same decisions.
   *
   * Its clock stands where the journal ends. It keeps a journal itself, so that it can explain calls; what it said to each line
   * is in `answers`.
   *
   * @throws RangeError If a line is none of a journal's: which, and why.
   */
  declare static replay: (journal: string) => Engine;

  /** @internal Tests put another in its place. */
  native: Native = load();
  /** @internal */
  readonly handle: number;
  /** @internal */
  readonly clock: Clock | undefined;
  /** @internal */
  readonly ticker: Moments;
  /** @internal */
  readonly scopes: Storage<Scope> | undefined;
  /** @internal */
  readonly waiters = new Map<number, Waiter>();
  /** @internal May calls wait in queues? */
  readonly queues: boolean;
  /** @internal How many times settings have changed. */
  tunings = 0;
  /** @internal When its clock was read last: the moment of the step at hand, from which its span counts. */
  last = 0;
  /** @internal Is anything done with records? */
  listening = false;
  /** @internal Carries commands to the fleet's store, where one is attached. */
  carrier: (() => void) | undefined;
  /** @internal */
  readonly listeners = new Set<Listener>();
  /** @internal Policies by number, as their owners want them. */
  readonly wanted: Wanted[] = [];
  /** @internal Does it count for metrics? */
  measured = false;
  /** @internal Its journal's head. */
  readonly seed: Halves;
  /** @internal */
  readonly maxRoutes: number;
  /** @internal Does it keep a journal? */
  readonly journals: boolean;
  /** Of an engine that `replay` has made: what it said to each line, in words and numbers. */
  answers: readonly string[] = [];

  constructor(options: EngineOptions = {}, halves?: Halves) {
    const { seed, clock, maxRoutes = 10_000, journal = false } = options;
    if (seed !== undefined) checkWhole("seed", seed, 0, 2 ** 53, "2^53 - 1");
    checkWhole("maxRoutes", maxRoutes, 1, 524_288, "524,288");
    this.seed = halves ?? (seed === undefined ? randomSeed() : [Math.floor(seed / 2 ** 32), seed]);
    this.maxRoutes = maxRoutes;
    this.journals = journal;
    if (journal) needs("journal");
    // Of whole numbers the module takes the lower 32 bits.
    this.handle = this.native.engine(...this.seed, maxRoutes, Number(journal));
    this.clock = clock;
    this.queues = options.queues ?? !isWorker();
    this.scopes = options.nesting === false ? undefined : scopes?.();
    this.ticker =
      clock === undefined ? new PlatformTicker(platformTime, undefined) : new Ticker(() => clock.us(), clock);
    handles?.register(this, this.handle);
    made(this);
  }

  /** @internal Microseconds on its clock. */
  time(): number {
    this.last = this.clock === undefined ? platformTime() : this.clock.us();
    return this.last;
  }

  /** @internal Tells a call what happened: its next step. Whoever can go on because of it is woken. */
  tell(call: number, event: number): number {
    const step = this.native.on(this.handle, call, event, this.time());
    this.after(step);
    return step;
  }

  /** @internal What a step has left to be done for others. */
  after(step: number): void {
    if ((step & WAKES) !== 0) this.wake();
    if ((step & COMMANDS) !== 0) this.carrier?.();
    if (this.listening) this.publish();
  }

  /** @internal Wakes the owners of the calls that can go on now, each in a turn of its own. */
  wake(): void {
    const count = this.native.wakes(this.handle);
    for (let place = 0; place < count; place += 1) {
      const waiter = this.waiters.get(this.native.woken(this.handle, place));
      if (waiter !== undefined) void RESOLVED.then(() => waiter.wake());
    }
  }

  /** @internal The number of a policy with these settings. */
  take(name: string, pairs: readonly Pair[], form: Form): number {
    const known = tester?.before(this, name);
    stage(name, pairs);
    const number = this.native.policy(this.handle);
    const mistakes = number < 0 ? mistakesOf(pieces(), form) : [];
    if (number >= 0) this.wanted[number] = { name, pairs };
    tester?.after(this, number < 0 ? (known ?? -1) : number);
    if (number < 0) throw new PolicyError(mistakes);
    return number;
  }

  /** @internal A caller got something in the place of an error, or did not. */
  fellBack(policy: number, key: string, ok: boolean): void {
    // Of the small engine nobody could ask how many there were.
    this.native.note_fallback?.(this.handle, this.route(policy, key), Number(ok), this.time());
    this.after(0);
  }

  /** @internal The route of a key. */
  route(policy: number, key: string): number {
    say(key);
    return this.native.route(this.handle, policy, this.time());
  }

  /** @internal May a request of this method be repeated without an idempotency key? */
  retriesMethod(policy: number, method: string): boolean {
    say(method);
    return this.native.retries_method(this.handle, policy) === 1;
  }

  /** @internal The outcome of an HTTP answer, at its place in the word of a Finished event. */
  classify(policy: number, status: number, headers: Headers | undefined): number {
    let text = "";
    // What tests give in place of an answer may have none.
    headers?.forEach?.((value, name) => {
      text += `${name}\0${value}\0`;
    });
    say(text);
    return this.native.classify(this.handle, policy, status, Date.now() * 1000);
  }

  /** @internal The name of a path, for `begin`; 0 where its policy holds nothing, as in the small engine. */
  target(_core: Core, _route: number, _path: string): number {
    return 0;
  }

  /** @internal The value of a key that is in force: spans in microseconds. */
  setting(policy: number, key: string): number | string | null {
    say(key);
    const value = this.native.setting(this.handle, policy);
    return Number.isNaN(value) ? said() || null : value;
  }

  /** @internal The names that `classify` may answer, each at its number. */
  kinds(policy: number): readonly string[] {
    return [...KINDS, ...this.declared(policy).map(([name]) => name)];
  }

  /** @internal Does what belongs to a call; where work is followed, what it starts knows the call. */
  enter<R>(_call: number, _around: Scope | undefined, work: () => R): R {
    return work();
  }

  /** @internal What is around the code that runs, everybody's stores with it, for work that is done later from elsewhere. */
  surroundings(): (<R>(work: () => R) => R) | undefined {
    return undefined;
  }

  /** @internal Keeps which call an error or an answer ended, for `explain`; the small engine has none. */
  ended(_what: unknown, _call: number): void {}

  /** @internal The kinds that a policy declares, with their bases; the small engine has none. */
  declared(_policy: number): [name: string, base: string][] {
    return [];
  }
}

lacking(
  Engine.prototype,
  "snapshot snapshotInPages save saveInPages restore listen explain journal explainPolicy retune change pool forceOpen publish",
);
lacking(Engine, "replay");

/** Why the call ended that gave this error (or this answer): asked of the engine that it was one of. */
export function explain(of: object): CallExplanation | undefined {
  return (endOf(of)?.engine as Engine | undefined)?.explain(of);
}

/** What reads the platform's clock, how far our time is ahead of it, and the last reading, in whole microseconds. */
let reads: (() => number) | undefined;
let ahead = 0;
let latest = 0;

/**
 * Microseconds of the platform's clock. When fake timers of a test framework come or go, another clock takes its place, at another
 * time: ours goes on from the last reading. The engine would take a reading of up to 30 s ago for a swing, and time would stand still.
 * Readings are whole: of two sums of fractions that mean one moment, the greater would not be due at the smaller.
 */
function platformTime(): number {
  const { performance } = globalThis;
  const now = Math.round(performance.now() * 1000);
  if (performance.now !== reads) {
    if (reads !== undefined) ahead = latest - now;
    reads = performance.now;
  }
  latest = now + ahead;
  return latest;
}

const KEY = Symbol.for("tidegate/0.1/engine");

/** @internal Makes an engine the process's own: the one before, if there was one. */
export function use(engine: Engine | undefined): Engine | undefined {
  const shared = globalThis as { [KEY]?: Engine | undefined };
  const before = shared[KEY];
  shared[KEY] = engine;
  return before;
}

/** The engine of the process, made when it is first needed; one for ESM and CommonJS together. */
export function defaultEngine(): Engine {
  const shared = globalThis as { [KEY]?: Engine };
  shared[KEY] ??= new Engine();
  return shared[KEY];
}
