/**
 * What the full engine is asked for, and pages do not load with the small one: events, snapshots, saved states, explanations
 * and journals.
 */

import { Standing } from "./clock.js";
import { Engine, provideRare, type Restored, type SavedState } from "./engine.js";
import { TidegateError } from "./errors.js";
import { eventOf, type Listener, type Subscription, subscription, type TidegateEvent } from "./events.js";
import { type CallExplanation, endOf, headOf, journalOf, type PolicyExplanation, spoken } from "./explain.js";
import { said, say } from "./native.js";
import type { PoolSnapshot, Snapshot } from "./snapshot.js";

/** Keys of routes that are kept for events. */
const MOST_KEYS = 1000;
/** The keys of routes, for events. A route's number is its own for good. */
const keys = new WeakMap<Engine, Map<number, string>>();
/** Engines from whose journal something has been taken. */
const taken = new WeakSet<Engine>();

type Written = Parameters<typeof eventOf>[0];

provideRare({
  snapshot,
  save,
  restore,
  listen,
  publish,
  explainPolicy,
  explain,
  journal,
  replay,
});

function snapshot(engine: Engine): Snapshot {
  engine.native.snapshot(engine.handle, engine.time());
  return JSON.parse(said()) as Snapshot & { pools: Record<string, PoolSnapshot> };
}

function save(engine: Engine): SavedState {
  engine.native.save(engine.handle, engine.time());
  return { at: Date.now(), state: JSON.parse(said()) as unknown };
}

function restore(engine: Engine, saved: SavedState): Restored {
  const age = Math.max(Date.now() - Number(saved.at), 0);
  say(JSON.stringify(saved.state) ?? "");
  const done = engine.native.restore(engine.handle, Number.isNaN(age) ? 0 : age * 1000, engine.time());
  if (done < 0) throw new TidegateError(said());
  return JSON.parse(said()) as Restored;
}

function listen(engine: Engine, listener: Listener): Subscription {
  engine.listeners.add(listener);
  heard(engine);
  return subscription(() => {
    engine.listeners.delete(listener);
    heard(engine);
  });
}

function heard(engine: Engine): void {
  const some = engine.listeners.size > 0;
  engine.listening = some || engine.measured;
  engine.native.subscribe(engine.handle, some ? 1 : 0);
}

/** Takes the records that there are, and tells whoever listens. */
function publish(engine: Engine): void {
  engine.native.records(engine.handle);
  if (engine.listeners.size === 0) return;
  const text = said();
  if (text === "[]") return;
  for (const written of JSON.parse(text) as Written[]) {
    const event = eventIn(engine, written);
    for (const listener of engine.listeners) {
      try {
        listener(event);
      } catch (error) {
        console.error("tidegate: a listener failed:", error);
      }
    }
  }
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

function explainPolicy(engine: Engine, policy: number): PolicyExplanation {
  engine.native.explain(engine.handle, policy);
  return spoken(JSON.parse(said()) as PolicyExplanation);
}

function explain(engine: Engine, of: number | object): CallExplanation | undefined {
  const found = typeof of === "number" ? { engine, call: of } : endOf(of);
  if (found === undefined || found.engine !== engine) return undefined;
  engine.native.explain_call(engine.handle, found.call);
  const told = JSON.parse(said()) as (Omit<CallExplanation, "story"> & { story: Written[] }) | null;
  if (told === null) return undefined;
  return spoken({ ...told, story: told.story.map((written) => eventIn(engine, written)) });
}

function journal(engine: Engine, take: boolean): string {
  if (!engine.journals) throw new TidegateError("journal = false: make the engine with { journal: true }");
  const head = taken.has(engine) ? "" : headOf(engine.seed, engine.maxRoutes);
  if (take) taken.add(engine);
  engine.native.journal(engine.handle, Number(take));
  const lines = said();
  return lines === "" ? head : `${head}${lines}\n`;
}

function replay(text: string): Engine {
  const { seed, maxRoutes, lines } = journalOf(text);
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
