/** Fallbacks: a value instead of an error, applied last and outside all components (semantics 7.4). */

import type { Signal } from "../engine/global_types.js";
import { VERDICTS, type Verdict } from "../engine/wire.js";
import { atOnce, by, ofError, warn } from "../errors/classify.js";
import { AttemptTimeout, PolicyError, TidegateError } from "../errors/errors.js";
import { taken } from "../errors/judge.js";
import type { Core } from "./core.js";

/** Makes a value instead of the result, from the final error. */
export type Fallback<F = unknown> = (error: unknown) => F | PromiseLike<F>;
/** Decides for which errors the fallback is used. */
export type FallbackOn = (error: unknown) => boolean;

const NO_OPINION = -1;
const ATTEMPTS = VERDICTS.indexOf("attempts");

/** A policy's fallback, and the rule for when to use it. */
export class StandIn {
  readonly #core: Core;
  readonly #given: Fallback;
  readonly #on: FallbackOn | undefined;

  constructor(core: Core, given: Fallback, on: FallbackOn | undefined) {
    this.#core = core;
    this.#given = given;
    this.#on = on;
  }

  /** The fallback of a policy, if it has one. */
  static of(core: Core, given: Fallback | undefined, on: FallbackOn | undefined): StandIn | undefined {
    return given === undefined ? undefined : new StandIn(core, given, on);
  }

  /** The result of `going`, or the fallback's. If the caller has given up, the fallback is not used. */
  async instead<T>(going: Promise<T>, route: string, signal: Signal | undefined): Promise<T> {
    try {
      return await going;
    } catch (error) {
      if (signal?.aborted === true || !this.#isItsTurn(error)) throw error;
      let ok = false;
      try {
        const value = (await this.#given(error)) as T;
        ok = true;
        return value;
      } finally {
        if (this.#core.number >= 0) this.#core.engine.fellBack(this.#core.number, route, ok);
      }
    }
  }

  #isItsTurn(error: unknown): boolean {
    if (this.#on !== undefined) {
      try {
        return atOnce(this.#on(error));
      } catch (broken) {
        warn(this.#on, "fallbackOn", broken, "the error goes on");
        return false;
      }
    }
    if (this.#core.number < 0) return !(error instanceof PolicyError); // the call could not begin
    if (error instanceof TidegateError && !(error instanceof AttemptTimeout)) {
      const verdict = VERDICTS.indexOf(error.reason as Verdict);
      return verdict >= 0 && this.#asks(verdict, 32, false);
    }
    const { classify, kinds } = this.#core;
    const judged = classify === undefined ? NO_OPINION : by(classify, error, NO_OPINION, kinds);
    const around = this.#core.engine.scopes?.getStore();
    const left = (it: unknown) => taken(it, around, true); // the call around takes it
    const outcome = judged === NO_OPINION ? ofError(error, this.#core, left) : judged;
    return this.#asks(ATTEMPTS, (outcome / 2 ** 11) & 31, judged !== NO_OPINION);
  }

  #asks(verdict: number, failure: number, judged: boolean): boolean {
    const { engine, number } = this.#core;
    return engine.native.falls_back(engine.handle, number, verdict, failure, Number(judged)) !== 0;
  }
}
