/**
 * Calls that are metered in more than requests. A page imports it beside `tidegate` where a policy has `weigh` or `usage`, or its calls have
 * `weights`; it brings the timeouts of streams too. Node, Deno, Bun, Workers and `tidegate/inline` serve these options without it.
 */

import { provideStreaming } from "./fetch/streaming.js";
import { streaming } from "./fetch/streams.js";
import { metered } from "./run/metered.js";
import { provideMetering } from "./run/metering.js";

provideStreaming(streaming);
provideMetering(metered);
