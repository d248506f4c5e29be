/** The parts for hosts that need a single file: the source contains their module. */

import { bytesOf } from "../engine/base64.js";
import { MODULE } from "./inline_gen.js";
import { provide } from "./native.js";

provide({ now: () => bytesOf(MODULE) });

export * from "./all.js";
