/** Where the timeouts of streams are: `streams.ts`, which a page imports as `tidegate/streams`, and the other entries have. */

import { TidegateError } from "../errors/errors.js";
import type { Core } from "../run/core.js";
import type { Lane } from "../run/lane.js";
import type { BodyEnds } from "../run/run.js";
import type { Reader, Watching } from "./body.js";
import type { FetchOptions } from "./fetch.js";
import type { Known } from "./request.js";

/** A watched body. */
export interface Flowing extends Watching {
  /** Microseconds for which reads have waited; undefined if `again` is called in a moment instead. */
  age?(again: () => void): number | undefined;
}

/** What `streams.ts` does for `fetch`. */
export interface Streaming {
  /** Whether the answer to a request is a stream. */
  isStream(core: Core, options: FetchOptions, known: Known): boolean;
  /** Reads a response up to its first piece that counts. Returns the same response, unread. */
  hold(core: Core, response: Response, lane: Lane): Promise<Response>;
  /**
   * Checks that the body of a response can be watched, if its usage is read or the policy itself, and not only its preset, bounds streams.
   *
   * @throws TidegateError If it is a stream of another kind.
   */
  check(core: Core, response: Response, usage: unknown): void;
  /** Whether its body is a stream of Node that can be watched. */
  fits(response: Response): boolean;
  /** The outcome of the failure that a held response has reported; 0 without one. */
  failure(response: Response): number;
  /** Watches the body of a response. */
  flow(core: Core, response: Response, ends: BodyEnds): [given: Response, flowing: Flowing];
  /** What can break off a body of Node that is not watched, and tells when it is closed, or nobody has it any more. */
  ender(response: Response, told: Reader): Watching | undefined;
}

let streaming: Streaming | undefined;

/** Sets the code. */
export function provideStreaming(by: Streaming): void {
  streaming = by;
}

/** The same, where the code is; undefined for bodies of other kinds. */
export const ender: Streaming["ender"] = (response, told) => streaming?.ender(response, told);

/** Whether a policy bounds streams; with `own `, whether it does so itself, and not only its preset. */
export const bounds = (core: Core, own = ""): boolean =>
  core.setting(`${own}idle_timeout`) !== null || core.setting(`${own}first_byte_timeout`) !== null;

/**
 * The code, for a policy that bounds streams, or where the pieces of bodies are read; undefined for others.
 *
 * @throws TidegateError If it is needed, and not there. What a preset alone gives is not needed.
 */
export function streamingFor(core: Core, reads = false): Streaming | undefined {
  if (!reads && !bounds(core)) return undefined;
  if (streaming === undefined && (reads || bounds(core, "own ")))
    throw new TidegateError('firstByteTimeout and idleTimeout need `import "tidegate/streams"` in a page');
  return streaming;
}
