"""The Prometheus series of bulkheads; imported when the first `Bulkhead(metrics=True)` is made."""

from __future__ import annotations

from typing import Any, Final

try:
    import prometheus_client as prometheus
except ImportError as error:  # pragma: no cover - the tests install it
    raise ImportError(
        "metrics=True needs the package prometheus-client: pip install prometheus-client"
    ) from error

_NAME: Final = "hawkapi_bulkhead"
_in_flight: Final = prometheus.Gauge(f"{_NAME}_in_flight", "Slots held now.", ["name"])
_capacity: Final = prometheus.Gauge(f"{_NAME}_capacity", "The configured limit.", ["name"])
_rejections: Final = prometheus.Counter(
    f"{_NAME}_rejections_total", "Refusals, at once or after a wait.", ["name", "reason"]
)
_latency: Final = prometheus.Histogram(
    f"{_NAME}_acquire_latency_seconds", "Time to get a slot, or to be refused one.", ["name"]
)


class Metrics:
    """The series of one bulkhead."""

    __slots__ = ("_latency", "_rejected", "in_flight")

    def __init__(self, name: str, limit: int, max_wait: float) -> None:
        reason = "timeout" if max_wait > 0 else "fail_fast"
        self.in_flight: Any = _in_flight.labels(name)
        self._rejected = _rejections.labels(name, reason)
        self._latency = _latency.labels(name)
        _capacity.labels(name).set(limit)

    def acquired(self, seconds: float) -> None:
        """Counts an entry, and the time that it waited."""
        self.in_flight.inc()
        self._latency.observe(seconds)

    def rejected(self, seconds: float) -> None:
        """Counts a refusal, and the time that it waited."""
        self._rejected.inc()
        self._latency.observe(seconds)
