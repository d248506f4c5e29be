/** Functions that tests put under a policy. */

import type { Attempt } from "../../ts/node.js";

/** A transient error. */
export function reset(): Error {
  return Object.assign(new Error("reset"), { code: "ECONNRESET" });
}

/** A function that fails this many times, then returns the number of its calls. */
export function failing(times: number): () => Promise<number> {
  let n = 0;
  return async () => {
    n += 1;
    if (n <= times) throw reset();
    return n;
  };
}

/** A function that returns these values in order, and throws the errors among them. */
export function script<T>(...answers: (T | Error)[]): () => Promise<T> {
  return async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer as T;
  };
}

/** A function that ends only when it is stopped. */
export function hang({ signal }: Attempt): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

/** The error of a promise that must fail. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  const settled = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ("value" in settled) throw new Error(`it did not fail: ${String(settled.value)}`);
  return settled.error;
}

/** A function whose attempts end when the test lets them. */
export function gate(): {
  work: (attempt: Attempt) => Promise<string>;
  open: ((value: string) => void)[];
  aborted: unknown[];
} {
  const open: ((value: string) => void)[] = [];
  const aborted: unknown[] = [];
  const work = ({ signal }: Attempt) =>
    new Promise<string>((resolve, reject) => {
      open.push(resolve);
      signal.addEventListener("abort", () => {
        aborted.push(signal.reason);
        reject(signal.reason);
      });
    });
  return { work, open, aborted };
}
