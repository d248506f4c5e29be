/** For every test: engines of its own, and nothing left behind (rule 14). */

import { afterEach, expect } from "vitest";
import { Engine, type EngineOptions } from "../../ts/node.js";

const engines: Engine[] = [];

/** An engine that is looked at when the test has ended: no call, waiter or timer may be left. */
export function engine(options: EngineOptions = {}): Engine {
  const made = new Engine({ seed: 1, ...options });
  engines.push(made);
  return made;
}

/** Everything that is under way has had its turn. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await Promise.resolve();
}

afterEach(async () => {
  await turns();
  for (const each of engines.splice(0)) {
    const { live, lingering, lost, waiting, routes } = each.snapshot();
    expect({ live, lingering, lost, waiting }).toEqual({ live: 0, lingering: 0, lost: 0, waiting: 0 });
    expect(each.waiters.size).toBe(0);
    expect(each.ticker.size).toBe(0);
    for (const route of routes) expect([route.active, route.pool?.inFlight ?? 0]).toEqual([0, 0]);
  }
});
