/** Metrics for prom-client and OpenTelemetry, events on spans and channels: the names and labels of docs/telemetry.md. */

import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { readFileSync } from "node:fs";
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  SpanKind,
  trace,
} from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { Registry } from "prom-client";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { publish } from "../ts/diagnostics.js";
import { type Engine, load, policy, target } from "../ts/node.js";
import * as otel from "../ts/opentelemetry.js";
import * as prometheus from "../ts/prometheus.js";
import { families } from "../ts/telemetry/metrics.js";
import { FakeClock } from "../ts/testing.js";
import { engine } from "./support/setup.js";

const reset = () => Object.assign(new Error("reset"), { code: "ECONNRESET" });

/** Two calls, one with two attempts and one with a permanent error; then one that a full bulkhead refuses. */
async function traffic(some: Engine, clock: FakeClock): Promise<void> {
  const backoff = { base: 100, max: 100, jitter: "none" as const };
  const orders = policy({
    engine: some,
    name: "orders",
    retry: { maxAttempts: 2, backoff },
    bulkhead: { maxConcurrency: 1, maxQueue: 0 },
  });
  const route = orders.at({ route: "eu" });
  let first = true;
  const retried = route.run(() => {
    if (!first) return 1;
    first = false;
    throw reset();
  });
  await clock.advance(100);
  expect(await retried).toBe(1);
  await expect(route.run(() => Promise.reject(new TypeError("mistake")))).rejects.toThrow("mistake");
  const ends: (() => void)[] = [];
  const held = route.run(() => new Promise<void>((done) => ends.push(done)));
  await expect(route.run(() => 1)).rejects.toThrow(/queue/);
  for (const end of ends) end();
  await held;
}

describe("prom-client", () => {
  test("has what happened, in the names of every language", async () => {
    const clock = new FakeClock();
    const some = engine({ clock });
    const registry = new Registry();
    const instrumented = prometheus.instrument(registry, { engine: some });
    await traffic(some, clock);
    const text = await registry.metrics();
    const of = '{policy="orders",route="eu"';
    for (const line of [
      `tidegate_calls_total${of},outcome="ok"} 2`,
      `tidegate_calls_total${of},outcome="not_retryable"} 1`,
      `tidegate_calls_total${of},outcome="queue_full"} 1`,
      `tidegate_attempts_total${of},outcome="ok"} 2`,
      `tidegate_attempts_total${of},outcome="transient"} 1`,
      `tidegate_retries_total${of},reason="transient"} 1`,
      `tidegate_retries_suppressed_total${of},reason="not_retryable"} 1`,
      `tidegate_rejections_total${of},stage="bulkhead",reason="queue_full"} 1`,
      `tidegate_bulkhead_capacity${of}} 1`,
      `tidegate_bulkhead_in_flight${of}} 0`,
      `tidegate_call_duration_seconds_bucket{le="0.05",policy="orders",route="eu"} 3`,
      `tidegate_call_duration_seconds_bucket{le="0.1",policy="orders",route="eu"} 4`,
      `tidegate_call_duration_seconds_bucket{le="+Inf",policy="orders",route="eu"} 4`,
      `tidegate_call_duration_seconds_count${of}} 4`,
      `tidegate_call_duration_seconds_sum${of}} 0.1`,
    ]) {
      expect(text.split("\n")).toContain(line);
    }
    expect(text).toContain("# TYPE tidegate_call_duration_seconds histogram");
    expect(await registry.metrics(), "a scrape changes nothing").toBe(text);
    instrumented.dispose();
    expect(await registry.metrics()).toBe("\n");
  });

  test("has the series of metered and streaming services (12.5)", async () => {
    const document = {
      targets: {
        chat: { pick: "ladder", members: ["large", "small"], default: { cooldown: { base: "10s" } } },
      },
      policy: {
        chat: {
          targets: "chat",
          first_byte_timeout: "5s",
          retry: { max_attempts: 2, methods: ["POST"] },
          rate_limit: {
            limits: { tpm: { permits: 60_000, per: "1m", burst: 10_000, weight: "tokens" } },
          },
        },
      },
    };
    const clock = new FakeClock();
    const some = engine({ clock });
    const registry = new Registry();
    prometheus.instrument(registry, { engine: some });
    const fetch = async () => {
      await Promise.resolve();
      const headers = { "content-type": "text/event-stream" };
      return target() === "large"
        ? new Response(null, { status: 429 })
        : new Response("data: high\n\n", { headers });
    };
    const chat = load(document, { engine: some, fetch }).get("chat");
    const init = { method: "POST", headers: { accept: "text/event-stream" } };
    const response = await chat.fetch("https://api.example/", {
      ...init,
      tidegate: { route: "eu", weights: { tokens: 600 } },
    });
    expect([response.status, await response.text()]).toEqual([200, "data: high\n\n"]);
    const lines = (await registry.metrics()).split("\n");
    const limit = '{policy="chat",route="eu",limit="tpm",weight="tokens"}';
    const large = '{policy="",route="chat",target="large"';
    for (const line of [
      `tidegate_rate_limit_reserved_total${limit} 1200`,
      `tidegate_rate_limit_tokens${limit} 9400`,
      `tidegate_stream_delivery_seconds_count{policy="chat",route="eu"} 1`,
      `tidegate_target_attempts_total${large}} 1`,
      `tidegate_target_failovers_total${large}} 1`,
      `tidegate_target_skips_total${large},reason="cooldown"} 1`,
      `tidegate_cooldown_closings_total${large}} 1`,
      `tidegate_cooldown_state${large}} 1`,
    ]) {
      expect(lines).toContain(line);
    }
  });

  test("routes beyond the bound share a label, and an option out of range is told", async () => {
    const some = engine();
    const registry = new Registry();
    prometheus.instrument(registry, { engine: some, maxRoutes: 1 });
    const orders = policy({ engine: some, name: "orders", deadline: 5000 });
    for (const route of ["a", "b", "c"]) await orders.at({ route }).run(() => 1);
    const text = await registry.metrics();
    expect(text).toContain('tidegate_calls_total{policy="orders",route="a",outcome="ok"} 1');
    expect(text).toContain('tidegate_calls_total{policy="orders",route="other",outcome="ok"} 2');
    for (const maxRoutes of [-1, 1.5, 10_001]) {
      expect(() => prometheus.instrument(new Registry(), { engine: some, maxRoutes })).toThrow(
        `maxRoutes = ${maxRoutes}: must be a whole number from 0 to 10,000`,
      );
    }
  });

  test("a family that is asked for alone is as new as any other", async () => {
    const some = engine();
    const registry = new Registry();
    const instrumented = prometheus.instrument(registry, { engine: some });
    const orders = policy({ engine: some, name: "orders", deadline: 5000 });
    await registry.metrics();
    for (const [place, name] of ["tidegate_calls_total", "tidegate_attempts_total"].entries()) {
      await orders.run(() => 1);
      expect(await registry.getSingleMetricAsString(name)).toMatch(
        new RegExp(`^${name}.* ${place + 1}$`, "m"),
      );
    }
    instrumented.dispose();
  });

  test("listeners hear everything beside it", async () => {
    const some = engine();
    const types: string[] = [];
    const listening = some.listen(({ type }) => types.push(type));
    prometheus.instrument(new Registry(), { engine: some });
    const orders = policy({ engine: some, deadline: 5000 });
    await orders.run(() => 1);
    expect(types).toEqual(["attempt_started", "attempt_done", "call_done"]);
    listening.dispose();
    await orders.run(() => 1);
    expect(types.length).toBe(3);
  });

  test("the families are those of the documentation", () => {
    const page = readFileSync(new URL("../../docs/telemetry.md", import.meta.url), "utf8");
    const { families: all, bounds } = families(engine());
    expect(all.length).toBeGreaterThan(10);
    for (const { name } of all) {
      expect(page).toContain(name.replace(/^(tidegate_bulkhead)?(_(?:capacity|queue_depth))$/, "$2"));
    }
    expect([...bounds].sort((a, b) => a - b)).toEqual(bounds);
  });
});

describe("OpenTelemetry", () => {
  /** A minimal OpenTelemetry context manager. */
  class Contexts implements ContextManager {
    readonly #store = new AsyncLocalStorage<Context>();
    active = () => this.#store.getStore() ?? ROOT_CONTEXT;
    with: ContextManager["with"] = (inside, fn, self, ...args) =>
      this.#store.run(inside, () => fn.apply(self as never, args));
    bind<T>(_: Context, target: T): T {
      return target;
    }
    enable = () => this;
    disable = () => this;
  }
  beforeAll(() => void context.setGlobalContextManager(new Contexts()));
  afterAll(() => context.disable());

  const providers: { shutdown(): Promise<void> }[] = [];
  afterEach(() => Promise.all(providers.splice(0).map((provider) => provider.shutdown())));

  test("has the metrics, with units", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
    const meterProvider = new MeterProvider({ readers: [reader] });
    providers.push(meterProvider);
    const clock = new FakeClock();
    const some = engine({ clock });
    const instrumented = otel.instrument({ engine: some, meterProvider });
    otel.instrument({ engine: some, meterProvider }).dispose();
    const beside = otel.instrument({ engine: some, meterProvider });
    await traffic(some, clock);
    beside.dispose();
    await meterProvider.forceFlush();
    const metrics = exporter.getMetrics().at(-1)?.scopeMetrics[0]?.metrics ?? [];
    const by = Object.fromEntries(metrics.map((metric) => [metric.descriptor.name, metric]));
    const points = (name: string) =>
      (by[name]?.dataPoints ?? []).map(({ attributes, value }) => [Object.values(attributes).join(), value]);
    expect(points("tidegate.calls")).toContainEqual(["orders,eu,ok", 2]);
    expect(points("tidegate.rejections")).toContainEqual(["orders,eu,bulkhead,queue_full", 1]);
    expect(points("tidegate.bulkhead_capacity")).toEqual([["orders,eu", 1]]);
    const duration = by["tidegate.call_duration"];
    expect(duration?.descriptor.unit).toBe("s");
    expect(duration?.dataPoints[0]?.value).toMatchObject({ count: 4, sum: 0.1 });
    instrumented.dispose();
    exporter.reset();
    await policy({ engine: some, deadline: 5000 }).run(() => 1);
    await meterProvider.forceFlush();
    const later = exporter.getMetrics().at(-1)?.scopeMetrics[0]?.metrics ?? [];
    const of = (name: string) => later.find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [];
    expect(of("tidegate.calls").some(({ attributes }) => attributes["policy"] !== "orders")).toBe(false);
    expect(of("tidegate.call_duration").length).toBeLessThan(2);
  });

  test("tells the span around a call, and counts resends on those of its attempts", async () => {
    const exporter = new InMemorySpanExporter();
    const some = engine();
    const resends = new otel.ResendCount(some);
    const provider = new BasicTracerProvider({
      spanProcessors: [resends, new SimpleSpanProcessor(exporter)],
    });
    providers.push(provider);
    const tracer = provider.getTracer("test");
    const instrumented = otel.instrument({ engine: some });
    const beside = otel.instrument({ engine: some });
    const orders = policy({
      engine: some,
      name: "orders",
      retry: { maxAttempts: 3, backoff: { base: 1, max: 1 } },
    });
    const around = tracer.startSpan("around");
    await context.with(trace.setSpan(context.active(), around), () =>
      orders.run(async ({ attempt }) => {
        const attributes = { "http.request.method": "GET" };
        tracer.startSpan("GET", { kind: SpanKind.CLIENT, attributes }).end();
        tracer.startSpan("inner").end();
        await Promise.resolve();
        if (attempt < 3) throw reset();
      }),
    );
    around.end();
    const spans = exporter.getFinishedSpans();
    const counts = (name: string) =>
      spans
        .filter((span) => span.name === name)
        .map(({ attributes }) => attributes["http.request.resend_count"]);
    expect(counts("GET")).toEqual([undefined, 1, 2]);
    expect(counts("inner")).toEqual([undefined, undefined, undefined]);
    const { events } = spans.find(({ name }) => name === "around") as (typeof spans)[number];
    expect(events.map(({ name }) => name)).toEqual(["tidegate.retry_scheduled", "tidegate.retry_scheduled"]);
    expect(events[0]?.attributes).toMatchObject({
      "tidegate.policy": "orders",
      "tidegate.attempt": 2,
      "tidegate.kind": "transient",
      "tidegate.wait_s": expect.any(Number) as number,
    });
    beside.dispose();
    instrumented.dispose();
  });
});

test("diagnostics_channel has every event, while somebody publishes them", async () => {
  const some = engine();
  const told: unknown[] = [];
  const hear = (message: unknown) => told.push((message as { type: string }).type);
  subscribe("tidegate:call_done", hear);
  const publishing = publish(some);
  const beside = publish(some); // tells nothing twice
  const orders = policy({ engine: some, deadline: 5000 });
  await orders.run(() => 1);
  publishing.dispose();
  beside.dispose();
  await orders.run(() => 1);
  unsubscribe("tidegate:call_done", hear);
  expect(told).toEqual(["call_done"]);
});
