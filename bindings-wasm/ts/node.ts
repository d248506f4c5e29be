/** The entry for Node. */

import { AsyncLocalStorage } from "node:async_hooks";
import { provideStorage } from "./platform.js";

provideStorage(AsyncLocalStorage);

export * from "./index.js";
