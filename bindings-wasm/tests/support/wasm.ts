/** The modules from the build output. */

import { readFileSync } from "node:fs";

/** The bytes of a module. */
export function wasm(name: "tidegate" | "small" | "parts"): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(new URL(`../../dist/esm/${name}.wasm`, import.meta.url)));
}
