/** Shared by all metrics backends: the families, and their current series (docs/telemetry.md). */

import { defaultEngine } from "../engine/default_engine.js";
import type { Engine } from "../engine/engine.js";
import { said, say } from "../engine/native.js";
import { readPages, SERIES } from "../engine/pages.js";

/** The series of one name; `labels` are those besides `policy` and `route`, which every series has. */
export interface Family {
  readonly name: string;
  readonly instrument: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly meaning: string;
}

/** A histogram: its counts, one more than there are bounds, and the sum of its values. */
export interface Histogram {
  readonly counts: readonly number[];
  readonly sum: number;
}

/** One series. */
export interface Series {
  readonly family: Family;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number | Histogram;
}

type Written = [name: string, instrument: Family["instrument"], labels: string[], meaning: string];
type Reading = [
  family: number,
  policy: string,
  route: string,
  labels: string[],
  value: number | [number[], number],
];

/** Events that a histogram counts, and whether it takes their `wait` instead of `elapsed`. An empty `why` is any. */
export interface Timed {
  readonly type: string;
  readonly why: string;
  readonly waits: boolean;
  readonly family: Family;
}

interface Known {
  readonly families: readonly Family[];
  readonly bounds: readonly number[];
  readonly timed: readonly Timed[];
}

let known: Known | undefined;

/** The fixed list of families, the upper bounds of histograms in seconds, and the events that histograms count. */
export function families(engine: Engine): Known {
  if (known === undefined) {
    engine.whole("metrics").families();
    type Feeds = [type: string, why: string, waits: number, family: number];
    const [written, bounds, feeds] = JSON.parse(said()) as [Written[], number[], Feeds[]];
    const family = ([name, instrument, labels, meaning]: Written): Family => ({
      name,
      instrument,
      labels,
      meaning,
    });
    const all = written.map(family);
    const timed = feeds.map(([type, why, waits, place]) => {
      return { type, why, waits: waits === 1, family: all[place] as Family };
    });
    known = { families: all, bounds, timed };
  }
  return known;
}

/** Options of a metrics backend. */
export interface MetricsOptions {
  /** The engine; by default the engine of the process. */
  readonly engine?: Engine | undefined;
  /** Number of routes of each policy with series of their own, 0 to 10,000; 20 by default. The first backend decides. */
  readonly maxRoutes?: number | undefined;
}

/**
 * Makes an engine count from now on, and returns it.
 *
 * @throws RangeError If `maxRoutes` is out of range.
 */
export function measured({ engine = defaultEngine(), maxRoutes = 20 }: MetricsOptions): Engine {
  if (!(Number.isInteger(maxRoutes) && maxRoutes >= 0 && maxRoutes <= 10_000)) {
    throw new RangeError(`maxRoutes = ${String(maxRoutes)}: must be a whole number from 0 to 10,000`);
  }
  engine.measure(maxRoutes); // the first backend decides
  return engine;
}

/**
 * Reads all series, in no particular order, in pages between which the event loop runs. The counters of one policy and route are
 * consistent with each other, and so are the levels of one route.
 */
export async function readInPages(engine: Engine): Promise<Series[]> {
  const all: Series[] = [];
  await readPages(engine, SERIES, (page) => all.push(...seriesOf(engine, page as Reading[])));
  return all;
}

function seriesOf(engine: Engine, readings: readonly Reading[]): Series[] {
  const { families: all } = families(engine);
  return readings.map(([number, policy, route, values, value]) => {
    const family = all[number] as Family;
    const more = family.labels.map((name, place) => [name, values[place] as string]);
    const labels = { policy, route, ...Object.fromEntries(more) } as Record<string, string>;
    return { family, labels, value: typeof value === "number" ? value : { counts: value[0], sum: value[1] } };
  });
}

/** The label of a route. */
export function labelOf(engine: Engine, policy: string, route: string): string {
  say(route);
  engine.native.label(engine.handle, engine.wanted.numberOf(policy));
  return said();
}
