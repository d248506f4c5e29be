/** The entry for pages: the small engine stands in the source, and is made ready at first use. */

import { inlined } from "./inline.js";
import { provide } from "./native.js";
import { PACKED, SIZE } from "./small_gen.js";

provide(() => inlined(PACKED, SIZE));

export * from "./main.js";
