/** The entry for hosts that need a single file: the source contains the full module. */

import { bytesOf } from "./engine/base64.js";
import { provide } from "./engine/module.js";
import * as table from "./errors_server_gen.js";
import { MODULE } from "./full_gen.js";
import { teach } from "./judge.js";

teach(table);
provide({ now: () => bytesOf(MODULE) });

export * from "./main.js";
