/** The entry for pages that want all of it: the full engine stands in the source, and is made ready at first use. */

import { PACKED, SIZE } from "./full_gen.js";
import { inlined } from "./inline.js";
import { provide } from "./native.js";
import "./rare.js";

provide(() => inlined(PACKED, SIZE), 2);

export * from "./main.js";
