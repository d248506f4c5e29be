/**
 * Metrics, events on spans, and `http.request.resend_count` for OpenTelemetry (`@opentelemetry/api`).
 *
 * ```ts
 * import { instrument, ResendCount } from "tidegate/opentelemetry";
 *
 * instrument();
 * ```
 *
 * Metrics have the names of docs/telemetry.md with a dot after the first word, and without the suffixes for units, which OpenTelemetry
 * states separately: `tidegate.calls`, `tidegate.call_duration` in `s`. A Prometheus exporter adds the suffixes again.
 */

import {
  type Attributes,
  type Meter,
  type MeterProvider,
  metrics,
  SpanKind,
  trace,
} from "@opentelemetry/api";
import { defaultEngine } from "./engine/default_engine.js";
import type { Engine } from "./engine/engine.js";
import { checkNames } from "./errors/errors.js";
import { type EventType, type Subscription, subscription, type TidegateEvent } from "./telemetry/events.js";
import {
  type Family,
  families,
  labelOf,
  type MetricsOptions,
  measured,
  readInPages,
} from "./telemetry/metrics.js";
import { once } from "./telemetry/once.js";

/** Options of `instrument`. */
export interface InstrumentOptions extends MetricsOptions {
  /** The provider of meters; the global one by default. */
  readonly meterProvider?: MeterProvider | undefined;
  /** Whether retries, refusals and similar events are added to the current span. True by default. */
  readonly spanEvents?: boolean | undefined;
}

const ON_SPANS: ReadonlySet<EventType> = new Set<EventType>([
  "retry_scheduled",
  "retry_suppressed",
  "gave_up",
  "rejected",
  "hedge_started",
  "hedge_won",
  "breaker_changed",
  "deadline_exceeded",
  "stream_stalled",
]);
const NOT_FIELDS = new Set(["type", "seq", "at", "quiet", "call"]);
const SECONDS = new Set(["wait", "elapsed"]);

/**
 * Exports an engine's metrics, and adds events of calls to the spans around them.
 *
 * A second call for the same provider adds nothing. The export ends with the last subscription.
 *
 * @returns A subscription; its end stops the export. The instruments stay registered with their provider but report nothing.
 * @throws RangeError If `maxRoutes` is out of range. TypeError for an option that it does not have.
 */
export function instrument(options: InstrumentOptions = {}): Subscription {
  checkNames("instrument", options, "engine maxRoutes meterProvider spanEvents");
  const engine = measured(options);
  const provider = options.meterProvider ?? metrics.getMeterProvider();
  const ends = [once(engine, provider, () => exported(engine, provider))];
  if (options.spanEvents !== false) {
    ends.push(
      once(engine, "spans", () => {
        const listening = engine.listen((event) => (ON_SPANS.has(event.type) ? onSpan(event) : undefined));
        return () => listening.dispose();
      }),
    );
  }
  return subscription(() => {
    for (const end of ends) end();
  });
}

/** Exports an engine's metrics to a provider; returns what ends that. */
function exported(engine: Engine, provider: MeterProvider): () => void {
  const { families: all, bounds, timed } = families(engine);
  const meter = provider.getMeter("tidegate");
  const observables = all.filter(({ instrument: kind }) => kind !== "histogram");
  const instruments = new Map(observables.map((family) => [family, observable(meter, family)]));
  const observe: Parameters<Meter["addBatchObservableCallback"]>[0] = async (result) => {
    for (const { family, labels, value } of await readInPages(engine)) {
      const instrument = instruments.get(family);
      if (instrument !== undefined && typeof value === "number") result.observe(instrument, value, labels);
    }
  };
  const list = [...instruments.values()];
  meter.addBatchObservableCallback(observe, list);
  const histogram = (family: Family) => {
    const { otel, unit } = named(family);
    const advice = { explicitBucketBoundaries: [...bounds] };
    return meter.createHistogram(otel, { unit, description: family.meaning, advice });
  };
  const feeds = new Map(timed.map((feed) => [feed.type, { ...feed, into: histogram(feed.family) }]));
  const listening = engine.listen(({ type, policy, route, elapsed, wait, why }) => {
    const feed = feeds.get(type);
    if (feed !== undefined && policy !== undefined && (feed.why === "" || feed.why === why)) {
      const labels = { policy, route: labelOf(engine, policy, route ?? "") };
      feed.into.record(((feed.waits ? wait : elapsed) ?? 0) / 1000, labels);
    }
  });
  return () => {
    meter.removeBatchObservableCallback(observe, list);
    listening.dispose();
  };
}

/** The OpenTelemetry name of a family, and its unit. */
function named({ name }: Family): { otel: string; unit: string } {
  const otel = `tidegate.${name.replace(/^tidegate_/, "").replace(/_total$/, "")}`;
  return otel.endsWith("_seconds")
    ? { otel: otel.slice(0, -"_seconds".length), unit: "s" }
    : { otel, unit: "1" };
}

function observable(meter: Meter, family: Family) {
  const { otel, unit } = named(family);
  const options = { unit, description: family.meaning };
  return family.instrument === "counter"
    ? meter.createObservableCounter(otel, options)
    : meter.createObservableGauge(otel, options);
}

/** Adds an event of a call to the span around it; time spans in seconds, as in every language. */
function onSpan(event: TidegateEvent): void {
  const span = trace.getActiveSpan();
  if (span?.isRecording() !== true) return;
  const fields: Attributes = {};
  for (const [key, value] of Object.entries(event)) {
    if (NOT_FIELDS.has(key) || value === undefined) continue;
    if (SECONDS.has(key)) fields[`tidegate.${key}_s`] = (value as number) / 1000;
    else fields[`tidegate.${key}`] = value as string | number | boolean;
  }
  span.addEvent(`tidegate.${event.type}`, fields);
}

/** The fields of a span that `ResendCount` uses. */
interface StartedSpan {
  readonly kind: SpanKind;
  readonly attributes: Attributes;
  setAttribute(key: string, value: number): unknown;
}

/**
 * A span processor that sets `http.request.resend_count` on the HTTP client spans of repeats, and on no others.
 *
 * Instrumentation inside a retry layer makes a span for each attempt, and cannot know which of them repeat another; the layer does.
 * Nested retries add up: a second attempt within a second attempt is resend 2. It needs `AsyncLocalStorage`.
 */
export class ResendCount {
  readonly #engine: Engine;
  readonly #calls = new Map<number, number>();
  readonly #listening: Subscription;

  constructor(engine: Engine = defaultEngine()) {
    this.#engine = engine;
    this.#listening = engine.listen(({ type, call, attempt = 0 }) => {
      if (call === undefined) return;
      if (type === "call_done") this.#calls.delete(call);
      else if (type === "attempt_started" && attempt > 1) this.#calls.set(call, attempt - 1);
    });
  }

  onStart(span: StartedSpan): void {
    if (this.#calls.size === 0 || span.kind !== SpanKind.CLIENT) return;
    const { attributes } = span;
    if (!("http.request.method" in attributes || "http.method" in attributes)) return;
    let resends = 0;
    for (let level = this.#engine.scopes?.getStore(); level !== undefined; level = level.around) {
      if (level.engine === this.#engine) resends += this.#calls.get(level.call) ?? 0;
    }
    if (resends > 0) span.setAttribute("http.request.resend_count", resends);
  }

  onEnd(): void {}

  async forceFlush(): Promise<void> {}

  async shutdown(): Promise<void> {
    this.#listening.dispose();
  }
}
