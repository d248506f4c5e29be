/** All parts. */

export { PolicyError } from "../errors.js";
export {
  type BreakerOptions,
  type BreakerSettings,
  type BreakerState,
  CircuitBreaker,
  type Evidence,
  type Ticket,
} from "./breaker.js";
export {
  EarnedBudget,
  type EarnedSettings,
  type QuotaSettings,
  RatioBudget,
  type RatioSettings,
  RetryBudget,
  RetryQuota,
  ShareBudget,
  type ShareSettings,
  TokenBudget,
  type TokenSettings,
  type WindowSettings,
} from "./budgets.js";
export { Backoff, type BackoffOptions, parseRetryAfter } from "./delay.js";
export {
  Aimd,
  type AimdSettings,
  CoDel,
  type CoDelSettings,
  Gradient2,
  type Gradient2Settings,
} from "./limit.js";
export { ready } from "./native.js";
export type { Part, Seed } from "./part.js";
export { DDSketch, P2Quantile, WindowedP2Quantile } from "./quantile.js";
export { CubicRate, Gcra, type RateSettings, TokenBucket } from "./rate.js";
export { MemoryStore } from "./store.js";
export { type ErrorInfo, RetryError, RetryStrategy, RetryToken, type StrategyOptions } from "./strategy.js";
export { AdaptiveThrottle, type ThrottleOptions, type ThrottleSettings } from "./throttle.js";
