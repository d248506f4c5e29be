/** An engine, and what the shell keeps beside it: who waits, how to wake them, who listens. */

import { type Clock, Standing } from "./clock.js";
import { PolicyError, TidegateError } from "./errors.js";
import { eventOf, type Listener, type Subscription, subscription, type TidegateEvent } from "./events.js";
import { type CallExplanation, endOf, headOf, journalOf, type PolicyExplanation, spoken } from "./explain.js";
import { load, type Native, type Pair, said, say, stage } from "./native.js";
import { type Form, mistakesOf, type PoolKind } from "./options.js";
import { POOLS } from "./options_gen.js";
import { isWorker, randomSeed, type Storage } from "./platform.js";
import { type Scope, scopes } from "./scope.js";
import type { PoolSnapshot, Snapshot } from "./snapshot.js";
import { made, testerOf, type Wanted } from "./tested.js";
import { type Moments, Ticker } from "./ticker.js";
import { Timers } from "./timers.js";
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
   * that costs, about 0.1 µs for each promise on Node 20 and 22, and lets retries within retries multiply.
   */
  readonly nesting?: boolean | undefined;
  /**
   * May calls wait in queues? By default everywhere but on Cloudflare Workers, where a promise of one request cannot be
   * settled by another.
   */
  readonly queues?: boolean | undefined;
  /**
   * Does it write down everything that is put into it: for `journal`, `replay`, and `explain` of calls that have ended? Not by
   * default: a journal grows by about 80 bytes an event, until it is taken.
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

/** Something that waits, and can go on now. */
export interface Waiter {
  wake(): void;
}

const RESOLVED = Promise.resolve();
/** Keys of routes that are kept for events. */
const MOST_KEYS = 1000;
const handles =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<number>((handle) => load().forget_engine(handle));

/** Holds everything that policies share: routes, slots, budgets. A process has one by default. */
export class Engine {
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
  readonly #listeners = new Set<Listener>();
  /** @internal Policies by number, as their owners want them. */
  readonly wanted: Wanted[] = [];
  #measured = false;
  /** The keys of routes, for events. A route's number is its own for good. */
  readonly #keys = new Map<number, string>();
  readonly #seed: bigint;
  readonly #maxRoutes: number;
  readonly #journals: boolean;
  #taken = false;
  /** Of an engine that `replay` has made: what it said to each line, in words and numbers. */
  answers: readonly string[] = [];

  constructor(options: EngineOptions = {}, whole?: bigint) {
    const { seed, clock, maxRoutes = 10_000, journal = false } = options;
    if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
      throw new RangeError(`seed = ${seed}: must be a whole number from 0 to 2^53 - 1`);
    }
    if (!(Number.isInteger(maxRoutes) && maxRoutes >= 1 && maxRoutes <= 524_288)) {
      throw new RangeError(`maxRoutes = ${maxRoutes}: must be a whole number from 1 to 524,288`);
    }
    this.#seed = whole ?? seedOf(seed);
    this.#maxRoutes = maxRoutes;
    this.#journals = journal;
    const [high, low] = [Number(this.#seed >> 32n), Number(this.#seed & 0xffff_ffffn)];
    this.handle = this.native.engine(high, low, maxRoutes, Number(journal));
    this.clock = clock;
    this.queues = options.queues ?? !isWorker();
    this.scopes = options.nesting === false ? undefined : scopes();
    this.ticker =
      clock === undefined && isWorker()
        ? new Timers(platformTime)
        : new Ticker(clock === undefined ? platformTime : () => clock.us(), clock);
    handles?.register(this, this.handle);
    made(this);
  }

  /** @internal Microseconds on its clock. */
  time(): number {
    this.last = this.clock === undefined ? globalThis.performance.now() * 1000 : this.clock.us();
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
    if (this.listening) this.#publish();
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
    const known = testerOf()?.before(this, name);
    stage(name, pairs);
    const number = this.native.policy(this.handle);
    const mistakes = number < 0 ? mistakesOf(said(), form) : [];
    if (number >= 0) this.wanted[number] = { name, pairs };
    testerOf()?.after(this, number < 0 ? (known ?? -1) : number);
    if (number < 0) throw new PolicyError(mistakes);
    return number;
  }

  /** @internal Gives a policy other settings. */
  retune(number: number, name: string, pairs: readonly Pair[]): void {
    testerOf()?.before(this, name);
    try {
      this.change(number, name, pairs);
      this.wanted[number] = { name, pairs };
    } finally {
      testerOf()?.after(this, number);
    }
  }

  /** @internal The same, whatever its owner wants. */
  change(number: number, name: string, pairs: readonly Pair[]): void {
    stage(name, pairs);
    if (this.native.retune(this.handle, number, this.time()) < 0) {
      throw new PolicyError(mistakesOf(said(), "options"));
    }
    this.#changed();
  }

  /** @internal Takes a pool in, or gives it other settings. */
  pool(name: string, kind: PoolKind, pairs: readonly Pair[], again: boolean, form: Form): void {
    stage(name, pairs);
    const number = Object.keys(POOLS).indexOf(kind);
    if (this.native.pool(this.handle, number, again ? 1 : 0, this.time()) < 0) {
      throw new PolicyError(mistakesOf(said(), form));
    }
    this.#changed();
  }

  #changed(): void {
    this.tunings += 1;
    this.carrier?.();
    this.wake();
    if (this.listening) this.#publish();
  }

  /** @internal Refuses all calls of a policy, or of one of its routes, until it is told otherwise. */
  force(policy: number, route: number, on: boolean): void {
    this.native.force_open(this.handle, policy, route, on ? 1 : 0, this.time());
    this.carrier?.();
    this.wake();
    if (this.listening) this.#publish();
  }

  /** @internal A caller got something in the place of an error, or did not. */
  fellBack(policy: number, key: string, ok: boolean): void {
    this.native.note_fallback(this.handle, this.route(policy, key), Number(ok), this.time());
    if (this.listening) this.#publish();
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
  classify(policy: number, status: number, headers: Headers): number {
    let text = "";
    headers.forEach((value, name) => {
      text += `${name}\0${value}\0`;
    });
    say(text);
    return this.native.classify(this.handle, policy, status, Date.now() * 1000);
  }

  /** @internal The name of a path, for `begin`; 0 where its policy holds nothing. */
  target(route: number, path: string): number {
    say(path);
    return this.native.target(this.handle, route, this.time());
  }

  /** @internal What a policy does. */
  explainPolicy(policy: number): PolicyExplanation {
    this.native.explain(this.handle, policy);
    return spoken(JSON.parse(said()) as PolicyExplanation);
  }

  /**
   * Why a call waits, or ended as it did, with the numbers that were looked at.
   *
   * @param of A call's number, as events have it; or the error (or the answer) that a call ended with.
   * @returns Undefined where the engine knows nothing of it. A call that has ended is known from the journal, as long as nothing
   * has been taken from that.
   */
  explain(of: number | object): CallExplanation | undefined {
    const found = typeof of === "number" ? { engine: this, call: of } : endOf(of);
    if (found === undefined || found.engine !== this) return undefined;
    this.native.explain_call(this.handle, found.call);
    type Written = Omit<CallExplanation, "story"> & { story: Parameters<typeof eventOf>[0][] };
    const told = JSON.parse(said()) as Written | null;
    return told === null ? undefined : spoken({ ...told, story: told.story.map((it) => this.#event(it)) });
  }

  /**
   * Everything that was put into the engine, one line each, for `Engine.replay`, of whatever language.
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
  journal({ take = false }: { readonly take?: boolean | undefined } = {}): string {
    if (!this.#journals) throw new TidegateError("journal = false: make the engine with { journal: true }");
    const head = this.#taken ? "" : headOf(this.#seed, this.#maxRoutes);
    this.#taken ||= take;
    this.native.journal(this.handle, Number(take));
    const lines = said();
    return lines === "" ? head : `${head}${lines}\n`;
  }

  /**
   * An engine that was told what stands in a journal: the same seed, and so the same decisions.
   *
   * Its clock stands where the journal ends. It keeps a journal itself, so that it can explain calls; what it said to each line
   * is in `answers`.
   *
   * @throws RangeError If a line is none of a journal's: which, and why.
   */
  static replay(journal: string): Engine {
    const { seed, maxRoutes, lines } = journalOf(journal);
    const clock = new Standing();
    const engine = new Engine({ clock, maxRoutes, journal: true }, seed);
    say(lines.join("\n"));
    const end = engine.native.replay(engine.handle);
    if (end < 0) throw new RangeError(`journal, line ${-end}: ${said()}: ${lines[-end - 1]}`);
    clock.at = end;
    engine.answers = JSON.parse(said()) as string[];
    for (let number = 0; ; number += 1) {
      engine.native.explain(engine.handle, number);
      const told = JSON.parse(said()) as PolicyExplanation | null;
      if (told === null) return engine;
      engine.wanted[number] = { name: told.policy, pairs: [] };
    }
  }

  /** @internal The value of a key that is in force: spans in microseconds. */
  setting(policy: number, key: string): number | string | null {
    say(key);
    this.native.setting(this.handle, policy);
    return JSON.parse(said()) as number | string | null;
  }

  /** @internal The numbers of the names that `classify` may answer. */
  kinds(policy: number): Map<string, number> {
    const all = new Map<string, number>(KINDS.map((kind, number) => [kind, number]));
    for (const [name] of this.declared(policy)) all.set(name, all.size);
    return all;
  }

  /** @internal The kinds that a policy declares, with their bases. */
  declared(policy: number): [name: string, base: string][] {
    this.native.kinds(this.handle, policy);
    return JSON.parse(said()) as [string, string][];
  }

  /** The state of everything, pulled: calls, waiters, and by policy, route and pool what has happened. */
  snapshot(): Snapshot {
    this.native.snapshot(this.handle, this.time());
    return JSON.parse(said()) as Snapshot & { pools: Record<string, PoolSnapshot> };
  }

  /** What it has learned (budgets, limits, breakers, throttles), as plain JSON to be kept and given to `restore`. */
  save(): SavedState {
    this.native.save(this.handle, this.time());
    return { at: Date.now(), state: JSON.parse(said()) as unknown };
  }

  /**
   * Goes on from a saved state, which has aged meanwhile. To be called when the policies and pools have been made, and before
   * the first call.
   *
   * @throws TidegateError if it is no saved state, or the engine has begun calls; nothing has changed then.
   */
  restore(saved: SavedState): Restored {
    const age = Math.max(Date.now() - Number(saved.at), 0);
    say(JSON.stringify(saved.state) ?? "");
    const done = this.native.restore(this.handle, Number.isNaN(age) ? 0 : age * 1000, this.time());
    if (done < 0) throw new TidegateError(said());
    return JSON.parse(said()) as Restored;
  }

  /** Tells of everything that the engine does, until the subscription ends. */
  listen(listener: Listener): Subscription {
    this.#listeners.add(listener);
    this.#listen();
    return subscription(() => {
      this.#listeners.delete(listener);
      this.#listen();
    });
  }

  /** @internal Counts for metrics from now on; the first to ask decides how many routes have series of their own. */
  measure(maxRoutes: number): void {
    this.native.measure(this.handle, maxRoutes);
    this.#measured = true;
    this.listening = true;
  }

  /** @internal The metrics that there are, as the engine writes them. */
  series(): string {
    this.native.series(this.handle, this.time());
    return said();
  }

  /** @internal The families of metrics and the bounds of histograms, as the engine writes them. */
  families(): string {
    this.native.families();
    return said();
  }

  /** @internal What a route is called in labels. */
  label(policy: string, route: string): string {
    say(route);
    this.native.label(
      this.handle,
      this.wanted.findIndex((wanted) => wanted?.name === policy),
    );
    return said();
  }

  #listen(): void {
    const heard = this.#listeners.size > 0;
    this.listening = heard || this.#measured;
    this.native.subscribe(this.handle, heard ? 1 : 0);
  }

  /** A record as the engine writes it, with the names of its policy and route. */
  #event(written: Parameters<typeof eventOf>[0]): TidegateEvent {
    const key = (route: number) => {
      let known = this.#keys.get(route);
      if (known === undefined) {
        this.native.key_of(this.handle, route);
        known = said();
        if (this.#keys.size >= MOST_KEYS) this.#keys.clear();
        if (known !== "") this.#keys.set(route, known);
      }
      return known || undefined;
    };
    return eventOf(written, (number) => this.wanted[number]?.name, key);
  }

  #publish(): void {
    this.native.records(this.handle);
    if (this.#listeners.size === 0) return;
    const text = said();
    if (text === "[]") return;
    for (const written of JSON.parse(text) as Parameters<typeof eventOf>[0][]) {
      const event = this.#event(written);
      for (const listener of this.#listeners) {
        try {
          listener(event);
        } catch (error) {
          console.error("tidegate: a listener failed:", error);
        }
      }
    }
  }
}

/** Why the call ended that gave this error (or this answer): asked of the engine that it was one of. */
export function explain(of: object): CallExplanation | undefined {
  return (endOf(of)?.engine as Engine | undefined)?.explain(of);
}

function seedOf(seed: number | undefined): bigint {
  if (seed !== undefined) return BigInt(seed);
  const [high, low] = randomSeed();
  return (BigInt(high) << 32n) | BigInt(low);
}

function platformTime(): number {
  return globalThis.performance.now() * 1000;
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
