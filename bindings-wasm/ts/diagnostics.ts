/**
 * Events on channels of Node's `diagnostics_channel`, for tools that look at a process and do not know its policies.
 *
 * ```ts
 * import { subscribe } from "node:diagnostics_channel";
 * import { publish } from "tidegate/diagnostics";
 *
 * publish();
 * subscribe("tidegate:retry_scheduled", (event) => console.log(event));
 * ```
 */

import { channel } from "node:diagnostics_channel";
import { defaultEngine } from "./engine/default_engine.js";
import type { Engine } from "./engine/engine.js";
import type { Subscription } from "./telemetry/events.js";

/**
 * Publishes every event of an engine (the process's own by default) on the channel `tidegate:<type>`, until the subscription
 * ends. Channels without subscribers cost a look each.
 */
export function publish(engine: Engine = defaultEngine()): Subscription {
  return engine.listen((event) => {
    const to = channel(`tidegate:${event.type}`);
    if (to.hasSubscribers) to.publish(event);
  });
}
