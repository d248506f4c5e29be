/** Steps of a judgement for errors that occur on servers: codes of gRPC, SQLSTATEs, and lost connections of Workers. Pages do without. */

import { isWorker } from "../engine/platform.js";
import { KIND_UNIT, KINDS } from "../engine/wire.js";
import type { Core } from "../run/core.js";
import { GRPC, SQLSTATES } from "./errors_server_gen.js";
import { byStatus, read, SAID, type Steps, words } from "./judge.js";

const TRANSIENT = KINDS.indexOf("transient");
const PERMANENT = KINDS.indexOf("permanent");

let states: Map<string, number> | undefined;

/** The outcome of an error of gRPC, which has a number and metadata. */
function ofGrpc(error: object, core: Core, code: unknown): number | undefined {
  const metadata = read(error, "metadata");
  if (typeof code !== "number" || metadata === undefined) return undefined;
  const meaning = GRPC.split(" ")[code];
  if (meaning === undefined) return undefined;
  const kind = KINDS.indexOf(meaning as (typeof KINDS)[number]);
  if (kind >= 0) return kind === PERMANENT ? SAID : kind * KIND_UNIT;
  let map: unknown;
  try {
    map = (metadata as { getMap(): unknown }).getMap();
  } catch {}
  return byStatus(core, Number(meaning), map);
}

export const steps: Steps = {
  coded(error, core, code) {
    const known = core && ofGrpc(error, core, code);
    if (known !== undefined) return known;
    const state = read(error, "sqlState") ?? (read(error, "severity") === undefined ? undefined : code);
    if (typeof state !== "string" || state.length !== 5) return undefined;
    states ??= words([SQLSTATES, 0]);
    return (states.get(state) ?? states.get(state.slice(0, 2)) ?? PERMANENT) * KIND_UNIT;
  },
  // A lost connection of a Cloudflare Worker is an `Error` with `retryable` true, and without `overloaded`.
  last: (error) =>
    read(error, "retryable") === true && read(error, "overloaded") !== true && isWorker()
      ? TRANSIENT * KIND_UNIT
      : undefined,
};
