"""Delays: the default backoff strategy of the Smithy design, on the engine's `Backoff`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from tidegate._engine.clock import to_us
from tidegate._engine.errors import PolicyError
from tidegate.parts import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

_KEYS: Final = {"base": "backoff_scale_value", "max": "max_backoff"}
_MOST: Final = 255
"""Highest retry number that the engine distinguishes; long before it, every delay is `max_backoff`."""


class ExponentialBackoffJitterType(Enum):
    """Jitter of `ExponentialRetryBackoffStrategy` for a delay d = min(max_backoff, scale·2^(n−1))."""

    DEFAULT = 1
    """Equal jitter: half of d, plus a random part of the other half."""
    NONE = 2
    """Exactly d."""
    FULL = 3
    """Random between 0 and d."""
    DECORRELATED = 4
    """Random between the scale and three times the previous delay, at most `max_backoff`."""


_JITTERS: Final[dict[ExponentialBackoffJitterType, Literal["equal", "none", "full", "decorrelated"]]] = {
    ExponentialBackoffJitterType.DEFAULT: "equal",
    ExponentialBackoffJitterType.NONE: "none",
    ExponentialBackoffJitterType.FULL: "full",
    ExponentialBackoffJitterType.DECORRELATED: "decorrelated",
}


class ExponentialRetryBackoffStrategy:
    """Exponential backoff with jitter.

    Stateless with any jitter: a decorrelated delay is computed from its own random draws, independent of
    other requests. High retry numbers do not overflow.

    Args:
        backoff_scale_value: The delay before the first retry, without jitter: seconds, 0 to 365 days.
        max_backoff: The longest delay: seconds, 0 to 365 days.
        jitter_type: Kind of random variation of the delays.
        random: Returns numbers between 0 and 1, in place of the engine's own random generator.
        seed: Seed of the engine's random generator, 64 bits, used if `random` is left out; drawn from the
            operating system if left out too.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> backoff = ExponentialRetryBackoffStrategy(
        ...     backoff_scale_value=2, jitter_type=ExponentialBackoffJitterType.NONE
        ... )
        >>> [backoff.compute_next_backoff_delay(n) for n in range(7)]
        [0.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    """

    def __init__(
        self,
        *,
        backoff_scale_value: float = 0.025,
        max_backoff: float = 20,
        jitter_type: ExponentialBackoffJitterType = ExponentialBackoffJitterType.DEFAULT,
        random: Callable[[], float] | None = None,
        seed: int | None = None,
    ) -> None:
        if jitter_type not in _JITTERS:
            raise ValueError(
                f"jitter_type = {jitter_type!r}: must be a member of ExponentialBackoffJitterType"
            )
        self._random = random
        self._jitter = jitter_type
        jitter = _JITTERS[jitter_type]
        above = _above(backoff_scale_value, max_backoff)  # allowed here: every delay is then the cap
        try:
            most = backoff_scale_value if above else max_backoff
            self._backoff = Backoff(base=backoff_scale_value, max=most, jitter=jitter, seed=seed)
            if above:
                self._backoff = Backoff(base=max_backoff, max=max_backoff, jitter=jitter, seed=seed)
        except PolicyError as error:
            raise PolicyError(
                [(_KEYS.get(key, key), value, rule) for key, value, rule in error.mistakes]
            ) from None
        self._scale = self._backoff.ceiling(1)
        self._max = self._backoff.ceiling(_MOST)

    def compute_next_backoff_delay(self, retry_attempt: int) -> float:
        """Returns the seconds to wait before a retry; 0 before the first attempt, which is number 0.

        Raises:
            ValueError: If `retry_attempt` is not a whole number of 0 or more.
        """
        if not is_count(retry_attempt):
            raise ValueError(f"retry_attempt = {retry_attempt!r}: must be a whole number of 0 or more")
        if retry_attempt == 0:
            return 0.0
        n = min(retry_attempt, _MOST)
        if self._random is None:
            return self._backoff.delay(n)
        return self._drawn(n, self._random)

    def _drawn(self, n: int, random: Callable[[], float]) -> float:
        """Returns the delay computed with the user's random numbers."""
        if self._jitter is ExponentialBackoffJitterType.DECORRELATED:
            delay = self._scale
            for _ in range(n):
                delay = min(self._scale + random() * (3 * delay - self._scale), self._max)
            return delay
        capped = self._backoff.ceiling(n)
        if self._jitter is ExponentialBackoffJitterType.NONE:
            return capped
        share = random()
        return capped * (share if self._jitter is ExponentialBackoffJitterType.FULL else 0.5 + 0.5 * share)


def _above(scale: float, most: float) -> bool:
    first, second = to_us(scale), to_us(most)
    return isinstance(first, float) and isinstance(second, float) and first > second


def is_count(value: object) -> bool:
    """Returns whether the value is a whole number of 0 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
