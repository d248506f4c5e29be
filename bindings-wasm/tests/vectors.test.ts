/** The shared vectors, through the full module. */

import { vectors } from "./support/vectors.js";
import { wasm } from "./support/wasm.js";

vectors(wasm("tidegate"), false);
