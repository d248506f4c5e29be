/** The modules that the build has left. */

import { readFileSync } from "node:fs";

/** The bytes of one. */
export function wasm(name: "tidegate" | "small" | "parts"): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(new URL(`../../dist/esm/${name}.wasm`, import.meta.url)));
}
