/** The entry for Node: the full engine, inflated by the platform. */

import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { inflateRawSync } from "node:zlib";
import { provideStorage } from "./follow.js";
import { bytesOf } from "./inline.js";
import { PACKED } from "./inline_gen.js";
import { provide } from "./native.js";
import "./rare.js";

// What `AsyncLocalStorage.snapshot` gives, which takes 13 µs on Node 20: each time it has a property deprecated.
provideStorage(AsyncLocalStorage, () => {
  const resource = new AsyncResource("tidegate", { requireManualDestroy: true });
  return (work) => resource.runInAsyncScope(work);
});
provide(() => inflateRawSync(bytesOf(PACKED)));

export * from "./main.js";
