/** The parts for the Edge Runtime of Next.js and Vercel, which compiles WebAssembly only when it builds. */

import { provide } from "./parts/native.js";
// @ts-expect-error the bundler makes a module of it
import module from "./parts.wasm?module";

provide({ now: () => module as WebAssembly.Module });

export * from "./parts/all.js";
