/** Events: flat records of the engine's actions, for listeners (semantics 12.1). */

import type { Class, Verdict } from "../engine/wire.js";

/** What an event may say; which fields a type has is said by `EventFields`. */
interface Fields {
  /** The policy's name. */
  readonly policy: string;
  /** The route's key, or a pool's name. */
  readonly route: string;
  /** The call's number, for `engine.explain`. */
  readonly call: number;
  /** The attempt, starting from 1. In a `retry_scheduled` the one to come; at a call's end how many there were. */
  readonly attempt: number;
  /** Whether the attempt is a hedge. */
  readonly hedge: boolean;
  /** How the attempt or the call ended: a class, or the number of a kind that the policy declares. */
  readonly kind: Class | number;
  /** Why a call ended or was refused. In `store_degraded`: why the store counts as unreachable. */
  readonly reason: string;
  /** The reason for waiting. */
  readonly why: "running" | "backoff" | "hold" | "rate" | "queue" | "store" | "body" | "cooldown" | "target";
  /** The wait that begins or has ended, in milliseconds. */
  readonly wait: number;
  /** Milliseconds since the call or the attempt began. */
  readonly elapsed: number;
  /** Number of similar events left out since the previous one. */
  readonly suppressed: number;
  /** Whether the rejection of this call was left out, so that a log should leave this event out too. */
  readonly quiet: boolean;
  /** The old value of what has changed. */
  readonly from: string | number;
  /** The new value. */
  readonly to: string | number;
}

/** The fields of an event about a call. */
type Call = "policy" | "route" | "call" | "elapsed";
/** A verdict as the reason. */
type Ends = { readonly reason: Verdict };
type Changed<T> = { readonly from: T; readonly to: T };

/** The fields of a type: those that it always has, those that it may have, and narrower types of some of them. */
interface Form<Always extends keyof Fields, Sometimes extends keyof Fields = never, Narrow = unknown> {
  always: Always;
  sometimes: Sometimes;
  narrow: Narrow;
}

/** The fields of each type, besides `type`, `seq` and `at` (docs/telemetry.md). */
interface EventFields {
  call_done: Form<Call | "reason", "attempt" | "kind" | "wait" | "quiet", Ends>;
  attempt_started: Form<Call | "attempt", "hedge">;
  attempt_done: Form<Call | "attempt" | "kind", "hedge">;
  retry_scheduled: Form<Call | "attempt" | "kind" | "wait">;
  retry_suppressed: Form<Call | "reason" | "attempt", "kind" | "wait", Ends>;
  gave_up: Form<Call | "reason" | "attempt", "kind" | "wait", Ends>;
  rejected: Form<Call | "reason", "attempt" | "wait" | "suppressed", Ends>;
  queued: Form<Call | "why", "attempt" | "wait">;
  granted: Form<Call | "why", "attempt" | "wait">;
  shed: Form<Call | "reason" | "why", "attempt", Ends>;
  hedge_started: Form<Call | "attempt" | "hedge" | "wait">;
  hedge_won: Form<Call | "attempt" | "hedge" | "kind">;
  breaker_changed: Form<
    "policy" | "route" | "from" | "to",
    "call" | "attempt" | "elapsed" | "wait",
    Changed<"closed" | "open" | "half_open">
  >;
  limit_changed: Form<"route" | "from" | "to", "policy" | "call" | "attempt" | "elapsed", Changed<number>>;
  throttle_changed: Form<Call | "from" | "to", "attempt", Changed<number>>;
  hold_changed: Form<"policy" | "route" | "from" | "to", "call" | "attempt" | "elapsed", Changed<number>>;
  cooldown_changed: Form<
    "policy" | "route" | "from" | "to",
    "call" | "attempt" | "elapsed" | "wait",
    Changed<number>
  >;
  stream_delivered: Form<Call | "attempt" | "kind", "hedge">;
  stream_stalled: Form<Call | "attempt", "reason">;
  deadline_exceeded: Form<Call | "reason", "attempt" | "kind" | "wait", Ends>;
  lease_reclaimed: Form<"route", "policy" | "call" | "attempt" | "elapsed" | "why">;
  store_degraded: Form<"reason", "policy" | "route">;
  store_recovered: Form<never, "policy" | "route">;
  policy_retuned: Form<never, "policy" | "route">;
  forced_open: Form<"policy", "route">;
  forced_cleared: Form<"policy", "route">;
  fallback: Form<"policy" | "route" | "kind">;
}

/** The types of events: a fixed list. */
export type EventType = keyof EventFields;

/** An event of this type. Fields that the type never has are undefined. */
export type EventOf<T extends EventType> = {
  readonly type: T;
  /** The number of the event, starting from 1: it orders all events of an engine. A missing number is a dropped event. */
  readonly seq: number;
  /** When, on the engine's clock, in milliseconds. */
  readonly at: number;
} & Pick<Fields, EventFields[T]["always"]> &
  Partial<Pick<Fields, EventFields[T]["sometimes"]>> & {
    readonly [K in Exclude<keyof Fields, EventFields[T]["always"] | EventFields[T]["sometimes"]>]?: undefined;
  } & EventFields[T]["narrow"];

/** One action of an engine: a union by `type`, so that a test of the type gives the fields. */
export type TidegateEvent = { [T in EventType]: EventOf<T> }[EventType];

/** A listener for events. Errors that it throws, or rejects with, are logged to the console and have no other effect. */
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

type Written = Pick<TidegateEvent, "type" | "seq" | "at"> &
  Partial<Pick<Fields, (typeof SAME)[number] | (typeof LAST)[number]>> & {
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
  if (policy !== undefined) event["policy"] = policyName(policy) ?? "(removed)";
  if (route !== undefined) event["route"] = routeKey(route) ?? "(evicted)";
  for (const name of SAME) if (written[name] !== undefined) event[name] = written[name];
  if (wait_us !== undefined) event["wait"] = wait_us / 1000;
  if (elapsed_us !== undefined) event["elapsed"] = elapsed_us / 1000;
  for (const name of LAST) if (written[name] !== undefined) event[name] = written[name];
  return event as unknown as TidegateEvent;
}
