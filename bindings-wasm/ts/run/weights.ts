/** The types of weights, and of what requests and answers say about them. They name no type of a page or of Node. */

/**
 * Amounts by the names of weights: what a call will use of the limits that count more than calls, or what an attempt has used. Whole
 * numbers from 0 to 2^53 - 1.
 */
export type Weights = Readonly<Record<string, number>>;

/** What a request to a language model is going to use. A request without a body uses nothing. */
export interface Estimate {
  /** Tokens of the prompt: one for each four bytes of its texts. */
  readonly input: number;
  /** The most tokens that the answer may have; undefined if the request does not say so. */
  readonly output: number | undefined;
  /** Whether the answer is going to be a stream. */
  readonly stream: boolean;
}

/** What an answer of a language model says that it has used. */
export interface Usage {
  /** Tokens of the whole prompt, with those that were cached. */
  readonly input: number;
  /** Tokens of the prompt that were read from a cache. */
  readonly cached: number;
  /** Tokens of the answer, with those of the model's thoughts. */
  readonly output: number;
}

/** Makes the weights of a request from what it is going to use. */
export type Weigh = (request: Estimate) => Weights | undefined;

/** Makes the totals of an attempt from what its answer says. */
export type Used = (answer: Usage) => Weights | undefined;
