/**
 * An interceptor that puts undici under a policy, for `dispatcher.compose`.
 *
 * ```ts
 * import { Agent, request } from "undici";
 * import { interceptor } from "tidegate/undici";
 *
 * const dispatcher = new Agent().compose(interceptor(policy({ preset: "http" })));
 * const { statusCode, body } = await request("https://api.example/orders", { dispatcher });
 * ```
 */

import type { Dispatcher } from "undici";
import { atOnce, type Predicate } from "./errors/classify.js";
import { type Answer, Attempt, DRAIN_MS, type Front, failed } from "./fetch/answer.js";
import { isReplayable, type Limited, noteOfSdk } from "./fetch/body.js";
import type { FetchOptions } from "./fetch/fetch.js";
import { askedFor, begun, originOf, Sending } from "./fetch/request.js";
import { Pieces, Silence } from "./fetch/silence.js";
import type { Core } from "./run/core.js";
import type { Lane } from "./run/lane.js";
import { learn, metering } from "./run/metering.js";
import type { Policy } from "./run/policy.js";
import type { OnRetry } from "./run/retrying.js";
import { type Adapter, type BodyEnds, type Ending, Run } from "./run/run.js";
import type { Used } from "./run/weights.js";

declare module "undici" {
  namespace Dispatcher {
    interface DispatchOptions {
      /** The request's options for its policy. */
      tidegate?: FetchOptions;
    }
  }
}

/** The key under which undici returns what became of a call: `reportOf(response.context)`. */
type Context = Record<string, never>;

const sendings = new WeakMap<Policy<unknown>, Sending>();

function sendingOf(policy: Policy<unknown>): Sending {
  let sending = sendings.get(policy);
  if (sending === undefined) {
    sending = new Sending(policy.core, policy.given);
    sendings.set(policy, sending);
  }
  return sending;
}

/**
 * Makes an interceptor that puts every request of a dispatcher under a policy, for undici 7 and newer. Do not use undici's own `retry`
 * interceptor with it. A slot lasts until the body has been received. A request can have its own options: `request(url, { dispatcher,
 * tidegate: { route: "orders" } })`.
 *
 * `reportOf(response.context)` or `reportOf(error)` says what became of a call. Upgrades and CONNECT pass through unchanged. The
 * policy's `fallback` is not used, because it makes values for `fetch`.
 */
export function interceptor(policy: Policy<unknown>): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    if (options.upgrade || options.method === "CONNECT") return dispatch(options, handler);
    if (handler.onRequestStart === undefined) {
      throw new TypeError("tidegate/undici needs undici 7 or newer, and to be given to compose()");
    }
    const { tidegate = {}, ...sent } = options;
    // An iterator can be read only once.
    if (typeof (sent.headers as { next?: unknown } | null | undefined)?.next === "function")
      sent.headers = pairs(sent.headers).flat();
    const { policy: other = policy, ...asked } = tidegate;
    send(sendingOf(other), dispatch, sent, asked, handler);
    return true;
  };
}

function send(
  sending: Sending,
  dispatch: Dispatcher.Dispatch,
  sent: Dispatcher.DispatchOptions,
  options: FetchOptions,
  handler: Dispatcher.DispatchHandler,
): void {
  const { core, given } = sending;
  const { engine } = core;
  core.now("a dispatcher");
  const asked = askedFor(sending, options, {
    method: String(sent.method).toUpperCase(),
    path: sent.path,
    body: sent.body,
    replayable: isReplayable(sent.body) || Array.isArray(sent.body) || isForm(sent.body),
    hasKey: () => header(sent, "idempotency-key") !== undefined,
    accepts: () => header(sent, "accept"),
  });
  const caller = new AbortController();
  const context: Context = {};
  const front: Front = {
    aborted: false,
    reason: null,
    paused: false,
    rawHeaders: null,
    rawTrailers: null,
    abort(reason) {
      if (front.aborted) return;
      front.aborted = true;
      front.reason = reason ?? new DOMException("the request was aborted", "AbortError");
      caller.abort(front.reason);
      front.answer?.fail(front.reason);
    },
    pause() {
      front.paused = true;
      front.answer?.pause();
    },
    resume() {
      front.paused = false;
      front.answer?.resume();
    },
  };
  // Before sending, so that the caller can give up while the request waits.
  handler.onRequestStart?.(front, context);
  if (front.aborted) {
    failed(handler, front, front.reason as Error);
    return;
  }
  const route = options.route ?? originOf(sent.origin === undefined ? undefined : new URL(sent.origin));
  const adapter = new DispatchAdapter(core, {
    dispatch,
    sent,
    key: asked.key,
    factory: options.bodyFactory,
    predicate: options.predicate,
    onRetry: options.onRetry,
    retryHeader: options.retryHeader ?? given.retryHeader ?? true,
    untilBody: asked.untilBody,
    until: asked.until,
    most: asked.most,
    held: asked.held,
    usage: given.usage,
    context,
    engineTime: () => engine.time(),
    informed: (status, headers, message) => handler.onResponseStart?.(front, status, headers, message),
  });
  const run = new Run(core, route, asked.around, caller.signal, adapter);
  const going = new Promise<Answer>((resolve) =>
    resolve(begun(sending, run, route, { target: sent.path }, asked)),
  );
  going.then(
    (answer) => {
      if (front.aborted) answer.close(); // the caller gave up at this moment
      if (front.aborted) failed(handler, front, front.reason as Error);
      else answer.play(handler, front);
    },
    (error: Error) => failed(handler, front, error),
  );
}

function isForm(body: unknown): boolean {
  return (body as { [Symbol.toStringTag]?: string } | undefined)?.[Symbol.toStringTag] === "FormData";
}

/** Converts headers in any of undici's forms to pairs. */
function pairs(headers: Dispatcher.DispatchOptions["headers"]): [name: string, value: string][] {
  if (headers === null || headers === undefined) return [];
  if (Array.isArray(headers)) {
    const flat = headers.flat() as string[];
    return Array.from({ length: flat.length >> 1 }, (_, n) => [String(flat[2 * n]), String(flat[2 * n + 1])]);
  }
  const entries = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  return (entries as [string, string | string[] | undefined][]).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one): [string, string] => [name, one]),
  );
}

/** The value of a header of a request. */
function header(sent: Dispatcher.DispatchOptions, wanted: string): string | undefined {
  return pairs(sent.headers).find(([name]) => name.toLowerCase() === wanted)?.[1];
}

/** Whether the body of a response has no encoding. */
function isPlain({ headers }: Answer): boolean {
  return (headers["content-encoding"] ?? "identity") === "identity";
}

interface Plan {
  readonly dispatch: Dispatcher.Dispatch;
  readonly sent: Dispatcher.DispatchOptions;
  /** The idempotency key that we generated. */
  readonly key: string | undefined;
  readonly factory: (() => BodyInit) | undefined;
  readonly predicate: Predicate | undefined;
  readonly onRetry: OnRetry | undefined;
  readonly retryHeader: boolean;
  readonly untilBody: boolean;
  readonly until: number;
  readonly most: number;
  readonly held: boolean;
  readonly usage: Used | undefined;
  readonly context: Context;
  readonly engineTime: () => number;
  /** Called for each informational response (1xx). */
  readonly informed: Attempt["informed"];
}

class DispatchAdapter implements Adapter<Answer> {
  readonly #core: Core;
  readonly #plan: Plan;
  #releasing: Promise<unknown> | undefined;
  /** The response whose body the caller reads while the call is still active. */
  #answer: Answer | undefined;
  /** What has been received of failed responses. */
  readonly #beginnings = new WeakMap<Answer, string>();
  readonly #pieces = new WeakMap<Answer, Pieces>();

  constructor(core: Core, plan: Plan) {
    this.#core = core;
    this.#plan = plan;
  }

  async start(lane: Lane): Promise<Answer> {
    if (this.#releasing !== undefined) await this.#releasing;
    const { signal } = lane;
    if (signal.aborted) throw signal.reason;
    const { dispatch, informed } = this.#plan;
    const attempt = new Attempt(informed);
    const stop = () => attempt.stop(signal.reason as Error);
    signal.addEventListener("abort", stop);
    try {
      dispatch(this.#outgoing(lane.attempt), attempt);
      const answer = await attempt.answer;
      learn(this.#core, lane, answer.pairs);
      if (!this.#reads(answer)) {
        if (this.#plan.held && answer.status < 400) await answer.hold(this.#piecesOf(answer));
        return answer;
      }
      this.#beginnings.set(answer, await answer.begin(this.#limit));
      if (signal.aborted) throw signal.reason;
      return answer;
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  /** The reader of a response's pieces. */
  #piecesOf(answer: Answer): Pieces {
    let pieces = this.#pieces.get(answer);
    if (pieces === undefined) {
      // The bytes of a body in an encoding are not those of events, because undici does not decode.
      pieces = new Pieces(this.#core, isPlain(answer));
      this.#pieces.set(answer, pieces);
    }
    return pieces;
  }

  /** Whether the policy reads why this response failed. */
  #reads({ status }: Answer): boolean {
    return status >= 400 && this.#core.setting("retry.read_errors") === 1;
  }

  readonly #limit: Limited = (timed, us) => {
    const { ticker } = this.#core.engine;
    const place = ticker.add(timed, this.#plan.engineTime() + us);
    return () => ticker.drop(place);
  };

  get remark(): string | undefined {
    if (this.#core.setting("retry.read_errors") !== 1) return undefined;
    return noteOfSdk(header(this.#plan.sent, "x-stainless-retry-count"));
  }

  /** The request of an attempt: equal to the first but for the retry header. */
  #outgoing(attempt: number): Dispatcher.DispatchOptions {
    const { sent, key, factory, retryHeader } = this.#plan;
    const more: [string, string][] = [];
    if (key !== undefined) more.push(["Idempotency-Key", key]);
    if (attempt > 1 && retryHeader) more.push(["Retry-Attempt", String(attempt - 1)]);
    const out = { ...sent };
    if (more.length > 0) out.headers = [...pairs(sent.headers), ...more].flat();
    if (factory !== undefined && (attempt > 1 || !sent.body))
      out.body = atOnce(factory(), "bodyFactory") as NonNullable<typeof out.body>;
    return out;
  }

  get predicate(): Predicate | undefined {
    return this.#plan.predicate;
  }

  get onRetry(): OnRetry | undefined {
    return this.#plan.onRetry;
  }

  outcome(answer: Answer): number {
    const { status, pairs } = answer;
    const { engine, number } = this.#core;
    return status >= 400
      ? engine.classify(number, status, pairs, this.#beginnings.get(answer))
      : (this.#pieces.get(answer)?.failure ?? 0);
  }

  lasts(): boolean {
    return this.#plan.untilBody;
  }

  /** Drains a small failed response, which keeps its connection; closes a large one. The next attempt waits for that. */
  release(lane: Lane): void {
    const { ticker } = this.#core.engine;
    const answer = lane.value as Answer;
    const place = ticker.add({ tick: () => answer.close() }, this.#plan.engineTime() + DRAIN_MS * 1000);
    this.#releasing = Promise.all([this.#releasing, answer.drain().finally(() => ticker.drop(place))]);
  }

  discard(answer: Answer): void {
    answer.close();
  }

  intact(answer: Answer): boolean {
    return !answer.closed;
  }

  watch(answer: Answer, told: BodyEnds, tell: (what: unknown) => void, lane: Lane): Answer {
    const { usage } = this.#plan;
    // A body in an encoding is not read, because undici does not decode.
    const reads = usage !== undefined && isPlain(answer);
    const ends = reads ? metering().read(this.#core, told, lane, usage) : told;
    if (reads) answer.tap((piece) => ends.piece?.(piece));
    if (this.#core.setting("idle_timeout") !== null || this.#core.setting("first_byte_timeout") !== null) {
      answer.silence = new Silence(this.#core, this.#piecesOf(answer));
      answer.failed = (outcome) => ends.failed(undefined, outcome);
    }
    answer.ended = (error) => (error === undefined ? ends.read(true) : ends.failed(error));
    this.#answer = answer;
    tell(this.#plan.context);
    return answer;
  }

  age(again: () => void): number | null | undefined {
    const { silence } = this.#answer ?? {};
    if (silence === undefined) return null;
    const age = silence.age(again);
    this.#answer?.report();
    return age;
  }

  breakOff(error: unknown): void {
    this.#answer?.fail(error as Error);
  }

  /** The response of a call that has ended. Reading it must end by the deadline too. */
  deliver(answer: Answer, ending: Ending): Answer {
    const { ticker } = this.#core.engine;
    if (ending.last && this.#reads(answer)) answer.final();
    ending.tell(this.#plan.context);
    const { until } = this.#plan;
    if (!this.#plan.untilBody || until === Infinity || answer.whole) return answer;
    const place = ticker.add({ tick: () => answer.fail(ending.late()) }, until);
    ticker.weaken(place);
    answer.ended = () => ticker.drop(place);
    return answer;
  }
}
