/** An engine, and what the shell keeps beside it: who waits, how to wake them, who listens. */

import { complain, reported } from "../classify.js";
import { checkWhole, NotReady, PolicyError, TidegateError } from "../errors.js";
import { POOLS } from "../options_gen.js";
import type { Core } from "../run/core.js";
import { scopes, surroundings } from "../run/follow.js";
import { type Inherited, inherited, type Scope } from "../run/scope.js";
import {
  eventOf,
  type Listener,
  type Subscription,
  subscription,
  type TidegateEvent,
} from "../telemetry/events.js";
import {
  type CallExplanation,
  endOf,
  halvesOf,
  headOf,
  journalOf,
  mark,
  type PolicyExplanation,
  seedOf,
  spoken,
} from "../telemetry/explain.js";
import type { Snapshot } from "../telemetry/snapshot.js";
import { added, tester } from "../testing/tested.js";
import { type Clock, platformTime, Standing } from "../time/clock.js";
import { type Moments, Ticker } from "../time/ticker.js";
import { Declared, LACKING } from "./declared.js";
import type { EngineOptions, Halves, Restored, SavedState, Waiter } from "./engine_types.js";
import { isFull, needs, there, want } from "./module.js";
import { type Native, type Pair, pieces, said, say, stage } from "./native.js";
import { type Form, mistakesOf, OPTIONS, type PoolKind } from "./options.js";
import { Owners } from "./owners.js";
import { readRoutes, SAVE, SNAPSHOT } from "./pages.js";
import { isWorker, randomSeed, type Storage } from "./platform.js";
import { RouteKeys } from "./route_keys.js";
import { Inputs } from "./takeover.js";
import { COMMANDS, KINDS, WAKES } from "./wire.js";

let PlatformTicker: new (now: () => number, clock: undefined) => Moments = Ticker;

/** Says what keeps time where that is not one timer for all; the entry for Workers does. */
export function provideTicker(kind: typeof PlatformTicker): void {
  PlatformTicker = kind;
}

const RESOLVED = Promise.resolve();
/** Where an engine is in its module. */
interface Place {
  handle: number;
}

const places =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Place>(({ handle }) => {
        if (handle >= 0) there()?.forget_engine(handle);
      });

type Written = Parameters<typeof eventOf>[0];

/** Holds everything that policies share: routes, slots, budgets. A process has one by default. */
export class Engine {
  /** @internal The exports of the module that it is in; tests put others in their place. None until `arrived`. */
  native!: Native;
  /** @internal */
  handle = -1;
  /** @internal Is the full module in force here? */
  full = false;
  /** @internal Does it need the full module, whatever its policies need? */
  wantsFull: boolean;
  /** @internal What has been declared and is not settled. */
  declared: readonly Declared[] = [];
  /** What has been put in while the small module is in force. */
  #inputs: Inputs | undefined;
  readonly #place: Place = { handle: -1 };
  /** The keys of routes, for events. A route's number is its own for good. */
  #keys = new RouteKeys();
  /** Has something been taken from its journal? */
  #taken = false;
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
  readonly wanted = new Owners(this);
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
    this.clock = clock;
    this.queues = options.queues ?? !isWorker();
    this.scopes = options.nesting === false ? undefined : scopes();
    this.wantsFull = journal || this.scopes !== undefined;
    this.ticker =
      clock === undefined ? new PlatformTicker(platformTime, undefined) : new Ticker(() => clock.us(), clock);
    places?.register(this, this.#place);
    added(this);
    this.arrived();
  }

  /** @internal A module is there, perhaps: enters it, and takes in what has been declared. */
  arrived(): void {
    const native = there();
    if (native === undefined || this.full) return;
    try {
      if (isFull()) this.#takeOver(native);
      else if (!this.wantsFull && this.handle < 0) this.#begin(native);
    } catch (error) {
      complain("an engine cannot go over to the full module", error, "error");
    }
    this.#settle();
  }

  /** Begins in the small module. */
  #begin(native: Native): void {
    // A page that is used so much may as well have all of it; where it does not come, nothing is lost.
    this.#inputs = new Inputs(() => void want("full").catch(() => undefined));
    this.native = this.#inputs.recording(native);
    this.#enter();
  }

  /** Begins in the full module, or goes over to it. */
  #takeOver(native: Native): void {
    const inputs = this.#inputs;
    if (inputs?.lost) return;
    this.#inputs = undefined;
    this.native = native;
    this.full = true;
    this.#enter();
    if (inputs === undefined) this.#hear();
    else inputs.replay(this);
    this.wanted.settle();
    tester?.made(this);
  }

  #enter(): void {
    // Of whole numbers the module takes the lower 32 bits.
    this.handle = this.native.engine(...this.seed, this.maxRoutes, Number(this.journals));
    this.#place.handle = this.handle;
  }

  /** @internal Can it take in what needs the full module, or does not? */
  takes(full: boolean): boolean {
    return this.handle >= 0 && (this.full || !full);
  }

  /**
   * @internal Declares something: it is taken in at once where the module is there, else as soon as it is.
   *
   * @throws PolicyError With every mistake there is, where the module is there.
   */
  declare(full: boolean, take: () => void): Declared {
    const declared = new Declared(this, full, take);
    this.arrived();
    declared.settle();
    if (declared.mistake !== undefined) throw declared.mistake;
    if (!declared.settled) {
      if (this.#inputs?.lost) throw new NotReady(TOO_LATE);
      this.declared = [...this.declared, declared];
      void want(declared.which).catch(() => undefined); // calls are told, and so is whoever awaits `ready`
    }
    return declared;
  }

  /** Takes in what has waited. A mistake is reported here: its author is no longer there to be thrown at. */
  #settle(): void {
    const waiting = this.declared;
    if (waiting.length === 0) return;
    for (const declared of waiting) {
      declared.settle();
      if (declared.mistake !== undefined) reported(declared.mistake);
    }
    this.declared = this.declared.filter(({ settled }) => !settled);
    if (this.declared.length > 0) void want("full").catch(() => undefined);
  }

  /** @internal Goes over to the full module as soon as that can be. */
  wantFull(): void {
    this.wantsFull = true;
    if (!this.full)
      void want("full").then(
        () => this.arrived(),
        () => undefined,
      );
  }

  /**
   * @internal The exports of the full module.
   *
   * @throws NotReady While that is not there.
   */
  whole(what: string): Native {
    this.arrived();
    if (this.full) return this.native;
    needs(what);
    throw new NotReady(TOO_LATE);
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
    this.#inputs?.wakes();
    const count = this.native.wakes(this.handle);
    for (let place = 0; place < count; place += 1) {
      const waiter = this.waiters.get(this.native.woken(this.handle, place));
      if (waiter !== undefined) void RESOLVED.then(() => waiter.wake());
    }
  }

  /** @internal The number of a policy with these settings. */
  take(name: string, pairs: readonly Pair[], form: Form, place?: string): number {
    const known = tester?.before(this, name);
    stage(name, pairs);
    let number = this.native.policy(this.handle);
    const told = number < 0 ? pieces() : [];
    if (number < 0) number = this.wanted.again(name, pairs, place);
    if (number >= 0) {
      this.#inputs?.policy(name, pairs);
      this.wanted.own(number, name, pairs, place);
    }
    tester?.after(this, number < 0 ? (known ?? -1) : number);
    if (number >= 0) return number;
    // What the small module does not know may be known to the full one, which has better words for it, too.
    if (!this.full && told.some((text) => text.includes("tidegate/full"))) throw LACKING;
    throw new PolicyError(mistakesOf(told, form, pairs));
  }

  /** @internal A caller got something in the place of an error, or did not. */
  fellBack(policy: number, key: string, ok: boolean): void {
    const [route, now] = [this.route(policy, key), this.time()];
    if (this.full) this.native.note_fallback(this.handle, route, Number(ok), now);
    else this.#inputs?.fellBack(route, ok, now);
    this.after(0);
  }

  /** @internal The route of a key. */
  route(policy: number, key: string): number {
    const now = this.time();
    this.#inputs?.route(policy, key, now);
    say(key);
    return this.native.route(this.handle, policy, now);
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

  /** @internal The name of a path, for `begin`; 0 where its policy holds nothing. */
  target(core: Core, route: number, path: string): number {
    if (core.setting("retry.hold") !== 1) return 0;
    say(path);
    return this.native.target(this.handle, route, this.time());
  }

  /** @internal The value of a key that is in force: spans in microseconds. */
  setting(policy: number, key: string): number | string | null {
    say(key);
    const value = this.native.setting(this.handle, policy);
    return Number.isNaN(value) ? said() || null : value;
  }

  /** @internal The names that `classify` may answer, each at its number. */
  kinds(policy: number): readonly string[] {
    return [...KINDS, ...this.declaredKinds(policy).map(([name]) => name)];
  }

  /** @internal Does what belongs to a call; where work is followed, what it starts knows the call. */
  enter<R>(call: number, around: Scope | undefined, work: () => R): R {
    const { scopes } = this;
    if (scopes === undefined) return work();
    return scopes.run({ engine: this, call, ends: undefined, criticality: undefined, around }, work);
  }

  /** @internal What is around the code that runs, everybody's stores with it, for work that is done later from elsewhere. */
  surroundings(): (<R>(work: () => R) => R) | undefined {
    return this.scopes === undefined ? undefined : surroundings();
  }

  /** @internal What a call takes from around it; `own` if it says itself how much it matters. */
  inherit(around: Scope, flags: number, limit: number, own: boolean): Inherited {
    return inherited(this, around, flags, limit, own);
  }

  /** @internal Keeps which call an error or an answer ended, for `explain`. */
  ended(what: unknown, call: number): void {
    mark(what, this, call);
  }

  /** @internal The kinds that a policy declares, with their bases; the small module has none. */
  declaredKinds(policy: number): [name: string, base: string][] {
    if (!this.full) return [];
    this.native.kinds(this.handle, policy);
    const told = pieces();
    return told.flatMap((name, at) => (at % 2 === 0 ? [[name, told[at + 1] as string]] : []));
  }

  /**
   * The state of everything, pulled: calls, waiters, and by policy, route and pool what has happened.
   *
   * It is of one moment, and so one step of the event loop: about 11 µs a route, 0.1 s with 10,000. `snapshotInPages` holds nothing up.
   */
  snapshot(): Snapshot {
    this.whole("snapshot").snapshot(this.handle, this.time());
    return JSON.parse(said()) as Snapshot;
  }

  /**
   * The same in pages of at most 16 routes, between which the event loop goes on. Each route is consistent in itself; two of them may
   * be seen some calls apart.
   */
  async snapshotInPages(): Promise<Snapshot> {
    return readRoutes<Snapshot>(this, SNAPSHOT) as Promise<Snapshot>;
  }

  /**
   * What it has learned (budgets, limits, breakers, throttles), as plain JSON to be kept and given to `restore`.
   *
   * It is of one moment, and so one step of the event loop: about 11 µs a route, 0.1 s with 10,000. `saveInPages` holds nothing up.
   */
  save(): SavedState {
    this.whole("save").save(this.handle, this.time());
    return { at: Date.now(), state: JSON.parse(said()) as unknown };
  }

  /**
   * The same in pages of at most 64 routes, between which the event loop goes on. Each route is consistent in itself, and nothing that
   * is restored is older than it was.
   */
  async saveInPages(): Promise<SavedState> {
    const { routes, ...rest } = await readRoutes<object>(this, SAVE);
    return { at: Date.now(), state: routes.length === 0 ? rest : { ...rest, routes } };
  }

  /**
   * Goes on from a saved state, which has aged meanwhile. To be called when the policies and pools have been made, and before
   * the first call. It is one step of the event loop, whatever the number of routes: either all of the state is taken in or nothing.
   *
   * @throws TidegateError if it is no saved state, or the engine has begun calls; nothing has changed then.
   */
  restore(saved: SavedState): Restored {
    const native = this.whole("restore");
    const age = Math.max(Date.now() - Number(saved.at), 0);
    say(JSON.stringify(saved.state) ?? "");
    const done = native.restore(this.handle, Number.isNaN(age) ? 0 : age * 1000, this.time());
    if (done < 0) throw new TidegateError(said());
    return JSON.parse(said()) as Restored;
  }

  /**
   * Tells of everything that the engine does from now on, until the subscription ends. Where the full module is still to come,
   * what happens until then is told when it is there.
   */
  listen(listener: Listener): Subscription {
    this.listeners.add(listener);
    this.#hear();
    return subscription(() => {
      this.listeners.delete(listener);
      this.#hear();
    });
  }

  /** @internal Counts for metrics from now on. */
  measure(maxRoutes: number): void {
    this.measured = true;
    this.listening = true;
    if (this.full) this.native.measure(this.handle, maxRoutes);
    else {
      this.#inputs?.measure(maxRoutes);
      this.#measures ??= maxRoutes;
      this.wantFull();
    }
  }

  #measures: number | undefined;

  #hear(): void {
    const some = this.listeners.size > 0;
    this.listening = some || this.measured;
    if (this.full) {
      if (this.#measures !== undefined) this.native.measure(this.handle, this.#measures);
      this.native.subscribe(this.handle, Number(some));
    } else if (this.listening) {
      this.#inputs?.subscribe(some);
      this.wantFull();
    }
  }

  /** @internal Takes the records that there are, and tells whoever listens. */
  publish(): void {
    if (!this.full) return;
    this.native.records(this.handle);
    if (this.listeners.size === 0) return;
    const text = said();
    if (text === "[]") return;
    for (const written of JSON.parse(text) as Written[]) {
      const event = this.#event(written);
      for (const listener of this.listeners) {
        try {
          listener(event);
        } catch (error) {
          complain("a listener failed", error, "error");
        }
      }
    }
  }

  /** A record as the engine writes it, with the names of its policy and route. */
  #event(written: Written): TidegateEvent {
    const key = (route: number) => this.#keys.of(this.native, this.handle, route);
    return eventOf(written, (number) => this.wanted.get(number)?.name, key);
  }

  /** @internal What a policy does. */
  explainPolicy(policy: number): PolicyExplanation {
    this.whole("explain").explain(this.handle, policy);
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
    const native = this.whole("explain");
    const found = typeof of === "number" ? { engine: this, call: of } : endOf(of);
    if (found === undefined || found.engine !== this) return undefined;
    native.explain_call(this.handle, found.call);
    const told = JSON.parse(said()) as (Omit<CallExplanation, "story"> & { story: Written[] }) | null;
    if (told === null) return undefined;
    return spoken({ ...told, story: told.story.map((written) => this.#event(written)) });
  }

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
  journal({ take = false }: { readonly take?: boolean | undefined } = {}): string {
    if (!this.journals) throw new TidegateError("journal = false: make the engine with { journal: true }");
    const native = this.whole("journal");
    const head = this.#taken ? "" : headOf(seedOf(this.seed), this.maxRoutes);
    if (take) this.#taken = true;
    native.journal(this.handle, Number(take));
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
    const engine = new Engine({ clock, maxRoutes, journal: true }, halvesOf(seed));
    const native = engine.whole("replay");
    say(lines.join("\n"));
    const end = native.replay(engine.handle);
    if (end < 0) throw new RangeError(`journal, line ${-end}: ${said()}: ${lines[-end - 1]}`);
    clock.at = end;
    engine.answers = JSON.parse(said()) as string[];
    for (let number = 0; ; number += 1) {
      native.explain(engine.handle, number);
      const told = JSON.parse(said()) as PolicyExplanation | null;
      if (told === null) return engine;
      engine.wanted.own(number, told.policy, []);
    }
  }

  /** @internal Gives a policy other settings. */
  retune(number: number, name: string, pairs: readonly Pair[]): void {
    this.whole("retune");
    tester?.before(this, name);
    try {
      this.change(number, name, pairs);
      const wanted = this.wanted.get(number);
      if (wanted !== undefined) wanted.pairs = pairs;
    } finally {
      tester?.after(this, number);
    }
  }

  /** @internal The same, whatever its owner wants. */
  change(number: number, name: string, pairs: readonly Pair[]): void {
    stage(name, pairs);
    if (this.native.retune(this.handle, number, this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), OPTIONS, pairs));
    }
    this.changed();
  }

  /** @internal What is in force has changed. */
  changed(): void {
    this.tunings += 1;
    this.after(WAKES | COMMANDS);
  }

  /** @internal Takes a pool in, or gives it other settings. */
  pool(name: string, kind: PoolKind, pairs: readonly Pair[], again: boolean, form: Form): void {
    const native = this.whole("a pool");
    stage(name, pairs);
    const number = Object.keys(POOLS).indexOf(kind);
    if (native.pool(this.handle, number, Number(again), this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), form));
    }
    this.changed();
  }

  /** @internal Refuses all calls of a policy or of one route (`on`), or ends that. */
  forceOpen(policy: number, route: number, on: boolean): void {
    this.whole("forceOpen").force_open(this.handle, policy, route, Number(on), this.time());
    this.after(WAKES | COMMANDS);
  }
}

const TOO_LATE =
  "the full engine comes too late for this one, which has gone on without it for too long: load the page anew";
