"""Metrics, events on spans, and `http.request.resend_count` for OpenTelemetry.

    import tidegate.opentelemetry

    tidegate.opentelemetry.instrument()
    tracer_provider.add_span_processor(tidegate.opentelemetry.ResendCount())

Metrics have the names of `docs/telemetry.md` with a dot after the first word, and without the suffixes that
OpenTelemetry expresses by units: `tidegate.calls`, `tidegate.call_duration` in `s`. A Prometheus exporter
adds the suffixes again. This module needs the OpenTelemetry SDK.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from opentelemetry import metrics, trace
from opentelemetry.metrics import Observation
from opentelemetry.sdk.trace import SpanProcessor

from ._call.deadline import current
from ._engine.engine import default_engine
from ._engine.metrics import BOUNDS, FAMILIES, TIMED, Family, Series, measured, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Histogram, MeterProvider
    from opentelemetry.sdk.trace import Span

    from ._engine.engine import Engine
    from .events import Record

__all__ = ["Instrumentation", "ResendCount", "instrument"]

_ON_SPANS: Final = (
    "retry_scheduled",
    "retry_suppressed",
    "gave_up",
    "rejected",
    "hedge_started",
    "hedge_won",
    "breaker_changed",
    "deadline_exceeded",
    "stream_stalled",
)


class Instrumentation:
    """Result of `instrument`. `close` ends the export, unless another result that shares it is still open."""

    def __init__(self, shared: list[_Metrics | _SpanEvents]) -> None:
        self._shared = shared

    def close(self) -> None:
        """Ends this use of the export; a second call changes nothing.

        The last use that ends removes the hooks. The instruments remain but report nothing more.
        """
        with _lock:
            shared, self._shared = self._shared, []
            for one in shared:
                one.users -= 1
                if one.users == 0:
                    _running.discard(one)
                    one.stop()


class _SpanEvents:
    """Adds an engine's records to the current spans."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.users = engine, 0
        self._hook = engine.on_event(self._record, types=_ON_SPANS)

    def stop(self) -> None:
        self._hook.close()

    def _record(self, record: Record) -> None:
        """Adds a record of a call as an event to the current span."""
        span = trace.get_current_span()
        if span.is_recording():
            fields = {
                f"tidegate.{key}": value
                for key, value in record._asdict().items()
                if value is not None and key not in ("type", "seq", "at", "quiet", "call")
            }
            span.add_event(f"tidegate.{record.type}", fields)


class _Metrics:
    """Exports an engine's metrics to a provider."""

    def __init__(self, engine: Engine, provider: MeterProvider) -> None:
        self.engine: Engine | None = engine
        self.provider: MeterProvider | None = provider
        self.users = 0
        self._unread: dict[Family, list[Series]] = {}
        meter = provider.get_meter("tidegate")
        self._histograms: dict[str, Histogram] = {}
        for family in FAMILIES:
            name, unit = _name(family)
            if family.instrument == "counter":
                meter.create_observable_counter(name, [self._observe(family)], unit, family.meaning)
            elif family.instrument == "gauge":
                meter.create_observable_gauge(name, [self._observe(family)], unit, family.meaning)
            else:
                self._histograms[family.name] = meter.create_histogram(
                    name, unit, family.meaning, explicit_bucket_boundaries_advisory=list(BOUNDS)
                )
        self._hook = engine.on_event(self._record, types=TIMED)

    def stop(self) -> None:
        self._hook.close()
        self.engine = self.provider = None  # the provider keeps the instruments, and these keep this object
        self._unread = {}

    def _observe(self, family: Family) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """Makes the callback of a family. One read of the engine serves one callback of each family."""

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            engine = self.engine
            if engine is None:
                return []
            if family not in self._unread:
                self._unread = {known: [] for known in FAMILIES}
                for series in read(engine):
                    self._unread[series.family].append(series)
            names = ("policy", "route", *family.labels)
            return [
                Observation(series.value, dict(zip(names, series.labels, strict=True)))
                for series in self._unread.pop(family, [])
                if not isinstance(series.value, tuple)
            ]

        return observe

    def _record(self, record: Record) -> None:
        """Records the span that a record has for a histogram."""
        why, waits, family = TIMED[record.type]
        span = record.wait_s if waits else record.elapsed_s
        engine = self.engine
        if engine is None or span is None or record.policy is None or why not in (None, record.why):
            return
        route = engine.inspector.label(record.policy, record.route or "")
        self._histograms[family.name].record(span, {"policy": record.policy, "route": route})


_running: Final[WeakSet[_Metrics | _SpanEvents]] = WeakSet()
"""What runs now: each is kept by its hook in the engine."""
_lock: Final = Lock()


def _name(family: Family) -> tuple[str, str]:
    """Returns the OpenTelemetry name of a family, and its unit."""
    name = "tidegate." + family.name.removeprefix("tidegate_").removesuffix("_total")
    return (name.removesuffix("_seconds"), "s") if name.endswith("_seconds") else (name, "1")


def instrument(
    engine: Engine | None = None,
    *,
    meter_provider: MeterProvider | None = None,
    span_events: bool = True,
    max_routes: int = 20,
) -> Instrumentation:
    """Exports an engine's metrics, and adds events of calls to the spans around them.

    Calls for the same engine share one export to each provider, and the events of spans, so that nothing is
    counted twice. It ends with the `close` of the last of their results.

    Args:
        engine: The engine; the default engine of the process if left out.
        meter_provider: The provider; the global one if left out.
        span_events: Whether retries, refusals and the like become events of the current span.
        max_routes: How many routes of each policy have series of their own, 0 to 10,000.

    Raises:
        ValueError: If `max_routes` is out of range.
    """
    engine = measured(engine, max_routes)
    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    with _lock:
        shared: list[_Metrics | _SpanEvents] = [_metrics(engine, provider)]
        if span_events:
            shared.append(_span_events(engine))
        for one in shared:
            one.users += 1
            _running.add(one)
    return Instrumentation(shared)


def _metrics(engine: Engine, provider: MeterProvider) -> _Metrics:
    for one in list(_running):
        if isinstance(one, _Metrics) and one.engine is engine and one.provider is provider:
            return one
    return _Metrics(engine, provider)


def _span_events(engine: Engine) -> _SpanEvents:
    for one in list(_running):
        if isinstance(one, _SpanEvents) and one.engine is engine:
            return one
    return _SpanEvents(engine)


class ResendCount(SpanProcessor):
    """Sets `http.request.resend_count` on the HTTP client spans of repeats, and on no others.

    Instrumentation below a retry layer makes a span for each attempt, but cannot know which of them are
    repeats. Nested calls add up: the second attempt of an inner call within the second attempt of an outer
    call is resend 2.

    Args:
        engine: The engine whose attempts count; the default engine of the process if left out.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = default_engine() if engine is None else engine
        self._calls: dict[int, int] = {}
        self._hook = self._engine.on_event(self._record, types=["attempt_started", "call_done"])

    def _record(self, record: Record) -> None:
        if record.call is None:
            return
        if record.type == "call_done":
            self._calls.pop(record.call, None)
        elif record.attempt > 1:
            self._calls[record.call] = record.attempt - 1

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Sets the attribute when the span of a repeat starts."""
        if not self._calls or span.kind is not trace.SpanKind.CLIENT:
            return
        known = span.attributes or {}
        if "http.request.method" not in known and "http.method" not in known:
            return
        resends, scope = 0, current()
        while scope is not None:
            engine, call, _, scope = scope if type(scope) is tuple else scope._scope  # type: ignore[attr-defined]
            if engine is self._engine:
                resends += self._calls.get(call, 0)
        if resends:
            span.set_attribute("http.request.resend_count", resends)

    def on_end(self, span: Any) -> None:
        """Does nothing."""

    def shutdown(self) -> None:
        """Removes the hook."""
        self._hook.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Returns True: no spans are buffered."""
        return True
