/** State that the callers of a policy share: its number in the engine, and its settings in force. */

import { type Declared, waited } from "../engine/declared.js";
import type { Engine } from "../engine/engine.js";
import type { Signal } from "../engine/global_types.js";
import { pieces, said, say } from "../engine/native.js";
import { type Weak, weak } from "../engine/platform.js";
import { KINDS } from "../engine/wire.js";
import type { Classify } from "../errors/classify.js";
import type { Limits } from "../errors/errors.js";
import type { ErrorClass } from "../errors/judge.js";
import { type Refused, refusal } from "./notes.js";
import type { PolicyOptions } from "./policy.js";
import type { OnRetry } from "./retrying.js";

/** Data needed to release a policy after it has been collected. */
interface Held {
  readonly engine: Weak<Engine>;
  number: number;
  /** Whether the engine keeps the policy's counts, for a later policy of the same name. */
  readonly keep: boolean;
}

/** Releases a policy in the engine once its owner, its callers and its calls have all been collected. */
const holders =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<Held>(({ engine, number, keep }) => {
        if (number >= 0) engine.deref()?.wanted.release(number, keep);
      });

/** Registers a policy for release on collection. The caller stores the policy's number in the result. */
export function holding(core: Core, keep: boolean): Held {
  const held = { engine: weak(core.engine), number: -1, keep };
  holders?.register(core, held);
  return held;
}

export class Core implements Refused {
  readonly engine: Engine;
  readonly name: string;
  /** Its number in the engine; negative until the engine has taken it in. */
  number = -1;
  /** Its declaration, used until then. */
  declare declared: Declared;
  /** Its deadline in milliseconds, as its author wrote it. */
  readonly #deadline: number;
  readonly classify: Classify | undefined;
  /** The classes of errors to repeat regardless of the table of known errors. */
  readonly on: readonly ErrorClass[] | undefined;
  readonly onRetry: OnRetry | undefined;
  #seen = -1;
  #kinds: readonly string[] = [];
  #settings = new Map<string, number | string | null>();
  #methods = new Map<string, boolean>();
  #hedges = false;

  constructor(engine: Engine, name: string, given: PolicyOptions<unknown>, deadline: unknown) {
    this.engine = engine;
    this.name = name;
    this.classify = given.classify;
    this.on = given.on;
    this.onRetry = given.onRetry;
    this.#deadline = typeof deadline === "number" ? deadline : Infinity;
  }

  /** Waits, for a call, until the engine has taken the policy in. Returns the milliseconds left to the deadline. */
  async there(route: string, signal: Signal | undefined, deadline?: number): Promise<number | undefined> {
    const least = Math.min(this.#deadline, deadline ?? Infinity);
    const refused = () => refusal("deadline_before", this, route, undefined, undefined);
    const ms = await waited(this.declared, signal, least, refused);
    const all = Math.min(this.ms("deadline") ?? Infinity, deadline ?? Infinity);
    return all === Infinity ? undefined : all - ms;
  }

  /**
   * The policy's number, for synchronous methods.
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

  /** Clears the cached settings after a change. */
  #refresh(): void {
    if (this.#seen === this.engine.tunings) return;
    this.#seen = this.engine.tunings;
    this.#kinds = [...KINDS, ...this.declaredKinds().map(([name]) => name)];
    this.#settings.clear();
    this.#hedges = this.#inForce("hedge.delay") !== null;
    this.#methods.clear();
  }

  /** The kinds that the policy declares, with their bases; in the small module there are none. */
  declaredKinds(): [name: string, base: string][] {
    const { engine, number } = this;
    if (!engine.full) return [];
    engine.native.kinds(engine.handle, number);
    const texts = pieces();
    return texts.flatMap((name, at) => (at % 2 === 0 ? [[name, texts[at + 1] as string]] : []));
  }

  /** The names that `classify` may return; the index of a name is its number. */
  get kinds(): readonly string[] {
    this.#refresh();
    return this.#kinds;
  }

  /** Whether the policy hedges. */
  get hedges(): boolean {
    this.#refresh();
    return this.#hedges;
  }

  #inForce(key: string): number | string | null {
    say(key);
    const value = this.engine.native.setting(this.engine.handle, this.number);
    return Number.isNaN(value) ? said() || null : value;
  }

  /** The value in force of a key; spans in microseconds. */
  setting(key: string): number | string | null {
    this.#refresh();
    let value = this.#settings.get(key);
    if (value === undefined) {
      value = this.#inForce(key);
      this.#settings.set(key, value);
    }
    return value;
  }

  /** A span in force, in milliseconds; null if there is none. */
  ms(key: string): number | null {
    const value = this.setting(key);
    return typeof value === "number" ? value / 1000 : null;
  }

  /** A number in force; null if there is none. */
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

  /** Whether a request with this method may be repeated without an idempotency key. */
  retriesMethod(method: string): boolean {
    this.#refresh();
    let retries = this.#methods.get(method);
    if (retries === undefined) {
      say(method);
      retries = this.engine.native.retries_method(this.engine.handle, this.number) === 1;
      if (this.#methods.size < 100) this.#methods.set(method, retries);
    }
    return retries;
  }

  /** The number of a path, for `begin`, where the policy holds retries (`retry.hold`). */
  target(route: number, path: string): number {
    say(path);
    return this.engine.native.target(this.engine.handle, route, this.engine.time());
  }
}
