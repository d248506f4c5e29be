/** What a request to a language model is going to use (semantics 15.7). */

import { type Native, said, sayBytes } from "../engine/native.js";
import type { Known } from "../fetch/request.js";
import type { Estimate } from "./weights.js";

const encoder = new TextEncoder();

/** The bytes of a body that is in memory. */
function bytesOf(body: unknown): Uint8Array | undefined {
  if (typeof body === "string") return encoder.encode(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  return ArrayBuffer.isView(body) ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : undefined;
}

/** Reads a request; undefined if its body cannot be read beforehand. */
export function estimateOf(native: Native, known: Known): Estimate | undefined {
  if ((known.body ?? "") === "") return { input: 0, output: 0, stream: false };
  const body = bytesOf(known.body);
  if (body === undefined) return undefined;
  const path = encoder.encode(known.path);
  const all = new Uint8Array(path.length + body.length);
  all.set(path);
  all.set(body, path.length);
  sayBytes(all);
  native.estimate(path.length);
  const [input, output, stream] = JSON.parse(said()) as [number, number | null, number];
  return { input, output: output ?? undefined, stream: stream === 1 };
}
