"""Secrets stay where they are: nothing that we write, keep, count or send contains one (SECURITY.md)."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from typing import Any

import prometheus_client
import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tidegate
import tidegate.opentelemetry
import tidegate.prometheus
from adapters import Adapter
from adapters import http as http
from conftest import Origin
from tidegate.testing import MemoryStore

CANARY = "c4n4ry"
USER = f"{CANARY}-user:{CANARY}-password"
QUERY = f"?token={CANARY}-query"
HEADERS = {"Cookie": f"session={CANARY}-header", "X-Api-Key": f"{CANARY}-key"}
BODY = f"{CANARY}-body".encode()
SETTINGS: dict[str, Any] = {
    "retry": {"max_attempts": 2, "backoff": {"base": 0.001, "max": 0.001}, "hold": True},
    "rate_limit": {"permits": 100, "per": 1, "store": "fleet"},
    "breaker": {"consecutive": 3, "break_duration": 60},
    "bulkhead": {"max_concurrency": 4},
    "deadline": 5.0,
}


class Watched:
    """Everything that leaves an engine or is kept in it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, engine: tidegate.Engine, store: Any) -> None:
        self.engine, self.store, self.caplog = engine, store, caplog
        self.said: list[str] = []
        self.registry = prometheus_client.CollectorRegistry()
        self.reader, self.spans = InMemoryMetricReader(), InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        caplog.set_level(logging.DEBUG)
        engine.on_event(lambda record: self.said.append(repr(record)))
        tidegate.prometheus.instrument(engine, registry=self.registry)
        provider = MeterProvider(metric_readers=[self.reader])
        tidegate.opentelemetry.instrument(engine=engine, meter_provider=provider)

    def noted(self, error: BaseException) -> None:
        """What we have put on an exception, or said in one of ours. Its own text is its author's."""
        self.said += getattr(error, "__notes__", [])
        if isinstance(error, tidegate.TidegateError):
            self.said += [str(error), repr(error)]
        explained = self.engine.explain(error)
        self.said += [] if explained is None else [str(explained), repr(explained)]

    def all(self) -> dict[str, str]:
        """By where it was found."""
        ours = [record for record in self.caplog.records if record.name.startswith("tidegate")]
        return {
            "logs": "\n".join(f"{record.getMessage()} {record.__dict__}" for record in ours),
            "notes, events": "\n".join(self.said),
            "prometheus": prometheus_client.generate_latest(self.registry).decode(),
            "opentelemetry": str(self.reader.get_metrics_data()),
            "spans": "\n".join(span.to_json() for span in self.spans.get_finished_spans()),
            "journal": self.engine.journal(),
            "state": self.engine.save(),
            "snapshot": json.dumps(self.engine.snapshot(), default=str),
            "store": "\n".join(self.store.seen),
        }

    def check(self) -> None:
        found = [where for where, text in self.all().items() if CANARY in text]
        assert found == []


class Spying(MemoryStore):
    """A store that remembers what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        self.seen.append(repr(words))
        return super().carry(words, key, seconds)


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture) -> Watched:
    store = Spying()
    engine = tidegate.Engine(seed=1, journal=True, store=store)
    return Watched(caplog, engine, store)


def test_a_request_of_an_adapter_leaves_no_secret_behind(
    http: Adapter, origin: Origin, watched: Watched
) -> None:
    policy = tidegate.Policy("canary", engine=watched.engine, classify=quoter(), **SETTINGS)
    client = http.open(policy)
    url = origin.url.replace("://", f"://{USER}@") + "/x" + QUERY
    nowhere = f"http://{USER}@127.0.0.1:9/x{QUERY}"
    tracer = watched.tracing.get_tracer("canary")
    origin.sequence({"status": 429, "headers": {"Retry-After": "0", "X-Echo": f"{CANARY}-echo"}}, 200)
    with tracer.start_as_current_span("request"), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for where in [url, url, *[nowhere] * 4]:
            try:
                answer = client.request("PUT", where, headers=HEADERS, body=BODY, tg={"predicate": quoter()})
                watched.said.append(repr(answer.info))
            except Exception as error:
                watched.noted(error)
    watched.said += [str(warning.message) for warning in told]
    assert any("quoting failed" in text for text in watched.said)
    assert any(record.name == "tidegate" for record in watched.caplog.records)
    assert any("EVALSHA" in words or "EVAL" in words for words in watched.store.seen)
    assert watched.spans.get_finished_spans()
    watched.check()


def quoter() -> Any:
    """A classifier or predicate whose error quotes what it was given; each is warned of once."""

    def quoting(value: Any) -> None:
        raise ValueError(f"{CANARY}-judge {value!r}")

    return quoting


def test_functions_arguments_results_and_errors_stay_out(watched: Watched) -> None:
    policy = tidegate.Policy("canary", engine=watched.engine, **SETTINGS)

    def fails(password: str) -> None:
        raise ConnectionError(f"no route to {password}")

    def broken_hook(_: Any) -> None:
        raise ValueError("a hook knows no secret")

    watched.engine.on_event(broken_hook)
    for _ in range(4):
        try:
            policy.call(fails, f"{CANARY}-argument")
        except Exception as error:
            watched.noted(error)
    with contextlib.suppress(ConnectionError):
        policy.at(fallback=lambda error: f"{CANARY}-fallback").call(fails, f"{CANARY}-argument")
    watched.check()


def test_a_store_that_fails_with_its_password_in_the_text(caplog: pytest.LogCaptureFixture) -> None:
    class Away(Spying):
        def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
            raise ConnectionRefusedError(111, f"connecting to redis://:{CANARY}@store:6379")

    store = Away()
    watched = Watched(caplog, tidegate.Engine(seed=1, journal=True, store=store), store)
    policy = tidegate.Policy("canary", engine=watched.engine, **SETTINGS)
    assert policy.call(int) == 0
    assert "the fleet's store has not answered: ConnectionRefusedError: 111" in caplog.text
    watched.check()


# Log lines that a key forges (S8).

FORGED = [
    "eu\n2026-11-22 CRITICAL root: all is lost",
    "eu\r\nSet-Cookie: a=b",
    "\x1b[2J\x1b[31mred",
    "left\u202eright\u2066",
    "zero\u200bwidth\u0085next\u2028line",
    "nul\x00",
    "lone \ud800",
    "x" * 100_000,
]


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("key", FORGED, ids=range(len(FORGED)))
def test_a_route_key_forges_no_line(key: str, structured: bool, caplog: pytest.LogCaptureFixture) -> None:
    engine, lines = tidegate.Engine(seed=1), []
    if structured:

        def kept(logger: Any, method: str, fields: dict[str, Any]) -> Any:
            lines.extend(str(value) for value in fields.values())
            raise structlog.DropEvent

        structlog.configure(processors=[kept])
    caplog.set_level(logging.DEBUG, "tidegate")
    try:
        policy = tidegate.Policy(
            "forged", engine=engine, retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}}
        )
        try:
            bound = policy.at(route=key)
        except ValueError as refused:  # a key that no engine takes: the refusal shows it escaped
            lines.append(str(refused))
        else:
            with pytest.raises(ConnectionError):
                bound.call(away)
            policy.force_open(key)
            with pytest.raises(tidegate.ForcedOpen) as raised:
                bound.call(away)
            lines.append(str(raised.value))
    finally:
        structlog.reset_defaults()
    lines += [record.getMessage() for record in caplog.records]
    assert lines
    for line in lines:
        assert line.isprintable(), line
        assert len(line) < 5_000


def away() -> None:
    raise ConnectionError
