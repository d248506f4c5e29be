/**
 * Metrics for `prom-client`. Nothing is counted before `instrument` is called.
 *
 * ```ts
 * import { register } from "prom-client";
 * import { instrument } from "tidegate/prometheus";
 *
 * instrument(register);
 * ```
 */

import type { Engine } from "./engine/engine.js";
import { checkNames } from "./errors/errors.js";
import { type Subscription, subscription } from "./telemetry/events.js";
import {
  type Family,
  families,
  type MetricsOptions,
  measured,
  readInPages,
  type Series,
} from "./telemetry/metrics.js";

export type { MetricsOptions } from "./telemetry/metrics.js";

/** The part of prom-client's `Registry` that is used. */
export interface Registry {
  // biome-ignore lint/suspicious/noExplicitAny: prom-client's type wants what its own classes have
  registerMetric(metric: any): void;
  removeSingleMetric(name: string): void;
}

interface Value {
  readonly labels: Record<string, string | number>;
  readonly value: number;
  readonly metricName?: string;
}

/**
 * Registers an engine's metrics, with the names, labels and meanings of docs/telemetry.md. Series are read when Prometheus scrapes;
 * between two scrapes a call costs only the counting.
 *
 * @returns A subscription; its end removes the metrics.
 * @throws RangeError If `maxRoutes` is out of range. TypeError for an option that it does not have. Error if the registry has metrics with these names.
 */
export function instrument(registry: Registry, options: MetricsOptions = {}): Subscription {
  checkNames("instrument", options, "engine maxRoutes");
  const engine = measured(options);
  const { families: all } = families(engine);
  const reader = new Reader(engine);
  for (const family of all) registry.registerMetric(metric(family, reader));
  return subscription(() => {
    for (const { name } of all) registry.removeSingleMetric(name);
  });
}

/** Reads the series once for all families that are asked for while it reads: a scrape asks for all of them at once. */
class Reader {
  readonly #engine: Engine;
  #reading: Promise<Series[]> | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async values({ name }: Family): Promise<Value[]> {
    const { bounds } = families(this.#engine);
    this.#reading ??= readInPages(this.#engine).finally(() => {
      this.#reading = undefined;
    });
    const series = await this.#reading;
    return series.filter(({ family }) => family.name === name).flatMap((each) => values(each, bounds));
  }
}

function metric(family: Family, reader: Reader): object {
  const { name, instrument: type, meaning: help } = family;
  return {
    name,
    help,
    type,
    aggregator: "sum",
    labelNames: ["policy", "route", ...family.labels],
    get: async () => ({ name, help, type, aggregator: "sum", values: await reader.values(family) }),
    reset: () => undefined, // the engine owns the counters
  };
}

function values({ family, labels, value }: Series, bounds: readonly number[]): Value[] {
  if (typeof value === "number") return [{ labels, value }];
  let sofar = 0;
  const buckets = value.counts.map((count, place): Value => {
    sofar += count;
    return {
      labels: { le: bounds[place] ?? "+Inf", ...labels },
      value: sofar,
      metricName: `${family.name}_bucket`,
    };
  });
  return [
    ...buckets,
    { labels, value: value.sum, metricName: `${family.name}_sum` },
    { labels, value: sofar, metricName: `${family.name}_count` },
  ];
}
