/** The module of the parts as it stands in the source. */

import { inflate } from "../inflate.js";
import { DEFLATED, SIZE } from "./inline_gen.js";

/** The module's bytes. */
export function code(): Uint8Array {
  const text = atob(DEFLATED);
  return inflate(
    Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
    SIZE,
  );
}
