/** The entry for pages: the small engine stands in the source, and is made ready at first use. */

// biome-ignore assist/source/organizeImports: a bundle that begins with it takes 700 bytes less, compressed
import { small } from "./small.js";
import { provide } from "./native.js";

provide(small);

export * from "./main.js";
