/** Declarations of policies, pools and checks, which the engine takes in as soon as its module is there. */

import { reasonOf } from "../run/signals.js";
import type { Engine } from "./engine.js";
import type { Signal } from "./global_types.js";
import { type Which, want } from "./module.js";

/** Thrown by a declaration that the small module cannot take in. */
export const LACKING = Symbol("the full module is needed");

/** One declaration. */
export class Declared {
  readonly #engine: Engine;
  readonly #take: () => void;
  /** Whether it needs the full module. */
  full: boolean;
  /** Whether it is settled: taken in, or refused. */
  settled = false;
  /** Why the engine refused it. */
  mistake: unknown;

  constructor(engine: Engine, full: boolean, take: () => void) {
    this.#engine = engine;
    this.full = full;
    this.#take = take;
  }

  /** Takes it in, if the current module has what it needs. */
  settle(): void {
    if (this.settled || !this.#engine.takes(this.full)) return;
    try {
      this.#take();
    } catch (error) {
      if (error === LACKING) {
        this.full = true;
        return;
      }
      this.mistake = error;
    }
    this.settled = true;
  }

  /**
   * Resolves when the engine has taken it in.
   *
   * @throws PolicyError With its mistakes. ModuleUnavailable if the module cannot be loaded.
   */
  async taken(): Promise<void> {
    for (let turn = 0; !this.settled && turn < 3; turn += 1) {
      await want(this.which);
      this.settle();
    }
    if (this.mistake !== undefined) throw this.mistake;
  }

  /** The module that it needs. */
  get which(): Which {
    return this.full || this.#engine.wantsFull ? "full" : "small";
  }
}

/**
 * Waits on behalf of a call until a declaration is taken in. Returns the milliseconds that it took.
 *
 * @throws What `taken` throws; the signal's reason; DeadlineExceeded if the call's own deadline passes first.
 */
export async function waited(
  of: Declared,
  signal: Signal | undefined,
  deadline: number,
  refused: () => Error,
): Promise<number> {
  const began = performance.now();
  let end = () => {};
  const given = new Promise<never>((_, reject) => {
    const aborted = () => reject(reasonOf(signal));
    const timer = deadline < 2 ** 31 ? setTimeout(() => reject(refused()), Math.max(deadline, 0)) : undefined;
    signal?.addEventListener("abort", aborted, { once: true });
    end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
    };
  });
  try {
    await Promise.race([of.taken(), given]);
  } finally {
    end();
  }
  if (signal?.aborted === true) throw reasonOf(signal);
  return performance.now() - began;
}
