/** What an engine did, one flat record each, for those who listen (semantics 12.1). */

import type { Class } from "../engine/wire.js";

/** The types of events: a closed list. */
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

/** One thing that an engine did. What a type does not say is absent. */
export interface TidegateEvent {
  readonly type: EventType;
  /** Orders all events of an engine, from 1 on; one that is missing was dropped. */
  readonly seq: number;
  /** When, on the engine's clock, in milliseconds. */
  readonly at: number;
  /** The policy's name. */
  readonly policy?: string;
  /** The route's key. */
  readonly route?: string;
  /** The call, where it is about one. */
  readonly call?: number;
  /** The attempt, from 1 on. */
  readonly attempt?: number;
  /** Did the attempt start beside another one? */
  readonly hedge?: boolean;
  /** How the attempt or the call ended: a class, or the number of a kind that the policy declares. */
  readonly kind?: Class | number;
  /** Why a call ended or was refused: a verdict. Of a `store_degraded`: why the store is taken for gone. */
  readonly reason?: string;
  /** What a call waits for. */
  readonly why?: string;
  /** The wait that begins or that has ended, in milliseconds. */
  readonly wait?: number;
  /** Time since the call or the attempt began, in milliseconds. */
  readonly elapsed?: number;
  /** How many like it were left out since the one before. */
  readonly suppressed?: number;
  /** Its rejection was left out, so whoever logs leaves this out too. */
  readonly quiet?: boolean;
  /** What has changed, from this … */
  readonly from?: string | number;
  /** … to this. */
  readonly to?: string | number;
}

/** Told of events. What it throws is reported to the console and breaks nothing. */
export type Listener = (event: TidegateEvent) => void;

/** Ends by `dispose()`, or by `using` where the platform knows it. */
export interface Subscription {
  dispose(): void;
}

/** A subscription whose end does this, once. */
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

/** What of a record stands in an event as it is. */
const SAME = ["call", "attempt", "hedge", "kind", "reason", "why"] as const;
const LAST = ["suppressed", "quiet", "from", "to"] as const;

type Written = Pick<TidegateEvent, "type" | "seq" | "at" | (typeof SAME)[number] | (typeof LAST)[number]> & {
  readonly policy?: number;
  readonly route?: number;
  readonly wait_us?: number;
  readonly elapsed_us?: number;
};

/**
 * A record as the engine writes it, in the names and units of JavaScript. Field by field and in one order: an object that is
 * spread and added to takes ten times as long.
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
