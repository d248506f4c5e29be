/** What a request asks of its policy, for `fetch` and undici alike: whether it may be repeated, its deadline and its route. */

import { IDEMPOTENT, isStaleRoute, MAY_PARK, REPLAYABLE, SLOT_UNTIL_BODY, STREAM } from "../engine/wire.js";
import { outOfRange } from "../errors/errors.js";
import { flagsOf, limitOf } from "../run/call.js";
import type { Core } from "../run/core.js";
import { begin, metering } from "../run/metering.js";
import type { PolicyOptions } from "../run/policy.js";
import type { Run } from "../run/run.js";
import type { Scope } from "../run/scope.js";
import type { Weights } from "../run/weights.js";
import type { FetchOptions } from "./fetch.js";
import { streamingFor } from "./streaming.js";

const OPTIONS = new Set(
  "policy route deadline idempotent criticality cost weights solo onRetry predicate bodyFactory retryHeader stream".split(
    " ",
  ),
);
const MOST_ROUTES = 10_000;
const PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/** The beginning of a URL that its origin depends on alone; other URLs are parsed. */
const BEGINNING = /^https?:\/\/[^/?#\\@\s]+(?=\/)/;

/** The state of a policy's requests: its routes by key, and the keys by the beginning of a URL. */
export class Sending {
  readonly core: Core;
  readonly given: PolicyOptions<unknown>;
  readonly routes = new Map<string, number>();
  readonly #origins = new Map<string, string>();
  /** The last URL's beginning, with the slash behind it, and its key: most requests go where the last one went. */
  #last: readonly [string, string] = ["\0", ""];

  constructor(core: Core, given: PolicyOptions<unknown>) {
    this.core = core;
    this.given = given;
  }

  /** The default route of a URL, which is parsed once for each origin. */
  origin(url: string): string {
    if (url.startsWith(this.#last[0])) return this.#last[1];
    const beginning = BEGINNING.exec(url)?.[0];
    if (beginning === undefined) return originOf(parsed(url));
    let origin = this.#origins.get(beginning);
    if (origin === undefined) {
      if (this.#origins.size >= MOST_ROUTES) this.#origins.clear();
      origin = originOf(parsed(beginning));
      this.#origins.set(beginning, origin);
    }
    this.#last = [`${beginning}/`, origin];
    return origin;
  }
}

/** A URL, as `fetch` reads it; undefined for a mistake, which `fetch` reports. */
export function parsed(url: string): URL | undefined {
  try {
    return new URL(url, (globalThis as { location?: { href?: string } }).location?.href);
  } catch {
    return undefined;
  }
}

/** Properties of a request that decide whether it may be repeated. */
export interface Known {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** Whether its body can be sent again as it is. */
  readonly replayable: boolean;
  /** Whether it has an idempotency key. */
  hasKey(): boolean;
  /** The media types that it accepts. */
  accepts(): string | null | undefined;
}

/** The arguments of a request for `begin`. */
export interface Asked {
  readonly flags: number;
  readonly limit: number;
  readonly parent: number;
  readonly around: Scope | undefined;
  /** The idempotency key that we generated. */
  readonly key: string | undefined;
  /** Whether its slot lasts until the body has been read. */
  readonly untilBody: boolean;
  /** Its deadline, in microseconds on the clock of its engine; Infinity for none. */
  readonly until: number;
  /** Most attempts that it makes. */
  readonly most: number;
  readonly weights: Weights | undefined;
  /** Whether its answer is delivered at the first piece of its body that counts. */
  readonly held: boolean;
}

/**
 * Reads what a request asks from its options and from the scope around it; `left` is the time it has, in milliseconds.
 *
 * @throws RangeError If it has an unknown option.
 */
export function askedFor(
  sending: Sending,
  options: FetchOptions,
  known: Known,
  left = options.deadline,
): Asked {
  const { core, given } = sending;
  const { engine } = core;
  for (const key of Object.keys(options)) {
    if (!OPTIONS.has(key)) {
      throw new RangeError(
        `tidegate: ${JSON.stringify(key)} is no option of a request; they are ${[...OPTIONS].join(", ")}`,
      );
    }
  }
  for (const key of ["bodyFactory", "predicate", "onRetry"] as const) {
    if (options[key] !== undefined && typeof options[key] !== "function") {
      outOfRange(`tidegate: ${key}`, options[key], "a function");
    }
  }
  const replayable = options.bodyFactory !== undefined || known.replayable;
  let idempotent = options.idempotent ?? core.retriesMethod(known.method);
  let key: string | undefined;
  if (!idempotent && options.idempotent === undefined) {
    idempotent = known.hasKey();
    if (!idempotent && given.idempotencyKey === true) {
      // Pages that came without TLS have no `randomUUID`.
      key = crypto.randomUUID?.() ?? crypto.getRandomValues(new Uint32Array(4)).join("-");
      idempotent = true;
    }
  }
  const untilBody = core.setting("slot_until") !== "headers";
  let flags = flagsOf(options) & ~(IDEMPOTENT | REPLAYABLE);
  flags |= (engine.queues ? MAY_PARK : 0) | (untilBody ? SLOT_UNTIL_BODY : 0);
  flags |= (idempotent ? IDEMPOTENT : 0) | (replayable ? REPLAYABLE : 0);
  const held =
    core.setting("first_byte_timeout") !== null &&
    streamingFor(core)?.isStream(core, options, known) === true;
  if (held) flags |= STREAM;
  const { weights: own } = options;
  const weights = given.weigh === undefined ? own : metering().weigh(core, given.weigh, known, own);
  let limit = limitOf(left);
  let parent = 0;
  const around = engine.scopes?.getStore();
  if (around !== undefined) {
    ({ flags, limit, parent } = engine.inherit(around, flags, limit, options.criticality !== undefined));
  }
  const most = Math.max(core.count("retry.max_attempts") ?? 1, core.count("hedge.max_attempts") ?? 1);
  const until = core.setting("deadline_until") === "delivery" ? Infinity : untilOf(core, limit, parent);
  return { flags, limit, parent, around, key, untilBody, until, most, weights, held };
}

/** Begins the call of a request on its route; its path matters only where a policy holds retries by path. */
export function begun<A, T>(
  sending: Sending,
  run: Run<A, T>,
  routeKey: string,
  where: { readonly target: string | undefined },
  { flags, limit, parent, weights }: Asked,
): Promise<T> {
  const { core, routes } = sending;
  const { engine } = core;
  const path = core.setting("retry.hold") === 1 ? where.target : undefined;
  let route = routeOf(sending, routeKey);
  for (;;) {
    const target = path === undefined ? 0 : core.target(route, path);
    const step = begin(engine, weights, route, flags, limit, parent, target);
    if (!isStaleRoute(step)) {
      return run.begin(engine.native.begun(engine.handle), step);
    }
    routes.clear();
    route = routeOf(sending, routeKey);
  }
}

function routeOf({ core, routes }: Sending, key: string): number {
  let route = routes.get(key);
  if (route === undefined) {
    if (routes.size >= MOST_ROUTES) routes.clear();
    route = core.engine.route(core.number, key);
    routes.set(key, route);
  }
  return route;
}

function untilOf(core: Core, limit: number, parent: number): number {
  const { engine } = core;
  const now = engine.time();
  const own = core.count("deadline") ?? Infinity;
  const around = parent === 0 ? -1 : engine.native.time_left(engine.handle, parent, now);
  return now + Math.min(limit === 0 ? Infinity : limit - 1, own, around < 0 ? Infinity : around);
}

/** The default route of a URL: `https://host:port`, as in every language. */
export function originOf(url: URL | undefined): string {
  if (url === undefined) return "default";
  return `${url.protocol}//${url.hostname}:${url.port || (PORTS[url.protocol] ?? "0")}`;
}
