/** The entry for pages: the modules lie beside the code, and are fetched and compiled when the first policy is made. */

import { provide, streamed } from "./engine/module.js";

provide({
  // In full, each: only so does a bundler see what belongs to the code.
  later: (which) =>
    which === "small"
      ? streamed(new URL("./small.wasm", import.meta.url))
      : streamed(new URL("./tidegate.wasm", import.meta.url)),
});

export * from "./main.js";
