/** How a plain function is run as a call. */

import { closeBody } from "../fetch/body.js";
import type { Lane } from "./lane.js";
import type { OnRetry } from "./retrying.js";
import type { Adapter } from "./run.js";

/** The adapter for a function under a policy. */
export function functionAdapter<T>(
  work: (attempt: Lane) => T | PromiseLike<T>,
  onRetry: OnRetry | undefined,
): Adapter<T> {
  return { onRetry, start: (lane) => work(lane), discard };
}

/** Without this, a late or superseded response of `fetch` or undici would keep its connection until it is collected. */
function discard(value: unknown): void {
  const { headers, body } = value as { headers?: unknown; body?: unknown };
  if (typeof headers === "object") closeBody(body);
}
