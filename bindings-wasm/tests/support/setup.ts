/** Set-up of every test: engines of its own, and a check that nothing is left (rule 14): no call, timer, socket, server or listener. */

import { afterEach, beforeEach, expect } from "vitest";
import { provide } from "../../ts/engine/module.js";
import { Engine, type EngineOptions } from "../../ts/node.js";
import { provide as provideParts } from "../../ts/parts/native.js";
import { wasm } from "./wasm.js";

// The sources have no modules beside them; the build output has.
provide({ now: () => wasm("tidegate") });
provideParts({ now: () => wasm("parts") });

const engines: Engine[] = [];

/** An engine that is checked when the test has ended: no call, waiter or timer may be left. */
export function engine(options: EngineOptions = {}): Engine {
  const made = new Engine({ seed: 1, ...options });
  engines.push(made);
  return made;
}

/** Lets pending promise callbacks run. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await Promise.resolve();
}

const OURS = new URL("../../ts/", import.meta.url).pathname;

/** The current listeners of our sources on the signals of this test: the signal of each listener function. */
const listeners = new Map<unknown, AbortSignal>();

const { addEventListener, removeEventListener } = EventTarget.prototype;

/** Whether the caller of the calling function is in our sources. Reading raw stack frames is cheap. */
function isOurs(): boolean {
  const { prepareStackTrace, stackTraceLimit } = Error;
  Error.prepareStackTrace = (_, frames) => frames[2]?.getFileName() ?? "";
  Error.stackTraceLimit = 3;
  const file = String(new Error().stack);
  Object.assign(Error, { prepareStackTrace, stackTraceLimit });
  return file.includes(OURS);
}

AbortSignal.prototype.addEventListener = function (this: AbortSignal, ...given: unknown[]) {
  if (isOurs()) listeners.set(given[1], this);
  return Reflect.apply(addEventListener, this, given);
} as typeof AbortSignal.prototype.addEventListener;

AbortSignal.prototype.removeEventListener = function (this: AbortSignal, ...given: unknown[]) {
  listeners.delete(given[1]);
  return Reflect.apply(removeEventListener, this, given);
} as typeof AbortSignal.prototype.removeEventListener;

// Node uses `process.nextTick` to pass on the messages that vitest sends to a test process. A fake one holds back a message that arrives
// meanwhile, and vitest then waits for ever at the end of the file. So replacing it is an error.
const { nextTick } = process;
Object.defineProperty(process, "nextTick", {
  get: () => nextTick,
  set: (other: unknown) => {
    if (other !== nextTick) throw new Error('fake timers need { toNotFake: ["nextTick"] } in these tests');
  },
});

/** Number of sockets and servers that keep the process alive. Idle sockets of a pool do not count. */
function sockets(): number {
  return process.getActiveResourcesInfo().filter((kind) => /^TCP(?:Socket|Server)Wrap$/.test(kind)).length;
}

// Captured here, because a test may still have fake timers when it ends.
const later = setImmediate;
const now = performance.now.bind(performance);

let before = 0;

beforeEach(() => {
  listeners.clear();
  before = sockets();
});

afterEach(async () => {
  const end = now() + 30_000;
  while (sockets() > before && now() < end) await new Promise((done) => later(done));
  expect(sockets(), "sockets and servers that are left open").toBeLessThanOrEqual(before);
  // A signal that has fired has released its listeners.
  const left = [...listeners].filter(([, signal]) => !signal.aborted);
  expect(left, "listeners of signals that are left").toEqual([]);
});

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
