"""The door's events on an OpenTelemetry span: there when somebody traces, and never in the way."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, httpware, notes, request


class Span:
    def __init__(self, broken: bool) -> None:
        self.broken = broken
        self.events: list[tuple[str, dict[str, Any]]] = []

    def add_event(self, name: str, attributes: dict[str, Any]) -> None:
        self.events.append((name, attributes))
        if self.broken:
            raise RuntimeError("a broken exporter")


@pytest.mark.parametrize("broken", [False, True])
def test_events_are_on_the_current_span(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    span = Span(broken)
    trace = types.ModuleType("opentelemetry.trace")
    trace.get_current_span = lambda: span  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    sync = Colour("sync", door)
    failure = httpware.NetworkError("reset")
    assert sync.fails(sync.make("Retry", max_attempts=1), request(), Chain(failure)) is failure
    assert notes(failure) == ["httpware: gave up after 1 attempts"]
    ((name, said),) = span.events
    assert name == "retry.giving_up"
    assert said == {
        "attempts": 1, "last_exception_type": "NetworkError", "reason": "max_attempts", "method": "GET",
        "url": "http://api.test/a?token=REDACTED",
    }, "what is None is left out"  # fmt: skip


def test_each_event_is_logged_once_by_httpwares_logger(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    sync = Colour("sync", door)
    failures = [httpware.NetworkError("reset"), httpware.NetworkError("reset")]
    sync.fails(sync.make("Retry", max_attempts=2, base_delay=0.001), request(), Chain(*failures))
    breaker = sync.make("CircuitBreaker", failure_threshold=1, reset_timeout=10.0)
    sync.fails(breaker, request(), Chain(httpware.NetworkError("reset")))
    sync.fails(breaker, request(), Chain())
    told = [record.name for record in caplog.records]
    assert told and all(name.startswith("httpware.") for name in told), told
