/** The entry for pages: the small engine stands in the source, and is made ready at first use. */

// biome-ignore assist/source/organizeImports: a bundle that begins with it takes 700 bytes less, compressed
import { PACKED, SIZE } from "./small_gen.js";
import { inlined } from "./inline.js";
import { provide } from "./native.js";

provide(() => inlined(PACKED, SIZE));

export * from "./main.js";
