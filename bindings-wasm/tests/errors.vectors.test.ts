/** Chains of errors that every language judges alike (`tests/vectors/errors`, semantics 1.5). */

import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { KIND_UNIT, KINDS } from "../ts/engine/wire.js";
import { judge, UNLISTED } from "../ts/errors/judge.js";
import * as tidegate from "../ts/node.js";

const FOLDER = new URL("../../tests/vectors/errors/", import.meta.url);

interface Node {
  type?: string;
  status?: unknown;
  retry_after?: number;
  aws?: string;
  grpc?: number;
  pushback?: string;
  sqlstate?: string;
  errno?: string;
  ours?: keyof typeof OURS;
  members?: Node[][];
  raises?: boolean;
}

interface Case {
  policy: "default" | "listed";
  on: boolean;
  chain: Node[];
  cycle?: number;
  word: number;
  note: boolean;
  hosts: string[];
}

const TYPES: Readonly<Record<string, string>> = {
  never_sent: "ConnectionTimeoutError",
  timeout: "TimeoutError",
  transient: "NetworkError",
  conflict: "WatchError",
  permanent: "ERR_INVALID_URL",
  ignored: "AbortError",
  wraps_transient: "APIConnectionError",
  wraps_timeout: "APIConnectionTimeoutError",
  wraps_never_sent: "SequelizeConnectionError",
};

const OURS = {
  rate_limited: tidegate.RateLimited,
  throttled: tidegate.Throttled,
  bulkhead_full: tidegate.BulkheadFull,
  breaker_open: tidegate.BreakerOpen,
  forced_open: tidegate.ForcedOpen,
  attempt_timeout: tidegate.AttemptTimeout,
  deadline_exceeded: tidegate.DeadlineExceeded,
  cost_above_burst: tidegate.CostAboveBurst,
  call_lost: tidegate.CallLost,
};

class Plain extends Error {}

function errorOf(node: Node): Error {
  if (node.ours !== undefined) return new OURS[node.ours]("ended");
  const error = new Plain("an error") as Plain & Record<string, unknown>;
  const headers: Record<string, string> =
    node.retry_after === undefined ? {} : { "retry-after": String(node.retry_after) };
  if (node.members !== undefined) error["errors"] = node.members.map((each) => built(each));
  if (node.type !== undefined) error.name = TYPES[node.type] as string;
  if (node.errno !== undefined) Object.assign(error, { code: node.errno, errno: -1, syscall: "read" });
  if (node.sqlstate !== undefined) error["sqlState"] = node.sqlstate;
  if (node.grpc !== undefined) {
    const map = node.pushback === undefined ? {} : { "grpc-retry-pushback-ms": node.pushback };
    Object.assign(error, { code: node.grpc, metadata: { getMap: () => map } });
  }
  if (node.aws !== undefined) {
    error.name = node.aws;
    error["$metadata"] = { httpStatusCode: node.status };
    error["$response"] = { headers };
  } else if (node.raises === true) {
    Object.defineProperty(error, "status", {
      get() {
        throw new Error("unreadable");
      },
    });
  } else if ("status" in node) {
    Object.assign(error, { status: node.status, headers });
  }
  return error;
}

function built(chain: Node[], cycle?: number): Error {
  const errors = chain.map(errorOf);
  errors.forEach((error, place) => {
    const cause = errors[place + 1] ?? (cycle === undefined ? undefined : errors[cycle]);
    if (cause !== undefined) error.cause = cause;
  });
  return errors[0] as Error;
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

test.each(files)("chains of errors are judged by one rule: %s", (file) => {
  const engine = new tidegate.Engine({ seed: 1 });
  const statuses = { default: {}, listed: { statuses: [500, 429] } };
  const { cases } = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as { cases: Case[] };
  const wrong: unknown[] = [];
  let played = 0;
  for (const each of cases) {
    if (!each.hosts.includes("javascript")) continue;
    played += 1;
    const error = built(each.chain, each.cycle);
    const on = each.on ? { on: [error.constructor as tidegate.ErrorClass] } : {};
    const by = tidegate.policy({ preset: "http", retry: statuses[each.policy], engine, ...on });
    const said = judge(error, by.core);
    const word = said === UNLISTED ? KINDS.indexOf("permanent") * KIND_UNIT : said;
    if (word !== each.word || (said === UNLISTED) !== each.note) wrong.push([each, said]);
  }
  expect(wrong).toEqual([]);
  expect(played).toBeGreaterThan(300);
});
