/** Policies, and the calls that run under them. */

import { defaultEngine } from "../engine/default_engine.js";
import type { Engine } from "../engine/engine.js";
import type { Signal } from "../engine/global_types.js";
import { pieces, said, say } from "../engine/native.js";
import { asWritten, mistakesOf, needsFull, OPTIONS, pairsOf } from "../engine/options.js";
import { definedIn } from "../engine/place.js";
import { shared } from "../engine/shared.js";
import {
  ABORTABLE,
  COMMANDS,
  type Criticality,
  FINISHED_1,
  FIRST,
  isStaleRoute,
  MAY_PARK,
  OK_1,
  WAKES,
} from "../engine/wire.js";
import { type AnswerHeaders, type Classify, type Outcome, ofAnswer } from "../errors/classify.js";
import { checkNames, PolicyError, wrong } from "../errors/errors.js";
import { type ErrorClass, isJudged } from "../errors/judge.js";
import { type Fetch, fetchUnder } from "../fetch/fetch.js";
import type { Settings } from "../options_gen.js";
import type { EventOf, EventType, Listener, Subscription, TidegateEvent } from "../telemetry/events.js";
import { type PolicyExplanation, spoken } from "../telemetry/explain.js";
import type { PolicyCounts, RouteSnapshot } from "../telemetry/snapshot.js";
import { flagsOf, limitOf } from "./call.js";
import { Core, holding } from "./core.js";
import { type Fallback, type FallbackOn, StandIn } from "./fallback.js";
import { functionAdapter } from "./function_adapter.js";
import { type Attempt, Lane } from "./lane.js";
import { begin } from "./metering.js";
import type { OnRetry } from "./retrying.js";
import { Run } from "./run.js";
import type { Scope } from "./scope.js";
import { reasonOf } from "./signals.js";
import type { Used, Weigh, Weights } from "./weights.js";
import { type WrapOptions, wrapped } from "./wrap.js";

/** Options of a policy: its settings, and options that only code can give. */
export interface PolicyOptions<F = never, K extends string = string> extends Settings<K> {
  /**
   * Its name in errors and telemetry; generated if absent. A second definition of a name with other settings is an error, except in the
   * same file, where it counts as the edited definition running again.
   */
  readonly name?: string | undefined;
  /**
   * Classes of errors to repeat, besides those known to be temporary: `on: [MyError]`. Such an error keeps its class if that is
   * retryable, otherwise it counts as `transient`.
   */
  readonly on?: readonly ErrorClass[] | undefined;
  /**
   * Called before each wait for a further attempt, with the error, the attempt, the wait and the class of the failure. What it returns
   * or throws has no effect.
   *
   * @example
   * ```ts
   * policy({ retry: {}, onRetry: ({ error, attempt, wait }) => console.warn(`attempt ${attempt}: ${error}; next in ${wait} ms`) });
   * ```
   */
  readonly onRetry?: OnRetry | undefined;
  /** Classifies every attempt by its result or error. */
  readonly classify?: Classify | undefined;
  /**
   * Makes a value instead of the result of a call that failed for good: for refusals of the policy, and for failures that may pass. It
   * is not used for a `permanent` failure unless `classify` said so, nor after the caller has given up. It runs outside all components;
   * if it throws, the caller gets that error.
   */
  readonly fallback?: Fallback<F> | undefined;
  /** Selects the errors for which the fallback is used, instead of the rule above. */
  readonly fallbackOn?: FallbackOn | undefined;
  /** The function that sends requests. By default the `globalThis.fetch` at the time of each attempt. */
  readonly fetch?: Fetch | undefined;
  /** Whether repeats of a request carry `Retry-Attempt: n`. True by default except in browsers, where the header costs a preflight. */
  readonly retryHeader?: boolean | undefined;
  /** Whether a request without an `Idempotency-Key` gets a generated one, the same for each attempt. */
  readonly idempotencyKey?: boolean | undefined;
  /**
   * Makes the weights of a request to a language model from what its body tells, for `fetch` and undici's interceptor; the request's own
   * `weights` go before. For a body that cannot be read beforehand (a stream, a form), and if it fails, the limits' defaults hold. `tokens`
   * makes it and `usage`.
   */
  readonly weigh?: Weigh | undefined;
  /**
   * Makes the totals that an attempt settles from what its answer says, plain or streamed, once the answer has been read. One that is not
   * read to its end, or says nothing, counts what it had reserved.
   */
  readonly usage?: Used | undefined;
  /** The engine that keeps its state; by default the engine of the process. */
  readonly engine?: Engine | undefined;
}

/** Options of calls. */
export interface CallOptions {
  /** The key of the route, under which state is kept: an origin, an endpoint, a tenant; `default` by default. */
  readonly route?: string | undefined;
  /** Whether a repeat is harmless. True by default. If false, only attempts that provably never left are repeated. */
  readonly idempotent?: boolean | undefined;
  /** Whether the call can be made a second time at all. True by default. */
  readonly replayable?: boolean | undefined;
  /** Its priority in a queue; `normal` by default. */
  readonly criticality?: Criticality | undefined;
  /** Milliseconds for the whole call; the earlier of this deadline and the policy's applies. */
  readonly deadline?: number | undefined;
  /** Tokens of a rate limit that it takes, 0 to 65,535; 1 by default. */
  readonly cost?: number | undefined;
  /**
   * What each attempt reserves of the limits that count weights, by the weights' names: `{ tokens: 1800 }`. A weight that is left out
   * takes its limit's default. `Attempt.settle` tells what was used.
   */
  readonly weights?: Weights | undefined;
  /** Whether its attempts must never overlap. False by default; if true, the call is never hedged. */
  readonly solo?: boolean | undefined;
  /** Called before each wait for a further attempt, instead of the policy's `onRetry`. */
  readonly onRetry?: OnRetry | undefined;
}

/** Options of a single call. */
export interface RunOptions extends CallOptions {
  /** The caller's own signal: when it is aborted, the call ends with its reason. */
  readonly signal?: Signal | null | undefined;
  /**
   * Whether the function ends immediately when its signal is aborted, which frees its slot at that moment. By default, a stopped
   * attempt keeps its slot until its promise settles, at most 60 s, so that the limit counts the work that is really running.
   */
  readonly abortable?: boolean | undefined;
}

/** A function under a policy. */
export type Work<T> = (attempt: Attempt) => T | PromiseLike<T>;

/** The names of a call's options. */
const CALL_OPTIONS = "route idempotent replayable criticality deadline cost weights solo onRetry";

/** Rejects unknown options, because a misspelled one would be ignored. */
function checkOptions(options: CallOptions): void {
  const { onRetry } = options;
  if (onRetry !== undefined && typeof onRetry !== "function") {
    throw new TypeError(`onRetry = ${String(onRetry)}: must be a function`);
  }
  checkNames("a call", options, CALL_OPTIONS);
}

/** A policy with options for its calls. Make it once and keep it. `F` is the result type of the policy's fallback. */
export class Caller<F = never> {
  /** @internal */
  readonly core: Core;
  /** @internal */
  readonly options: CallOptions;
  /** @internal */
  readonly key: string;
  readonly #flags: number;
  readonly #limit: number;
  readonly #weights: Weights | undefined;
  readonly #standIn: StandIn | undefined;
  #route = 0;

  /** Use `Policy.at`. */
  constructor(core: Core, options: CallOptions, standIn: StandIn | undefined) {
    this.core = core;
    this.options = options;
    this.key = options.route ?? "default";
    this.#flags = flagsOf(options) | (core.engine.queues ? MAY_PARK : 0);
    this.#limit = limitOf(options.deadline);
    this.#weights = options.weights;
    this.#standIn = standIn;
  }

  /**
   * Runs a function under the policy.
   *
   * @returns What the function returns.
   * @throws Rejected If the policy refused the call before any attempt.
   * @throws AttemptTimeout If the last attempt exceeded `attemptTimeout`.
   * @throws DeadlineExceeded If the deadline passed.
   * @throws The function's own error object, if the last attempt failed; `reportOf(error)` says why there was no further one. If the
   * caller gave up: the reason of its signal.
   * @example
   * ```ts
   * const answer = await policy({ retry: {} }).run(async ({ attempt }) => `attempt ${attempt}`);
   * ```
   */
  run<T>(work: Work<T>, options?: RunOptions): Promise<T | F> {
    // The property is read first: that is the cheapest way to detect a missing policy.
    if (this?.core === undefined) {
      throw new TypeError(
        "run has lost its policy: call policy.run(…), or pass on (work) => policy.run(work)",
      );
    }
    if (typeof work !== "function") throw new TypeError(`run(${String(work)}): must be a function`);
    const begun =
      options === undefined ? this.#begin(work, undefined, undefined) : this.#special(work, options);
    let going: Promise<T>;
    if (begun instanceof First) {
      // Called here and not in a method of its own: an error made before the first `await` takes longer with each frame on the stack.
      const { engine, around } = begun;
      const { scopes } = engine;
      try {
        let made: T | PromiseLike<T>;
        if (scopes === undefined) made = work(begun);
        else if (scopes.enterWith === undefined) made = scopes.run(begun, work, begun);
        else {
          scopes.enterWith(begun); // `run` takes twice the time
          try {
            made = work(begun);
          } finally {
            scopes.enterWith(around);
          }
        }
        // Of a class derived from `Promise` this is another promise, so its own `then` may throw, or call back twice.
        going = Promise.resolve(made).then(
          (value: T) => begun.done(value),
          (error: unknown) => begun.failed(error),
        );
      } catch (error) {
        going = begun.failed(error);
      }
    } else going = begun;
    if (this.#standIn === undefined) return going;
    return this.#standIn.instead(going, options?.route ?? this.key, options?.signal ?? undefined) as Promise<
      T | F
    >;
  }

  /** A call with options beyond those of its caller. */
  #special<T>(work: Work<T>, options: RunOptions): First<T> | Promise<T> {
    const { signal, abortable, ...rest } = options;
    if (signal?.aborted === true) return Promise.reject(reasonOf(signal));
    checkOptions(rest);
    const more = Object.entries(rest).filter(([, value]) => value !== undefined);
    const own = { ...this.options, ...Object.fromEntries(more) };
    const caller = more.length === 0 ? this : new Caller(this.core, own, undefined);
    return caller.#begin(work, signal ?? undefined, abortable);
  }

  /** A call that waits for the engine's module. */
  async #wait<T>(work: Work<T>, signal: Signal | undefined, abortable: boolean | undefined): Promise<T> {
    const left = await this.core.there(this.key, signal, this.options.deadline);
    const own = left === undefined ? this.options : { ...this.options, deadline: left };
    return new Caller(this.core, own, undefined).run(work, { signal, abortable });
  }

  #begin<T>(
    work: Work<T>,
    signal: Signal | undefined,
    abortable: boolean | undefined,
  ): First<T> | Promise<T> {
    const { core } = this;
    if (core.number < 0) return this.#wait(work, signal, abortable);
    const { engine } = core;
    const { native, handle, scopes } = engine;
    const weights = this.#weights;
    const around = scopes === undefined ? undefined : scopes.getStore();
    let flags = this.#flags;
    let limit = this.#limit;
    let parent = 0;
    if (abortable === true) flags |= ABORTABLE;
    if (around !== undefined) {
      ({ flags, limit, parent } = engine.inherit(
        around,
        flags,
        limit,
        this.options.criticality !== undefined,
      ));
    }
    if (this.#route === 0) this.#route = engine.route(core.number, this.key);
    let step: number;
    try {
      step = begin(engine, weights, this.#route, flags, limit, parent, 0);
      // An evicted route is made again.
      while (step !== FIRST && isStaleRoute(step)) {
        this.#route = engine.route(core.number, this.key);
        step = begin(engine, weights, this.#route, flags, limit, parent, 0);
      }
    } catch (error) {
      return Promise.reject(error);
    }
    // Not on the fast path: the first step is more than a plain attempt, or there is a signal.
    if (step !== FIRST || signal !== undefined)
      return this.shape(work, around, signal).begin(native.begun(handle), step);
    const first = new First(this, work, engine, native.begun(handle), around);
    if (engine.listening) engine.after(step);
    return first;
  }

  /** @internal Takes over a call that is not on the fast path, or leaves it. */
  shape<T>(work: Work<T>, around: Scope | undefined, signal: Signal | undefined): Run<T> {
    return new Run(this.core, this.key, around, signal, functionAdapter(work, this.options.onRetry));
  }
}

/** The first attempt of a call on the fast path. It is the function's argument and the scope of the call in one object. */
class First<T> extends Lane implements Scope {
  declare readonly ends: undefined;
  declare readonly criticality: undefined;
  declare readonly around: Scope | undefined;
  declare readonly caller: Caller;
  declare work: Work<T> | undefined;

  constructor(caller: Caller, work: Work<T>, engine: Engine, call: number, around: Scope | undefined) {
    super(1, engine, call);
    this.ends = undefined;
    this.criticality = undefined;
    this.around = around;
    this.caller = caller;
    this.work = work;
  }

  done(value: T): T | Promise<T> {
    const { engine, call } = this;
    if (this.caller.core.classify !== undefined || isJudged(value, this))
      return runOf(this).resume(call, this, true, value);
    const end = engine.native.on(engine.handle, call, FINISHED_1, engine.time());
    if (end !== OK_1 || engine.listening) return runOf(this).resumeAt(call, this, value, end);
    this.work = undefined; // work started by the function may keep this object alive for long
    return value;
  }

  failed(error: unknown): Promise<T> {
    return runOf(this).resume(this.call, this, false, error);
  }
}

/** Takes over from the fast path. Not a method, because a private one would add a brand to the object of every call. */
function runOf<T>(first: First<T>): Run<T> {
  const { caller, work, around } = first;
  first.work = undefined;
  return caller.shape(work as Work<T>, around, undefined);
}

/** Number of policies without a name. Copies of the package share engines, so they count together. */
const unnamed = shared("unnamed", () => ({ count: 0 }));

/** A named set of components that run around a call. */
export class Policy<F = never> extends Caller<F> {
  /** Its name in errors and telemetry. */
  readonly name: string;
  /** Its engine. */
  readonly engine: Engine;
  readonly #given: PolicyOptions<F>;
  #fetch: Fetch | undefined;

  /** The second parameter is internal: the number of a policy that a document has taken in. */
  constructor(options: PolicyOptions<F> = {}, taken?: number) {
    const engine = options.engine ?? defaultEngine();
    const settings = settingsOf(options);
    const name = options.name ?? freshName();
    const written = asWritten(settings);
    const core = new Core(engine, name, options, written.deadline);
    super(core, {}, StandIn.of(core, options.fallback, options.fallbackOn));
    const held = holding(core, options.name !== undefined);
    const place = options.name === undefined ? undefined : definedIn(policy, new.target);
    core.declared = engine.declare(taken === undefined && needsFull(written), () => {
      core.number = taken ?? engine.take(name, pairsOf(written), OPTIONS, place);
      held.number = core.number;
    });
    this.name = name;
    this.engine = engine;
    this.#given = options;
  }

  /**
   * The global `fetch` under this policy: its type, with the option `tidegate`. It needs no `this`: `const { fetch } = policy({ preset: "http" })`.
   */
  get fetch(): Fetch {
    this.#fetch ??= fetchUnder(this.core, this.#given);
    return this.#fetch;
  }

  /** @internal The options that it was made with. */
  get given(): PolicyOptions<F> {
    return this.#given;
  }

  /** A caller with its own options. Make it once and keep it: making one costs more than a call. */
  at(options: CallOptions): Caller<F> {
    checkOptions(options);
    const { fallback, fallbackOn } = this.#given;
    return new Caller(this.core, options, StandIn.of(this.core, fallback, fallbackOn));
  }

  /**
   * An object whose methods run under the policy, as if each call were a call of `run`.
   *
   * @throws TypeError If the policy repeats ambiguous failures and the options do not say which methods may be repeated: a write that
   * is retried after a lost response may happen twice.
   */
  wrap<O extends object>(target: O, options: WrapOptions<O> = {}): O {
    return wrapped(this, target, options);
  }

  /** The kinds of failure that it declares: name → the class on which each is based. */
  get kinds(): Readonly<Record<string, string>> {
    this.core.now("kinds");
    return Object.fromEntries(this.core.declaredKinds());
  }

  /**
   * The outcome that an HTTP answer has under the policy, for a classifier of your own: by its status, the policy's lists of statuses, and
   * the headers that say when to try again (`Retry-After` and its relatives). A status below 400 is `ok`.
   *
   * @param headers A `Headers`, pairs, or an object of names and values.
   * @returns What `classify` may return.
   * @throws RangeError If the status is no whole number from 100 to 999.
   * @throws NotReady While the engine has not taken the policy in.
   * @example
   * ```ts
   * const api = policy({ preset: "http" });
   * assert.deepEqual(api.outcomeOf(429, { "Retry-After": "2" }), { kind: "throttled", retryAfter: 2000 });
   * // An SDK that returns its failures instead of throwing them:
   * type Answer = { statusCode: number; headers: Record<string, string> };
   * const shop: Policy = policy({
   *   preset: "http",
   *   classify: (it) => {
   *     const { statusCode, headers } = (it ?? {}) as Partial<Answer>;
   *     return statusCode === undefined ? undefined : shop.outcomeOf(statusCode, headers);
   *   },
   * });
   * ```
   */
  outcomeOf(status: number, headers?: AnswerHeaders | null): Outcome {
    this.core.now("outcomeOf");
    return ofAnswer(this.core, status, headers);
  }

  /**
   * Replaces all settings of the policy while it is in use: a setting that is left out returns to its default. Calls in flight finish
   * under the settings that they began with. Limits and budgets are shared by calls, so they change immediately.
   *
   * @throws PolicyError With all mistakes; the policy stays as it was.
   * @throws TypeError For an option that only code can give, as `classify`: it stays as it was made.
   */
  retune(settings: Settings): void {
    const kept = settingsOf(settings);
    for (const [name, value] of Object.entries(settings)) {
      if (value !== undefined && !(name in kept))
        throw new TypeError(`${name}: retune changes settings only; make a new policy for another one`);
    }
    this.engine.whole("retune");
    this.engine.retune(this.core.now("retune"), this.name, pairsOf(kept));
  }

  /**
   * Refuses all calls (or those of one route) with `ForcedOpen` before any other check, until it is called with `false`. Waiting calls
   * are refused too; calls that have started finish without further attempts.
   */
  forceOpen(on = true, route?: string): void {
    const { engine } = this;
    const native = engine.whole("forceOpen");
    const number = this.core.now("forceOpen");
    const place = route === undefined ? 0 : engine.route(number, route);
    native.force_open(engine.handle, number, place, Number(on), engine.time());
    engine.after(WAKES | COMMANDS);
  }

  /**
   * Refuses all attempts at one of its targets, for all policies with this group, until it is called with `false`, which also resets the
   * target's breaker. Running attempts finish; calls go to the other targets.
   *
   * @param target The name of the target, as in the document.
   * @throws PolicyError If the policy has no such target.
   * @example
   * ```ts
   * const text = '{"targets": {"chat": {"pick": "ladder", "members": ["large", "small"]}}, "policy": {"chat": {"targets": "chat"}}}';
   * const chat = load(text).get("chat");
   * chat.forceTarget("large");
   * assert.equal(await chat.run(({ target }) => target), "small");
   * ```
   */
  forceTarget(target: string, on = true): void {
    const { engine, core } = this;
    const native = engine.whole("forceTarget");
    core.now("forceTarget");
    say(`${core.setting("targets") ?? ""}\0${target}`);
    if (native.force_target(engine.handle, Number(on), engine.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), OPTIONS));
    }
    engine.after(WAKES | COMMANDS);
  }

  /** Its current counts, and its routes by key. */
  snapshot(): PolicyCounts & { readonly routes: Readonly<Record<string, RouteSnapshot>> } {
    const { policies, routes } = this.engine.snapshot();
    const mine = routes.filter((route) => route.policy === this.name).map((route) => [route.key, route]);
    return { ...(policies[this.name] as PolicyCounts), routes: Object.fromEntries(mine) };
  }

  /**
   * Explains the policy in numbers and, as a string, in words: its components in order, the longest wait and highest load of its calls,
   * and likely mistakes.
   */
  explain(): PolicyExplanation {
    const native = this.engine.whole("explain");
    native.explain(this.engine.handle, this.core.now("explain"));
    return spoken(JSON.parse(said()) as PolicyExplanation);
  }

  /**
   * Subscribes to events of this policy: one type, or all (`"*"`). Events that concern no single policy, such as the loss of the fleet's
   * store, go to `engine.listen` alone.
   */
  on<T extends EventType | "*">(
    type: T,
    listener: (event: T extends EventType ? EventOf<T> : TidegateEvent) => void,
  ): Subscription {
    const its = ({ policy, type: its }: TidegateEvent) =>
      policy === this.name && (type === "*" || its === type);
    return this.engine.listen((event) => (its(event) ? (listener as Listener)(event) : undefined));
  }
}

function freshName(): string {
  unnamed.count += 1;
  return `policy-${unnamed.count}`;
}

/**
 * A policy: a named set of components. Spans are in milliseconds.
 *
 * @throws PolicyError With all mistakes: the key, the value and the rule of each.
 * @example
 * ```ts
 * const { fetch } = policy({ preset: "http", bulkhead: { maxConcurrency: 20 } });
 * ```
 */
export function policy<F = never, const K extends string = never>(
  options: PolicyOptions<F, K> = {},
): Policy<F> {
  return new Policy(options);
}

/** The settings among a policy's options, which core checks. */
export function settingsOf(options: PolicyOptions<unknown>): Settings {
  const {
    name,
    on,
    onRetry,
    classify,
    fallback,
    fallbackOn,
    fetch,
    retryHeader,
    idempotencyKey,
    weigh,
    usage,
    engine,
    ...settings
  } = options;
  for (const [key, value] of Object.entries({
    onRetry,
    classify,
    fallback,
    fallbackOn,
    fetch,
    weigh,
    usage,
  })) {
    if (value !== undefined && typeof value !== "function") wrong(key, value, "must be a function");
  }
  const classes = Array.isArray(on) && on.length > 0 && on.every((kind) => typeof kind === "function");
  if (on !== undefined && !classes) wrong("on", on, "must be an array of classes of errors, as [MyError]");
  if (name !== undefined && typeof name !== "string") wrong("name", name, "must be a string");
  if (fallbackOn !== undefined && fallback === undefined) {
    wrong("fallbackOn", fallbackOn, "says when, but no fallback says what");
  }
  return settings;
}
