// Puts the shared vectors to core as WebAssembly and compares the answers bit for bit: node run.mjs module.wasm
//
// To add a family: a runner that takes one case, in `RUNNERS` under its file. It calls `same` for everything it
// compares; a case that compares nothing fails.

import { readFileSync } from "node:fs";

const VECTORS = new URL("../vectors/", import.meta.url);
const [P2, WINDOWED, SKETCH] = [0, 1, 2];
const RULES = [
  "none", "too_short", "version", "accuracy", "length", "empty_bin", "order", "range", "full", "not_a_number",
  "contradiction",
];

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const core = new WebAssembly.Instance(module, {}).exports;

const view = new DataView(new ArrayBuffer(8));
let compared = 0;

/** The bits of a number as 16 digits. All that is no number is one: it stands for "none". */
function bits(x) {
  view.setFloat64(0, Number.isNaN(x) ? NaN : x);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

/** A number of the vectors: as text, or `null` for none. */
const real = (text) => (text === null ? NaN : Number(text));

function same(found, expected, what) {
  compared += 1;
  if (bits(found) !== bits(expected)) {
    throw new Error(`${what}: ${found} (${bits(found)}), expected ${expected} (${bits(expected)})`);
  }
}

function sameWords(part, expected) {
  const words = Array.from({ length: core.words(part) }, (_, place) => BigInt.asUintN(64, core.word(place)).toString());
  compared += 1;
  if (words.join() !== expected.join()) throw new Error(`words: ${words}, expected ${expected}`);
}

function readyWords(words) {
  core.no_words();
  for (const word of words) core.add_word(BigInt(word));
}

function p2(each) {
  const part = core.make(P2, real(each.p), 0);
  let told = 0;
  for (const look of each.looks) {
    while (told < look.after) core.feed(part, real(each.observations[told++]));
    same(core.ask(part, 0, 0), real(look.estimate), `estimate after ${told}`);
    same(core.ask(part, 1, 0), look.count, `count after ${told}`);
    for (let marker = 0; marker < 5; marker += 1) {
      same(core.ask(part, 2, marker), real(look.heights?.[marker] ?? null), `height ${marker} after ${told}`);
      same(core.ask(part, 3, marker), look.positions?.[marker] ?? NaN, `position ${marker} after ${told}`);
    }
  }
}

function windowed(each) {
  const part = core.make(WINDOWED, real(each.p), each.window);
  each.observations.forEach((x, place) => {
    core.feed(part, real(x));
    same(core.ask(part, 0, 0), real(each.looks[place][0]), `estimate after ${place + 1}`);
    same(core.ask(part, 1, 0), each.looks[place][1], `count after ${place + 1}`);
  });
}

function ddsketch(each) {
  const parts = each.parts.map((values) => {
    const part = core.make(SKETCH, real(each.alpha), 0);
    for (const x of values) core.feed(part, real(x));
    return part;
  });
  for (const other of parts.slice(1)) {
    core.words(other);
    same(core.join(parts[0]), 0, "merge");
  }
  const [whole] = parts;
  same(core.ask(whole, 1, 0), each.count, "count");
  same(core.ask(whole, 2, 0), real(each.sum), "sum");
  same(core.ask(whole, 3, 0), real(each.min), "min");
  same(core.ask(whole, 4, 0), real(each.max), "max");
  for (const [q, value] of each.quantiles) same(core.ask(whole, 0, real(q)), real(value), `quantile ${q}`);
  sameWords(whole, each.words);
  // Through words and back.
  const copy = core.make(SKETCH, real(each.alpha), 0);
  readyWords(each.words);
  same(core.join(copy), 0, "words");
  sameWords(copy, each.words);
}

function malformed(each) {
  readyWords(each.words);
  const rule = RULES[core.join(core.make(SKETCH, 0.01, 0))];
  compared += 1;
  if (rule !== each.rule) throw new Error(`rule ${rule}, expected ${each.rule}`);
}

/** File, list in it, runner of one entry. */
const RUNNERS = [
  ["quantile/p2.json", "cases", p2],
  ["quantile/windowed.json", "cases", windowed],
  ["quantile/ddsketch.json", "cases", ddsketch],
  ["quantile/ddsketch.json", "malformed", malformed],
];

let [passed, failed] = [0, 0];

function test(name, work) {
  const before = compared;
  core.forget();
  try {
    work();
    if (compared === before) throw new Error("nothing was compared");
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`${name}: ${error.message}`);
  }
}

test("the module imports nothing", () => {
  const imports = WebAssembly.Module.imports(module);
  compared += 1;
  if (imports.length > 0) throw new Error(JSON.stringify(imports));
});
for (const [path, list, runner] of RUNNERS) {
  const entries = JSON.parse(readFileSync(new URL(path, VECTORS), "utf8"))[list];
  test(`${path}: ${list}`, () => {
    compared += 1;
    if (!(entries?.length > 0)) throw new Error("there are no vectors");
  });
  entries?.forEach((each, place) => test(`${path}: ${list} ${place} (${each.name ?? each.rule ?? each.alpha})`, () => runner(each)));
}
console.log(`${compared} comparisons, bit for bit, on Node ${process.version}`);
console.log(`test result: ${failed ? "FAILED" : "ok"}. ${passed} passed; ${failed} failed; 0 ignored`);
process.exitCode = failed ? 1 : 0;
