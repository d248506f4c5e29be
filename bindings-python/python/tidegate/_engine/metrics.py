"""Common code of metrics backends: the families, and their current series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidegate import _native

from .engine import engine_of

if TYPE_CHECKING:
    from .engine import Engine


class Family(NamedTuple):
    """All series of one name; `labels` are those besides `policy` and `route`, which all families have."""

    name: str
    instrument: str
    labels: tuple[str, ...]
    meaning: str


class Series(NamedTuple):
    """One series: a number, or the counts and the sum of a histogram."""

    family: Family
    labels: tuple[str, ...]
    value: float | tuple[list[int], float]


FAMILIES: Final = tuple(
    Family(name, kind, tuple(labels), meaning) for name, kind, labels, meaning in _native.families()
)
TIMED: Final = {kind: (why, waits, FAMILIES[family]) for kind, why, waits, family in _native.timed()}
"""By a record's type: what its call must have waited for, whether its wait counts, and the histogram."""
BOUNDS: Final = tuple(_native.bounds())
"""The upper bounds of histograms, in seconds."""


def measured(engine: Engine | None, max_routes: int) -> Engine:
    """Makes an engine (the default engine if None) count for metrics from now on, and returns it.

    Raises:
        ValueError: If `max_routes` is out of range.
        TypeError: If `engine` is no engine.
    """
    if not 0 <= max_routes <= 10_000:
        raise ValueError(f"max_routes = {max_routes!r}: must be a whole number from 0 to 10000")
    engine = engine_of(engine)
    engine.inspector.measure(max_routes)
    return engine


def read(engine: Engine) -> list[Series]:
    """Returns all series with their current values."""
    return [
        Series(FAMILIES[family], (policy, route, *labels), value)
        for family, policy, route, labels, value in engine.inspector.series()
    ]
