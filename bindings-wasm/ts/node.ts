/** The entry for Node: the full engine, inflated by the platform. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { inflateRawSync } from "node:zlib";
import { bytesOf } from "./base64.js";
import { provideStorage } from "./follow.js";
import { PACKED } from "./inline_gen.js";
import { provide } from "./native.js";
import "./rare.js";

provideStorage(AsyncLocalStorage, AsyncResource);
provide(() => inflateRawSync(bytesOf(PACKED)));

export * from "./main.js";
