/** `onRetry`: a callback before each wait for a further attempt. */

import type { Class } from "../engine/wire.js";
import { warn } from "../errors/classify.js";

/** The argument of `onRetry`: the attempt that failed, and the wait that begins. */
export interface Retrying {
  /** The error of the attempt; undefined if it returned a result. */
  readonly error: unknown;
  /**
   * The result that counts as a failure: a response, or a value that `classify` named. Read a response's status and headers only: its body
   * is being drained.
   */
  readonly result: unknown;
  /** The number of the failed attempt, starting from 1. */
  readonly attempt: number;
  /** Milliseconds until the next attempt. */
  readonly wait: number;
  /** The class of the failure, or a kind that the policy declares. */
  readonly reason: Class | (string & {});
  /** The policy's name. */
  readonly policy: string;
  /** The route's key. */
  readonly route: string;
  /** The call's number, for `engine.explain`. */
  readonly call: number;
}

/** Called before each wait for a further attempt. */
export type OnRetry = (retrying: Retrying) => unknown;

/** Calls it. A callback that throws or rejects is reported to the console once, and changes nothing. */
export function notify(onRetry: OnRetry, event: Retrying): void {
  const failed = (error: unknown) => warn(onRetry, "onRetry", error);
  try {
    Promise.resolve(onRetry(event)).catch(failed);
  } catch (error) {
    failed(error);
  }
}
