/**
 * The engine's parts on their own: for programs that have a loop of their own, and want one decision.
 *
 * No part reads a clock. Where one needs the time it takes `now`: milliseconds on any clock that does not run back
 * (`performance.now()`, a simulation's), always the same one for the same part. Spans are milliseconds. Ranges and defaults
 * are those of the keys of a policy (`docs/reference.md`), and core checks them: a mistake is a `PolicyError` with the key,
 * the value and the rule.
 *
 * | For | Parts |
 * |---|---|
 * | delays | `Backoff`, `parseRetryAfter` |
 * | how many retries | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
 * | retry tokens | `RetryStrategy` |
 * | how fast | `TokenBucket`, `Gcra`, `CubicRate` |
 * | how much at once | `Aimd`, `Gradient2`, `CoDel` |
 * | who is let through | `CircuitBreaker`, `AdaptiveThrottle` |
 * | how slow | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
 */

import { streamed } from "../engine/module.js";
import { provide } from "./native.js";

provide({ later: () => streamed(new URL("../parts.wasm", import.meta.url)) });

export * from "./all.js";
