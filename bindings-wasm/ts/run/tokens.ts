/** Ready functions for `weigh` and `usage`. */

import { checkNames, checkWhole, outOfRange } from "../errors/errors.js";
import type { Used, Weigh } from "./weights.js";

/** How much a token counts, from 0 to 1,000, to three decimals. */
export interface Factors {
  /** A token of the prompt that was not cached; 1 by default. */
  readonly input?: number | undefined;
  /** A token of the prompt that was read from a cache; 1 by default. */
  readonly cached?: number | undefined;
  /** A token of the answer; 1 by default. Amazon Bedrock counts some models' five times. */
  readonly output?: number | undefined;
}

/** Options of `tokens`. */
export interface TokensOptions {
  /** The weight that they count for; `tokens` by default. */
  readonly weight?: string | undefined;
  /** Tokens that an answer is taken to have if its request does not limit them; 1,000 by default. */
  readonly output?: number | undefined;
  /** How much each kind of token counts. */
  readonly factors?: Factors | undefined;
}

/**
 * Makes the options `weigh` and `usage` of a policy, for a limit that counts tokens. A request reserves what its body tells, and settles what
 * its answer says, plain or streamed. They read OpenAI, Anthropic, Gemini, Bedrock, and services that speak like one of them.
 *
 * @throws RangeError If an option is out of range.
 * @example
 * ```ts
 * const limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"];
 * policy({ preset: "llm", rateLimit: { limits, wait: true, maxWait: 20_000 }, ...tokens({ output: 800 }) });
 * ```
 */
export function tokens(options: TokensOptions = {}): { readonly weigh: Weigh; readonly usage: Used } {
  checkNames("tokens", options, "weight output factors");
  checkNames("factors", options.factors ?? {}, "input cached output");
  const { weight = "tokens", output: expected = 1000, factors = {} } = options;
  checkWhole("output", expected, 0, Number.MAX_SAFE_INTEGER, "2^53 - 1");
  const thousandths = (name: keyof Factors): bigint => {
    const factor = factors[name] ?? 1;
    if (!(factor >= 0 && factor <= 1000)) outOfRange(`factors.${name}`, factor, "a number from 0 to 1,000");
    return BigInt(Math.round(factor * 1000));
  };
  const [input, cached, output] = [thousandths("input"), thousandths("cached"), thousandths("output")];
  // Whole thousandths, because sums of fractions are inexact, and large ones too.
  const usage: Used = (answer) => {
    const read = Math.min(answer.cached, answer.input);
    const sum =
      BigInt(answer.input - read) * input + BigInt(read) * cached + BigInt(answer.output) * output + 999n;
    return { [weight]: Math.min(Number(sum / 1000n), Number.MAX_SAFE_INTEGER) };
  };
  return {
    usage,
    weigh: (request) => usage({ input: request.input, cached: 0, output: request.output ?? expected }),
  };
}
