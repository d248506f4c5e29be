"""Metrics for `prometheus_client`. Nothing is counted before `instrument`, or a `Collector`, is asked for.

    import tidegate.prometheus

    tidegate.prometheus.instrument()

The names, their labels and what they say stand in `docs/telemetry.md`. Every series has `policy` and `route`;
the first `max_routes` routes of a policy are told apart, the others are `other`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector as _Base

from ._engine.metrics import BOUNDS, FAMILIES, Family, measured, read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._engine.engine import Engine

__all__ = ["Collector", "instrument"]


class Collector(_Base):
    """Collects an engine's metrics when Prometheus asks for them.

    Between two scrapes a call costs what counting it natively costs, and no Python. A scrape costs one pass
    over calls and routes.

    Args:
        engine: The engine; the process's own if left out. One registry takes one engine.
        max_routes: How many routes of each policy have series of their own, 0 to 10,000. The first collector
            or instrumentation of an engine decides.

    Raises:
        ValueError: If `max_routes` is out of range.
    """

    def __init__(self, engine: Engine | None = None, *, max_routes: int = 20) -> None:
        self._engine = measured(engine, max_routes)

    def describe(self) -> Iterable[Any]:
        """All families, without series: what a registry checks names with."""
        return [_made(family) for family in FAMILIES]

    def collect(self) -> Iterable[Any]:
        """All families with their series, as they are now."""
        made = {family: _made(family) for family in FAMILIES}
        for family, labels, value in read(self._engine):
            if isinstance(value, tuple):
                counts, total = value
                bounds = [*map(str, BOUNDS), "+Inf"]
                made[family].add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
            else:
                made[family].add_metric(labels, value)
        return made.values()


def _made(family: Family) -> Any:
    labels = ["policy", "route", *family.labels]
    if family.instrument == "counter":
        return CounterMetricFamily(family.name.removesuffix("_total"), family.meaning, labels=labels)
    if family.instrument == "gauge":
        return GaugeMetricFamily(family.name, family.meaning, labels=labels)
    return HistogramMetricFamily(family.name, family.meaning, labels=labels)


def instrument(
    engine: Engine | None = None, *, registry: CollectorRegistry | None = None, max_routes: int = 20
) -> Collector:
    """Registers a collector: `registry.unregister` of what it answers ends it.

    Args:
        engine: The engine; the process's own if left out.
        registry: The registry; prometheus_client's own if left out.
        max_routes: As `Collector` has it.

    Raises:
        ValueError: If `max_routes` is out of range, or the registry has a collector of these names.
    """
    collector = Collector(engine, max_routes=max_routes)
    (REGISTRY if registry is None else registry).register(collector)
    return collector
