"""Metrics for `prometheus_client`. Counting begins with a call of `instrument`, or with a `Collector`.

    import tidegate.prometheus

    tidegate.prometheus.instrument()

`docs/telemetry.md` lists the metrics, their labels and their meaning. Every series has the labels `policy`
and `route`. The first `max_routes` routes of a policy have their own series; the others share `other`.
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
    """Collects an engine's metrics when Prometheus scrapes them.

    Calls are counted natively, without Python code. A scrape takes one pass over calls and routes.

    Args:
        engine: The engine; the default engine of the process if left out. A registry can hold one engine.
        max_routes: How many routes of each policy have series of their own, 0 to 10,000. The value of an
            engine's first collector or instrumentation applies.

    Raises:
        ValueError: If `max_routes` is out of range.
    """

    def __init__(self, engine: Engine | None = None, *, max_routes: int = 20) -> None:
        self._engine = measured(engine, max_routes)

    def describe(self) -> Iterable[Any]:
        """Returns all families without series; a registry checks their names."""
        return [_made(family) for family in FAMILIES]

    def collect(self) -> Iterable[Any]:
        """Returns all families with their current series."""
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
    """Registers a collector and returns it; `registry.unregister` removes it.

    Args:
        engine: The engine; the default engine of the process if left out.
        registry: The registry; prometheus_client's default registry if left out.
        max_routes: As for `Collector`.

    Raises:
        ValueError: If `max_routes` is out of range, or the registry has a collector with the same names.
    """
    collector = Collector(engine, max_routes=max_routes)
    (REGISTRY if registry is None else registry).register(collector)
    return collector
