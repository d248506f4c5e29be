"""What is wrong with a door's argument, in the words of the library that it stands in for, with the value."""

from __future__ import annotations

import math
from typing import Any


def whole(key: str, value: Any, low: int) -> int:
    """A whole number from `low` on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        kind = "" if isinstance(value, int) and not isinstance(value, bool) else "a whole number "
        raise ValueError(f"{key} must be {kind}>= {low}, got {value!r}")
    return value


def number(key: str, value: Any, *, above: bool = False, infinite: bool = False) -> float:
    """A number from 0 on, or above 0; finite unless it may be infinite."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not (value > 0 if above else value >= 0) or (math.isinf(value) and not infinite):
        finite = "" if infinite else "a finite number "
        raise ValueError(f"{key} must be {finite}{'>' if above else '>='} 0, got {value!r}")
    made: float = value
    return made


def named(key: str, value: Any, most: int) -> str:
    """A name of 1 to `most` bytes."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= most:
        raise ValueError(f"{key} must be a string of 1 to {most} bytes, got {value!r}")
    return value
