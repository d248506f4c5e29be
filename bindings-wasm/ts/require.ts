/** The entry for `require` on Node, Deno and Bun. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf } from "./engine/base64.js";
import { provideTicker } from "./engine/engine.js";
import { provide } from "./engine/module.js";
import * as table from "./errors/errors_server_gen.js";
import { teach } from "./errors/judge.js";
import { marks } from "./errors/marks.js";
import { steps } from "./errors/steps.js";
import { provideStopping } from "./fetch/fetch.js";
import { stopping } from "./fetch/nodes_fetch.js";
import { pipes } from "./fetch/piped.js";
import { provideStreaming } from "./fetch/streaming.js";
import { providePipes, streaming } from "./fetch/streams.js";
import { watchOnNode } from "./fetch/watched.js";
import { provideStorage } from "./run/follow.js";
import { metered } from "./run/metered.js";
import { provideMetering } from "./run/metering.js";
import { PatientTicker } from "./time/patient.js";

teach(table, marks, steps);
provideStreaming(streaming);
providePipes(pipes);
provideTicker(PatientTicker);
provideMetering(metered);
watchOnNode();
provideStopping(stopping);
provideStorage(AsyncLocalStorage, AsyncResource);
provide({
  now: () => readFileSync(join(__dirname, "../esm/tidegate.wasm")),
  // For bundles without the file.
  later: async () => bytesOf((await import("./full_gen.js")).MODULE),
});

export type {} from "./fetch/request_init.js";
export * from "./main.js";
