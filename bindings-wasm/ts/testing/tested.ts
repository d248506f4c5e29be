/** Hooks by which tests reach all engines. They cost calls nothing. */

import type { Engine } from "../engine/engine.js";
import { type Weak, weak } from "../engine/platform.js";
import { shared } from "../engine/shared.js";

/** Hooks of `tidegate/testing`, set while one of its switches is on. */
export interface Tester {
  /** Called when an engine runs in the full module. */
  made(engine: Engine): void;
  /** Called before a policy of this name is taken in or changed: restores its owner's settings. Returns its number, or −1. */
  before(engine: Engine, name: string): number;
  /** Called afterwards. */
  after(engine: Engine, number: number): void;
}

/** All live engines. */
const all = shared("engines", () => new Set<Weak<Engine>>());
/** The hooks in effect, if any. */
export const tests = shared("tests", (): { tester: Tester | undefined } => ({ tester: undefined }));

/** Registers a new engine. */
export function added(engine: Engine): void {
  all.add(weak(engine));
}

/** All live engines. */
export function engines(): Engine[] {
  const found: Engine[] = [];
  for (const ref of all) {
    const engine = ref.deref();
    if (engine === undefined) all.delete(ref);
    else found.push(engine);
  }
  return found;
}
