"""Validation of arguments; errors have the wording of the replaced library, and contain the value."""

from __future__ import annotations

import math
from typing import Any


def whole(key: str, value: Any, low: int) -> int:
    """Returns `value` if it is a whole number of `low` or more; else raises a ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        kind = "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number "
        raise ValueError(f"{key} must be {kind}>= {low}, got {value!r}")
    return value


def number(key: str, value: Any, *, above: bool = False, infinite: bool = False) -> float:
    """Returns `value` if it is a number from 0 on (with `above`: above 0), and finite unless `infinite`."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not (value > 0 if above else value >= 0) or (math.isinf(value) and not infinite):
        finite = "" if infinite else "a finite number "
        raise ValueError(f"{key} must be {finite}{'>' if above else '>='} 0, got {value!r}")
    made: float = value
    return made


def named(key: str, value: Any, most: int) -> str:
    """Returns `value` if it is a name of 1 to `most` bytes; else raises a ValueError."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= most:
        raise ValueError(f"{key} must be a string of 1 to {most} bytes, got {value!r}")
    return value
