"""Metrics in the words of their backends, and what becomes of spans."""

from __future__ import annotations

import asyncio
import gc
import pathlib
import weakref
from typing import Any

import prometheus_client
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import multiprocess

import tidegate
import tidegate.opentelemetry
import tidegate.prometheus
from conftest import quick
from tidegate._engine.metrics import FAMILIES
from tidegate.testing import FakeClock


def failing(times: int) -> Any:
    left = [times]

    def fetch() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("the secret")
        return "done"

    return fetch


@pytest.fixture
def registry(fake: tidegate.Engine) -> prometheus_client.CollectorRegistry:
    registry = prometheus_client.CollectorRegistry()
    tidegate.prometheus.instrument(fake, registry=registry, max_routes=2)
    return registry


def test_prometheus_counts_what_happened(
    fake: tidegate.Engine, registry: prometheus_client.CollectorRegistry, both_paths: None
) -> None:
    policy = quick(
        fake, name="pay", bulkhead={"max_concurrency": 4}, breaker={"consecutive": 9, "break_duration": 5}
    )
    eu = policy.at(route="eu")
    eu.call(failing(1))
    eu.call(int)
    with pytest.raises(ConnectionError):
        eu.call(failing(9))
    policy.force_open("eu")
    with pytest.raises(tidegate.ForcedOpen):
        eu.call(int)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"policy": "pay", "route": "eu", **labels})

    assert value("tidegate_calls_total", outcome="ok") == 2
    assert value("tidegate_calls_total", outcome="attempts") == 1
    assert value("tidegate_calls_total", outcome="forced_open") == 1
    assert value("tidegate_attempts_total", outcome="ok") == 2
    assert value("tidegate_attempts_total", outcome="transient") == 4
    assert value("tidegate_retries_total", reason="transient") == 3
    assert value("tidegate_retries_suppressed_total", reason="attempts") == 1
    assert value("tidegate_rejections_total", stage="operator", reason="forced_open") == 1
    assert value("tidegate_call_duration_seconds_count") == 4
    assert value("tidegate_call_duration_seconds_bucket", le="+Inf") == 4
    assert value("tidegate_call_duration_seconds_bucket", le="60.0") == 4
    assert value("tidegate_bulkhead_capacity") == 4
    assert value("tidegate_bulkhead_in_flight") == 0
    assert value("tidegate_breaker_state") == 0
    assert (value("tidegate_budget_tokens") or 0) > 0
    text = prometheus_client.generate_latest(registry).decode()
    assert "the secret" not in text


def test_labels_are_bounded(fake: tidegate.Engine, registry: prometheus_client.CollectorRegistry) -> None:
    policy = quick(fake, name="pay")
    for route in "abcde":
        policy.at(route=route).call(int)
    text = prometheus_client.generate_latest(registry).decode()
    routes = {line.split('route="')[1].split('"')[0] for line in text.splitlines() if 'route="' in line}
    assert routes == {"a", "b", "other"}
    labels = {"policy": "pay", "route": "other", "outcome": "ok"}
    assert registry.get_sample_value("tidegate_calls_total", labels) == 3


def test_one_registry_takes_one_engine_and_lets_go_of_it(
    fake: tidegate.Engine, registry: prometheus_client.CollectorRegistry
) -> None:
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        tidegate.prometheus.instrument(fake, registry=registry)
    other = prometheus_client.CollectorRegistry()
    collector = tidegate.prometheus.instrument(fake, registry=other)
    other.unregister(collector)
    assert prometheus_client.generate_latest(other) == b""
    with pytest.raises(ValueError, match="max_routes = -1: must be a whole number from 0 to 10000"):
        tidegate.prometheus.Collector(fake, max_routes=-1)


def test_the_multiprocess_mode_of_prometheus_exports_no_collector(
    fake: tidegate.Engine, registry: prometheus_client.CollectorRegistry, tmp_path: pathlib.Path
) -> None:
    """As `docs/python/telemetry.md` says. If a release of prometheus_client changes that, mend the page."""
    quick(fake, name="pay").call(int)
    merged = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(merged, path=str(tmp_path))
    assert b"tidegate_calls" in prometheus_client.generate_latest(registry)
    assert b"tidegate_calls" not in prometheus_client.generate_latest(merged)


def test_metrics_alone_leave_the_happy_path_native(
    fake: tidegate.Engine, registry: prometheus_client.CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = quick(fake, name="pay")
    monkeypatch.setattr(fake.hooks, "deliver", lambda: pytest.fail("Python was asked"))
    policy.call(int)
    asyncio.run(_awaited(policy))
    labels = {"policy": "pay", "route": "default", "outcome": "ok"}
    assert registry.get_sample_value("tidegate_calls_total", labels) == 2


async def _awaited(policy: tidegate.Policy) -> None:
    async def work() -> int:
        return 1

    await policy.acall(work)


def test_every_family_is_described_with_the_names_of_the_design(
    registry: prometheus_client.CollectorRegistry,
) -> None:
    names = [family.name for family in FAMILIES]
    assert names == [
        "tidegate_calls_total",
        "tidegate_call_duration_seconds",
        "tidegate_attempts_total",
        "tidegate_retries_total",
        "tidegate_retries_suppressed_total",
        "tidegate_rejections_total",
        "tidegate_bulkhead_in_flight",
        "tidegate_bulkhead_capacity",
        "tidegate_bulkhead_queue_depth",
        "tidegate_bulkhead_acquire_latency_seconds",
        "tidegate_breaker_state",
        "tidegate_throttle_reject_probability",
        "tidegate_budget_tokens",
        "tidegate_hedges_total",
        "tidegate_hedge_delay_seconds",
        "tidegate_fleet_up",
        "tidegate_fleet_fallbacks_total",
        "tidegate_rate_limit_tokens",
        "tidegate_rate_limit_debt",
        "tidegate_rate_limit_reserved_total",
        "tidegate_rate_limit_settled_total",
        "tidegate_rate_limit_forgiven_total",
        "tidegate_rate_limit_learned_total",
        "tidegate_stream_delivery_seconds",
        "tidegate_stream_stalls_total",
        "tidegate_cooldown_state",
        "tidegate_cooldown_queue_depth",
        "tidegate_cooldown_closings_total",
        "tidegate_cooldown_closed_seconds_total",
        "tidegate_target_attempts_total",
        "tidegate_target_skips_total",
        "tidegate_target_failovers_total",
        "tidegate_target_in_flight",
        "tidegate_target_breaker_state",
        "tidegate_target_delivery_estimate_seconds",
    ]
    described = {family.name for family in registry.collect()}
    assert described == {name.removesuffix("_total") for name in names}


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], Any]]]:
    data = reader.get_metrics_data()
    found: dict[str, list[tuple[dict[str, Any], Any]]] = {}
    for resource in data.resource_metrics if data is not None else []:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found[metric.name] = [
                    (dict(point.attributes or {}), point) for point in metric.data.data_points
                ]
    return found


def test_opentelemetry_has_the_same_figures(fake: tidegate.Engine) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    mine = tidegate.opentelemetry.instrument(fake, meter_provider=provider)
    policy = quick(fake, name="pay")
    policy.call(failing(1))
    first = points(reader)
    policy.call(int)
    second = points(reader)
    labels = {"policy": "pay", "route": "default"}
    assert [(found, point.value) for found, point in first["tidegate.calls"]] == [
        ({**labels, "outcome": "ok"}, 1)
    ]
    assert [point.value for _, point in second["tidegate.calls"]] == [2]
    assert [point.value for _, point in second["tidegate.retries"]] == [1]
    durations = second["tidegate.call_duration"]
    assert [(found, point.count) for found, point in durations] == [(labels, 2)]
    assert len(durations[0][1].explicit_bounds) == 15
    mine.close()
    mine.close()
    policy.call(int)
    assert "tidegate.calls" not in points(reader)
    provider.shutdown()


def test_what_is_instrumented_twice_counts_once(fake: tidegate.Engine, spans: Any) -> None:
    tracers, exporter = spans
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    first, *rest = (
        tidegate.opentelemetry.instrument(fake, meter_provider=provider, span_events=events)
        for events in (False, True, True)
    )
    elsewhere = tidegate.opentelemetry.instrument(fake, meter_provider=MeterProvider())
    policy = quick(fake, name="pay")

    def counted() -> tuple[list[int], int]:
        """How many calls the histogram has, and how many events a call with one retry adds to its span."""
        exporter.clear()
        with tracers.get_tracer("t").start_as_current_span("outer"):
            policy.call(failing(1))
        durations = points(reader).get("tidegate.call_duration", [])
        return [point.count for _, point in durations], len(exporter.get_finished_spans()[0].events)

    assert counted() == ([1], 1)
    for _ in range(2):
        first.close()
    assert counted() == ([2], 1), "the end of one use, closed twice, ends no other"
    elsewhere.close()
    rest[0].close()
    assert counted() == ([3], 1)
    rest[1].close()
    assert counted() == ([3], 0), "the last one has ended"
    again = tidegate.opentelemetry.instrument(fake, meter_provider=provider)
    other = tidegate.Engine(seed=2, clock=FakeClock(autojump=True))
    tidegate.opentelemetry.instrument(other, meter_provider=provider)
    quick(other, name="other").call(int)
    assert counted() == ([4, 1], 1), "another engine has an export of its own"
    again.close()
    provider.shutdown()
    tracers.shutdown()


@pytest.fixture
def spans() -> Any:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_spans_around_calls_are_told_what_happened(fake: tidegate.Engine, spans: Any) -> None:
    provider, exporter = spans
    mine = tidegate.opentelemetry.instrument(fake, meter_provider=MeterProvider())
    with provider.get_tracer("t").start_as_current_span("outer"):
        quick(fake, name="pay").call(failing(1))
    (outer,) = exporter.get_finished_spans()
    (event,) = outer.events
    assert event.name == "tidegate.retry_scheduled"
    assert event.attributes["tidegate.policy"] == "pay"
    assert event.attributes["tidegate.error"] == "ConnectionError"
    assert event.attributes["tidegate.attempt"] == 2
    assert "the secret" not in repr(dict(event.attributes))
    mine.close()


@pytest.mark.parametrize("awaits", [False, True])
def test_the_resend_count_is_on_the_client_spans_of_repeats_only(spans: Any, awaits: bool) -> None:
    provider, exporter = spans
    engine = tidegate.Engine(seed=1, clock=FakeClock(autojump=True))
    counts = tidegate.opentelemetry.ResendCount(engine)
    provider.add_span_processor(counts)
    tracer = provider.get_tracer("http")
    fetch = failing(2)

    def send() -> str:
        attributes = {"http.request.method": "GET"}
        with tracer.start_as_current_span("GET", kind=trace.SpanKind.CLIENT, attributes=attributes):
            with tracer.start_as_current_span("connect"):
                pass
            return str(fetch())

    async def asend() -> str:
        return send()

    async def main() -> str:
        return await quick(engine).acall(asend)

    assert (asyncio.run(main()) if awaits else quick(engine).call(send)) == "done"
    send_alone = failing(0)
    send_alone()
    quick(engine).call(lambda: send())
    told = [
        (span.name, (span.attributes or {}).get("http.request.resend_count"))
        for span in exporter.get_finished_spans()
    ]
    inner = ("connect", None)
    assert told == [inner, ("GET", None), inner, ("GET", 1), inner, ("GET", 2), inner, ("GET", None)]
    assert counts._calls == {}, "nothing is kept of calls that have ended"
    provider.shutdown()


def test_calls_within_calls_add_their_resends_up(fake: tidegate.Engine, spans: Any) -> None:
    provider, exporter = spans
    provider.add_span_processor(tidegate.opentelemetry.ResendCount(fake))
    outer, inner = quick(fake, name="outer"), quick(fake, name="inner")
    fetch = failing(1)

    def send() -> str:
        with provider.get_tracer("t").start_as_current_span(
            "GET", kind=trace.SpanKind.CLIENT, attributes={"http.method": "GET"}
        ):
            return str(fetch())

    assert outer.call(lambda: inner.call(send)) == "done"
    told = [
        (span.attributes or {}).get("http.request.resend_count") for span in exporter.get_finished_spans()
    ]
    assert told == [None, 1]
    provider.shutdown()


def test_an_instrumentation_that_is_closed_lets_its_engine_go() -> None:
    """Its instruments stay in the provider, which often is the process's own."""
    provider = MeterProvider(metric_readers=[InMemoryMetricReader()])
    engine = tidegate.Engine(seed=1)
    gone = weakref.ref(engine)
    tidegate.opentelemetry.instrument(engine, meter_provider=provider).close()
    del engine
    gc.collect()
    assert gone() is None
    provider.force_flush()
    provider.shutdown()
