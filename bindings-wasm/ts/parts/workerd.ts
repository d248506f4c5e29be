/** The parts for Cloudflare Workers, which compile WebAssembly only at deployment. */

// @ts-expect-error the bundler makes a module of it
import module from "../parts.wasm";
import { provide } from "./native.js";

provide({ now: () => module as WebAssembly.Module });

export * from "./all.js";
