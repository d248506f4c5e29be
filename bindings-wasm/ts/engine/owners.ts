/** The policies of an engine with the settings that their owners gave them (docs/adr/0033-owners.md). */

import { LACKING } from "./declared.js";
import type { Engine } from "./engine.js";
import { type Pair, stage } from "./native.js";
import { warnAgain } from "./place.js";

/** A policy as its owners defined it. */
export interface Wanted {
  readonly name: string;
  pairs: readonly Pair[];
  /** The file that defines it, if known. */
  readonly place: string | undefined;
  /** Number of objects that own this policy. */
  owners: number;
}

/** Policies by number. */
export class Owners extends Map<number, Wanted> {
  readonly #engine: Engine;
  /** Policies released while the small module, which cannot release any, was in use. */
  #released: (readonly [number: number, keep: boolean])[] = [];

  constructor(engine: Engine) {
    super();
    this.#engine = engine;
  }

  /** The number of the policy with this name, or −1. */
  numberOf(name: string): number {
    for (const [number, wanted] of this) if (wanted.name === name) return number;
    return -1;
  }

  /** Adds an owner to a policy that has been taken in. */
  own(number: number, name: string, pairs: readonly Pair[], place?: string): void {
    const owners = (this.get(number)?.owners ?? 0) + 1;
    this.set(number, { name, pairs, place, owners });
  }

  /** Removes an owner. `keep`: the engine keeps the policy's counts, for a later policy of the same name. */
  release(number: number, keep: boolean): void {
    const wanted = this.get(number);
    if (wanted === undefined) return;
    wanted.owners -= 1;
    if (wanted.owners === 0) this.delete(number);
    this.#released.push([number, keep]);
    if (this.#engine.full) this.settle();
  }

  /** Passes the releases to the full module. */
  settle(): void {
    const { native, handle } = this.#engine;
    for (const [number, keep] of this.#released)
      native.release(handle, number, Number(keep), this.#engine.time());
    if (this.#released.length > 0) this.#engine.after(0);
    this.#released = [];
  }

  /**
   * Changes a policy whose definition runs again with other settings because its file was edited and reloaded, and warns. Returns the
   * policy's number, or −1 if this is another definition.
   *
   * @throws PolicyError If the settings are wrong.
   */
  again(name: string, pairs: readonly Pair[], place: string | undefined): number {
    const known = this.numberOf(name);
    if (known < 0 || place === undefined || this.get(known)?.place !== place) return -1;
    if (!this.#engine.full) throw LACKING;
    this.#engine.change(known, name, pairs);
    warnAgain(name, place);
    stage(name, pairs);
    return this.#engine.native.policy(this.#engine.handle);
  }
}
