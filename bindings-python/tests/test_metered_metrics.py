"""Metrics of metered and streaming services arrive in Python's backends (semantics 12.5)."""

from __future__ import annotations

import httpx
import prometheus_client
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import tidegate
import tidegate.opentelemetry
import tidegate.prometheus
from test_metrics import points
from tidegate.httpx import Transport

METERED = """
[targets.chat]
pick = "ladder"
members = ["large", "small"]
default.cooldown = { base = "10s" }

[policy.chat]
targets = "chat"
first_byte_timeout = "5s"
retry = { max_attempts = 2, methods = ["POST"] }

[policy.chat.rate_limit]
limits.tpm = { permits = 60000, per = "1m", burst = 10000, weight = "tokens" }
"""


def answer(request: httpx.Request) -> httpx.Response:
    if tidegate.target() == "large":
        return httpx.Response(429)
    return httpx.Response(
        200, headers={"content-type": "text/event-stream"}, content=iter([b"data: high\n\n"])
    )


def ask(engine: tidegate.Engine) -> None:
    """Makes one streamed call: the large target throttles it, the small one answers."""
    policy = tidegate.loads(METERED, engine=engine)["chat"]
    options = {"tidegate": {"route": "eu", "weights": {"tokens": 600}}}
    with httpx.Client(transport=Transport(httpx.MockTransport(answer), policy=policy)) as client:
        headers = {"accept": "text/event-stream"}
        reply = client.post("https://api.example/", headers=headers, extensions=options)
    assert (reply.status_code, reply.text) == (200, "data: high\n\n")


LIMIT = {"policy": "chat", "route": "eu", "limit": "tpm", "weight": "tokens"}
LARGE = {"policy": "", "route": "chat", "target": "large"}


def test_prometheus_has_them(fake: tidegate.Engine, both_paths: None) -> None:
    registry = prometheus_client.CollectorRegistry()
    tidegate.prometheus.instrument(fake, registry=registry)
    ask(fake)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"tidegate_{name}", labels)

    assert value("rate_limit_reserved_total", **LIMIT) == 1_200
    assert value("rate_limit_settled_total", **LIMIT) == 600, "the throttled attempt has used nothing"
    assert value("rate_limit_tokens", **LIMIT) == 9_400
    assert value("rate_limit_debt", **LIMIT) == 0
    assert value("stream_delivery_seconds_count", policy="chat", route="eu") == 1
    assert value("target_attempts_total", **LARGE) == 1
    assert value("target_attempts_total", **{**LARGE, "target": "small"}) == 1
    assert value("target_failovers_total", **LARGE) == 1
    assert value("target_skips_total", **LARGE, reason="cooldown") == 1
    assert value("cooldown_closings_total", **LARGE) == 1
    assert value("cooldown_state", **LARGE) == 1


def test_opentelemetry_has_them(fake: tidegate.Engine) -> None:
    reader = InMemoryMetricReader()
    tidegate.opentelemetry.instrument(fake, meter_provider=MeterProvider(metric_readers=[reader]))
    ask(fake)
    found = points(reader)
    reserved = [(labels, point.value) for labels, point in found["tidegate.rate_limit_reserved"]]
    assert reserved == [(LIMIT, 1_200)]
    delivery = [(labels, point.count) for labels, point in found["tidegate.stream_delivery"]]
    assert delivery == [({"policy": "chat", "route": "eu"}, 1)]
    assert [point.value for _, point in found["tidegate.target_failovers"]] == [1]
    assert "tidegate.cooldown_closed" not in found, "no time has passed"


def test_records_name_the_delivery_and_the_stall(fake: tidegate.Engine) -> None:
    """Semantics 12.1.4."""
    seen: list[str] = []
    fake.on_event(lambda record: seen.append(record.type), types=["stream_delivered", "stream_stalled"])
    ask(fake)
    assert seen == ["stream_delivered"]
