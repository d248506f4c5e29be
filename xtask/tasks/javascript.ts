// The ten tasks of a new user in TypeScript. `cargo xtask install-check` puts the blocks of the guide in place of the lines that
// begin with `//@` (their imports go to the top), the address of a server in place of `https://api.example`, and runs this with
// the tarball.

import assert from "node:assert/strict";
import { DeadlineExceeded, type Policy } from "tidegate";

const SERVER = "https://api.example";

async function wrapTheClient() {
  const ORIGIN = SERVER;
  //@ docs/javascript.md: name: "orders"
  assert.equal(reportOf(response)?.attempts, 2, "the first answer was a 503");
  //@ docs/javascript.md: const refused = await fetch(ORIGIN
}

async function wrapUndici() {
  const ORIGIN = `${SERVER}/undici`;
  //@ docs/javascript.md: import { interceptor } from "tidegate/undici";
}

async function wrapAFunction() {
  //@ docs/javascript.md: const lookups = policy({
  assert.equal(lookups.snapshot().retries, 1);
  return lookups;
}

async function wrapAnSdk() {
  const ORIGIN = `${SERVER}/sdk`;
  //@ docs/javascript/using-with.md: import OpenAI from "openai";
  const unguarded = new OpenAI({ apiKey: "key", baseURL: `${SERVER}/unguarded`, maxRetries: 0 });
  const alone = unguarded.chat.completions.create({ model: "m", messages: [] });
  await assert.rejects(alone, OpenAI.InternalServerError, "the first answer of each path is a 503");
}

async function wrapAnotherSdk() {
  const ORIGIN = SERVER;
  //@ docs/javascript/using-with.md: import Anthropic from "@anthropic-ai/sdk";
}

async function limit() {
  //@ docs/javascript.md: const mail = policy({
  assert.ok(tooMany.retryIn !== undefined && tooMany.retryIn <= 30_000);
}

async function setADeadline(lookups: Policy) {
  //@ docs/javascript.md: await within({ deadline: 2000
  const bounded = policy({ preset: "http" });
  const started = performance.now();
  const slow = bounded.fetch(`${SERVER}/slow`, { tidegate: { deadline: 300 } });
  await assert.rejects(slow, DeadlineExceeded);
  await assert.rejects(within({ deadline: 300 }, () => bounded.fetch(`${SERVER}/slow`)), DeadlineExceeded);
  assert.ok(performance.now() - started < 5_000);
}

async function stream() {
  const ORIGIN = SERVER;
  //@ docs/javascript/language-models.md: const chats = policy({
  assert.equal(chats.snapshot().attempts, 2, "the first answer was a 503");
  //@ docs/javascript/language-models.md: let words = "";
  assert.equal(words, "high tide is at six in the evening");
  //@ docs/javascript/language-models.md: const streamed = policy({
  assert.equal(pieces, 3);
}

async function cancel(lookups: Policy) {
  //@ docs/javascript.md: AbortSignal.timeout(50)
  const controller = new AbortController();
  const started = performance.now();
  const slow = policy({ preset: "http" }).fetch(`${SERVER}/slow`, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(slow, { name: "AbortError" });
  assert.ok(performance.now() - started < 5_000);
  assertIdle();
}

async function seeWhy() {
  const ORIGIN = `${SERVER}/down`;
  //@ docs/javascript.md: const busy = await policy(
  //@ docs/javascript.md: const lines: string[] = [];
}

async function measure(lookups: Policy) {
  //@ docs/javascript.md: import { Registry } from "prom-client";
}

async function testWithTimeUnderControl() {
  //@ docs/javascript.md: const hedged = policy({
  const started = performance.now();
  //@ docs/javascript.md: const patient = policy({
  assert.ok(clock.now() >= 120_000 && performance.now() - started < 5_000, `${clock.now()} ms`);
}

async function task<T>(name: string, work: () => Promise<T>): Promise<T> {
  const result = await work();
  console.log(`done: ${name}`);
  return result;
}

await task("wrap the client", wrapTheClient);
await task("wrap undici's client", wrapUndici);
const lookups = await task("wrap a function", wrapAFunction);
await task("wrap an SDK", wrapAnSdk);
await task("wrap another SDK", wrapAnotherSdk);
await task("limit", limit);
await task("set a deadline", () => setADeadline(lookups));
await task("stream", stream);
await task("cancel", () => cancel(lookups));
await task("see why", seeWhy);
await task("measure", () => measure(lookups));
await task("test with time under control", testWithTimeUnderControl);
