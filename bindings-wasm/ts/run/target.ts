/** The target of the running attempt (semantics 17). */

import { TidegateError } from "../errors/errors.js";
import { scopes } from "./follow.js";

/**
 * The name of the target that the running attempt goes to; undefined outside of such an attempt. A function, or the policy's `fetch`, maps
 * the name, which is that of the document, to a URL, a model or a key: so no secret need be in the document. Of nested calls the innermost
 * one with targets counts.
 *
 * It follows asynchronous work through `AsyncLocalStorage` (Node, Deno, Bun, Workers with `nodejs_compat`).
 *
 * @throws TidegateError On platforms without `AsyncLocalStorage` (browsers): a function finds it in its attempt there, `attempt.target`.
 * @example
 * ```ts
 * const text = '{"targets": {"chat": {"pick": "ladder", "members": ["large", "small"]}}, "policy": {"chat": {"targets": "chat"}}}';
 * const { chat } = load(text).policies;
 * assert.equal(await chat?.run(() => target()), "large");
 * ```
 */
export function target(): string | undefined {
  const store = scopes();
  if (store === undefined) {
    throw new TidegateError(
      "target needs AsyncLocalStorage, which this platform has not: use the attempt's, policy.run(({ target }) => …)",
    );
  }
  for (let level = store.getStore(); level !== undefined; level = level.around)
    if (level.target !== undefined) return level.target;
  return undefined;
}
