/**
 * Rates, breakers and bulkheads that many processes share through Redis or Valkey (`store: "fleet"`, docs/spec.md 10).
 *
 * The engine writes whole commands and reads whole replies; here they are carried, detached from any call, on the client that you
 * have. Nothing here decides: no script, no retry, no parsing.
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
import { TidegateError } from "./errors.js";
import type { Timed } from "./time/ticker.js";

/** What a store answers: a bulk string, an integer, or nothing. */
export type StoreAnswer = string | Uint8Array | number | bigint | null | undefined;

/** A store, over whatever reaches it. */
export interface Store {
  /**
   * `lua` for Redis 5 and newer and for Valkey, where scripts run; `plain` for services that forbid them: bulkheads and latencies
   * are not shared there, and around the edge of a window a rate lets twice the permits through. `lua` if left out.
   */
  readonly kind?: "lua" | "plain" | undefined;
  /**
   * Carries out one command, once: it is not to be repeated, because whether it was carried out is then not known.
   *
   * @param words The command's name and its arguments.
   * @param key The place in `words` of the key that a cluster routes by.
   * @throws StoreError For an error that the store itself has answered with. Any other is the store's absence.
   */
  execute(words: readonly string[], key: number): StoreAnswer | PromiseLike<StoreAnswer>;
}

/** An error that the store has answered with; its message is the store's text: `READONLY You can't write …`. */
export class StoreError extends Error {
  override name = "StoreError";
}

/** ioredis, or a cluster of it. */
interface WithCall {
  call(command: string, ...args: string[]): Promise<unknown>;
}

/** node-redis (`redis`), its cluster or its sentinel. */
interface WithSendCommand {
  // Each of the three takes other arguments.
  sendCommand(...args: never[]): Promise<unknown>;
}

/** What `RedisStore` takes: a client of ioredis, of node-redis, or anything with a method `execute`. */
export type RedisClient = WithCall | WithSendCommand | Pick<Store, "execute">;

/** How a `RedisStore` is made. */
export interface RedisStoreOptions {
  /** Are there scripts? `lua` if left out. */
  readonly kind?: "lua" | "plain" | undefined;
}

type Execute = (words: readonly string[], key: number) => unknown;

/**
 * A store over the client that you have: ioredis and node-redis, single node, Sentinel or Cluster.
 *
 * The client stays yours: connected and closed by you. Let it not repeat commands or keep them until there is a connection
 * (ioredis: `maxRetriesPerRequest: 0, enableOfflineQueue: false`; node-redis: `disableOfflineQueue: true`), since the engine
 * has given such a command up by then.
 *
 * @throws TypeError If it is no such client.
 */
export class RedisStore implements Store {
  readonly kind: "lua" | "plain";
  readonly #execute: Execute;

  constructor(client: RedisClient, options: RedisStoreOptions = {}) {
    const { kind = "lua" } = options;
    if (kind !== "lua" && kind !== "plain") {
      throw new RangeError(`kind = ${String(kind)}: must be one of lua, plain`);
    }
    this.kind = kind;
    this.#execute = executeOf(client);
  }

  /** Carries out one command of an engine. */
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
  // ioredis has a method sendCommand, too, which takes what it calls a Command.
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

/** The names that clients have for an error that the server has answered with. */
const ANSWERS = new Set(["ReplyError", "ErrorReply", "SimpleError", "BlobError", "StoreError"]);

/** Is it an error that the server has answered with? Else nobody knows what has become of the command. */
function isAnswer(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ANSWERS.has(error.name) || ANSWERS.has(error.constructor.name);
}

/** How a store is attached. */
export interface AttachOptions {
  /** The engine; the process's own if left out. */
  readonly engine?: Engine | undefined;
  /** What keys begin with, at most 100 bytes: fleets that share a server and nothing else have different ones. `tidegate` if left out. */
  readonly namespace?: string | undefined;
  /**
   * Told of every command under way. On Cloudflare Workers a request's promises end with it: give `waitUntil` of
   * `cloudflare:workers` there.
   */
  readonly waitUntil?: ((command: Promise<void>) => void) | undefined;
}

const attached = new WeakSet<Engine>();

/**
 * Attaches a store to an engine, before the first policy that says `store: "fleet"`, and for good.
 *
 * @throws TidegateError If the engine has one.
 * @throws RangeError If the namespace is too long.
 */
export function attach(store: Store, options: AttachOptions = {}): void {
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
  // The engine holds its carrier, and not the other way round: else neither would ever be collected while a command is out.
  engine.carrier = () => carrier.carry(engine);
  engine.carrier();
}

const [ANSWER, ERROR, LOST] = [0, 1, 2];
const NOTHING = new Uint8Array();
const encoder = new TextEncoder();

type Written = [id: number, within: number, key: number, words: string[]];

/** Carries an engine's commands, and nothing else. */
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
      if (place < 0) return; // the first one counts
      engine.ticker.drop(place);
      place = -1;
      sayBytes(bytes);
      engine.after(engine.native.reply(engine.handle, id, what, engine.time()));
      settle();
    };
    const late: Timed = { tick: () => answer(LOST, NOTHING) };
    place = engine.ticker.add(late, engine.last + within * 1000);
    // Later, and outside of the call that it is for: a client that uses a policy itself is nobody's child.
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
      // The platform's, outside of a request: the command runs as it may, and the call that it is for goes on.
    }
  }
}

/** An answer as the engine takes it; a copy, since it may not be what it seems to be. */
function bytesOf(answer: StoreAnswer): Uint8Array {
  if (answer === null || answer === undefined) return NOTHING;
  return answer instanceof Uint8Array ? new Uint8Array(answer) : encoder.encode(String(answer));
}

/** The text of an error that the store has answered with; undefined where there is no answer. */
function textOf(error: unknown): Uint8Array | undefined {
  try {
    return isAnswer(error) ? encoder.encode(String((error as Error).message)) : undefined;
  } catch {
    return undefined; // an error that cannot be looked at
  }
}
