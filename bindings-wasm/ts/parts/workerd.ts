/** The parts for Cloudflare Workers, which compile WebAssembly when they are deployed and never later. */

// @ts-expect-error the bundler makes a module of it
import module from "../parts.wasm";
import { provide } from "./native.js";

provide({ now: () => module as WebAssembly.Module });

export * from "./all.js";
