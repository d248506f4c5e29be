/**
 * The driver of one call: executes the engine's steps, waits, wakes and cancels. It makes no decisions.
 *
 * A call is driven by events: an attempt ends, a timer fires, the engine wakes it, its caller gives up. The driver reports each event
 * to the engine and executes the step that the engine returns.
 */

import type { Engine } from "../engine/engine.js";
import type { Waiter } from "../engine/engine_types.js";
import { pieces, said } from "../engine/native.js";
import {
  ATTEMPT,
  ATTEMPT_UNIT,
  CANCEL,
  DONE,
  finished,
  HEADERS,
  POLL,
  progress,
  spanOf,
  TARGET,
  TIMER,
  VERDICTS,
  type Verdict,
  WAIT,
  WAIT_BODY,
  WAIT_MASK,
} from "../engine/wire.js";
import {
  by,
  CANCELLED,
  complain,
  ofError,
  opinionOf,
  PERMANENT,
  type Predicate,
  TIMEOUT,
} from "../errors/classify.js";
import { AttemptTimeout, type TidegateError } from "../errors/errors.js";
import { judge, kindOf, leave, noteOfUnlisted, ofAnswered, taken, UNLISTED } from "../errors/judge.js";
import type { Timed } from "../time/ticker.js";
import type { Core } from "./core.js";
import { Lane } from "./lane.js";
import { noteOf, refusal, report } from "./notes.js";
import { notify, type OnRetry } from "./retrying.js";
import type { Scope } from "./scope.js";
import { onAbort, reasonOf } from "./signals.js";

/** The outcome of a good response whose body is still to be read. */
const HEAD = -1;

/** Callbacks for the end of reading a body. */
export interface BodyEnds {
  /** `whole`: to its end. */
  read(whole?: boolean): void;
  /** `outcome`: what an event of the body has reported, if that is not for the error to say. */
  failed(error: unknown, outcome?: number): void;
  /** Called with each piece, where the usage of answers is read. */
  piece?(piece: Uint8Array): void;
}

/** Functions for an adapter that delivers a result. */
export interface Ending {
  /** Stores what became of the call, for `reportOf`. */
  tell(what: unknown): void;
  /** The error of a call whose deadline passes while its response is being read. */
  late(): TidegateError;
  /** Whether no call around may repeat the call. */
  readonly last: boolean;
}

/**
 * The adapter of a kind of call: makes attempts, judges their answers, and frees what these hold. `A` is the answer of an attempt, `T`
 * the result of the caller. The driver catches all errors of an adapter, so that an odd answer ends only its own call.
 */
export interface Adapter<A, T = A> {
  /** Makes an attempt. */
  start(lane: Lane): A | PromiseLike<A>;
  /** Frees the resources of an answer that is not delivered. */
  discard(answer: A): void;
  /** The outcome of an answer, at its position in a word; ok if the method is absent. */
  outcome?(answer: A): number;
  /** The request's own opinion about another attempt. */
  readonly predicate?: Predicate | undefined;
  /** The call's own callback before each wait for a further attempt. */
  readonly onRetry?: OnRetry | undefined;
  /** What the note of a failed call says besides. */
  readonly remark?: string | undefined;
  /** Whether the call of a good answer lasts until its body has been read. */
  lasts?(answer: A): boolean;
  /** Frees the resources of a failed answer while the call continues. */
  release?(lane: Lane): void;
  /** Whether this earlier answer can still be delivered. */
  intact?(answer: A): boolean;
  /** The result for the caller if the answer's body is watched from now on. */
  watch?(answer: A, ends: BodyEnds, tell: (what: unknown) => void, lane: Lane): T;
  /** Breaks off the watched body. */
  breakOff?(error: unknown): void;
  /** Microseconds for which reads of the watched body have waited; null if it is unknown, undefined if `again` is called in a moment. */
  age?(again: () => void): number | null | undefined;
  /** The result for the caller from the answer of a call that has ended. */
  deliver?(answer: A, ending: Ending): T | PromiseLike<T>;
}

/** Whether a value has a `then` method. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    (typeof value === "object" || typeof value === "function") &&
    value !== null &&
    typeof (value as { then?: unknown }).then === "function"
  );
}

function runs(lane: Lane | undefined): boolean {
  return lane?.settled === false && !lane.stopped;
}

/** A call that is not on the fast path, or has left it. */
export class Run<A, T = A> implements Timed, Waiter {
  readonly #core: Core;
  readonly #engine: Engine;
  readonly #adapter: Adapter<A, T>;
  /** The key of its route. */
  readonly #route: string;
  readonly #scope: Scope | undefined;
  /** The caller's own signal. */
  readonly #outside: AbortSignal | undefined;
  /** Its id in the engine. */
  #call = 0;
  /** How many attempts have been started. */
  #attempts = 0;
  /** The attempt whose body is read. */
  #reading = 0;
  /** Whether it has ended. Stopped attempts may still be running. */
  #ended = false;
  #lanes: (Lane | undefined)[] = [];
  #place = -1;
  /** Stops following the caller's signal. */
  #unfollow: (() => void) | undefined;
  /** The result delivered to the caller. It is not discarded when a later attempt ends with the same object. */
  #given: unknown;
  #resolve!: (value: T | PromiseLike<T>) => void;
  #reject!: (error: unknown) => void;
  /** The outcome of the attempt that ended last. */
  #judged = 0;
  /** The attempt that failed last, until `onRetry` has been called for it. */
  #failed: Lane | undefined;
  /** The error that is unknown, for its note. */
  #unlisted: unknown;
  #parked = false;
  #answered = false;
  /** The async context of the call, for attempts started by a timer or by another call. */
  #inside: (<R>(work: () => R) => R) | undefined;

  constructor(
    core: Core,
    route: string,
    scope: Scope | undefined,
    outside: AbortSignal | undefined,
    adapter: Adapter<A, T>,
  ) {
    this.#core = core;
    this.#engine = core.engine;
    this.#route = route;
    this.#scope = scope;
    this.#outside = outside;
    this.#adapter = adapter;
  }

  /** Drives a call from its first step. */
  begin(call: number, step: number): Promise<T> {
    return this.#drive(() => {
      this.#call = call;
      if (this.#core.hedges) this.#remember();
      if (this.#outside !== undefined) this.#unfollow = onAbort(this.#outside, () => this.#aborted());
      this.#engine.after(step);
      this.#carry(step);
    });
  }

  /** Continues after a first attempt made by the fast path. */
  resume(call: number, lane: Lane, ok: boolean, value: unknown): Promise<T> {
    this.#call = call;
    this.#attempts = 1;
    this.#lanes[0] = lane;
    lane.settled = true;
    return this.#drive(() => this.#settled(lane, ok, value));
  }

  /** Continues from the step that followed a first attempt. */
  resumeAt(call: number, lane: Lane, value: unknown, step: number): Promise<T> {
    return this.#drive(() => {
      this.#call = call;
      this.#attempts = 1;
      this.#lanes[0] = lane;
      lane.settled = true;
      lane.hold(true, value);
      this.#engine.after(step);
      this.#carry(step);
    });
  }

  #drive(work: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#bounded(work);
    });
  }

  /**
   * The error boundary: an error thrown here (by a host's callback, an odd response or our own code) ends only this call, with that
   * error. It must never reach a timer, the turn of another call, or the top of the stack.
   */
  #bounded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#broken(error);
    }
  }

  #broken(error: unknown): void {
    if (!this.#ended) {
      this.#ended = true;
      this.#leave();
      try {
        const step = this.#engine.tell(this.#call, CANCEL);
        this.#stop((step >>> 4) & 0xff, step);
      } catch (also) {
        complain("the engine failed", also, "error");
      }
    }
    if (this.#answered) this.#closeBody(error);
    this.#drop(undefined);
    this.#reject(error);
  }

  /** Calls an adapter's method that may throw on an odd answer; returns `otherwise` if it does. */
  #attempted<R>(work: () => R, otherwise?: R): R | undefined {
    try {
      return work();
    } catch {
      return otherwise;
    }
  }

  /** Its timer fired. */
  tick(): void {
    const { age: ageOf } = this.#adapter;
    const age = this.#answered && ageOf !== undefined ? ageOf.call(this.#adapter, () => this.tick()) : null;
    if (age === undefined) return;
    this.#event(age === null ? TIMER : progress(this.#reading, age));
  }

  /** The engine woke it: it may be able to continue. */
  wake(): void {
    this.#event(POLL);
  }

  /** Reports an event from outside the call. Attempts that it starts run in the async context of the call. */
  #event(event: number): void {
    if (this.#ended) return;
    const work = () => this.#bounded(() => this.#carry(this.#engine.tell(this.#call, event)));
    if (this.#inside === undefined) work();
    else this.#inside(work);
  }

  #remember(): void {
    this.#inside ??= this.#engine.surroundings();
  }

  #aborted(): void {
    if (!this.#ended) this.#bounded(() => this.#carry(this.#engine.tell(this.#call, CANCEL)));
  }

  /** Ends a call whose body has been read or closed, or failed. */
  #finish(outcome: number): void {
    if (this.#ended) return;
    this.#bounded(() => this.#carry(this.#engine.tell(this.#call, finished(this.#reading, outcome))));
  }

  /** Executes a step, and the steps that follow immediately. */
  #carry(first: number): void {
    const { ticker } = this.#engine;
    let step = first;
    for (let polls = 0; ; polls += 1) {
      const stop = (step >>> 4) & 0xff;
      if (stop !== 0) this.#stop(stop, step);
      const action = step & 3;
      if (action === DONE) {
        this.#end(step);
        return;
      }
      const us = spanOf(step);
      if (action === ATTEMPT) {
        const number = (step >>> 12) & 0xff;
        if (this.#failed !== undefined) this.#retrying(this.#lanes.some(runs), 0);
        if (this.#ended) {
          this.#engine.tell(this.#call, finished(number, CANCELLED)); // `onRetry` has cancelled the call
          return;
        }
        this.#unpark();
        this.#aim(us);
        this.#attempt(number, step);
        return;
      }
      this.#retrying((step & WAIT_MASK) === WAIT, us);
      if (this.#ended) return;
      if (us === 0 && polls < 2) {
        step = this.#engine.tell(this.#call, POLL); // a wait of 0 needs no timer
        continue;
      }
      this.#aim(us);
      if ((step & WAIT_MASK) === WAIT_BODY) {
        if (this.#place >= 0) ticker.weaken(this.#place);
        if (!this.#answered) this.#body();
      } else if (((step >>> 12) & 0xf) > 1 && !this.#parked) {
        this.#remember();
        this.#parked = true;
        this.#engine.waiters.set(this.#call, this);
      }
      return;
    }
  }

  /** Calls `onRetry`, unless other attempts are running. */
  #retrying(running: boolean, us: number): void {
    const lane = this.#failed;
    if (lane === undefined || running) return;
    this.#failed = undefined;
    const onRetry = this.#adapter.onRetry ?? this.#core.onRetry;
    if (onRetry === undefined) return;
    notify(onRetry, {
      error: lane.ok ? undefined : lane.value,
      result: lane.ok ? lane.value : undefined,
      attempt: lane.attempt,
      wait: Math.max(us, 0) / 1000,
      reason: this.#core.kinds[kindOf(this.#judged)] as string,
      policy: this.#core.name,
      route: this.#route,
      call: this.#call,
    });
  }

  /** Delivers an answer with a watched body. If the body cannot be watched, the call ends here. */
  #body(): void {
    const lane = this.#lanes[(this.#reading - 1) & 7] as Lane;
    const answer = lane.value as A;
    // Only the caller holds the answer from now on: its garbage collection may be the only sign that the caller dropped it.
    [lane.held, lane.value, lane.controller] = [false, undefined, undefined];
    const ends: BodyEnds = {
      read: () => this.#finish(0),
      failed: (error, outcome = ofError(error)) => this.#finish(outcome === 0 ? CANCELLED : outcome),
    };
    const tell = (what: unknown) => {
      report(what, { attempts: this.#attempts, reason: "ok", note: undefined, retryAt: undefined });
      if (this.#attempts > 1) this.#engine.ended(what, this.#call);
    };
    try {
      const { watch } = this.#adapter;
      if (watch !== undefined) this.#answer(watch.call(this.#adapter, answer, ends, tell, lane));
    } catch {
      this.#answer(answer as unknown as T);
      this.#finish(0);
    }
  }

  /** Breaks off a body that is being read, and reports the end of its attempt, which holds a permit until then (R12). */
  #closeBody(error: unknown): void {
    this.#attempted(() => this.#adapter.breakOff?.(error));
    this.#engine.tell(this.#call, finished(this.#reading, CANCELLED));
  }

  /** Removes the call from timers, waiters and the caller's signal. */
  #leave(): void {
    this.#unpark();
    this.#aim(-1);
    this.#unfollow?.();
  }

  #unpark(): void {
    if (this.#parked) {
      this.#parked = false;
      this.#engine.waiters.delete(this.#call);
    }
  }

  /** Sets its only timer, in µs from now; a negative value removes it. */
  #aim(us: number): void {
    const { ticker } = this.#engine;
    if (us >= 0) {
      const due = this.#engine.last + us;
      if (this.#place < 0) this.#place = ticker.add(this, due);
      else ticker.set(this.#place, due);
    } else if (this.#place >= 0) {
      ticker.drop(this.#place);
      this.#place = -1;
    }
  }

  /** Stops attempts. An attempt that timed out gets its timeout error as result, in case it is the last one. */
  #stop(lanes: number, step: number): void {
    const done = (step & 3) === DONE;
    const verdict = done ? VERDICTS[(step >>> 12) & 63] : undefined;
    for (let place = 0; place < 8; place += 1) {
      const lane = this.#lanes[place];
      if ((lanes & (1 << place)) === 0 || lane === undefined || lane.settled) continue;
      let reason: unknown;
      if (verdict === "cancelled") reason = reasonOf(this.#outside);
      else if (verdict === "ok")
        reason = new DOMException("another attempt has answered first", "AbortError");
      else {
        reason = this.#refuse("attempt_timeout");
        lane.hold(false, reason);
        this.#judged = TIMEOUT;
        this.#failed = lane;
      }
      // An attempt that has been broken off need not be waited for.
      if (lane.stop(reason)) queueMicrotask(() => this.#settle(lane, false, reason));
    }
  }

  #attempt(number: number, step: number): void {
    const lane = new Lane(number, this.#engine, this.#call);
    if ((step & TARGET) !== 0) {
      this.#engine.native.target_of(this.#engine.handle, this.#call);
      lane.target = said();
    }
    this.#attempts = number;
    this.#lanes[(number - 1) & 7] = lane;
    let made: unknown;
    try {
      made = this.#engine.enter(this.#call, this.#scope, lane.target, () => this.#adapter.start(lane));
      if (isThenable(made)) {
        // A foreign thenable may throw, or call back twice or synchronously; `Promise.resolve` handles that.
        Promise.resolve(made).then(
          (value) => this.#settle(lane, true, value),
          (error: unknown) => this.#settle(lane, false, error),
        );
        return;
      }
    } catch (error) {
      this.#settle(lane, false, error);
      return;
    }
    this.#settle(lane, true, made);
  }

  /** Records the end of an attempt. Stopped attempts are reported too, since they hold their permits until then (R12). */
  #settle(lane: Lane, ok: boolean, value: unknown): void {
    const again = lane.settled;
    lane.settled = true;
    if (!again) this.#bounded(() => this.#settled(lane, ok, value));
    else if (ok) this.#attempted(() => this.#adapter.discard(value as A));
  }

  #settled(lane: Lane, ok: boolean, value: unknown): void {
    const engine = this.#engine;
    if (this.#ended) {
      if (ok && value !== this.#given) this.#attempted(() => this.#adapter.discard(value as A));
      engine.tell(this.#call, finished(lane.attempt, CANCELLED));
      return;
    }
    if (lane.stopped && !ok) {
      this.#remember();
      this.#carry(engine.tell(this.#call, finished(lane.attempt, TIMEOUT)));
      return;
    }
    lane.hold(ok, value);
    let outcome = ok ? 0 : PERMANENT;
    try {
      outcome = this.#judge(ok, value);
    } catch {} // an odd answer
    this.#failed = outcome > 0 ? lane : undefined;
    if (outcome === HEAD && !lane.stopped) {
      this.#reading = lane.attempt;
      const step = engine.tell(this.#call, HEADERS + lane.attempt * ATTEMPT_UNIT);
      this.#carry(step);
      // The call ended before the engine got the event of the response's head, so the body is closed by now.
      if ((step & 3) === DONE) engine.tell(this.#call, finished(lane.attempt, CANCELLED));
      return;
    }
    const step = engine.tell(this.#call, finished(lane.attempt, Math.max(outcome, 0)));
    if ((step & 3) === WAIT) this.#remember();
    if (ok && (step & 3) !== DONE) this.#attempted(() => this.#adapter.release?.(lane));
    this.#carry(step);
  }

  /** The call, as the scope of what runs in it. */
  get #inner(): Scope {
    return { engine: this.#engine, call: this.#call } as Scope;
  }

  /** The outcome of an attempt, at its position in a word, or `HEAD`. */
  #judge(ok: boolean, value: unknown): number {
    const adapter = this.#adapter;
    const left = (it: unknown) => taken(it, this.#inner);
    let outcome = ok
      ? ofAnswered(adapter.outcome?.(value as A) ?? 0, left(value))
      : judge(value, this.#core, left);
    const { classify } = this.#core;
    if (classify !== undefined) outcome = by(classify, value, outcome, this.#core.kinds);
    if (outcome === UNLISTED) {
      this.#unlisted = value;
      outcome = PERMANENT;
    }
    if (adapter.predicate !== undefined) outcome = opinionOf(adapter.predicate, value, outcome);
    this.#judged = outcome;
    return outcome === 0 && ok && adapter.lasts?.(value as A) === true ? HEAD : outcome;
  }

  /** The error of a call that ends without a result of its own. */
  #refuse(verdict: string, retryIn?: number, cause?: unknown): TidegateError {
    const { full, handle, native } = this.#engine;
    if (full && /^(rate_l|cost_)/.test(verdict)) {
      native.refusal_of(handle, this.#call);
      return refusal(verdict, this.#core, this.#route, retryIn, cause, pieces());
    }
    return refusal(verdict, this.#core, this.#route, retryIn, cause);
  }

  /** The same, as the end of the call, which `explain` then knows by it. */
  #refused(verdict: string, retryIn?: number, cause?: unknown): TidegateError {
    const error = this.#refuse(verdict, retryIn, cause);
    this.#engine.ended(error, this.#call);
    return error;
  }

  /** Delivers a good answer before the call has ended. */
  #answer(value: T): void {
    this.#answered = true;
    this.#resolve(value);
    // The promise functions would keep the answer alive.
    this.#resolve = this.#reject = () => undefined;
  }

  /** The latest attempt, if it has a result. */
  #held(): Lane | undefined {
    const lane = this.#lanes[(this.#attempts - 1) & 7];
    return lane?.held === true ? lane : undefined;
  }

  #end(step: number): void {
    this.#ended = true;
    this.#leave();
    const verdict = VERDICTS[(step >>> 12) & 63] as Verdict;
    if (this.#answered) {
      this.#lanes = [];
      if (verdict === "cancelled") this.#closeBody(reasonOf(this.#outside));
      else if (verdict !== "ok" && verdict !== "not_retryable") this.#closeBody(this.#refused(verdict));
      return;
    }
    if (verdict === "cancelled") {
      this.#drop(undefined);
      this.#reject(reasonOf(this.#outside));
      return;
    }
    const lane = (step >>> 18) & 15;
    const ms = spanOf(step);
    const retryIn = ms < 0 ? undefined : ms;
    const last = this.#held();
    const decided =
      lane !== 0 ? this.#lanes[lane & 7] : verdict === "stale" || verdict === "lost" ? last : undefined;
    if (
      decided?.held !== true ||
      (decided.ok && !this.#attempted(() => this.#adapter.intact?.(decided.value as A) ?? true, true))
    ) {
      const failure = last?.ok === false ? last.value : undefined;
      const cause = verdict === "deadline" && failure instanceof AttemptTimeout ? failure.cause : failure;
      const error = this.#refused(verdict, retryIn, cause);
      this.#drop(undefined);
      this.#reject(error);
      return;
    }
    this.#given = decided.value;
    this.#drop(decided);
    const { value, ok } = decided;
    const tell = (what: unknown) => {
      leave(what, ok, verdict, this.#judged, this.#core, this.#scope);
      const most = () => this.#core.ms("retry.max_retry_after");
      const unlisted = verdict === "not_retryable" && !ok && value === this.#unlisted;
      const retries = unlisted && (this.#core.count("retry.max_attempts") ?? 1) > 1;
      const why = retries ? noteOfUnlisted(value) : noteOf(verdict, this.#attempts, retryIn, most);
      const remark = this.#attempted(() => this.#adapter.remark);
      const note = why !== undefined && remark !== undefined ? `${why}; ${remark}` : (why ?? remark);
      const retryAt = retryIn === undefined ? undefined : new Date(Date.now() + retryIn);
      report(what, { attempts: this.#attempts, reason: verdict, note, retryAt });
      this.#engine.ended(what, this.#call);
    };
    if (ok) {
      const { deliver } = this.#adapter;
      if (deliver === undefined) {
        if (verdict !== "ok" || this.#attempts > 1) tell(value);
        this.#resolve(value as T);
        return;
      }
      const late = () => this.#refused("deadline");
      const ending: Ending = { tell, late, last: verdict !== "nested" };
      this.#resolve(this.#attempted(() => deliver.call(this.#adapter, value as A, ending)) ?? (value as T));
    } else {
      tell(value);
      this.#reject(value);
    }
  }

  /** Forgets the results of all attempts but one, and frees their resources. */
  #drop(keep: Lane | undefined): void {
    for (const lane of this.#lanes) {
      if (lane === undefined || lane === keep || !lane.held || !lane.ok) continue;
      if (lane.value !== this.#given) this.#attempted(() => this.#adapter.discard(lane.value as A));
    }
    this.#lanes = [];
  }
}
