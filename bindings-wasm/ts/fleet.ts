/**
 * Rates, breakers and bulkheads that many processes share through Redis or Valkey (`store: "fleet"`, docs/spec.md 10).
 *
 * The engine composes whole commands and parses whole replies. This file sends the commands on the client that you have, outside of any
 * call. It decides nothing: it has no scripts, no retries and no parsing.
 *
 * ```ts
 * import { attach, RedisStore } from "tidegate/fleet";
 *
 * attach(new RedisStore(new Redis({ maxRetriesPerRequest: 0, enableOfflineQueue: false })));
 * const partner = policy({ rateLimit: { permits: 500, per: 1000, store: "fleet" } });
 * ```
 */

import { defaultEngine } from "./engine/default_engine.js";
import type { Engine } from "./engine/engine.js";
import { said, say, sayBytes } from "./engine/native.js";
import { randomSeed } from "./engine/platform.js";
import { shared } from "./engine/shared.js";
import { checkNames, TidegateError } from "./errors/errors.js";
import type { Timed } from "./time/ticker.js";

/** A reply of a store: a bulk string, an integer, or nothing. */
export type StoreAnswer = string | Uint8Array | number | bigint | null | undefined;

/** A store, over any transport. */
export interface Store {
  /**
   * `lua` for Redis 5 and newer and for Valkey, where scripts run; `plain` for services that forbid scripts. With `plain`, bulkheads
   * and latencies are not shared, and around the edge of a window a rate limit lets twice the permits through. The default is `lua`.
   */
  readonly kind?: "lua" | "plain" | undefined;
  /**
   * Executes one command, once. It must not repeat the command, because a failed command may have been executed.
   *
   * @param words The command's name and its arguments.
   * @param key The index in `words` of the key by which a cluster routes.
   * @throws StoreError For an error reply of the store. Any other error counts as an unreachable store.
   */
  execute(words: readonly string[], key: number): StoreAnswer | PromiseLike<StoreAnswer>;
}

/** An error reply of the store; its message is the store's text: `READONLY You can't write …`. */
export class StoreError extends Error {
  override name = "StoreError";
}

/** A client of ioredis, or its cluster. */
interface WithCall {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** node-redis (`redis`), its cluster or its sentinel. */
interface WithSendCommand {
  // Each of the three takes other arguments.
  sendCommand(...args: never[]): Promise<unknown>;
}

/** A client for `RedisStore`: of ioredis, of node-redis, or any object with a method `execute`. */
export type RedisClient = WithCall | WithSendCommand | Pick<Store, "execute">;

/** Options of a `RedisStore`. */
export interface RedisStoreOptions {
  /** Whether the server runs scripts; `lua` if absent. */
  readonly kind?: "lua" | "plain" | undefined;
}

type Execute = (words: readonly string[], key: number) => unknown;

/**
 * A store over your client: ioredis and node-redis, single node, Sentinel or Cluster.
 *
 * You connect and close the client. Configure it not to repeat commands and not to queue them while it is disconnected (ioredis:
 * `maxRetriesPerRequest: 0, enableOfflineQueue: false`; node-redis: `disableOfflineQueue: true`), since by then the engine has
 * abandoned such a command.
 *
 * @throws TypeError If it is no such client.
 */
export class RedisStore implements Store {
  readonly kind: "lua" | "plain";
  readonly #execute: Execute;

  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    checkNames("a store", options, "kind");
    const { kind = "lua" } = options;
    if (kind !== "lua" && kind !== "plain") {
      throw new RangeError(`kind = ${String(kind)}: must be one of lua, plain`);
    }
    this.kind = kind;
    this.#execute = executeOf(client);
  }

  /** Executes one command of an engine. */
  async execute(words: readonly string[], key: number): Promise<StoreAnswer> {
    try {
      return (await this.#execute(words, key)) as StoreAnswer;
    } catch (error) {
      throw isAnswer(error) ? new StoreError((error as Error).message, { cause: error }) : error;
    }
  }
}

function executeOf(client: unknown): Execute {
  const { call, sendCommand, execute } = (client ?? {}) as Record<string, unknown>;
  // ioredis has a method `sendCommand` too, but it takes a `Command`.
  if (typeof call === "function") {
    return (words) => Reflect.apply(call, client, [...words]);
  }
  if (typeof sendCommand === "function") {
    const send = (...args: unknown[]) => Reflect.apply(sendCommand, client, args) as unknown;
    if ("getMasterNode" in (client as object)) return (words) => send(false, [...words]); // a sentinel
    if ("masters" in (client as object)) return (words, key) => send(words[key], false, [...words]); // a cluster
    return (words) => send([...words]);
  }
  if (typeof execute === "function") return (words, key) => Reflect.apply(execute, client, [words, key]);
  throw new TypeError(
    "client: must be one of ioredis or redis (node-redis), or have a method execute(words, key)",
  );
}

/** The names that clients give to an error reply of the server. */
const ANSWERS = new Set(["ReplyError", "ErrorReply", "SimpleError", "BlobError", "StoreError"]);

/** Whether it is an error reply of the server. After any other error, it is unknown whether the command was executed. */
function isAnswer(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ANSWERS.has(error.name) || ANSWERS.has(error.constructor.name);
}

/** Options of `attach`. */
export interface AttachOptions {
  /** The engine; by default the engine of the process. */
  readonly engine?: Engine | undefined;
  /**
   * The prefix of all keys, at most 100 bytes; `tidegate` by default. Fleets that share a server but no limits need different
   * namespaces.
   */
  readonly namespace?: string | undefined;
  /**
   * Gets a promise for every command in flight. On Cloudflare Workers the promises of a request end with it: pass `waitUntil` of
   * `cloudflare:workers` there.
   */
  readonly waitUntil?: ((command: Promise<void>) => void) | undefined;
}

const attached = shared("attached", () => new WeakSet<Engine>());

/**
 * Attaches a store to an engine permanently, before the first policy with `store: "fleet"`.
 *
 * @throws TidegateError If the engine has a store already.
 * @throws RangeError If the namespace is too long.
 */
export function attach(store: Store, options: AttachOptions = {}): void {
  checkNames("attach", options, "engine namespace waitUntil");
  const { engine = defaultEngine(), namespace = "", waitUntil } = options;
  const kind = ["lua", "plain"].indexOf(store.kind ?? "lua");
  if (kind < 0) throw new RangeError(`kind = ${String(store.kind)}: must be one of lua, plain`);
  if (typeof store.execute !== "function") {
    throw new TypeError("store: must have a method execute(words, key); new RedisStore(client) makes one");
  }
  if (new TextEncoder().encode(namespace).length > 100) {
    throw new RangeError(`namespace = ${JSON.stringify(namespace)}: must be at most 100 bytes`);
  }
  const native = engine.whole("a fleet's store");
  if (attached.has(engine)) throw new TidegateError("this engine has a store already");
  attached.add(engine);
  say(namespace);
  native.attach_store(engine.handle, kind, ...randomSeed(), engine.time());
  const carrier = new Carrier(store, waitUntil);
  // The engine refers to its carrier, and the carrier not to the engine: otherwise neither could be collected while a command is in
  // flight.
  engine.carrier = () => carrier.carry(engine);
  engine.carrier();
}

const [ANSWER, ERROR, LOST] = [0, 1, 2];
const NOTHING = new Uint8Array();
const encoder = new TextEncoder();

type Written = [id: number, within: number, key: number, words: string[]];

/** Sends an engine's commands and passes the replies back. */
class Carrier {
  readonly #store: Store;
  readonly #waitUntil: AttachOptions["waitUntil"];

  constructor(store: Store, waitUntil: AttachOptions["waitUntil"]) {
    this.#store = store;
    this.#waitUntil = waitUntil;
  }

  carry(engine: Engine): void {
    engine.native.commands(engine.handle);
    const text = said();
    if (text === "[]") return;
    for (const [id, within, key, words] of JSON.parse(text) as Written[]) {
      this.#run(engine, id, within, key, words);
    }
  }

  #run(engine: Engine, id: number, within: number, key: number, words: string[]): void {
    let settle = () => {};
    const ended = new Promise<void>((done) => {
      settle = done;
    });
    let place = -1;
    const answer = (what: number, bytes: Uint8Array) => {
      if (place < 0) return; // only the first reply counts
      engine.ticker.drop(place);
      place = -1;
      sayBytes(bytes);
      engine.after(engine.native.reply(engine.handle, id, what, engine.time()));
      settle();
    };
    const late: Timed = { tick: () => answer(LOST, NOTHING) };
    place = engine.ticker.add(late, engine.last + within * 1000);
    // In a later microtask and outside of the scope of the call: calls of a client that uses a policy itself are not nested in it.
    const go = async () => {
      await Promise.resolve();
      return bytesOf(await this.#store.execute(words, key));
    };
    const going = engine.scopes === undefined ? go() : engine.scopes.run(undefined as never, go);
    going.then(
      (bytes) => answer(ANSWER, bytes),
      (error: unknown) => {
        const text = textOf(error);
        answer(text === undefined ? LOST : ERROR, text ?? NOTHING);
      },
    );
    try {
      this.#waitUntil?.(ended);
    } catch {
      // `waitUntil` throws outside of a request. The command still runs as far as the platform lets it, and the call continues.
    }
  }
}

/** A reply as bytes for the engine; copied, since the buffer may not be what it claims to be. */
function bytesOf(answer: StoreAnswer): Uint8Array {
  if (answer === null || answer === undefined) return NOTHING;
  return answer instanceof Uint8Array ? new Uint8Array(answer) : encoder.encode(String(answer));
}

/** The text of an error reply; undefined if the store did not reply. */
function textOf(error: unknown): Uint8Array | undefined {
  try {
    return isAnswer(error) ? encoder.encode(String((error as Error).message)) : undefined;
  } catch {
    return undefined; // the error's properties cannot be read
  }
}
