# Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.
"""Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed?

All of them take any unit, and all ignore NaN and the infinities, so that one bad reading spoils nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate import _native

from ._part import U32, U64, Part, real, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self


class P2Quantile(Part):
    """One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).

    Jain and Chlamtac, CACM 28(10), 1985. 88 bytes, whatever the number of values; there is no forgetting.
    Exact below five values; a quantile far from the middle is estimated too low (or high) until some 3 ÷ (1 −
    p) values have moved the marker to its place.

    Args:
        p: The quantile, 0.001 to 0.999; 0.5 is the median.

    Raises:
        ValueError: If `p` is outside its range.

    Example:
        >>> median = P2Quantile(0.5)
        >>> for value in range(1, 1002):
        ...     median.observe(value)
        >>> median.estimate, median.count
        (501.0, 1001)
    """

    __slots__ = ()

    def __init__(self, p: float) -> None:
        self._native: _native.P2Quantile = _native.P2Quantile(real("p", p, 0.001, 0.999))

    def observe(self, x: float) -> None:
        """Adds one value. NaN and the infinities are ignored."""
        self._native.observe(x)

    @property
    def estimate(self) -> float | None:
        """The estimate; None before the first value."""
        return self._native.estimate()

    @property
    def count(self) -> int:
        """Number of values."""
        return self._native.count()


class WindowedP2Quantile(Part):
    """One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).

    Two overlapping `P2Quantile`s, so that old values are forgotten and there is always an answer.

    Args:
        p: The quantile, 0.001 to 0.999; 0.5 is the median.
        window: How many values are remembered at most; 10 to 2^32 − 1. An odd window is one value shorter.

    Raises:
        ValueError: If `p` or `window` is outside its range.

    Example:
        >>> p95 = WindowedP2Quantile(0.95, window=512)
        >>> for latency in [0.020] * 10_000 + [0.080] * 512:
        ...     p95.observe(latency)
        >>> p95.estimate
        0.08
    """

    __slots__ = ()

    def __init__(self, p: float, window: int) -> None:
        self._native: _native.WindowedP2Quantile = _native.WindowedP2Quantile(
            real("p", p, 0.001, 0.999),
            whole("window", window, 10, U32),
        )

    def observe(self, x: float) -> None:
        """Adds one value. NaN and the infinities are ignored."""
        self._native.observe(x)

    @property
    def estimate(self) -> float | None:
        """The estimate; None before the first value, exact below five."""
        return self._native.estimate()

    @property
    def count(self) -> int:
        """Number of values behind the estimate."""
        return self._native.count()

    def reset(self) -> None:
        """Forgets all values."""
        self._native.reset()


class DDSketch(Part):
    """All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).

    Masson, Rim and Lee, VLDB 2019, with integer arithmetic: the same bins on every machine and in every
    language. At most 2,048 bins, 16 KiB; a negative value counts as zero. A sketch is data: equal ones
    compare equal, and it can be sent as words.

    Args:
        alpha: The relative accuracy, 0.001 to 0.25; by default 0.01, so 1 %.

    Raises:
        ValueError: If `alpha` is outside its range.

    Example:
        >>> here, there = DDSketch(alpha=0.01), DDSketch(alpha=0.01)
        >>> for ms in range(1, 501):
        ...     here.add(ms)
        >>> for ms in range(501, 1002):
        ...     there.add(ms)
        >>> here.merge(there)
        >>> here.count, here.max, abs(here.quantile(0.5) - 501) <= 5.01
        (1001, 1001.0, True)
        >>> DDSketch.from_words(here.to_words()) == here
        True
    """

    __slots__ = ()

    def __init__(self, alpha: float = 0.01) -> None:
        self._native: _native.DDSketch = _native.DDSketch(real("alpha", alpha, 0.001, 0.25))

    def add(self, x: float) -> None:
        """Adds one value. NaN and the infinities are ignored."""
        self._native.add(x)

    def quantile(self, q: float) -> float | None:
        """Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.

        Those two are exact, all others within `alpha` of the true value, relative to it. None of an empty
        sketch. `q` is 0 to 1.

        Raises:
            ValueError: If `q` is outside its range.
        """
        return self._native.quantile(real("q", q, 0.0, 1.0))

    @property
    def count(self) -> int:
        """Number of values."""
        return self._native.count()

    @property
    def sum(self) -> float:
        """The sum of the values, in the order in which they came."""
        return self._native.sum()

    @property
    def min(self) -> float | None:
        """The least value, exactly; None of an empty sketch."""
        return self._native.min()

    @property
    def max(self) -> float | None:
        """The greatest value, exactly; None of an empty sketch."""
        return self._native.max()

    @property
    def alpha(self) -> float:
        """The relative accuracy that is kept: at most what was asked for."""
        return self._native.alpha()

    @property
    def gamma(self) -> float:
        """(1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged."""
        return self._native.gamma()

    def clear(self) -> None:
        """Forgets all values and keeps the accuracy."""
        self._native.clear()

    def to_words(self) -> list[int]:
        """The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact."""
        return self._native.to_words()

    def merge(self, other: DDSketch) -> None:
        """Takes in all that another sketch holds, as if each of its values had been added here.

        Raises:
            ValueError: If the other has another `alpha`, or the two hold more than 2^53 − 1 values. Neither
                has changed.
        """
        self._native.merge(other._native)

    @classmethod
    def from_words(cls, words: Iterable[int]) -> Self:
        """The sketch that these words are: `to_words` of one in any language.

        Raises:
            ValueError: If they are no sketch; with the rule that they break.
        """
        given = list(words)
        try:
            native = _native.DDSketch.from_words(given)
        except (OverflowError, TypeError):
            for place, word in enumerate(given):
                whole(f"words[{place}]", word, 0, U64)
            raise
        sketch = cls.__new__(cls)
        sketch._native = native
        return sketch

    def __eq__(self, other: object) -> bool:
        return self._native.equals(other._native) if isinstance(other, DDSketch) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # what it is equal to changes

    def __reduce__(self) -> tuple[Callable[[list[int]], Any], tuple[list[int]]]:  # type: ignore[override]
        return type(self).from_words, (self.to_words(),)
