/** The entry for Node. */

import { AsyncLocalStorage } from "node:async_hooks";
import { inflateRawSync } from "node:zlib";
import { provideInflate } from "./inline.js";
import { provideStorage } from "./platform.js";

provideStorage(AsyncLocalStorage);
provideInflate((input) => inflateRawSync(input));

export * from "./index.js";
