/** All parts. */

export { PolicyError } from "../errors/errors.js";
export * from "./breaker.js";
export * from "./budgets.js";
export * from "./delay.js";
export * from "./limit.js";
export { ready } from "./native.js";
export type { Part, Seed } from "./part.js";
export * from "./quantile.js";
export * from "./rate.js";
export { MemoryStore } from "./store.js";
export { type ErrorInfo, RetryError, RetryStrategy, RetryToken, type StrategyOptions } from "./strategy.js";
