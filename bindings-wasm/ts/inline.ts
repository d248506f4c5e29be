/** The modules as they stand in the source of what pages load. */

import { bytesOf } from "./base64.js";
import { unpack } from "./unpack.js";

/** A module's bytes. */
export function inlined(packed: string, size: number): Uint8Array {
  return unpack(bytesOf(packed), size);
}
