/** The module as it stands in the source. */

import { inflate } from "./inflate.js";
import { DEFLATED, SIZE } from "./inline_gen.js";

/** The module's bytes. */
export function code(): Uint8Array {
  const text = atob(DEFLATED);
  const bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n += 1) bytes[n] = text.charCodeAt(n);
  return inflate(bytes, SIZE);
}
