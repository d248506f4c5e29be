"""Common base of all parts: settings that core validates, copying, and no pickling."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from tidegate._engine.clock import to_us
from tidegate._engine.engine import draw_seed
from tidegate._engine.errors import PolicyError
from tidegate._engine.options import UNSET, pairs_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from tidegate._engine.clock import Span

U8: Final = (1 << 8) - 1
U16: Final = (1 << 16) - 1
U32: Final = (1 << 32) - 1
U64: Final = (1 << 64) - 1
LONGEST: Final = 2**53
_YEAR_US: Final = 365 * 86_400 * 10**6


class Part:
    """One of core's parts. `copy.copy` makes an independent copy with the same state."""

    __slots__ = ("_native",)

    _native: Any

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin._native = self._native.copy()
        return twin

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        # Times on a clock of this process have no meaning in another process.
        raise TypeError(
            f"a {type(self).__name__} is not pickled: its state belongs to this process; make one of the "
            "same settings where it is wanted (a DDSketch alone is data, and is pickled)"
        )


def made(native: Any, table: str, options: Mapping[str, Any], *rest: Any) -> Any:
    """Makes or retunes a native part. Mistakes name the keys of the part instead of those of a policy."""
    nested: Mapping[str, Any] = options
    for name in reversed(table.split(".")):
        nested = {name: nested}
    try:
        return native(pairs_of(nested), *rest)
    except PolicyError as error:
        prefix = f"{table}."
        mistakes = [
            (key.removeprefix(prefix), value, rule.replace(prefix, "")) for key, value, rule in error.mistakes
        ]
        raise PolicyError(mistakes) from None


def seed_of(seed: int | None) -> int:
    """Returns the given seed, or one drawn from the operating system."""
    return draw_seed() if seed is None else seed & U64


def whole(key: str, value: Any, low: int, high: int) -> int:
    """Returns `value` if it is a whole number within the range; else raises a ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{key} = {value!r}: must be a whole number from {low} to {high}") from None
    return int(value)


def real(key: str, value: Any, low: float, high: float) -> float:
    """Returns `value` if it is a number within the range; else raises a ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError(f"{key} = {value!r}: must be a number from {low} to {high}") from None
    return float(value)


def seconds(value: Span) -> float:
    """Converts a measured span to seconds; other values stay unchanged, and core rejects them."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def lease_us(lease: Span) -> int | None:
    """Converts the lease of a probe, 1 µs to 365 days, to microseconds; None for core's default."""
    if lease is UNSET:
        return None
    us = to_us(lease)
    if isinstance(us, str) or not 1 <= us <= _YEAR_US:
        raise ValueError(
            f"probe_lease = {lease!r}: must be seconds or a timedelta, from 0.000001 (1 µs) to 365 days"
        ) from None
    return int(us)
