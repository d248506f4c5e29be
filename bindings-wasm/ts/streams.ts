/**
 * The timeouts of streams, for pages: `import "tidegate/streams"` beside `tidegate`, where a policy has `firstByteTimeout` or `idleTimeout`.
 * Node, Deno, Bun, Workers and `tidegate/inline` have them without it.
 */

import { provideStreaming } from "./fetch/streaming.js";
import { streaming } from "./fetch/streams.js";

provideStreaming(streaming);
