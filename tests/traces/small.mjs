// Replays journals through the module that pages begin with: node small.mjs <dist/esm> <folder>. For each
// file `<n>.journals` in the folder it writes `<n>.answers`, in the words of `Engine.replay`.
//
// The small engine has no `replay`: a page would have to load it. So each line is read here (the grammar stands in
// core/src/engine/journal/text.rs) and put in through the export that a page calls for it.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { replayAll } from "./folder.mjs";

const [dist, folder] = process.argv.slice(2);
const from = (file) => import(pathToFileURL(join(resolve(dist), file)));
const { isFull, load, use } = await from("engine/module.js");
const { pieces, say, stage } = await from("engine/native.js");
const { CANCEL, finished, HEADERS, ATTEMPT_UNIT, packOutcome, POLL, TIMER } = await from("engine/wire.js");

await use(readFileSync(join(resolve(dist), "small.wasm")), "small");
const native = load();
if (isFull()) throw new Error("this is the full engine");

const WORDS = { timer: TIMER, poll: POLL, cancel: CANCEL };

/** A number, or undefined for the `-` of none. */
const optional = (word) => (word === "-" ? undefined : Number(word));

/** The word of an event; spans are whole milliseconds, because the traces are made of words. */
function event([what, attempt, kind, opinion, retryAfter]) {
  if (what === "headers") return HEADERS + Number(attempt) * ATTEMPT_UNIT;
  if (what !== "finished") return WORDS[what];
  const asked = optional(retryAfter);
  if (asked !== undefined && asked % 1000 !== 0) throw new Error(`${asked} us are no whole milliseconds`);
  const outcome = packOutcome(Number(kind), Number(opinion), asked === undefined ? null : asked / 1000);
  return finished(Number(attempt), outcome);
}

/** Takes a policy in: `"name" key=number key="word" …`. No name, key or word of a trace has a blank or an escape in it. */
function policy(engine, [name, ...pairs]) {
  const unquoted = (text) => (text.startsWith('"') ? text.slice(1, -1) : Number(text));
  const staged = pairs.map((pair) => {
    const [key, value] = pair.split("=");
    return [key, unquoted(value)];
  });
  stage(unquoted(name), staged);
  const number = native.policy(engine);
  if (number < 0) throw new Error(`the small engine refuses the policy ${pairs.join(" ")}: ${pieces().join(" ")}`);
  return `policy ${number}`;
}

/** Puts a line in: what the engine says. */
function put(engine, line) {
  const [what, ...rest] = line.split(" ");
  const now = Number(rest[0]);
  switch (what) {
    case "policy":
      return policy(engine, rest);
    case "route":
      say(rest[2].slice(1, -1));
      return `route ${native.route(engine, Number(rest[1]), now)}`;
    case "begin": {
      const [route, flags] = rest.slice(1, 3).map(Number);
      const [remaining, parent, target] = [optional(rest[3]), optional(rest[4]), Number(rest[5])];
      const left = remaining === undefined ? 0 : remaining + 1;
      const step = native.begin(engine, route, flags, left, parent ?? 0, target, now);
      return `begin ${native.begun(engine)} ${step}`;
    }
    case "on":
      return `step ${native.on(engine, Number(rest[1]), event(rest.slice(2)), now)}`;
    case "wakes": {
      const count = native.wakes(engine);
      return `wakes ${Array.from({ length: count }, (_, place) => native.woken(engine, place)).join(" ")}`;
    }
    default:
      throw new Error(`the small engine has nothing for the line: ${line}`);
  }
}

await replayAll(folder, (journal) => {
  const [head, ...lines] = journal.split("\n");
  const [, seed, routes] = /^tidegate journal 1 seed (\d+) routes (\d+)$/.exec(head);
  const [high, low] = [BigInt(seed) >> 32n, BigInt(seed) & 0xffffffffn].map(Number);
  const engine = native.engine(high, low, Number(routes), 0);
  const answers = lines.filter((line) => line !== "").map((line) => put(engine, line));
  native.forget_engine(engine);
  return answers;
});
