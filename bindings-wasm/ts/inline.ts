/** The entry for hosts that need a single file: the source contains the full module. */

export type {} from "./fetch/request_init.js";
export * from "./jsr.js";
