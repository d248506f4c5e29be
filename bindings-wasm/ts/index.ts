/** The entry for pages: the modules are files beside the code, fetched and compiled when the first policy is made. */

import { provide, streamed } from "./engine/module.js";

provide({
  // Each URL is written out, because bundlers recognize files only in this form.
  later: (which) =>
    which === "small"
      ? streamed(new URL("./small.wasm", import.meta.url))
      : streamed(new URL("./tidegate.wasm", import.meta.url)),
});

export type {} from "./fetch/request_init.js";
export * from "./main.js";
