/** The entry for Cloudflare Workers, which compile WebAssembly when they are deployed and never later. */

import { provide } from "./native.js";
// @ts-expect-error the bundler makes a module of it
import module from "./tidegate.wasm";

provide(() => module as WebAssembly.Module);

export * from "./main.js";
