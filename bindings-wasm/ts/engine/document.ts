/** Policies defined in a document, with the keys and units of every language. Core reads and checks the document. */

import { PolicyError, wrong } from "../errors/errors.js";
import { Policy, type PolicyOptions, settingsOf } from "../run/policy.js";
import { tests } from "../testing/tested.js";
import { defaultEngine } from "./default_engine.js";
import type { Engine } from "./engine.js";
import { there } from "./module.js";
import { type Native, type Pair, pieces, said, say } from "./native.js";
import { mistakesOf, OPTIONS } from "./options.js";

/** Options of a document's policies that only code can give. */
export type DocumentOptions = Pick<
  PolicyOptions,
  | "on"
  | "onRetry"
  | "classify"
  | "fallback"
  | "fallbackOn"
  | "fetch"
  | "retryHeader"
  | "idempotencyKey"
  | "weigh"
  | "usage"
  | "engine"
>;

/** What `Policies.reload` has changed. Names are those of the document: `policy.payments`, `pool.db`, `targets.chat`. */
export interface Reloaded {
  /** The digest of the new document, as `Policies.digest`. */
  readonly digest: string;
  /** Policies and pools that only the new document has. */
  readonly added: readonly string[];
  /** Policies and pools that both documents have, with other settings. */
  readonly changed: readonly string[];
  /** Policies and pools that only the old document has. */
  readonly removed: readonly string[];
}

/** Keys as in the document, not converted to camel case. */
const AS_WRITTEN = { ...OPTIONS, inAuthorsWords: (text: string) => text };

const handles =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<number>((handle) => there()?.forget_document(handle));

/** A document that core has read and checked. */
class Document {
  readonly handle: number;

  constructor(native: Native, text: string) {
    say(text);
    this.handle = native.document();
    if (this.handle < 0) throw new PolicyError(mistakesOf(pieces(), AS_WRITTEN));
    handles?.register(this, this.handle);
  }
}

type Written = [
  digest: string,
  pools: [name: string, kind: string, pairs: Pair[]][],
  policies: [name: string, number: number, pairs: Pair[]][],
];

/** The policies of a document, by name. Made by `load`. */
export class Policies {
  /** The engine that keeps their state. */
  readonly engine: Engine;
  readonly #options: DocumentOptions;
  #document: Document;
  #digest = "";
  /** The settings of each policy and pool in the document, as text. */
  #said = new Map<string, string>();
  #policies: Record<string, Policy> = Object.create(null);

  /** Use `load`. */
  constructor(document: string | object, options: DocumentOptions) {
    const settings = Object.keys(settingsOf(options));
    if (settings.length > 0)
      wrong(
        settings[0] as string,
        "an option of load",
        "must be in the document, as each setting of its policies",
      );
    if ((options as PolicyOptions).name !== undefined)
      wrong("name", "an option of load", "must be left out, because the document names its policies");
    this.#options = options;
    this.engine = options.engine ?? defaultEngine();
    this.#document = this.#read(document);
    this.#tested(() => this.#take());
  }

  /** All policies, by name: an object without a prototype. */
  get policies(): Readonly<Record<string, Policy>> {
    return this.#policies;
  }

  /**
   * A digest of the document's content, 16 hexadecimal digits: equal for documents with the same content, whatever their format and
   * order.
   */
  get digest(): string {
    return this.#digest;
  }

  /**
   * The policy of this name.
   *
   * @throws RangeError If the document has no such policy; the text lists the names it has.
   */
  get(name: string): Policy {
    const found = this.#policies[name];
    if (found === undefined) {
      const known = Object.keys(this.#policies).join(", ") || "none";
      throw new RangeError(`policy = ${JSON.stringify(name)}: no such policy; the policies are ${known}`);
    }
    return found;
  }

  /** Iterates over the names and policies. */
  [Symbol.iterator](): Iterator<[name: string, policy: Policy]> {
    return Object.entries(this.#policies)[Symbol.iterator]();
  }

  /**
   * Applies a newer version of the document while its policies are in use: all of it, or nothing.
   *
   * Policies and pools of both versions get their new settings as by `retune`: counts are kept, and calls in flight finish under the
   * settings that they began with. A policy that the new version lacks keeps its settings for callers that still hold it.
   *
   * @throws PolicyError With all mistakes and all changes that cannot be applied; nothing has changed then. A policy must keep the
   * pools that it names, and a pool its kind; a new name must not be the name of another policy or pool of the engine.
   * @example
   * ```ts
   * const shop = load('{"policy": {"payments": {"retry": {"max_attempts": 3}}}}');
   * const { changed } = shop.reload('{"policy": {"payments": {"retry": {"max_attempts": 2}}}}');
   * assert.deepEqual(changed, ["policy.payments"]);
   * ```
   */
  reload(document: string | object): Reloaded {
    const { engine } = this;
    const to = this.#read(document);
    const before = this.#said;
    this.#tested(() => {
      const native = engine.whole("reload");
      if (native.reload(engine.handle, this.#document.handle, to.handle, engine.time()) < 0) {
        throw new PolicyError(mistakesOf(pieces(), AS_WRITTEN));
      }
      this.#document = to;
      this.#take();
    });
    const names = [...this.#said.keys()];
    return {
      digest: this.#digest,
      added: names.filter((name) => !before.has(name)),
      changed: names.filter((name) => before.has(name) && before.get(name) !== this.#said.get(name)),
      removed: [...before.keys()].filter((name) => !this.#said.has(name)),
    };
  }

  #read(document: string | object): Document {
    const native = this.engine.whole("a document");
    return new Document(native, typeof document === "string" ? document : textOf(document));
  }

  /** Runs work that changes policies. Meanwhile each policy has its owner's settings, not those of `tidegate/testing`. */
  #tested(work: () => void): void {
    const { engine } = this;
    for (const { name } of engine.wanted.values()) tests.tester?.before(engine, name);
    try {
      work();
      engine.changed();
    } finally {
      for (const number of engine.wanted.keys()) tests.tester?.after(engine, number);
    }
  }

  /** Takes the document into the engine, and records what the JavaScript half needs of it. */
  #take(): void {
    const { engine } = this;
    const native = engine.whole("a document");
    if (native.take_document(engine.handle, this.#document.handle, engine.time()) < 0) {
      throw new PolicyError(mistakesOf(pieces(), AS_WRITTEN));
    }
    const [digest, pools, policies] = JSON.parse(said()) as Written;
    const options = this.#options;
    const made: Record<string, Policy> = Object.create(null);
    this.#said = new Map(
      pools.map(([name, kind, pairs]) => [
        `${kind === "targets" ? kind : "pool"}.${name}`,
        JSON.stringify([kind, pairs]),
      ]),
    );
    for (const [name, number, pairs] of policies) {
      this.#said.set(`policy.${name}`, JSON.stringify(pairs));
      const known = engine.wanted.get(number);
      const ours = this.#policies[name];
      if (known === undefined || ours === undefined) engine.wanted.own(number, name, pairs);
      else known.pairs = pairs;
      made[name] = ours ?? new Policy({ ...options, engine, name }, number);
    }
    this.#policies = made;
    this.#digest = digest;
  }
}

/**
 * Loads the policies of a document: JSON text, or its parsed content (parse TOML yourself). Keys are in snake case and spans have units
 * (`"250ms"`), as in the documents of every language. A text has at most 256 KiB and no duplicate key.
 *
 * @throws PolicyError With all mistakes of all policies, and their lines.
 * @throws NotReady In a page whose full module is not loaded: `await ready({ full: true })` first.
 * @example
 * ```ts
 * const { payments } = load('{"policy": {"payments": {"preset": "http", "deadline": "10s"}}}').policies;
 * ```
 */
export function load(document: string | object, options: DocumentOptions = {}): Policies {
  return new Policies(document, options);
}

function textOf(document: object): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(document);
  } catch (error) {
    wrong("document", "an object", `must be JSON: ${(error as Error).message}`);
  }
  return text ?? wrong("document", String(document), "must be JSON, or what it says");
}
