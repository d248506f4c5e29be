/**
 * The entry for pages under a development server, selected by the condition `development`. The dependency bundler of such a server
 * drops the files beside the code, so here the modules are code. Which module is loaded, and when, is as in production.
 */

import { bytesOf } from "./engine/base64.js";
import { provide } from "./engine/module.js";

provide({
  later: async (which) =>
    bytesOf((which === "small" ? await import("./small_gen.js") : await import("./full_gen.js")).MODULE),
});

export type {} from "./fetch/request_init.js";
export * from "./main.js";
