/** The entry for browsers, Deno, Bun and bundlers: the WebAssembly stands in the source, and is made ready at first use. */

import { code } from "./inline.js";
import { provide } from "./native.js";

provide(code);

export * from "./main.js";
