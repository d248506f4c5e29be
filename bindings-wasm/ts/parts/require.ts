/** The parts for `require` on Node, Deno and Bun: their module is read from a file beside the code. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bytesOf } from "../engine/base64.js";
import { provide } from "./native.js";

provide({
  now: () => readFileSync(join(__dirname, "../../esm/parts.wasm")),
  // For bundles without the file.
  later: async () => bytesOf((await import("./inline_gen.js")).MODULE),
});

export * from "./all.js";
