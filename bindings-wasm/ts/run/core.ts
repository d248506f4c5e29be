/** What a policy's callers share: its place in an engine, and what is in force there. */

import type { Classify } from "../classify.js";
import { type Declared, waited } from "../engine/declared.js";
import type { Engine } from "../engine/engine.js";
import type { Limits } from "../errors.js";
import type { ErrorClass } from "../judge.js";
import { type Refused, refusal } from "./notes.js";

/** What is known of a policy's place in its engine when nobody holds the policy any more. */
interface Held {
  readonly engine: WeakRef<Engine>;
  number: number;
  /** Does the engine keep what the policy has counted, for whoever makes it again under its name? */
  readonly keep: boolean;
}

/** Releases policies that nobody holds: neither their owner, nor a caller of theirs, nor a call. */
const holders =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Held>(({ engine, number, keep }) => {
        if (number >= 0) engine.deref()?.wanted.release(number, keep);
      });

/** Has a policy released when nobody holds it: where its number is to be put. */
export function holding(core: Core, keep: boolean): Held {
  const held = { engine: new WeakRef(core.engine), number: -1, keep };
  holders?.register(core, held);
  return held;
}

export class Core implements Refused {
  readonly engine: Engine;
  readonly name: string;
  /** Its number in the engine; below 0 until the engine has taken it in. */
  number = -1;
  /** What stands for it until then. */
  declare declared: Declared;
  /** Milliseconds of its deadline, as its author has written it. */
  readonly #deadline: number;
  readonly classify: Classify | undefined;
  /** The classes of errors to repeat, whatever is known of them. */
  readonly on: readonly ErrorClass[] | undefined;
  #seen = -1;
  #kinds: readonly string[] = [];
  #settings = new Map<string, number | string | null>();
  #methods = new Map<string, boolean>();
  #hedges = false;

  constructor(
    engine: Engine,
    name: string,
    classify: Classify | undefined,
    on: readonly ErrorClass[] | undefined,
    deadline: unknown,
  ) {
    this.engine = engine;
    this.name = name;
    this.classify = classify;
    this.on = on;
    this.#deadline = typeof deadline === "number" ? deadline : Infinity;
  }

  /** Waits for a call of this policy until the engine has taken the policy in: the milliseconds that its deadline has left. */
  async there(
    route: string,
    signal: AbortSignal | undefined,
    deadline?: number,
  ): Promise<number | undefined> {
    const least = Math.min(this.#deadline, deadline ?? Infinity);
    const refused = () => refusal("deadline_before", this, route, undefined, undefined);
    const ms = await waited(this.declared, signal, least, refused);
    const all = Math.min(this.ms("deadline") ?? Infinity, deadline ?? Infinity);
    return all === Infinity ? undefined : all - ms;
  }

  /**
   * For what asks at once.
   *
   * @throws NotReady While the engine has not taken the policy in. PolicyError if it cannot be.
   */
  now(what: string): number {
    if (this.number < 0) {
      if (this.declared.mistake !== undefined) throw this.declared.mistake;
      this.engine.whole(what);
    }
    return this.number;
  }

  /** What was kept is of other settings once they have changed. */
  #refresh(): void {
    if (this.#seen === this.engine.tunings) return;
    this.#seen = this.engine.tunings;
    this.#kinds = this.engine.kinds(this.number);
    this.#settings.clear();
    this.#hedges = this.engine.setting(this.number, "hedge.delay") !== null;
    this.#methods.clear();
  }

  /** The names that `classify` may answer, each at its number. */
  get kinds(): readonly string[] {
    this.#refresh();
    return this.#kinds;
  }

  /** May attempts start beside others? */
  get hedges(): boolean {
    this.#refresh();
    return this.#hedges;
  }

  /** The value of a key that is in force: spans in microseconds. */
  setting(key: string): number | string | null {
    this.#refresh();
    let value = this.#settings.get(key);
    if (value === undefined) {
      value = this.engine.setting(this.number, key);
      this.#settings.set(key, value);
    }
    return value;
  }

  /** A span that is in force, in milliseconds; null where there is none. */
  ms(key: string): number | null {
    const value = this.setting(key);
    return typeof value === "number" ? value / 1000 : null;
  }

  /** A number that is in force; null where there is none. */
  count(key: string): number | null {
    const value = this.setting(key);
    return typeof value === "number" ? value : null;
  }

  limits(): Limits {
    return {
      maxConcurrency: this.count("bulkhead.max_concurrency"),
      maxQueue: this.count("bulkhead.max_queue"),
      acquireTimeout: this.ms("bulkhead.acquire_timeout"),
    };
  }

  /** May a request of this method be repeated without an idempotency key? */
  retriesMethod(method: string): boolean {
    this.#refresh();
    let retries = this.#methods.get(method);
    if (retries === undefined) {
      retries = this.engine.retriesMethod(this.number, method);
      if (this.#methods.size < 100) this.#methods.set(method, retries);
    }
    return retries;
  }
}
