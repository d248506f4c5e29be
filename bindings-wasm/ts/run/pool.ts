/** Pools: a bulkhead, rate limit or retry budget shared by several policies and all their routes. */

import { defaultEngine } from "../engine/default_engine.js";
import type { Engine } from "../engine/engine.js";
import { asWritten, OPTIONS, type PoolKind, pairsOfPool } from "../engine/options.js";
import type { Budget, Bulkhead, RateLimit } from "../options_gen.js";
import type { PoolSnapshot } from "../telemetry/snapshot.js";

/** Options of a pool: exactly one component, and the engine. */
export type PoolOptions = ({ bulkhead: Bulkhead } | { rateLimit: RateLimit } | { budget: Budget }) & {
  /** The engine that keeps its state; by default the engine of the process. */
  readonly engine?: Engine | undefined;
};

/** A bulkhead, a rate limit or a retry budget that policies share. */
export class Pool {
  readonly name: string;
  readonly kind: PoolKind;
  readonly engine: Engine;

  /**
   * @throws PolicyError With all mistakes.
   * @example
   * ```ts
   * const db = new Pool("db", { bulkhead: { maxConcurrency: 10, maxQueue: 50 } });
   * const reads = policy({ bulkhead: { pool: db, acquireTimeout: 100 } });
   * ```
   */
  constructor(name: string, options: PoolOptions) {
    const [kind, settings, engine] = parts(options);
    this.name = name;
    this.kind = kind;
    this.engine = engine;
    const written = asWritten(settings);
    engine.declare(true, () => engine.pool(name, kind, pairsOfPool(kind, written), false, OPTIONS));
  }

  /** Replaces all its settings. A limit that grows admits waiting calls immediately. */
  retune(options: PoolOptions): void {
    const [kind, settings, engine] = parts(options, this.engine);
    if (engine !== this.engine) throw new TypeError("engine: retune changes settings only");
    this.engine.whole("retune");
    this.engine.pool(this.name, kind, pairsOfPool(kind, settings), true, OPTIONS);
  }

  /** Its current counts. */
  snapshot(): PoolSnapshot {
    return this.engine.snapshot().pools[this.name] as PoolSnapshot;
  }
}

function parts(options: PoolOptions, own?: Engine): [kind: PoolKind, settings: object, engine: Engine] {
  const { engine = own ?? defaultEngine(), ...rest } = options;
  const found = Object.entries(rest);
  const [one] = found;
  if (found.length !== 1 || one === undefined || !["bulkhead", "rateLimit", "budget"].includes(one[0])) {
    throw new TypeError("a pool is one of bulkhead, rateLimit and budget");
  }
  return [one[0] as PoolKind, one[1] as object, engine];
}
