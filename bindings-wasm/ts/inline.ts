/** The modules as they stand in the source of what pages load. */

import { unpack } from "./unpack.js";

/** A module's bytes. */
export function inlined(packed: string, size: number): Uint8Array {
  return unpack(bytesOf(packed), size);
}

/** What stands in base 64. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
