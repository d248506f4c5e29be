/** What the full engine is asked for, and pages do not load with the small one: events, snapshots, saved states. */

import { type Engine, provideRare, type Restored, type SavedState } from "./engine.js";
import { TidegateError } from "./errors.js";
import { eventOf, type Listener, type Subscription, subscription } from "./events.js";
import { said, say } from "./native.js";
import type { PoolSnapshot, Snapshot } from "./snapshot.js";

provideRare({ snapshot, save, restore, listen, publish });

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
  const routeKey = (route: number) => {
    engine.native.key_of(engine.handle, route);
    return said() || undefined;
  };
  for (const written of JSON.parse(text) as Parameters<typeof eventOf>[0][]) {
    const event = eventOf(written, (number) => engine.names[number], routeKey);
    for (const listener of engine.listeners) {
      try {
        listener(event);
      } catch (error) {
        console.error("tidegate: a listener failed:", error);
      }
    }
  }
}
