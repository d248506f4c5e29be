/** Where tests get a hold of engines. Nothing here costs a call anything. */

import type { Engine } from "../engine/engine.js";

/** What `tidegate/testing` wants to be told, once it has switched something. */
export interface Tester {
  /** An engine is in the full module. */
  made(engine: Engine): void;
  /** A policy of this name is to be taken in, or changed: it is to be what its owner wants. Its number, or −1. */
  before(engine: Engine, name: string): number;
  /** It has been. */
  after(engine: Engine, number: number): void;
}

/** All engines there are. */
const all = new Set<WeakRef<Engine>>();
/** The one who tests, if anybody does. */
export let tester: Tester | undefined;

export function setTester(wanted: Tester | undefined): void {
  tester = wanted;
}

/** An engine has been made. */
export function added(engine: Engine): void {
  all.add(new WeakRef(engine));
}

/** All engines there are. */
export function engines(): Engine[] {
  const found: Engine[] = [];
  for (const ref of all) {
    const engine = ref.deref();
    if (engine === undefined) all.delete(ref);
    else found.push(engine);
  }
  return found;
}
