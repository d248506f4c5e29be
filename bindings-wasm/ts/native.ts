/** What the WebAssembly module exports, and how texts cross its border. */

import { load } from "./module.js";

/** What the module exports (`src/lib.rs`). */
export interface Native {
  readonly memory: WebAssembly.Memory;
  input(length: number): number;
  output(): number;
  output_length(): number;
  engine(seedHigh: number, seedLow: number, maxRoutes: number, journal: number): number;
  forget_engine(engine: number): void;
  about(): number;
  number(value: number): void;
  word(key: number): void;
  policy(engine: number): number;
  retune(engine: number, policy: number, now: number): number;
  pool(engine: number, kind: number, again: number, now: number): number;
  route(engine: number, policy: number, now: number): number;
  target(engine: number, route: number, now: number): number;
  begin(
    engine: number,
    route: number,
    flags: number,
    remaining: number,
    parent: number,
    target: number,
    now: number,
  ): number;
  begun(engine: number): number;
  on(engine: number, call: number, event: number, now: number): number;
  wakes(engine: number): number;
  woken(engine: number, place: number): number;
  lift_budgets(engine: number, on: number): void;
  force_open(engine: number, policy: number, route: number, on: number, now: number): void;
  classify(engine: number, policy: number, status: number, wallUs: number): number;
  retries_method(engine: number, policy: number): number;
  falls_back(engine: number, policy: number, verdict: number, failure: number, judged: number): number;
  may_do_twice(engine: number, policy: number): number;
  note_fallback(engine: number, route: number, ok: number, now: number): void;
  setting(engine: number, policy: number): number;
  kinds(engine: number, policy: number): void;
  snapshot(engine: number, now: number): void;
  explain(engine: number, policy: number): void;
  explain_call(engine: number, call: number): void;
  journal(engine: number, take: number): void;
  attach_store(engine: number, kind: number, high: number, low: number, now: number): void;
  document(): number;
  forget_document(document: number): void;
  take_document(engine: number, document: number, now: number): number;
  reload(engine: number, from: number, to: number, now: number): number;
  commands(engine: number): void;
  reply(engine: number, command: number, what: number, now: number): number;
  replay(engine: number): number;
  save(engine: number, now: number): void;
  restore(engine: number, elapsedUs: number, now: number): number;
  subscribe(engine: number, on: number): void;
  records(engine: number): number;
  key_of(engine: number, route: number): void;
  measure(engine: number, maxRoutes: number): void;
  label(engine: number, policy: number): void;
  families(): void;
  pages(engine: number, what: number): number;
  page(engine: number, reader: number, now: number): number;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes bytes into the module's input. */
export function sayBytes(bytes: Uint8Array): void {
  const wasm = load();
  const at = wasm.input(bytes.length);
  new Uint8Array(wasm.memory.buffer).set(bytes, at);
}

/** Writes a text into the module's input. */
export function say(text: string): void {
  sayBytes(encoder.encode(text));
}

/** What a text is in the table of keys (`wire::about` of core). */
export function about(text: string): number {
  say(text);
  return load().about();
}

/** The texts that the module has put into its output, each with a NUL behind it. */
export function pieces(): string[] {
  return said().split("\0").slice(0, -1);
}

/** What the module has put into its output. */
export function said(): string {
  const wasm = load();
  return decoder.decode(new Uint8Array(wasm.memory.buffer, wasm.output(), wasm.output_length()));
}

/** A pair of a dotted key and a number or a word. */
export type Pair = readonly [key: string, value: number | string];

/** Stages pairs for `policy`, `retune` or `pool`, and then the name that these take. */
export function stage(name: string, pairs: readonly Pair[]): void {
  const wasm = load();
  for (const [key, value] of pairs) {
    if (typeof value === "number") {
      say(key);
      wasm.number(value);
    } else {
      say(key + value);
      wasm.word(encoder.encode(key).length);
    }
  }
  say(name);
}
