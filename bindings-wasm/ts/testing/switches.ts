/** Switches for all policies of a process, and a look at what is left. */

import { defaultEngine, use } from "../engine/default_engine.js";
import type { Engine } from "../engine/engine.js";
import { load } from "../engine/module.js";
import { type Pair, said, say, stage } from "../engine/native.js";
import { DONE, VERDICTS } from "../engine/wire.js";
import { type Subscription, subscription } from "../telemetry/events.js";
import { engines, setTester } from "./tested.js";

/** How all engines are tested. */
interface Mode {
  readonly active: boolean;
  /** So many attempts without waits; 0 is as each policy says. */
  readonly attempts: number;
  readonly cap: boolean;
}

const UNTESTED: Mode = { active: true, attempts: 0, cap: false };
/** The name of the policy that calls go by while policies are not active. */
const INACTIVE = "tidegate.inactive";

let mode = UNTESTED;
/** The policies of an engine that are not what their owners want. */
const changed = new WeakMap<Engine, Set<number>>();

function switched(to: Mode): Subscription {
  const before = mode;
  test(to);
  return subscription(() => test(before));
}

function test(to: Mode): void {
  for (const engine of engines())
    for (const number of [...(changed.get(engine) ?? [])]) asWanted(engine, number);
  mode = to;
  const tests = to.attempts > 0 || !to.active;
  setTester(tests ? { made: tested, before, after } : undefined);
  for (const engine of engines()) tested(engine);
}

/** An engine, as all are tested. */
function tested(engine: Engine): void {
  if (!engine.full) {
    engine.wantFull();
    return; // when it has come, this is asked again
  }
  engine.native = mode.active ? load() : inactive(engine);
  engine.native.lift_budgets(engine.handle, Number(mode.attempts > 0));
  engine.tunings += 1; // what policies say of themselves is asked again
  for (const number of engine.wanted.keys()) after(engine, number);
}

/** A policy of this name is to be what its owner wants. */
function before(engine: Engine, name: string): number {
  const number = engine.wanted.numberOf(name);
  if (changed.get(engine)?.has(number)) asWanted(engine, number);
  return number;
}

function asWanted(engine: Engine, number: number): void {
  const wanted = engine.wanted.get(number);
  changed.get(engine)?.delete(number);
  if (wanted !== undefined) engine.change(number, wanted.name, wanted.pairs);
}

/** Gives a policy another number of attempts, and no wait between them. One without retries stays as it is. */
function after(engine: Engine, number: number): void {
  const wanted = engine.wanted.get(number);
  if (mode.attempts === 0 || wanted === undefined || changed.get(engine)?.has(number)) return;
  const value = (key: string) => {
    say(key);
    const found = load().setting(engine.handle, number);
    return Number.isNaN(found) ? said() || null : found;
  };
  const own = value("retry.max_attempts");
  if (typeof own !== "number") return;
  const kept = wanted.pairs.filter(
    ([key]) => !/^retry\.(?:backoff\.|max_attempts|respect_|hold|max_held)/.test(key),
  );
  const waits = ["retry.backoff.base", "retry.backoff.max"];
  if (value("retry.backoff.throttled_base") !== null) waits.push("retry.backoff.throttled_base");
  if (value("retry.hold") === 1) waits.push("retry.hold");
  const most = mode.cap ? Math.min(own, mode.attempts) : mode.attempts;
  const pairs: Pair[] = [
    ...kept,
    ["retry.max_attempts", most],
    ["retry.respect_retry_after", 0],
    ...waits.map((key): Pair => [key, 0]),
  ];
  engine.change(number, wanted.name, pairs);
  const all = changed.get(engine) ?? new Set();
  changed.set(engine, all.add(number));
}

/** The engine's module, but that all calls begin under a policy that does nothing. */
function inactive(engine: Engine): Engine["native"] {
  const native = load();
  stage(INACTIVE, [["retry.max_attempts", 1]]);
  const policy = native.policy(engine.handle);
  const routed = () => {
    say("default");
    return native.route(engine.handle, policy, engine.time());
  };
  let route = routed();
  const begin: typeof native.begin = (handle, _route, flags, _limit, _parent, _target, now) => {
    const step = native.begin(handle, route, flags, 0, 0, 0, now);
    if ((step & 3) !== DONE || VERDICTS[(step >>> 12) & 63] !== "stale_route") return step;
    route = routed();
    return native.begin(handle, route, flags, 0, 0, 0, now);
  };
  return { ...native, begin, setting: (handle) => native.setting(handle, policy) };
}

/**
 * Switches all policies of the process off, or on again, until the switch is disposed of or set anew.
 *
 * While they are off every call is one attempt: nothing is repeated, limited, refused or timed, and nothing is learned.
 *
 * @example
 * ```ts
 * const off = setActive(false);
 * assert.equal(isActive(), false);
 * off.dispose();
 * assert.equal(isActive(), true);
 * ```
 */
export function setActive(active: boolean): Subscription {
  return switched({ ...mode, active });
}

/** Do policies do anything? */
export function isActive(): boolean {
  return mode.active;
}

/** How `setTesting` tests. */
export interface TestingOptions {
  /** Does this hold? True if left out; false is as always. */
  readonly testing?: boolean | undefined;
  /** Attempts of a call, 1 to 100; the first one counts. 1 if left out. */
  readonly attempts?: number | undefined;
  /** Does a policy that makes fewer keep its own number? Not if left out. */
  readonly cap?: boolean | undefined;
}

/**
 * Makes all policies that retry do so `attempts` times, and never wait between attempts, until the switch is disposed of or set
 * anew. Limits, breakers and deadlines stay what they are. `Retry-After` is not waited for, and no retry budget refuses an attempt:
 * budgets still count calls and answers, and decide again afterwards.
 *
 * @throws RangeError If `attempts` is out of range.
 * @example
 * ```ts
 * const quick = setTesting({ attempts: 2 });
 * assert.equal(isTesting(), true);
 * quick.dispose();
 * assert.equal(isTesting(), false);
 * ```
 */
export function setTesting(options: TestingOptions = {}): Subscription {
  const { testing = true, attempts = 1, cap = false } = options;
  if (!(Number.isInteger(attempts) && attempts >= 1 && attempts <= 100)) {
    throw new RangeError(`attempts = ${String(attempts)}: must be a whole number from 1 to 100`);
  }
  return switched({ ...mode, attempts: testing ? attempts : 0, cap: testing && cap });
}

/** Is the number of attempts the tests' own? */
export function isTesting(): boolean {
  return mode.attempts > 0;
}

/**
 * Makes an engine the process's own, which policies made without one belong to, until the switch is disposed of.
 *
 * @example
 * ```ts
 * const clock = new FakeClock();
 * const mine = new Engine({ seed: 1, clock });
 * const used = useEngine(mine);
 * assert.equal(policy({ deadline: 5 }).engine, mine);
 * used.dispose();
 * ```
 */
export function useEngine(engine: Engine): Subscription {
  const before = use(engine);
  return subscription(() => use(before));
}

/**
 * Checks that nothing is left of any call: none goes on, waits, holds a permit or is on a timer.
 *
 * @param engine The process's own if left out.
 * @throws Error With all that is left.
 * @example
 * ```ts
 * assertIdle();
 * ```
 */
export function assertIdle(engine: Engine = defaultEngine()): void {
  const view = engine.snapshot();
  const left: string[] = [];
  const count = (number: number, what: string) => {
    if (number > 0) left.push(`${number} ${what}`);
  };
  for (const key of ["live", "lingering", "lost", "waiting"] as const) count(view[key], key);
  count(engine.waiters.size, "waiters");
  count(engine.ticker.size, "timers");
  for (const { policy, key, active, pool } of view.routes) {
    count(active, `active (policy ${policy}, route ${key})`);
    count(pool?.inFlight ?? 0, `permits out (policy ${policy}, route ${key})`);
  }
  for (const [name, { pool }] of Object.entries(view.pools)) {
    count(pool?.inFlight ?? 0, `permits out (pool ${name})`);
  }
  if (left.length > 0) throw new Error(`tidegate is not idle: ${left.join(", ")}`);
}
