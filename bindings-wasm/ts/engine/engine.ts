/** An engine with the state that the JavaScript half keeps for it: waiting calls, how to wake them, and listeners. */

import { complain, reported } from "../errors/classify.js";
import { checkNames, checkWhole, NotReady, PolicyError, TidegateError } from "../errors/errors.js";
import { POOLS } from "../options_gen.js";
import { scopes, surroundings } from "../run/follow.js";
import { type Inherited, inherited, type Scope } from "../run/scope.js";
import {
  eventOf,
  type Listener,
  type Subscription,
  subscription,
  type TidegateEvent,
} from "../telemetry/events.js";
import { type CallExplanation, endOf, headOf, mark, seedOf, spoken } from "../telemetry/explain.js";
import type { Snapshot } from "../telemetry/snapshot.js";
import { added, tests } from "../testing/tested.js";
import { type Clock, platformTime } from "../time/clock.js";
import { type Moments, Ticker } from "../time/ticker.js";
import { Declared, LACKING } from "./declared.js";
import {
  type EngineOptions,
  type Halves,
  LINKS,
  type Link,
  type Restored,
  type SavedState,
  type Waiter,
} from "./engine_types.js";
import { isFull, needs, there, want } from "./module.js";
import { type Native, type Pair, pieces, said, say, stage } from "./native.js";
import { type Form, mistakesOf, OPTIONS, type PoolKind } from "./options.js";
import { Owners } from "./owners.js";
import { readRoutes, SAVE, SNAPSHOT } from "./pages.js";
import { isWorker, randomSeed, type Storage } from "./platform.js";
import { replayed } from "./replay.js";
import { RouteKeys } from "./route_keys.js";
import { Inputs } from "./takeover.js";
import { reportWall } from "./wall.js";
import { COMMANDS, WAKES } from "./wire.js";

let PlatformTicker: new (now: () => number, clock: undefined) => Moments = Ticker;

/** Replaces the default ticker (one timer for all moments); the entry for Workers does so. */
export function provideTicker(kind: typeof PlatformTicker): void {
  PlatformTicker = kind;
}

const RESOLVED = Promise.resolve();
/** The handle of an engine in its module. */
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

/** The state that policies share: routes, slots, budgets. A process has one by default. */
export class Engine {
  /** @internal The exports of the module that runs this engine; tests replace them. Unset until `arrived` finds a module. */
  native!: Native;
  /** @internal */
  handle = -1;
  /** @internal Whether this engine runs in the full module. */
  full = false;
  /** @internal Whether it needs the full module, whatever its policies need. */
  wantsFull: boolean;
  /** @internal Declarations that are not settled yet. */
  declared: readonly Declared[] = [];
  /** The inputs recorded while the small module runs the engine. */
  #inputs: Inputs | undefined;
  readonly #place: Place = { handle: -1 };
  /** The keys of routes, for events. The number of a route is never reused. */
  #keys = new RouteKeys();
  /** State of the device's link, as the program set it. */
  #link: Link = "ok";
  /** Whether lines have been taken from the journal. */
  #taken = false;
  /** @internal */
  readonly clock: Clock | undefined;
  /** @internal */
  readonly ticker: Moments;
  /** @internal */
  readonly scopes: Storage<Scope> | undefined;
  /** @internal */
  readonly waiters = new Map<number, Waiter>();
  /** @internal Whether calls may wait in queues. */
  readonly queues: boolean;
  /** @internal Number of times that settings have changed. */
  tunings = 0;
  /** @internal The last reading of the clock, in µs: the moment of the current step, from which the span of the step counts. */
  last = 0;

  /** @internal Whether limits refill by windows of the wall clock, so that each call reports it. */
  windows = false;
  /** @internal The time in ms on the wall clock at 0 of a clock for tests, once that has been read. */
  wall: number | undefined;
  /** @internal Whether records have a consumer: a listener or the metrics. */
  listening = false;
  /** @internal Sends commands to the fleet's store, if one is attached. */
  carrier: (() => void) | undefined;
  /** @internal */
  readonly listeners = new Set<Listener>();
  /** @internal Policies by number, with the settings that their owners gave them. */
  readonly wanted = new Owners(this);
  /** @internal Whether it counts for metrics. */
  measured = false;
  /** @internal The seed, which the head of the journal also states. */
  readonly seed: Halves;
  /** @internal */
  readonly maxRoutes: number;
  /** @internal Whether it keeps a journal. */
  readonly journals: boolean;
  /** Number of records that it keeps about calls with trouble. */
  readonly #history: number;
  /** For an engine made by `replay`: the engine's answer to each line of the journal, in words and numbers. */
  answers: readonly string[] = [];

  constructor(options: EngineOptions = {}, halves?: Halves) {
    checkNames("an engine", options, "seed clock maxRoutes nesting queues journal history");
    const { seed, clock, maxRoutes = 10_000, journal = false, history = 512 } = options;
    if (seed !== undefined) checkWhole("seed", seed, 0, 2 ** 53, "2^53 - 1");
    checkWhole("maxRoutes", maxRoutes, 1, 524_288, "524,288");
    checkWhole("history", history, 0, 1_000_000, "1,000,000");
    this.seed = halves ?? (seed === undefined ? randomSeed() : [Math.floor(seed / 2 ** 32), seed]);
    this.maxRoutes = maxRoutes;
    this.journals = journal;
    this.#history = history;
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

  /** @internal Enters the module if there is one now, and takes in the declarations that have waited. */
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

  /** Starts in the small module. */
  #begin(native: Native): void {
    // A page with this many calls may as well load the full module; if the download fails, nothing is lost.
    this.#inputs = new Inputs(() => void want("full").catch(() => undefined));
    this.native = this.#inputs.recording(native);
    this.#enter();
    if (this.#link !== "ok") this.#sayLink();
  }

  /** Starts in the full module, or moves there from the small one. */
  #takeOver(native: Native): void {
    const inputs = this.#inputs;
    if (inputs?.lost) return;
    this.#inputs = undefined;
    this.native = native;
    this.full = true;
    this.#enter();
    if (inputs === undefined) {
      this.#hear();
      if (this.#link !== "ok") this.#sayLink();
    } else inputs.replay(this);
    this.wanted.settle();
    tests.tester?.made(this);
  }

  #enter(): void {
    // The module takes the lower 32 bits of whole numbers.
    this.handle = this.native.engine(...this.seed, this.maxRoutes, Number(this.journals), this.#history);
    this.#place.handle = this.handle;
  }

  #sayLink(): void {
    const [state, now] = [LINKS.indexOf(this.#link), this.time()];
    this.#inputs?.link(state, now);
    this.native.set_link(this.handle, state, now);
  }

  /**
   * Sets the state of the device's link to its networks; "ok" at first.
   *
   * While it is "offline", first attempts still start, retries and hedges wait until it is back (at most until the deadline or
   * `retryTimeLimit`; without both, `maxRetryAfter` after the failure), and failures to connect are no evidence for a breaker. Then they start
   * within a second, spread evenly. While it is "metered", no hedges start.
   *
   * @example
   * ```ts
   * addEventListener("offline", () => defaultEngine().setLink("offline"));
   * addEventListener("online", () => defaultEngine().setLink("ok"));
   * ```
   *
   * @throws TypeError If the state is none of the three.
   */
  setLink(state: Link): void {
    if (!LINKS.includes(state))
      throw new TypeError(`state = ${String(state)}: must be one of ${LINKS.join(", ")}`);
    this.#link = state;
    if (this.handle >= 0) this.#sayLink();
  }

  /** @internal Whether it can take in a declaration now; `full` says that the declaration needs the full module. */
  takes(full: boolean): boolean {
    return this.handle >= 0 && (this.full || !full);
  }

  /**
   * @internal Declares something. The engine takes it in at once if the module is there, else as soon as it is.
   *
   * @throws PolicyError With all mistakes, if the module is there.
   */
  declare(full: boolean, take: () => void): Declared {
    const declared = new Declared(this, full, take);
    this.arrived();
    declared.settle();
    if (declared.mistake !== undefined) throw declared.mistake;
    if (!declared.settled) {
      if (this.#inputs?.lost) throw new NotReady(TOO_LATE);
      this.declared = [...this.declared, declared];
      void want(declared.which).catch(() => undefined); // calls and `ready` report the failure
    }
    return declared;
  }

  /** Takes in the declarations that have waited. Mistakes are reported to the platform, since the code that declared has long returned. */
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

  /** @internal Moves to the full module as soon as it is there. */
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
   * @throws NotReady While the full module is missing.
   */
  whole(what: string): Native {
    this.arrived();
    if (this.full) return this.native;
    needs(what);
    throw new NotReady(TOO_LATE);
  }

  /** @internal The time on its clock, in µs. */
  time(): number {
    this.last = this.moment();
    return this.last;
  }

  /** @internal The same, for work that is no step of a call. */
  moment(): number {
    return this.clock === undefined ? platformTime() : this.clock.us();
  }

  /** @internal Reports an event of a call, wakes other calls that can now continue, and returns the call's next step. */
  tell(call: number, event: number): number {
    const step = this.native.on(this.handle, call, event, this.time());
    this.after(step);
    return step;
  }

  /** @internal Does what a step requires for others: wakes calls, sends store commands, publishes records. */
  after(step: number): void {
    if ((step & WAKES) !== 0) this.wake();
    if ((step & COMMANDS) !== 0) this.carrier?.();
    if (this.listening) this.publish();
  }

  /** @internal Wakes the calls that can continue now, each in a microtask of its own. */
  wake(): void {
    this.#inputs?.wakes();
    const count = this.native.wakes(this.handle);
    for (let place = 0; place < count; place += 1) {
      const waiter = this.waiters.get(this.native.woken(this.handle, place));
      if (waiter !== undefined) void RESOLVED.then(() => waiter.wake());
    }
  }

  /** @internal Takes in a policy with these settings and returns its number. */
  take(name: string, pairs: readonly Pair[], form: Form, place?: string): number {
    const known = tests.tester?.before(this, name);
    stage(name, pairs);
    let number = this.native.policy(this.handle);
    const texts = number < 0 ? pieces() : [];
    if (number < 0) number = this.wanted.again(name, pairs, place);
    if (number >= 0) {
      this.#inputs?.policy(name, pairs);
      this.wanted.own(number, name, pairs, place);
      reportWall(this);
    }
    tests.tester?.after(this, number < 0 ? (known ?? -1) : number);
    if (number >= 0) return number;
    // The full module may know settings that the small one does not, and has better texts for mistakes.
    if (!this.full && texts.some((text) => text.includes("tidegate/full"))) throw LACKING;
    throw new PolicyError(mistakesOf(texts, form, pairs));
  }

  /** @internal Records that a fallback ran, and whether it succeeded. */
  fellBack(policy: number, key: string, ok: boolean): void {
    const [route, now] = [this.route(policy, key), this.time()];
    if (this.full) this.native.note_fallback(this.handle, route, Number(ok), now);
    else this.#inputs?.fellBack(route, ok, now);
    this.after(0);
  }

  /** @internal The number of the route with this key. */
  route(policy: number, key: string): number {
    const now = this.time();
    this.#inputs?.route(policy, key, now);
    say(key);
    return this.native.route(this.handle, policy, now);
  }

  /** @internal The outcome of an HTTP response, encoded as in the word of a Finished event; `beginning` is what was read of its body. */
  classify(policy: number, status: number, headers: Headers | undefined, beginning?: string): number {
    let text = "";
    let count = 0;
    // Test doubles of responses may lack headers.
    headers?.forEach?.((value, name) => {
      text += `${name}\0${value}\0`;
      count++;
    });
    say(text + (beginning ?? ""));
    if (beginning !== undefined)
      return this.whole("classify").classify_read(this.handle, policy, status, Date.now() * 1000, count);
    return this.native.classify(this.handle, policy, status, Date.now() * 1000);
  }

  /** @internal Runs work that belongs to a call. With nesting on, calls started inside know that call as their parent. */
  enter<R>(call: number, around: Scope | undefined, target: string | undefined, work: () => R): R {
    const { scopes } = this;
    if (scopes === undefined) return work();
    return scopes.run({ engine: this, call, ends: undefined, criticality: undefined, around, target }, work);
  }

  /** @internal Captures the current async context, including the stores of other libraries, for work that runs later from elsewhere. */
  surroundings(): (<R>(work: () => R) => R) | undefined {
    return this.scopes === undefined ? undefined : surroundings();
  }

  /** @internal What a call inherits from the scope around it. `own`: the call states its own criticality. */
  inherit(around: Scope, flags: number, limit: number, own: boolean): Inherited {
    return inherited(this, around, flags, limit, own);
  }

  /** @internal Remembers which call ended with this error or response, for `explain`. */
  ended(what: unknown, call: number): void {
    mark(what, this, call);
  }

  /**
   * The current state: calls, waiters, and the counts of each policy, route and pool.
   *
   * Taken at one moment, in one step of the event loop: about 11 µs per route, 0.1 s for 10,000. `snapshotInPages` does not block it.
   */
  snapshot(): Snapshot {
    this.whole("snapshot").snapshot(this.handle, this.time());
    return JSON.parse(said()) as Snapshot;
  }

  /**
   * The same in pages of at most 16 routes; the event loop runs between pages. Each route is consistent in itself; two routes may be read
   * some calls apart.
   */
  async snapshotInPages(): Promise<Snapshot> {
    return readRoutes<Snapshot>(this, SNAPSHOT) as Promise<Snapshot>;
  }

  /**
   * The learned state (budgets, limits, breakers, throttles) as plain JSON, to be stored and given to `restore`.
   *
   * Read at one moment, in one step of the event loop: about 11 µs per route, 0.1 s for 10,000. `saveInPages` does not block it.
   */
  save(): SavedState {
    this.whole("save").save(this.handle, this.time());
    return { at: Date.now(), state: JSON.parse(said()) as unknown };
  }

  /**
   * The same in pages of at most 64 routes; the event loop runs between pages. Each route is consistent in itself. Restored values may count
   * as younger than they are, never as older.
   */
  async saveInPages(): Promise<SavedState> {
    const { routes, ...rest } = await readRoutes<object>(this, SAVE);
    return { at: Date.now(), state: routes.length === 0 ? rest : { ...rest, routes } };
  }

  /**
   * Restores a saved state, aged by the time since it was saved. Call it after the policies and pools are made and before the first call. It
   * is one step of the event loop, whatever the number of routes, and restores all of the state or nothing.
   *
   * @throws TidegateError If `saved` is no saved state, or the engine has begun calls; nothing has changed then.
   */
  restore(saved: SavedState): Restored {
    const native = this.whole("restore");
    reportWall(this);
    const age = Math.max(Date.now() - Number(saved.at), 0);
    say(JSON.stringify(saved.state) ?? "");
    const done = native.restore(this.handle, Number.isNaN(age) ? 0 : age * 1000, this.time());
    if (done < 0) throw new TidegateError(said());
    return JSON.parse(said()) as Restored;
  }

  /**
   * Subscribes to all events of the engine from now on, until the subscription ends. Before the full module is loaded, events are delayed
   * until it is.
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

  /** @internal Takes the new records from the engine and passes them to the listeners. */
  publish(): void {
    // A listener may make further records. They follow those that it and the other listeners are being told.
    if (!this.full || this.#publishing) return;
    this.#publishing = true;
    try {
      while (this.#tell());
    } finally {
      this.#publishing = false;
    }
  }

  #publishing = false;

  /** Passes the new records to the listeners. Returns whether there were any. */
  #tell(): boolean {
    this.native.records(this.handle);
    if (this.listeners.size === 0) return false;
    const text = said();
    if (text === "[]") return false;
    for (const written of JSON.parse(text) as Written[]) {
      const event = this.#event(written);
      for (const listener of this.listeners) {
        try {
          const done: unknown = listener(event);
          if (done instanceof Promise) done.catch(listenerFailed);
        } catch (error) {
          listenerFailed(error);
        }
      }
    }
    return true;
  }

  /** Converts a record of the engine to an event, with the names of its policy and route. */
  #event(written: Written): TidegateEvent {
    const key = (route: number) => this.#keys.of(this.native, this.handle, route);
    return eventOf(written, (number) => this.wanted.get(number)?.name, key);
  }

  /**
   * Explains why a call waits, or why it ended as it did, with the numbers that decided.
   *
   * A call that has ended is known from the journal, until lines are taken from it, else from the history.
   *
   * @param of The number of a call, as in events, or the error (or response) that a call ended with.
   * @returns Undefined if the engine does not know the call: its first attempt succeeded, `history` newer records have replaced its own,
   * or the engine keeps none.
   * @throws NotReady In a page that has only the small engine, which keeps no history; `await ready({ full: true })` first.
   */
  explain(of: number | object): CallExplanation | undefined {
    const native = this.whole("explain");
    const found = typeof of === "number" ? { engine: this, call: of } : endOf(of);
    if (found === undefined || found.engine !== this) return undefined;
    native.explain_call(this.handle, found.call);
    const explanation = JSON.parse(said()) as (Omit<CallExplanation, "story"> & { story: Written[] }) | null;
    if (explanation === null) return undefined;
    return spoken({ ...explanation, story: explanation.story.map((written) => this.#event(written)) });
  }

  /**
   * Returns all inputs of the engine as text, one per line, for `Engine.replay` in any language.
   *
   * Keeps at most the last 100,000 inputs. A line `dropped` marks missing inputs, and `replay` refuses it.
   *
   * @param options `take`: removes the returned lines, which bounds the size of the journal. The next call continues after them; `replay`
   * takes all texts concatenated in order.
   * @throws TidegateError If the engine keeps no journal.
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
   * Makes an engine from a journal: same seed and inputs, so the same decisions.
   *
   * Its clock stops at the end of the journal. It keeps a journal itself, to explain calls; `answers` has its answer to each line.
   *
   * @throws RangeError If a line is not a journal line; the text says which line, and why.
   */
  static replay(journal: string): Engine {
    return replayed(journal, (options, seed) => new Engine(options, seed));
  }

  /** @internal Gives a policy new settings, as its owner asks. */
  retune(number: number, name: string, pairs: readonly Pair[]): void {
    this.whole("retune");
    tests.tester?.before(this, name);
    try {
      this.change(number, name, pairs);
      const wanted = this.wanted.get(number);
      if (wanted !== undefined) wanted.pairs = pairs;
    } finally {
      tests.tester?.after(this, number);
    }
  }

  /** @internal The same, without changing the settings recorded for the owner. */
  change(number: number, name: string, pairs: readonly Pair[]): void {
    stage(name, pairs);
    if (this.native.retune(this.handle, number, this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), OPTIONS, pairs));
    }
    this.changed();
  }

  /** @internal Notes that settings in force have changed. */
  changed(): void {
    this.tunings += 1;
    reportWall(this);
    this.after(WAKES | COMMANDS);
  }

  /** @internal Takes in a pool, or gives it new settings (`again`). */
  pool(name: string, kind: PoolKind, pairs: readonly Pair[], again: boolean, form: Form): void {
    const native = this.whole("a pool");
    stage(name, pairs);
    const number = Object.keys(POOLS).indexOf(kind);
    if (native.pool(this.handle, number, Number(again), this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), form));
    }
    this.changed();
  }
}

function listenerFailed(error: unknown): void {
  complain("a listener failed", error, "error");
}

const TOO_LATE =
  "the full engine comes too late for this one, which has gone on without it for too long: load the page anew";
