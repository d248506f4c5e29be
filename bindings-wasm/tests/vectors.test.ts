/** The shared vectors, through the full module. */

import { PACKED, SIZE } from "../ts/full_gen.js";
import { inlined } from "../ts/inline.js";
import { vectors } from "./support/vectors.js";

vectors(() => inlined(PACKED, SIZE), false);
