/**
 * Helpers for tests: a clock that tests advance, switches for all policies, and a check that nothing is left over.
 *
 * ```ts
 * const clock = new FakeClock();
 * const engine = new Engine({ seed: 1, clock });
 * const off = setActive(false);        // calls go straight through, until off.dispose()
 * setTesting({ attempts: 1 }).dispose();
 * assertIdle(engine);
 * ```
 */

export { FakeClock } from "./testing/fake.js";
export {
  assertIdle,
  isActive,
  isTesting,
  setActive,
  setTesting,
  type TestingOptions,
  useEngine,
} from "./testing/switches.js";
