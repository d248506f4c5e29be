/** Adds the option `tidegate` to the type of the options of `fetch`. Not for JSR, which allows no change of a global type. */

import type { FetchOptions } from "./fetch.js";

declare global {
  interface RequestInit {
    /** The request's options for its policy. */
    tidegate?: FetchOptions;
  }
}
