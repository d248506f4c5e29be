"""What a request to a language model is going to use, and what its answer has used (semantics 15.6, 15.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from tidegate._engine.wire import weights_rule
from tidegate._native import estimate_of, weight_of

from .outcomes import Unknown, warn_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Weigh = Callable[["Estimate"], "Mapping[str, int] | None"]
    Used = Callable[["Usage"], "Mapping[str, int] | None"]

_MOST: Final = 1_000


class Factors(NamedTuple):
    """How much a token counts, from 0 to 1,000, to three decimals."""

    input: float = 1.0
    """A token of the prompt that was not cached."""
    cached: float = 1.0
    """A token of the prompt that was read from a cache."""
    output: float = 1.0
    """A token of the answer. Amazon Bedrock counts some models' five times."""


class Estimate(NamedTuple):
    """What a request to a language model is going to use. A request without a body uses nothing."""

    input: int
    """Tokens of the prompt: one for each four bytes of its texts."""
    output: int | None
    """The most tokens that the answer may have; None if the request does not say so."""
    stream: bool
    """Whether the answer is going to be a stream."""


class Usage(NamedTuple):
    """What an answer of a language model says that it has used."""

    input: int
    """Tokens of the whole prompt, with those that were cached."""
    cached: int
    """Tokens of the prompt that were read from a cache."""
    output: int
    """Tokens of the answer, with those of the model's thoughts."""


class Metering(TypedDict):
    """The options `weigh` and `usage` of an adapter."""

    weigh: Weigh
    usage: Used


def tokens(weight: str = "tokens", *, output: int = 1000, factors: Factors = Factors()) -> Metering:  # noqa: B008
    """Makes the options `weigh` and `usage` of an adapter, for a limit that counts tokens.

    A request reserves what its body tells, and settles what its answer says, plain or streamed. They read
    OpenAI, Anthropic, Gemini, Bedrock, and services that speak like one of them.

    Args:
        weight: The weight that they count for.
        output: Tokens that an answer is taken to have if its request does not limit them.
        factors: How much each kind of token counts.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        ```python
        transport = tidegate.httpx.Transport(httpx.HTTPTransport(), policy, **tidegate.tokens(output=800))
        ```
    """
    broken = weights_rule({weight: output})
    if broken is not None:
        raise ValueError(f"{weight!r}, output = {output!r}: must be {broken}")
    for name, factor in factors._asdict().items():
        if not 0 <= factor <= _MOST:
            raise ValueError(f"factors.{name} = {factor!r}: must be a number from 0 to {_MOST:,}")
    return {"weigh": _Weigh(weight, output, factors), "usage": _Used(weight, factors)}


class _Used:
    """Counts an answer's tokens. A class, so that adapters with it can be pickled."""

    def __init__(self, weight: str, factors: Factors) -> None:
        self._weight = weight
        # Whole thousandths, because sums of fractions are inexact.
        self._factors = tuple(round(factor * 1000) for factor in factors)

    def __call__(self, answer: Usage) -> dict[str, int]:
        made = weight_of(tuple(answer), self._factors)  # type: ignore[arg-type]
        return {self._weight: made or 0}


class _Weigh(_Used):
    """Counts a request's tokens."""

    def __init__(self, weight: str, output: int, factors: Factors) -> None:
        super().__init__(weight, factors)
        self._output = output

    def __call__(self, request: Estimate) -> dict[str, int]:  # type: ignore[override]
        output = self._output if request.output is None else request.output
        return super().__call__(Usage(request.input, 0, output))


def estimated(path: str, body: bytes) -> Estimate:
    """Reads a request, whose path may have a query."""
    return Estimate(*estimate_of(path.encode("utf-8", "replace"), body)) if body else Estimate(0, 0, False)


def amounts(callback: Any, subject: Estimate | Usage, name: str) -> dict[str, int]:
    """Returns the weights that a user's `weigh` or `usage` names; none if it returns None, or raises."""
    try:
        weights: Mapping[str, int] | None = callback(subject)
        if weights is None:
            return {}
        broken = weights_rule(weights)
        if broken is not None:
            raise Unknown(f"{weights!r} must be {broken}")
        return dict(weights)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        warn_once(callback, error, name)
        return {}
