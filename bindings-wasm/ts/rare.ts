/**
 * What the full engine is asked for, and pages do not load with the small one: events, snapshots, saved states, explanations
 * and journals.
 */

import { complain } from "./classify.js";
import { Standing } from "./clock.js";
import { Engine, type RareEngine, type Restored, type SavedState } from "./engine.js";
import {
  BulkheadFull,
  ForcedOpen,
  HoldFull,
  PolicyError,
  StoreUnavailable,
  Throttled,
  TidegateError,
} from "./errors.js";
import { eventOf, subscription, type TidegateEvent } from "./events.js";
import {
  type CallExplanation,
  endOf,
  headOf,
  journalOf,
  mark,
  type PolicyExplanation,
  spoken,
} from "./explain.js";
import { scopes, surroundings } from "./follow.js";
import { needs, pieces, said, say, stage } from "./native.js";
import { REFUSALS } from "./notes.js";
import { mistakesOf, OPTIONS, pairsOf } from "./options.js";
import { POOLS } from "./options_gen.js";
import { readRoutes, SAVE, SNAPSHOT } from "./pages.js";
import { provideScopes } from "./platform.js";
import { Policy, type RarePolicy, settingsOf } from "./policy.js";
import { inherited } from "./scope.js";
import type { PolicyCounts, Snapshot } from "./snapshot.js";
import { tester } from "./tested.js";
import { COMMANDS, WAKES } from "./wire.js";

/** Keys of routes that are kept for events. */
const MOST_KEYS = 1000;
/** The keys of routes, for events. A route's number is its own for good. */
const keys = new WeakMap<Engine, Map<number, string>>();
/** Engines from whose journal something has been taken. */
const taken = new WeakSet<Engine>();

type Written = Parameters<typeof eventOf>[0];

/** Puts methods in the place of those that the small engine lacks. It may be the small one all the same (`tidegate/slim`). */
function install<M extends object>(on: object, methods: M & ThisType<M>): void {
  for (const [name, method] of Object.entries(methods)) {
    const value = function (this: unknown, ...args: unknown[]): unknown {
      needs(name);
      return method.apply(this, args);
    };
    Object.defineProperty(on, name, { value, configurable: true, writable: true });
  }
}

provideScopes(scopes);
Object.assign(REFUSALS, {
  forced_open: [ForcedOpen, "an operator refuses all calls"],
  throttled: [Throttled, "the adaptive throttle refused the call"],
  queue_shed: [BulkheadFull, "the queue's delay was over target"],
  displaced: [BulkheadFull, "a call of higher criticality took its place in the queue"],
  hold_full: [HoldFull, "too many calls are held already"],
  store_unavailable: [StoreUnavailable, "the shared store is gone"],
} satisfies typeof REFUSALS);

const ENGINE: Omit<RareEngine, "inherit"> & ThisType<Engine> = {
  snapshot() {
    this.native.snapshot(this.handle, this.time());
    return JSON.parse(said()) as Snapshot;
  },

  save() {
    this.native.save(this.handle, this.time());
    return { at: Date.now(), state: JSON.parse(said()) as unknown };
  },

  async snapshotInPages() {
    return readRoutes<Snapshot>(this, SNAPSHOT) as Promise<Snapshot>;
  },

  async saveInPages() {
    const { routes, ...rest } = await readRoutes<object>(this, SAVE);
    return { at: Date.now(), state: routes.length === 0 ? rest : { ...rest, routes } };
  },

  restore(saved: SavedState) {
    const age = Math.max(Date.now() - Number(saved.at), 0);
    say(JSON.stringify(saved.state) ?? "");
    const done = this.native.restore(this.handle, Number.isNaN(age) ? 0 : age * 1000, this.time());
    if (done < 0) throw new TidegateError(said());
    return JSON.parse(said()) as Restored;
  },

  listen(listener) {
    this.listeners.add(listener);
    heard(this);
    return subscription(() => {
      this.listeners.delete(listener);
      heard(this);
    });
  },

  publish() {
    this.native.records(this.handle);
    if (this.listeners.size === 0) return;
    const text = said();
    if (text === "[]") return;
    for (const written of JSON.parse(text) as Written[]) {
      const event = eventIn(this, written);
      for (const listener of this.listeners) {
        try {
          listener(event);
        } catch (error) {
          complain("a listener failed", error, "error");
        }
      }
    }
  },

  explainPolicy(policy) {
    this.native.explain(this.handle, policy);
    return spoken(JSON.parse(said()) as PolicyExplanation);
  },

  explain(of) {
    const found = typeof of === "number" ? { engine: this, call: of } : endOf(of);
    if (found === undefined || found.engine !== this) return undefined;
    this.native.explain_call(this.handle, found.call);
    const told = JSON.parse(said()) as (Omit<CallExplanation, "story"> & { story: Written[] }) | null;
    if (told === null) return undefined;
    return spoken({ ...told, story: told.story.map((written) => eventIn(this, written)) });
  },

  journal({ take = false } = {}) {
    if (!this.journals) throw new TidegateError("journal = false: make the engine with { journal: true }");
    const head = taken.has(this) ? "" : headOf(seedOf(this.seed), this.maxRoutes);
    if (take) taken.add(this);
    this.native.journal(this.handle, Number(take));
    const lines = said();
    return lines === "" ? head : `${head}${lines}\n`;
  },

  retune(number, name, pairs) {
    tester?.before(this, name);
    try {
      this.change(number, name, pairs);
      this.wanted[number] = { name, pairs };
    } finally {
      tester?.after(this, number);
    }
  },

  change(number, name, pairs) {
    stage(name, pairs);
    if (this.native.retune(this.handle, number, this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), OPTIONS));
    }
    changed(this);
  },

  pool(name, kind, pairs, again, form) {
    stage(name, pairs);
    const number = Object.keys(POOLS).indexOf(kind);
    if (this.native.pool(this.handle, number, Number(again), this.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), form));
    }
    changed(this);
  },

  forceOpen(policy, route, on) {
    this.native.force_open(this.handle, policy, route, Number(on), this.time());
    this.after(WAKES | COMMANDS);
  },
};

const POLICY: RarePolicy & ThisType<Policy> = {
  retune(settings) {
    this.engine.retune(this.core.number, this.name, pairsOf(settingsOf(settings)));
  },

  forceOpen(on = true, route?: string) {
    const which = route === undefined ? 0 : this.engine.route(this.core.number, route);
    this.engine.forceOpen(this.core.number, which, on);
  },

  snapshot() {
    const { policies, routes } = this.engine.snapshot();
    const mine = routes.filter((route) => route.policy === this.name).map((route) => [route.key, route]);
    return { ...(policies[this.name] as PolicyCounts), routes: Object.fromEntries(mine) };
  },

  explain() {
    return this.engine.explainPolicy(this.core.number);
  },

  on(type, listener) {
    return this.engine.listen((event) => {
      if (event.policy === this.name && (type === "*" || event.type === type)) listener(event);
    });
  },
};

install(Engine.prototype, ENGINE);
install(Policy.prototype, POLICY);
install(Engine, { replay });
Engine.prototype.declared = declared;
Engine.prototype.ended = function (what, call) {
  mark(what, this, call);
};
Engine.prototype.target = function (core, route, path) {
  if (core.setting("retry.hold") !== 1) return 0;
  say(path);
  return this.native.target(this.handle, route, this.time());
};
Engine.prototype.enter = function (call, around, work) {
  const { scopes } = this;
  if (scopes === undefined) return work();
  return scopes.run({ engine: this, call, ends: undefined, criticality: undefined, around }, work);
};
Engine.prototype.surroundings = function () {
  return this.scopes === undefined ? undefined : surroundings();
};
Engine.prototype.inherit = function (around, flags, limit, own) {
  return inherited(this, around, flags, limit, own);
};

function declared(this: Engine, policy: number): [name: string, base: string][] {
  if (this.native.kinds === undefined) return []; // it is the small one all the same
  this.native.kinds(this.handle, policy);
  const told = pieces();
  return told.flatMap((name, at) => (at % 2 === 0 ? [[name, told[at + 1] as string]] : []));
}

/** What is in force has changed. */
function changed(engine: Engine): void {
  engine.tunings += 1;
  engine.after(WAKES | COMMANDS);
}

function seedOf([high, low]: Engine["seed"]): bigint {
  return (BigInt(high) << 32n) | BigInt.asUintN(32, BigInt(low));
}

function halvesOf(seed: bigint): Engine["seed"] {
  return [Number(seed >> 32n), Number(seed & 0xffff_ffffn)];
}

function heard(engine: Engine): void {
  const some = engine.listeners.size > 0;
  engine.listening = some || engine.measured;
  engine.native.subscribe(engine.handle, some ? 1 : 0);
}

/** A record as the engine writes it, with the names of its policy and route. */
function eventIn(engine: Engine, written: Written): TidegateEvent {
  const of = keys.get(engine) ?? new Map<number, string>();
  keys.set(engine, of);
  const key = (route: number) => {
    let found = of.get(route);
    if (found === undefined) {
      engine.native.key_of(engine.handle, route);
      found = said();
      if (of.size >= MOST_KEYS) of.clear();
      if (found !== "") of.set(route, found);
    }
    return found || undefined;
  };
  return eventOf(written, (number) => engine.wanted[number]?.name, key);
}

function replay(text: string): Engine {
  const { seed, maxRoutes, lines } = journalOf(text);
  const clock = new Standing();
  const engine = new Engine({ clock, maxRoutes, journal: true }, halvesOf(seed));
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
