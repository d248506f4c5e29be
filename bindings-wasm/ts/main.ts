/** All exports of the package. The entries add the source of the WebAssembly module. */

export { defaultEngine } from "./engine/default_engine.js";
export { type DocumentOptions, load, Policies, type Reloaded } from "./engine/document.js";
export { Engine } from "./engine/engine.js";
export type { EngineOptions, Link, Restored, SavedState } from "./engine/engine_types.js";
export { type ReadyOptions, ready } from "./engine/module.js";
export type { Class, Criticality, Verdict } from "./engine/wire.js";
export type { AnswerHeaders, Classify, Outcome, Predicate } from "./errors/classify.js";
export * from "./errors/errors.js";
export type { ErrorClass } from "./errors/judge.js";
export type { Fetch, FetchOptions } from "./fetch/fetch.js";
export type * from "./options_gen.js";
export type { Attempt } from "./run/lane.js";
export { type Report, reportOf } from "./run/notes.js";
export {
  type Caller,
  type CallOptions,
  Policy,
  type PolicyOptions,
  policy,
  type RunOptions,
  type Work,
} from "./run/policy.js";
export { Pool, type PoolOptions } from "./run/pool.js";
export type { OnRetry, Retrying } from "./run/retrying.js";
export { type Bounds, within } from "./run/scope.js";
export { target } from "./run/target.js";
export { type Factors, type TokensOptions, tokens } from "./run/tokens.js";
export type { Estimate, Usage, Used, Weigh, Weights } from "./run/weights.js";
export type { Methods, WrapOptions } from "./run/wrap.js";
export type { EventOf, EventType, Listener, Subscription, TidegateEvent } from "./telemetry/events.js";
export {
  type CallExplanation,
  type Component,
  explain,
  type Load,
  type PolicyExplanation,
} from "./telemetry/explain.js";
export type * from "./telemetry/snapshot.js";
