/** Switches for all policies of a process, and a check that nothing is left over. */

import { defaultEngine, use } from "../engine/default_engine.js";
import type { Engine } from "../engine/engine.js";
import { load } from "../engine/module.js";
import { type Pair, said, say, stage } from "../engine/native.js";
import { shared } from "../engine/shared.js";
import { DONE, VERDICTS } from "../engine/wire.js";
import { checkNames } from "../errors/errors.js";
import { type Subscription, subscription } from "../telemetry/events.js";
import { engines, tests } from "./tested.js";

/** The test mode of all engines. */
interface Mode {
  readonly active: boolean;
  /** Number of attempts, without waits; 0 leaves each policy as it is. */
  readonly attempts: number;
  readonly cap: boolean;
}

const UNTESTED: Mode = { active: true, attempts: 0, cap: false };
/** The name of the policy that calls use while policies are inactive. */
const INACTIVE = "tidegate.inactive";

const state = shared("switches", () => ({
  mode: UNTESTED,
  /** The policies whose settings are not those of their owners. */
  changed: new WeakMap<Engine, Set<number>>(),
}));

function switched(to: Mode): Subscription {
  const before = state.mode;
  test(to);
  return subscription(() => test(before));
}

function test(to: Mode): void {
  for (const engine of engines())
    for (const number of [...(state.changed.get(engine) ?? [])]) asWanted(engine, number);
  state.mode = to;
  const on = to.attempts > 0 || !to.active;
  tests.tester = on ? { made: tested, before, after } : undefined;
  for (const engine of engines()) tested(engine);
}

/** Applies the test mode to an engine. */
function tested(engine: Engine): void {
  if (!engine.full) {
    engine.wantFull();
    return; // called again when the full module is there
  }
  engine.native = state.mode.active ? load() : inactive(engine);
  engine.native.lift_budgets(engine.handle, Number(state.mode.attempts > 0));
  engine.tunings += 1; // policies must drop their cached settings
  for (const number of engine.wanted.keys()) after(engine, number);
}

/** Restores the owner's settings of the policy with this name, before it changes. */
function before(engine: Engine, name: string): number {
  const number = engine.wanted.numberOf(name);
  if (state.changed.get(engine)?.has(number)) asWanted(engine, number);
  return number;
}

function asWanted(engine: Engine, number: number): void {
  const wanted = engine.wanted.get(number);
  state.changed.get(engine)?.delete(number);
  if (wanted !== undefined) engine.change(number, wanted.name, wanted.pairs);
}

/** Sets the number of attempts of a policy, and removes its waits. A policy without retries stays as it is. */
function after(engine: Engine, number: number): void {
  const wanted = engine.wanted.get(number);
  if (state.mode.attempts === 0 || wanted === undefined || state.changed.get(engine)?.has(number)) return;
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
  const most = state.mode.cap ? Math.min(own, state.mode.attempts) : state.mode.attempts;
  const pairs: Pair[] = [
    ...kept,
    ["retry.max_attempts", most],
    ["retry.respect_retry_after", 0],
    ...waits.map((key): Pair => [key, 0]),
  ];
  engine.change(number, wanted.name, pairs);
  const all = state.changed.get(engine) ?? new Set();
  state.changed.set(engine, all.add(number));
}

/** A wrapper of the module under which all calls begin under a policy that does nothing. */
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
  const begin_weighted: typeof native.begin_weighted = begin;
  return { ...native, begin, begin_weighted, setting: (handle) => native.setting(handle, policy) };
}

/**
 * Switches all policies of the process off or on, until the switch is disposed of or set again.
 *
 * While they are off, every call is one attempt: nothing is repeated, limited, refused or timed, and no state changes.
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
  return switched({ ...state.mode, active });
}

/** Whether policies are active. */
export function isActive(): boolean {
  return state.mode.active;
}

/** Options of `setTesting`. */
export interface TestingOptions {
  /** Whether the test mode is on. True by default; false restores normal behaviour. */
  readonly testing?: boolean | undefined;
  /** Attempts per call, including the first, 1 to 100; 1 by default. */
  readonly attempts?: number | undefined;
  /** Whether a policy with fewer attempts keeps its own number. False by default. */
  readonly cap?: boolean | undefined;
}

/**
 * Makes all policies that retry use `attempts` attempts without waiting between them, until the switch is disposed of or set again.
 * Limits, breakers and deadlines are unchanged. `Retry-After` is ignored, and retry budgets refuse nothing: they still count calls and
 * responses, and decide again afterwards.
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
  checkNames("setTesting", options, "testing attempts cap");
  const { testing = true, attempts = 1, cap = false } = options;
  if (!(Number.isInteger(attempts) && attempts >= 1 && attempts <= 100)) {
    throw new RangeError(`attempts = ${String(attempts)}: must be a whole number from 1 to 100`);
  }
  return switched({ ...state.mode, attempts: testing ? attempts : 0, cap: testing && cap });
}

/** Whether `setTesting` is in effect. */
export function isTesting(): boolean {
  return state.mode.attempts > 0;
}

/**
 * Makes an engine the default of the process, for policies that name none, until the switch is disposed of.
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
 * Checks that no call is left over: none runs, waits, holds a permit or has a timer.
 *
 * @param engine By default the engine of the process.
 * @throws Error That lists all that is left.
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
