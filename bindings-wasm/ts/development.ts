/**
 * The entry for pages under a server for development, by the condition `development`: what such servers bundle beforehand loses the
 * files beside it, so that the modules come as code here. Which one comes, and when, is as in production.
 */

import { bytesOf } from "./engine/base64.js";
import { provide } from "./engine/module.js";

provide({
  later: async (which) =>
    bytesOf((which === "small" ? await import("./small_gen.js") : await import("./full_gen.js")).MODULE),
});

export * from "./main.js";
