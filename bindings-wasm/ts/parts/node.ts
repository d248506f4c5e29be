/** The parts for Node, Deno and Bun: their module is read from a file beside the code. */

import { readFileSync } from "node:fs";
import { bytesOf } from "../engine/base64.js";
import { provide } from "./native.js";

provide({
  now: () => readFileSync(new URL("../parts.wasm", import.meta.url)),
  // For bundles without the file.
  later: async () => bytesOf((await import("./inline_gen.js")).MODULE),
});

export * from "./all.js";
