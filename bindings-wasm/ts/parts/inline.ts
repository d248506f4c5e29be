/** The module of the parts as it stands in the source. */

import { inlined } from "../inline.js";
import { PACKED, SIZE } from "./inline_gen.js";

/** The module's bytes. */
export function code(): Uint8Array {
  return inlined(PACKED, SIZE);
}
