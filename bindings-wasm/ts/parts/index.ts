/**
 * The engine's components on their own, for programs that have a loop of their own and need a single decision.
 *
 * No part reads a clock. A part that needs the time takes `now`: milliseconds on any clock that does not run backwards
 * (`performance.now()`, a simulation's), always the same clock for the same part. Spans are milliseconds. Ranges and defaults are those
 * of a policy's keys (`docs/reference.md`), and core checks them: a mistake is a `PolicyError` with the key, the value and the rule.
 *
 * | For | Parts |
 * |---|---|
 * | delays | `Backoff`, `parseRetryAfter` |
 * | retry budgets | `EarnedBudget`, `RetryBudget`, `RatioBudget`, `ShareBudget`, `TokenBudget`, `RetryQuota` |
 * | retry tokens | `RetryStrategy` |
 * | rate limits | `TokenBucket`, `Gcra`, `CubicRate` |
 * | concurrency limits and queues | `Aimd`, `Gradient2`, `CoDel` |
 * | admission | `CircuitBreaker`, `AdaptiveThrottle` |
 * | latency quantiles | `P2Quantile`, `WindowedP2Quantile`, `DDSketch` |
 */

import { streamed } from "../engine/module.js";
import { provide } from "./native.js";

provide({ later: () => streamed(new URL("../parts.wasm", import.meta.url)) });

export * from "./all.js";
