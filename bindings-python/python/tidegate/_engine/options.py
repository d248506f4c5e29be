"""Conversion of a policy's typed options to the pairs that core validates.

Defaults and ranges are not repeated here: core has them in its table of keys (`core/src/policy/components`)
and applies the defaults. The option classes are generated from that table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidegate._native import keys

from .clock import to_us
from .errors import PolicyError
from .frozen import UNSET, Options
from .options_gen import (
    POOLS,
    PRESENCE,
    PRESET_TABLES,
    Backoff,
    Breaker,
    Budget,
    Bulkhead,
    Cooldown,
    Hedge,
    HedgeBudget,
    Named,
    RateLimit,
    Retry,
    Throttle,
)

__all__ = [
    "POOLS",
    "TABLE",
    "UNSET",
    "Backoff",
    "Breaker",
    "Budget",
    "Bulkhead",
    "Cooldown",
    "Hedge",
    "HedgeBudget",
    "Named",
    "RateLimit",
    "Retry",
    "Throttle",
    "pairs_of",
    "pairs_of_pool",
]

TABLE: Final = keys()
"""Core's table: key → (its domain, its default in the notation of documents)."""


def pairs_of(config: Mapping[str, Any]) -> list[tuple[str, float | str]]:
    """Converts a policy's options to pairs, which core validates."""
    pairs: list[tuple[str, float | str]] = []
    for key, value in config.items():
        if value is not None:
            _flatten(key, value, pairs, "preset" in config)
    return pairs


def pairs_of_pool(kind: str, options: Any) -> list[tuple[str, float | str]]:
    """Converts a pool's options to pairs: those of its component, without the prefix of the table."""
    pairs: list[tuple[str, float | str]] = []
    _flatten(POOLS[kind], options, pairs, False)
    return [(key[len(POOLS[kind]) + 1 :], value) for key, value in pairs]


def _flatten(path: str, value: Any, pairs: list[tuple[str, float | str]], preset: bool) -> None:
    if value is UNSET:
        return
    if path in PRESENCE:
        if value is None or value == "none":
            value = {"kind": "none"}
        items = value.fields() if isinstance(value, Options) else value
        if not isinstance(items, Mapping):
            raise PolicyError(
                [(path, repr(value), "must be its options: the typed ones, or a dict of the same keys")]
            )
        before = len(pairs)
        for key, item in items.items():
            _flatten(f"{path}.{key}", item, pairs, preset)
        if len(pairs) == before and not (preset and path in PRESET_TABLES):
            marker = PRESENCE[path]
            domain, default = TABLE[marker]
            pairs.append((marker, default if domain == "choice" else float(default)))
        return
    domain = TABLE.get(path, ("unknown", ""))[0]
    if domain == "kinds" and isinstance(value, Mapping):
        pairs.extend((path, f"{name}={base}") for name, base in value.items())
        if not value:
            pairs.append((path, ""))
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            _flatten(f"{path}.{key}", item, pairs, preset)
    elif domain == "list" and not isinstance(value, (str, int, float)):
        values = list(value) or [""]
        pairs.extend((path, _plain(item, "count" if isinstance(item, int) else "choice")) for item in values)
    else:
        pairs.append((path, _plain(value, domain)))


def _plain(value: Any, domain: str) -> float | str:
    """Converts a value to a number or a word for core. Other values become text, which core rejects."""
    if value is None:
        return "none"
    if domain == "name" and not isinstance(value, str) and isinstance(getattr(value, "name", None), str):
        return str(value.name)
    if domain == "span":
        us: float | str = to_us(value)
        return us
    if isinstance(value, bool):
        return float(value) if domain == "flag" else repr(value)
    if isinstance(value, (int, float)):
        if domain == "flag":
            return repr(value)
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return value if isinstance(value, str) else repr(value)
