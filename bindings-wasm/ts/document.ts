/** Policies that stand in a document: JSON, with the same keys and units as in every language. */

import { defaultEngine } from "./default_engine.js";
import { type Mistake, PolicyError } from "./errors.js";
import { about } from "./native.js";
import { type Form, type PoolKind, pairsOf, pairsOfPool } from "./options.js";
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

/** As in every language: `max_attempts`, and spans with their units. */
export const DOCUMENT: Form = {
  key: (name) => name,
  told: (text) => text,
  about,
  span: (value) => (typeof value === "string" ? span(value) : `${value}`),
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
      const kind = Object.hasOwn(KINDS, key) ? KINDS[key] : undefined;
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
            pairsOfPool(kind, tableOf(`pool.${name}.${key}`, settings), DOCUMENT),
            DOCUMENT,
          ),
        );
      }
    }
  }
  const policies: Record<string, Policy> = {};
  for (const [name, settings] of Object.entries(tableOf("policy", policy))) {
    const made = attempt(`policy.${name}`, () => {
      const pairs = pairsOf(tableOf(`policy.${name}`, settings), DOCUMENT);
      return new Policy({ ...options, engine, name }, pairs, DOCUMENT);
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

const UNITS: Readonly<Record<string, number>> = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };

/** Microseconds of a span such as `250ms`; what is none is left to core, which tells what is wrong with it. */
function span(text: string): number | string {
  const found = /^([0-9]+(?:\.[0-9]+)?)(us|ms|s|m|h)$/.exec(text);
  if (found === null) return text;
  const us = Number(found[1]) * (UNITS[found[2] as string] as number);
  // A product of decimals is off by a rounding error at most; a fraction of a microsecond is a mistake.
  const whole = Math.round(us);
  return Math.abs(us - whole) <= 1e-6 * Math.max(1, whole * 1e-6) ? whole : text;
}
