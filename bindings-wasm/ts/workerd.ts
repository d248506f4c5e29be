/** The entry for Cloudflare Workers, which compile WebAssembly only at deployment. */

import { provideTicker } from "./engine/engine.js";
import { provide } from "./engine/module.js";
import * as table from "./errors/errors_server_gen.js";
import { teach } from "./errors/judge.js";
import { marks } from "./errors/marks.js";
import { steps } from "./errors/steps.js";
import { provideStreaming } from "./fetch/streaming.js";
import { streaming } from "./fetch/streams.js";
import { metered } from "./run/metered.js";
import { provideMetering } from "./run/metering.js";
// @ts-expect-error the bundler makes a module of it
import module from "./tidegate.wasm";
import { Timers } from "./time/timers.js";

teach(table, marks, steps);
provideStreaming(streaming);
provideMetering(metered);
provideTicker(Timers);
provide({ now: () => module as WebAssembly.Module });

export type {} from "./fetch/request_init.js";
export * from "./main.js";
