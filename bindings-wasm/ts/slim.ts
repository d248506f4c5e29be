/** The entry without WebAssembly in it: the caller says where that is. */

import { provide, start } from "./native.js";
import "./rare.js";

provide(() => {
  throw new Error('tidegate/slim has not been made ready: "await init(…)" or "initSync(module)" first');
}, 0);

export * from "./main.js";

/** Makes the package ready, from the module that has been compiled or loaded. Once is enough. */
export function initSync(code: WebAssembly.Module | ArrayBuffer | Uint8Array): void {
  start(code);
}

/**
 * Makes the package ready, from wherever the module is to be loaded: by default `tidegate.wasm` beside this file.
 *
 * @throws Error if it cannot be loaded.
 */
export async function init(
  from: string | URL | Response | WebAssembly.Module | ArrayBuffer | Uint8Array = new URL(
    "./tidegate.wasm",
    import.meta.url,
  ),
): Promise<void> {
  if (from instanceof WebAssembly.Module || from instanceof ArrayBuffer || from instanceof Uint8Array) {
    start(from);
    return;
  }
  const response = from instanceof Response ? from : await globalThis.fetch(from);
  if (!response.ok) throw new Error(`tidegate: ${response.url} answered ${response.status}`);
  start(await response.arrayBuffer());
}
