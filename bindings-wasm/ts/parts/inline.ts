/** The parts for hosts that need one file: their module stands in the source. */

import { bytesOf } from "../engine/base64.js";
import { MODULE } from "./inline_gen.js";
import { provide } from "./native.js";

provide({ now: () => bytesOf(MODULE) });

export * from "./all.js";
