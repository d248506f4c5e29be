/** Events: flat records of the engine's actions, for listeners (semantics 12.1). */

import type { Class } from "../engine/wire.js";

/** The types of events: a fixed list. */
export type EventType =
  | "call_done"
  | "attempt_started"
  | "attempt_done"
  | "retry_scheduled"
  | "retry_suppressed"
  | "gave_up"
  | "rejected"
  | "queued"
  | "granted"
  | "shed"
  | "hedge_started"
  | "hedge_won"
  | "breaker_changed"
  | "limit_changed"
  | "throttle_changed"
  | "hold_changed"
  | "deadline_exceeded"
  | "lease_reclaimed"
  | "store_degraded"
  | "store_recovered"
  | "policy_retuned"
  | "forced_open"
  | "forced_cleared"
  | "fallback";

/** One action of an engine. Fields that a type does not use are absent. */
export interface TidegateEvent {
  readonly type: EventType;
  /** The number of the event, starting from 1: it orders all events of an engine. A missing number is a dropped event. */
  readonly seq: number;
  /** When, on the engine's clock, in milliseconds. */
  readonly at: number;
  /** The policy's name. */
  readonly policy?: string;
  /** The route's key. */
  readonly route?: string;
  /** The call, if the event is about one. */
  readonly call?: number;
  /** The attempt, starting from 1. */
  readonly attempt?: number;
  /** Whether the attempt is a hedge. */
  readonly hedge?: boolean;
  /** How the attempt or the call ended: a class, or the number of a kind that the policy declares. */
  readonly kind?: Class | number;
  /** Why a call ended or was refused: a verdict. In `store_degraded`: why the store counts as unreachable. */
  readonly reason?: string;
  /** The reason for waiting. */
  readonly why?: string;
  /** The wait that begins or has ended, in milliseconds. */
  readonly wait?: number;
  /** Milliseconds since the call or the attempt began. */
  readonly elapsed?: number;
  /** Number of similar events left out since the previous one. */
  readonly suppressed?: number;
  /** Whether the rejection of this call was left out, so that a log should leave this event out too. */
  readonly quiet?: boolean;
  /** The old value of what has changed. */
  readonly from?: string | number;
  /** The new value. */
  readonly to?: string | number;
}

/** A listener for events. Errors that it throws are logged to the console and have no other effect. */
export type Listener = (event: TidegateEvent) => void;

/** A subscription. It ends by `dispose()`, or by `using` on platforms with `Symbol.dispose`. */
export interface Subscription {
  dispose(): void;
}

/** Makes a subscription that calls `end` once. */
export function subscription(end: () => void): Subscription {
  let ended = false;
  const dispose = () => {
    if (!ended) {
      ended = true;
      end();
    }
  };
  const made: Subscription = { dispose };
  const symbol: symbol | undefined = (Symbol as { dispose?: symbol }).dispose;
  if (symbol !== undefined) Object.defineProperty(made, symbol, { value: dispose });
  return made;
}

/** Fields of a record that an event copies unchanged. */
const SAME = ["call", "attempt", "hedge", "kind", "reason", "why"] as const;
const LAST = ["suppressed", "quiet", "from", "to"] as const;

type Written = Pick<TidegateEvent, "type" | "seq" | "at" | (typeof SAME)[number] | (typeof LAST)[number]> & {
  readonly policy?: number;
  readonly route?: number;
  readonly wait_us?: number;
  readonly elapsed_us?: number;
};

/**
 * Converts a record of the engine to the names and units of JavaScript. Fields are set one by one in a fixed order, because spreading
 * into an object takes ten times as long.
 */
export function eventOf(
  written: Written,
  policyName: (number: number) => string | undefined,
  routeKey: (route: number) => string | undefined,
): TidegateEvent {
  const { type, seq, at, policy, route, wait_us, elapsed_us } = written;
  const event: Record<string, unknown> = { type, seq, at: at / 1000 };
  if (policy !== undefined) event["policy"] = policyName(policy);
  if (route !== undefined) event["route"] = routeKey(route);
  for (const name of SAME) if (written[name] !== undefined) event[name] = written[name];
  if (wait_us !== undefined) event["wait"] = wait_us / 1000;
  if (elapsed_us !== undefined) event["elapsed"] = elapsed_us / 1000;
  for (const name of LAST) if (written[name] !== undefined) event[name] = written[name];
  return event as unknown as TidegateEvent;
}
