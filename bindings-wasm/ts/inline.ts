/** The module as it stands in the source. */

import { inflate } from "./inflate.js";
import { DEFLATED, SIZE } from "./inline_gen.js";

/** A faster one, where the platform has it. */
let inflated: (input: Uint8Array, size: number) => Uint8Array = inflate;

/** Says what the platform has for it; the entry for Node does. */
export function provideInflate(faster: (input: Uint8Array) => Uint8Array): void {
  inflated = faster;
}

/** The module's bytes. */
export function code(): Uint8Array {
  const text = atob(DEFLATED);
  const bytes = new Uint8Array(text.length);
  for (let n = 0; n < text.length; n += 1) bytes[n] = text.charCodeAt(n);
  return inflated(bytes, SIZE);
}
