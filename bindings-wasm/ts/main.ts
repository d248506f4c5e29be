/** Everything that the package has, but for where its WebAssembly comes from: that is the entries' to say. */

export type { Classify, Outcome, Predicate } from "./classify.js";
export { defaultEngine, explain } from "./default_engine.js";
export { type DocumentOptions, load, Policies, type Reloaded } from "./document.js";
export { Engine } from "./engine.js";
export type { EngineOptions, Restored, SavedState } from "./engine_types.js";
export * from "./errors.js";
export type { EventType, Listener, Subscription, TidegateEvent } from "./events.js";
export type { CallExplanation, Component, Load, PolicyExplanation } from "./explain.js";
export type { Fetch, FetchOptions } from "./fetch.js";
export type { Attempt } from "./lane.js";
export { type ReadyOptions, ready } from "./module.js";
export { type Report, reportOf } from "./notes.js";
export type * from "./options_gen.js";
export {
  type Caller,
  type CallOptions,
  Policy,
  type PolicyOptions,
  policy,
  type RunOptions,
  type Work,
} from "./policy.js";
export { Pool, type PoolOptions } from "./pool.js";
export { type Bounds, within } from "./scope.js";
export type * from "./snapshot.js";
export type { Class, Criticality, Verdict } from "./wire.js";
export type { Methods, WrapOptions } from "./wrap.js";
