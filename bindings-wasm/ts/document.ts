/** Policies that stand in a document: JSON, with the same keys and units as in every language. */

import { defaultEngine } from "./engine.js";
import { type Mistake, PolicyError } from "./errors.js";
import { type PoolKind, pairsOf, pairsOfPool } from "./options.js";
import { Policy, type PolicyOptions } from "./policy.js";
import { Pool } from "./pool.js";

/** What a document's policies have from their host. */
export type DocumentOptions = Pick<
  PolicyOptions,
  "classify" | "fallback" | "fallbackOn" | "fetch" | "retryHeader" | "idempotencyKey" | "engine"
>;

const KINDS: Readonly<Record<string, PoolKind>> = {
  bulkhead: "bulkhead",
  rate_limit: "rateLimit",
  budget: "budget",
};

/**
 * The policies of a document, by name: a text in JSON, or what it says. Keys are in snake case and spans have units there
 * (`"250ms"`), as in the documents of every language; TOML is for those that read it.
 *
 * @throws PolicyError with every mistake of every policy.
 * @example
 * ```ts
 * const { payments } = load('{"policy": {"payments": {"preset": "http", "deadline": "10s"}}}');
 * ```
 */
export function load(document: string | object, options: DocumentOptions = {}): Record<string, Policy> {
  const mistakes: Mistake[] = [];
  const attempt = <T>(place: string, work: () => T): T | undefined => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      for (const { key, value, rule } of error.mistakes)
        mistakes.push({ key: `${place}.${key}`, value, rule });
      return undefined;
    }
  };
  const engine = options.engine ?? defaultEngine();
  const { policy = {}, pool = {}, ...rest } = parsed(document);
  for (const key of Object.keys(rest)) mistakes.push({ key, value: "", rule: "must be policy or pool" });
  for (const [name, told] of Object.entries(tableOf("pool", pool))) {
    for (const [key, settings] of Object.entries(tableOf(`pool.${name}`, told))) {
      const kind = KINDS[key];
      if (kind === undefined) {
        mistakes.push({
          key: `pool.${name}.${key}`,
          value: "",
          rule: `must be one of ${Object.keys(KINDS).join(", ")}`,
        });
      } else {
        attempt(`pool.${name}`, () =>
          Pool.declare(
            engine,
            name,
            kind,
            pairsOfPool(kind, tableOf(`pool.${name}.${key}`, settings), "document"),
          ),
        );
      }
    }
  }
  const policies: Record<string, Policy> = {};
  for (const [name, settings] of Object.entries(tableOf("policy", policy))) {
    const made = attempt(`policy.${name}`, () => {
      const pairs = pairsOf(tableOf(`policy.${name}`, settings), "document");
      return new Policy({ ...options, engine, name }, pairs);
    });
    if (made !== undefined) policies[name] = made;
  }
  if (mistakes.length > 0) throw new PolicyError(mistakes);
  return policies;
}

function parsed(document: string | object): Record<string, unknown> {
  if (typeof document !== "string") return tableOf("document", document);
  try {
    return tableOf("document", JSON.parse(document));
  } catch (error) {
    if (error instanceof PolicyError) throw error;
    throw new PolicyError([
      { key: "document", value: "", rule: `must be JSON: ${(error as Error).message}` },
    ]);
  }
}

function tableOf(key: string, value: unknown): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new PolicyError([{ key, value: JSON.stringify(value) ?? "undefined", rule: "must be an object" }]);
  }
  return value as Record<string, unknown>;
}
