/**
 * Events on channels of Node's `diagnostics_channel`, for tools that observe a process without knowing its policies.
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
import { type Subscription, subscription } from "./telemetry/events.js";
import { once } from "./telemetry/once.js";

/**
 * Publishes every event of an engine (by default the engine of the process) on the channel `tidegate:<type>`, until the subscription
 * ends. A channel without subscribers costs one look-up per event.
 */
export function publish(engine: Engine = defaultEngine()): Subscription {
  const end = once(engine, "channels", () => {
    const listening = engine.listen((event) => {
      const to = channel(`tidegate:${event.type}`);
      if (to.hasSubscribers) to.publish(event);
    });
    return () => listening.dispose();
  });
  return subscription(end);
}
