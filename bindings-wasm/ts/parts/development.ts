/** The parts for development servers, which drop the files beside the code. */

import { bytesOf } from "../engine/base64.js";
import { provide } from "./native.js";

provide({ later: async () => bytesOf((await import("./inline_gen.js")).MODULE) });

export * from "./all.js";
