/** The entry on JSR, and of `tidegate/inline`: the source contains the full module. */

import { bytesOf } from "./engine/base64.js";
import { provide } from "./engine/module.js";
import * as table from "./errors/errors_server_gen.js";
import { teach } from "./errors/judge.js";
import { marks } from "./errors/marks.js";
import { steps } from "./errors/steps.js";
import { provideStreaming } from "./fetch/streaming.js";
import { streaming } from "./fetch/streams.js";
import { MODULE } from "./full_gen.js";
import { metered } from "./run/metered.js";
import { provideMetering } from "./run/metering.js";

teach(table, marks, steps);
provideStreaming(streaming);
provideMetering(metered);
// Where the platform refuses to compile it synchronously (Chrome limits the size), it is compiled in the background.
provide({ now: () => bytesOf(MODULE), later: async () => bytesOf(MODULE) });

export * from "./main.js";
