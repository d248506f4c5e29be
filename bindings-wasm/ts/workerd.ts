/** The entry for Cloudflare Workers, which compile WebAssembly when they are deployed and never later. */

import { provideTicker } from "./engine/engine.js";
import { provide } from "./engine/module.js";
// @ts-expect-error the bundler makes a module of it
import module from "./tidegate.wasm";
import { Timers } from "./time/timers.js";

provideTicker(Timers);
provide({ now: () => module as WebAssembly.Module });

export * from "./main.js";
