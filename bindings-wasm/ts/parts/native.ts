/** The module of the parts (`parts/src`), apart from the engine's: where it comes from, and how texts cross its border. */

import { ModuleUnavailable, NotReady } from "../errors.js";
import type { Code } from "../module.js";
import type { Pair } from "../native.js";

/** What the module exports: numbers in and out, words of 64 bits as `bigint`. */
export interface Native {
  readonly memory: WebAssembly.Memory;
  breaker_evidence(kind: number): number;
  breaker(probeLease: number, seed: bigint): number;
  breaker_retune(part: number, probeLease: number, now: number): number;
  breaker_state(part: number): number;
  breaker_refuses(part: number, now: number): number;
  breaker_admit(part: number, now: number): number;
  breaker_record(part: number, word: number, outcome: number, now: number, own: number, bits: bigint): number;
  breaker_body(part: number, word: number, now: number, own: number, bits: bigint): number;
  breaker_until(part: number): number;
  breaker_failures(part: number, now: number): number;
  breaker_throughput(part: number, now: number): number;
  breaker_fresh(part: number, now: number): number;
  breaker_reset(part: number): void;
  breaker_forget_probes(part: number): void;
  budget(): number;
  earned_call(part: number, now: number): void;
  earned_answer(part: number, now: number): void;
  earned_withdraw(part: number, now: number): number;
  earned_refund(part: number, now: number): void;
  earned_balance(part: number, now: number): number;
  window_deposit(part: number, now: number): void;
  window_withdraw(part: number, now: number): number;
  window_refund(part: number, charged: number, now: number): void;
  window_balance(part: number, now: number): number;
  ratio_call(part: number): void;
  ratio_withdraw(part: number): number;
  ratio_free(part: number): number;
  ratio_refund(part: number): void;
  ratio_balance(part: number): number;
  share_acquire(part: number, calls: number): number;
  share_end(part: number): void;
  share_balance(part: number, calls: number): number;
  share_in_flight(part: number): number;
  tokens_failure(part: number): void;
  tokens_success(part: number): void;
  tokens_allow(part: number): number;
  tokens_balance(part: number): number;
  quota_acquire(part: number, kind: number): number;
  quota_success(part: number, cost: number): void;
  quota_refund(part: number, cost: number): void;
  quota_available(part: number): number;
  retry_after(wallUs: number): number;
  backoff(seed: bigint): number;
  backoff_next(part: number, n: number): number;
  backoff_delay(part: number, n: number, call: bigint): number;
  backoff_ceiling(part: number, n: number): number;
  aimd(): number;
  aimd_limit(part: number): number;
  aimd_exact(part: number): number;
  aimd_latency(part: number, latency: number, now: number): void;
  aimd_failure(part: number, latency: number, now: number): void;
  aimd_timeout(part: number, now: number): void;
  aimd_fresh(part: number, now: number): number;
  aimd_retune(part: number): number;
  gradient2(): number;
  gradient2_limit(part: number): number;
  gradient2_exact(part: number): number;
  gradient2_baseline(part: number): number;
  gradient2_latency(part: number, rtt: number, started: number, inFlight: number, now: number): void;
  gradient2_drop(part: number, started: number, inFlight: number, now: number): void;
  gradient2_fresh(part: number): number;
  gradient2_retune(part: number): number;
  codel(now: number): number;
  codel_empty(part: number, now: number): void;
  codel_congested(part: number, now: number): number;
  codel_allowance(part: number, now: number): number;
  codel_shed(part: number, sojourn: number, scale: number, now: number): number;
  codel_retune(part: number): number;
  p2(p: number): number;
  p2_observe(part: number, x: number): void;
  p2_estimate(part: number): number;
  p2_count(part: number): number;
  p2_height(part: number, marker: number): number;
  p2_rank(part: number, marker: number): number;
  windowed(p: number, window: number): number;
  windowed_observe(part: number, x: number): void;
  windowed_estimate(part: number): number;
  windowed_count(part: number): number;
  windowed_reset(part: number): void;
  sketch(alpha: number): number;
  sketch_from_words(): number;
  sketch_to_words(part: number): number;
  sketch_words(): number;
  sketch_add(part: number, x: number): void;
  sketch_merge(part: number, other: number): number;
  sketch_quantile(part: number, q: number): number;
  sketch_count(part: number): number;
  sketch_sum(part: number): number;
  sketch_min(part: number): number;
  sketch_max(part: number): number;
  sketch_alpha(part: number): number;
  sketch_gamma(part: number): number;
  sketch_clear(part: number): void;
  sketch_equals(part: number, other: number): number;
  bucket(now: number): number;
  bucket_acquire(part: number, cost: number, now: number): number;
  bucket_wait(part: number, tokens: number, now: number): number;
  bucket_level(part: number, now: number): number;
  bucket_fresh(part: number, now: number): number;
  bucket_retune(part: number, now: number): number;
  gcra(): number;
  gcra_acquire(part: number, cost: number, now: number): number;
  gcra_fresh(part: number, now: number): number;
  cubic(now: number): number;
  cubic_acquire(part: number, now: number): number;
  cubic_response(part: number, throttled: number, now: number): void;
  cubic_rate(part: number): number;
  part_copy(handle: number): number;
  part_free(handle: number): void;
  part_count(): number;
  store(): number;
  store_execute(part: number, nowUs: number): number;
  strategy(seed: bigint, backoff: number, quota: number, retryUnknown: number): number;
  strategy_acquire(part: number): number;
  strategy_refresh(
    part: number,
    token: number,
    safe: number,
    retryAfter: number,
    throttling: number,
    timeout: number,
  ): number;
  strategy_success(part: number, token: number): void;
  strategy_available(part: number): number;
  token_count(token: number): number;
  token_delay(token: number): number;
  input(length: number): number;
  output(): number;
  output_length(): number;
  about(): number;
  number(value: number): void;
  word(key: number): void;
  words(count: number): number;
  throttle_accepted(kind: number): number;
  throttle(seed: bigint, now: number): number;
  throttle_retune(part: number, now: number): number;
  throttle_admit(part: number, now: number, own: number, bits: bigint): number;
  throttle_record(part: number, accepted: number, now: number): void;
  throttle_probability(part: number, now: number): number;
  throttle_requests(part: number, now: number): number;
  throttle_accepts(part: number, now: number): number;
  throttle_fresh(part: number, now: number): number;
}

/** Where the module comes from: at once, or fetched. */
export interface Source {
  readonly now?: (() => Code) | undefined;
  readonly later?: (() => Promise<Code>) | undefined;
}

let source: Source = {};
let native: Native | undefined;
let coming: Promise<void> | undefined;

/** Says where the module comes from; an entry does. */
export function provide(from: Source): void {
  if (source.now === undefined || from.now !== undefined) source = from;
}

function start(code: Code): void {
  const module = code instanceof WebAssembly.Module ? code : new WebAssembly.Module(code);
  native ??= new WebAssembly.Instance(module, {}).exports as unknown as Native;
}

/**
 * The module, made ready when it is first needed.
 *
 * @throws NotReady Where it has to be fetched, and is not there.
 */
export function load(): Native {
  if (native === undefined && source.now !== undefined) {
    try {
      start(source.now());
    } catch (error) {
      if (source.later === undefined) throw error;
      source = { later: source.later };
    }
  }
  if (native === undefined) {
    throw new NotReady('a part needs its WebAssembly module: await ready() of "tidegate/parts" first');
  }
  return native;
}

/**
 * Resolves once the parts' module is there: on pages it has to be fetched before the first part is made. Elsewhere that is at once.
 *
 * @throws ModuleUnavailable If it cannot be loaded; the next call tries again.
 * @example
 * ```ts
 * await parts.ready();
 * const bucket = new parts.TokenBucket({ permits: 1, per: 1000 }, 0);
 * ```
 */
export async function ready(): Promise<void> {
  try {
    load();
  } catch (error) {
    const { later } = source;
    if (later === undefined) throw error;
    coming ??= fetched(later).finally(() => {
      coming = undefined;
    });
    await coming;
  }
}

async function fetched(later: () => Promise<Code>): Promise<void> {
  try {
    const code = await later();
    start(code instanceof WebAssembly.Module ? code : await WebAssembly.compile(code));
  } catch (cause) {
    throw new ModuleUnavailable(
      `the parts' module parts.wasm cannot be loaded: ${(cause as Error).message}`,
      {
        cause,
      },
    );
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes texts one behind the other into the module's input; the length of the first, in bytes. */
export function say(first: string, second = ""): number {
  const wasm = load();
  const head = encoder.encode(first);
  const tail = encoder.encode(second);
  const at = wasm.input(head.length + tail.length);
  const memory = new Uint8Array(wasm.memory.buffer);
  memory.set(head, at);
  memory.set(tail, at + head.length);
  return head.length;
}

/** What a text is in the table of keys (`wire::about` of core). */
export function about(text: string): number {
  say(text);
  return load().about();
}

/** What the module has put into its output. */
export function said(): string {
  const wasm = load();
  return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
}

/** Stages the settings that a part is made of. */
export function stage(pairs: readonly Pair[]): void {
  const wasm = load();
  for (const [key, value] of pairs) {
    if (typeof value === "number") {
      say(key);
      wasm.number(value);
    } else {
      wasm.word(say(key, value));
    }
  }
}

/** Words of 64 bits, into the module. */
export function sayWords(words: readonly bigint[]): void {
  const wasm = load();
  const at = wasm.words(words.length);
  new BigUint64Array(wasm.memory.buffer, at, words.length).set(words);
}

/** So many words that the module has put there. */
export function saidWords(count: number): bigint[] {
  const wasm = load();
  return [...new BigUint64Array(wasm.memory.buffer, wasm.sketch_words(), count)];
}
