// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

/** How much at once: the controllers of adaptive limits, and of a queue. */

import type { BulkheadKeys } from "../options_gen.js";
import { load } from "./native.js";
import { type May, made, maybe, moment, type Needs, Part, real, span, U32, whole } from "./part.js";

/** Settings of a `Aimd`. */
export type AimdSettings =
  Needs<BulkheadKeys, "maxConcurrency" | "latencyThreshold"> &
  May<BulkheadKeys, "minConcurrency" | "increaseStep" | "backoffRatio" | "cutInterval" | "latencyQuantile">;

/**
 * A concurrency limit that grows while a latency is kept, and shrinks by a factor when it is not.
 *
 * Additive increase, multiplicative decrease, as TCP does it: several of them on one server share it evenly
 * without knowing each other. It computes the limit only: report how calls ended, and read the limit. Your
 * code keeps the permits and the queue (`docs/spec.md`, 4.2).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const limit = new parts.Aimd({ maxConcurrency: 20, latencyThreshold: 300, backoffRatio: 0.5 });
 * limit.onLatency(301, 0);
 * assert.equal(limit.limit, 10);
 * for (let n = 0; n < 11; n += 1) limit.onLatency(200, 100);
 * assert.equal(limit.limit, 11);
 * ```
 */
export class Aimd extends Part {
  constructor(settings: AimdSettings) {
    super(made("bulkhead", { kind: "aimd", ...settings }, () => load().aimd()));
  }

  /** Calls that may be in flight. */
  get limit(): number {
    return load().aimd_limit(this.handle);
  }

  /** The limit with the fraction that it keeps inside. */
  get exact(): number {
    return load().aimd_exact(this.handle);
  }

  /** A call has ended well, after `latency`: 0 or more. */
  onLatency(latency: number, now: number): void {
    load().aimd_on_latency(this.handle, span("latency", latency), moment(now));
  }

  /** A call has failed after `latency`. Only a failure slower than the threshold counts, as a breach. */
  onFailure(latency: number, now: number): void {
    load().aimd_on_failure(this.handle, span("latency", latency), moment(now));
  }

  /** A call was stopped by its timeout, which is a breach whatever the quantile is. */
  onTimeout(now: number): void {
    load().aimd_on_timeout(this.handle, moment(now));
  }

  /** Whether it is as new: at its maximum, with no recent cut and no estimate. */
  isFresh(now: number): boolean {
    return load().aimd_is_fresh(this.handle, moment(now)) === 1;
  }

  /**
   * Applies new settings, with the same keys as before.
   *
   * A limit at its maximum moves with it; any other stays where it is, within the new range.
   */
  retune(settings: AimdSettings): void {
    const given = [this.handle] as const;
    made("bulkhead", { kind: "aimd", ...settings }, () => load().aimd_retune(...given));
  }
}

/** Settings of a `Gradient2`. */
export type Gradient2Settings =
  Needs<BulkheadKeys, "maxConcurrency"> &
  May<BulkheadKeys, "minConcurrency" | "longWindow" | "rttTolerance" | "headroom" | "variant">;

/**
 * A concurrency limit that finds the knee of the latency curve by itself (`docs/spec.md`, 4.3).
 *
 * It compares the latest latencies with their long-term average, so it needs no threshold (Netflix
 * `concurrency-limits`; `steady` is what this project made of it, `docs/adr/0007`).
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const limit = new parts.Gradient2({ maxConcurrency: 200, variant: "guarded" });
 * limit.onLatency(100, 0, 20, 100);
 * assert.equal(limit.exact, 20.8);
 * limit.onLatency(900, 0, 20, 900);
 * assert.equal(limit.limit, 17);
 * ```
 */
export class Gradient2 extends Part {
  constructor(settings: Gradient2Settings) {
    super(made("bulkhead", { kind: "gradient2", ...settings }, () => load().gradient2()));
  }

  /** Calls that may be in flight. */
  get limit(): number {
    return load().gradient2_limit(this.handle);
  }

  /** The limit with the fraction that it keeps inside. */
  get exact(): number {
    return load().gradient2_exact(this.handle);
  }

  /** The long-term latency in milliseconds; undefined before the first sample. */
  get baseline(): number | undefined {
    return maybe(load().gradient2_baseline(this.handle));
  }

  /**
   * A call has ended well.
   *
   * @param rtt How long it took; 0 or more. In milliseconds.
   * @param started When it started, on the clock of `now`.
   * @param inFlight Calls in flight when it ended, itself included; 0 to 2^32 − 1.
   */
  onLatency(rtt: number, started: number, inFlight: number, now: number): void {
    load().gradient2_on_latency(this.handle, span("rtt", rtt), moment(started, "started"), whole("inFlight", inFlight, 0, U32), moment(now));
  }

  /**
   * A call was stopped by its timeout, or throttled by the server. `plain` and `netflix` ignore it.
   *
   * @param started When it started, on the clock of `now`.
   * @param inFlight Calls in flight when it ended, itself included; 0 to 2^32 − 1.
   */
  onDrop(started: number, inFlight: number, now: number): void {
    load().gradient2_on_drop(this.handle, moment(started, "started"), whole("inFlight", inFlight, 0, U32), moment(now));
  }

  /** Whether it is as new: before its first sample or drop. */
  get isFresh(): boolean {
    return load().gradient2_is_fresh(this.handle) === 1;
  }

  /** Applies new settings, with the same keys as before, and keeps the estimates. */
  retune(settings: Gradient2Settings): void {
    const given = [this.handle] as const;
    made("bulkhead", { kind: "gradient2", ...settings }, () => load().gradient2_retune(...given));
  }
}

/** Settings of a `CoDel`. */
export type CoDelSettings =
  Needs<BulkheadKeys, "queueTarget"> &
  May<BulkheadKeys, "queueInterval" | "codel">;

/**
 * Decides at dequeue whether a waiter is served or shed: controlled delay (`docs/spec.md`, 4.4).
 *
 * It bounds a queue by the time that waiters spend in it, not by its length alone. It does not hold the
 * queue: ask it for each waiter that is taken out, and report when the queue is empty.
 *
 * @throws PolicyError If a setting is outside its range.
 * @example
 * ```ts
 * const queue = new parts.CoDel({ queueTarget: 5 }, 0);
 * queue.onEmpty(20);
 * assert.equal(queue.shouldShed(80, 100), false);
 * assert.deepEqual([queue.shouldShed(80, 120), queue.congested(120)], [true, true]);
 * ```
 */
export class CoDel extends Part {
  /** @param now The present, on your clock: the queue is empty. */
  constructor(settings: CoDelSettings, now: number) {
    const given = [moment(now)] as const;
    super(made("bulkhead", { maxConcurrency: 1, maxQueue: 1, ...settings }, () => load().co_del(...given)));
  }

  /** The queue is empty: before a waiter comes, or after the last one has left. */
  onEmpty(now: number): void {
    load().co_del_on_empty(this.handle, moment(now));
  }

  /**
   * Whether to shed this waiter. Ask once for each waiter that is taken out.
   *
   * @param sojourn How long it has waited; 0 or more. In milliseconds.
   * @param scale Factor by which its importance extends the allowed wait; 0.01 to 100. A policy has 0.25 for
   * `best_effort`, 0.5 for `degraded`, 1 for `normal` and 2 for `critical`.
   */
  shouldShed(sojourn: number, now: number, scale = 1): boolean {
    return load().co_del_should_shed(this.handle, span("sojourn", sojourn), moment(now), real("scale", scale, 0.01, 100)) === 1;
  }

  /** Whether the queue has not been empty for a whole interval; then serve the newest waiter first. */
  congested(now: number): boolean {
    return load().co_del_congested(this.handle, moment(now)) === 1;
  }

  /** Milliseconds that a waiter of scale 1 may have waited, under the law of `facebook`. */
  allowance(now: number): number {
    return load().co_del_allowance(this.handle, moment(now));
  }

  /** Applies new settings, with the same keys as before. A change of the law resets the state. */
  retune(settings: CoDelSettings): void {
    const given = [this.handle] as const;
    made("bulkhead", { maxConcurrency: 1, maxQueue: 1, ...settings }, () => load().co_del_retune(...given));
  }
}
