/** Weights of calls and what their attempts settle (semantics 3.5, 3.6), by what requests and answers say (15.6, 15.7). */

import type { Engine } from "../engine/engine.js";
import { type Native, said, say, sayBytes } from "../engine/native.js";
import { DONE, VERDICTS } from "../engine/wire.js";
import { atOnce, warn } from "../errors/classify.js";
import { outOfRange } from "../errors/errors.js";
import type { Core } from "./core.js";
import type { Lane } from "./lane.js";
import type { Metering } from "./metering.js";
import type { BodyEnds } from "./run.js";
import { estimateOf } from "./usage.js";
import type { Used, Weights } from "./weights.js";

const decoder = new TextDecoder();
/** Bytes of a body that the engine reads at once, so that a piece costs no crossing. */
const TOGETHER = 8 * 1024;
/** Bytes at the end of a body in which its last event is looked for. */
const END = 32;

function check(key: string, amounts: unknown): asserts amounts is Weights {
  const rule = "an object of names and whole numbers from 0 to 2^53 - 1";
  if (typeof amounts !== "object" || amounts === null || Array.isArray(amounts))
    outOfRange(key, amounts, rule);
  for (const [name, amount] of Object.entries(amounts)) {
    if (!Number.isSafeInteger(amount) || (amount as number) < 0) outOfRange(`${key}.${name}`, amount, rule);
  }
}

/** Readers whose bodies were dropped before their end. */
const dropped =
  typeof FinalizationRegistry === "undefined"
    ? undefined
    : new FinalizationRegistry<[Native, number]>(([native, reader]) => native.forget_usage(reader));

/** Reads what a body has used. */
class Reader implements BodyEnds {
  readonly #ends: BodyEnds;
  readonly #lane: Lane;
  readonly #used: Used;
  readonly #native: Native;
  readonly #reader: number;
  #unread: Uint8Array | undefined;
  #size = 0;

  constructor(ends: BodyEnds, lane: Lane, used: Used) {
    this.#ends = ends;
    this.#lane = lane;
    this.#used = used;
    this.#native = lane.engine.native;
    this.#reader = this.#native.usage();
    dropped?.register(this, [this.#native, this.#reader], this);
  }

  piece(piece: Uint8Array): void {
    let rest = piece;
    if (rest.length > TOGETHER - this.#size) this.#flush();
    if (rest.length > TOGETHER) {
      sayBytes(rest.subarray(0, -END));
      this.#native.read_usage(this.#reader);
      rest = rest.subarray(-END);
    }
    this.#unread ??= new Uint8Array(TOGETHER);
    this.#unread.set(rest, this.#size);
    this.#size += rest.length;
  }

  #flush(): void {
    if (this.#size === 0 || this.#unread === undefined) return;
    sayBytes(this.#unread.subarray(0, this.#size));
    this.#native.read_usage(this.#reader);
    this.#size = 0;
  }

  /** Settles at the end of a whole body. Of another one nobody knows what it has used, so its reservation counts. */
  read(whole?: boolean): void {
    if (whole === true || this.#isDone()) this.#settle();
    this.#free();
    this.#ends.read(whole);
  }

  /** Whether the last event of OpenAI's streams has come, after which some readers close the answer. */
  #isDone(): boolean {
    const end = this.#unread?.subarray(Math.max(this.#size - END, 0), this.#size);
    return end !== undefined && decoder.decode(end).includes("[DONE]");
  }

  #settle(): void {
    this.#flush();
    this.#native.usage_of(this.#reader);
    const [input, cached, output] = JSON.parse(said()) as (number | null)[];
    if (input === null && output === null) return;
    try {
      const totals = atOnce(this.#used({ input: input ?? 0, cached: cached ?? 0, output: output ?? 0 }));
      if (totals === undefined || settle(this.#lane, totals, "usage")) return;
      throw new RangeError(
        `no limit counts all of ${Object.keys(totals).join(", ")}, or the attempt has ended`,
      );
    } catch (error) {
      warn(this.#used, "usage", error);
    }
  }

  failed(error: unknown, outcome?: number): void {
    this.#free();
    this.#ends.failed(error, outcome);
  }

  #free(): void {
    dropped?.unregister(this);
    this.#native.forget_usage(this.#reader);
  }
}

function settle({ engine, call, attempt }: Lane, totals: Weights, key = "settle"): boolean {
  check(key, totals);
  let taken = true;
  for (const [name, total] of Object.entries(totals)) {
    if (!engine.full) return false;
    say(name);
    if (engine.native.settle(engine.handle, call, attempt, total, engine.moment()) === 0) taken = false;
  }
  return taken;
}

/** Whether a policy has limits that may count weights. The policies of a document all have the same `weigh` and `usage`. */
function counts(core: Core): boolean {
  const { full } = core.engine;
  return full && (core.setting("rate_limit.limits") !== null || core.setting("rate_limit.pool") !== null);
}

/** What it does for calls. */
export const metered: Metering = {
  check,
  begin(engine, weights, route, flags, limit, parent, target) {
    const native = engine.whole("weights");
    say(
      Object.entries(weights)
        .map(([name, amount]) => `${name}\0${amount}\0`)
        .join(""),
    );
    const now = engine.time();
    const step = native.begin_weighted(engine.handle, route, flags, limit, parent, target, now);
    if (step < 0) throw new RangeError(said());
    return step;
  },
  unweighted(engine: Engine, route: number, step: number) {
    if ((step & 3) !== DONE || VERDICTS[(step >>> 12) & 63] !== "cost_above_burst" || !engine.full) return;
    engine.native.lacking_weights(engine.handle, route);
    const missing = said();
    if (missing === "") return;
    engine.after(step);
    throw new RangeError(missing);
  },
  settle,
  learn({ engine, call }, headers) {
    if (!engine.full) return;
    let text = "";
    headers.forEach?.((value, name) => {
      text += `${name}\0${value}\0`;
    });
    say(text);
    engine.native.note_quotas(engine.handle, call, engine.moment());
  },
  weigh(core, weigh, known, given) {
    if (given !== undefined || !counts(core)) return given;
    const estimate = estimateOf(core.engine.native, known);
    if (estimate === undefined) return undefined;
    try {
      const weights = atOnce(weigh(estimate));
      if (weights !== undefined) check("weigh", weights);
      return weights;
    } catch (error) {
      warn(weigh, "weigh", error);
      return undefined;
    }
  },
  read: (core, ends, lane, used) => (counts(core) ? new Reader(ends, lane, used) : ends),
};
