/** The entry for hosts that need one file: the full module stands in the source. */

import { bytesOf } from "./base64.js";
import { MODULE } from "./full_gen.js";
import { provide } from "./module.js";

provide({ now: () => bytesOf(MODULE) });

export * from "./main.js";
