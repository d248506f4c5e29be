"""Options of single requests for all client libraries, and `options` blocks that set them for many."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypedDict

from tidegate._call import outcomes
from tidegate._call.caller import limit_of
from tidegate._call.policy import Policy
from tidegate._engine.wire import CRITICALITIES, cost_rule, pack_request, weights_rule, with_opinion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from tidegate._call.deadline import Criticality
    from tidegate._engine.clock import Span


class RequestOptions(TypedDict, total=False):
    """Options of one request; each is optional."""

    policy: Policy | str
    """Another policy for it, or the name of one of the adapter's `policies`."""
    route: str
    """The key that state is kept under; the origin (`https://host:port`) if left out."""
    deadline: Span
    """Time for it, in seconds or as `timedelta`; the earlier of this and the policy's wins."""
    idempotent: bool | None
    """Whether a repeat is harmless; if left out, decided by the method and an `Idempotency-Key` header."""
    criticality: Criticality
    """Importance of the request, which queues use; `normal` if left out."""
    cost: int
    """Rate limit tokens that it takes, 0 to 65,535; 1 if left out."""
    weights: Mapping[str, int]
    """What it will use of the limits that count a weight, by the weights' names."""
    body_factory: Callable[[], Any]
    """Makes a new body for a repeat (bytes, text or an iterable), for a body that can be read only once."""
    stream: bool
    """Whether the answer is a stream; if left out, whether the request accepts `text/event-stream` or asks a
    language model for a stream (`"stream": true`)."""
    retry_header: bool
    """Whether repeats carry `Retry-Attempt: n`."""
    predicate: Callable[[Any], bool | None]
    """Takes each response or exception and returns whether to try again; None keeps the default."""


KEYS: Final = tuple(RequestOptions.__annotations__)
AROUND: Final[ContextVar[_Around | None]] = ContextVar("tidegate.request_options", default=None)
NONE: Final[dict[str, Any]] = {}
NORMAL: Final = pack_request(CRITICALITIES["normal"])
"""The flags of a request without options."""


class options:  # noqa: N801 - it reads as a statement: `with tidegate.requests.options(route="eu"):`
    """Sets options for every request made inside, through any adapter.

    Options of the request itself take precedence, and so do those of an inner block. The options follow the
    context (tasks, `asyncio.to_thread`), as `tidegate.deadline` does.

    Args:
        policy: Another policy, or the name of one of the adapter's `policies`.
        route: The key that state is kept under; the origin if left out.
        deadline: Time for each request: seconds or `timedelta`.
        idempotent: Whether a repeat is harmless.
        criticality: `best_effort`, `degraded`, `normal` or `critical`.
        cost: Rate limit tokens that each request takes, 0 to 65,535.
        weights: What the request will use of the limits that count a weight, such as `{"tokens": 1800}`; each
            attempt counts it.
        body_factory: Makes a new body for a repeat.
        stream: Whether the answer is a stream, to which `first_byte_timeout` applies.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        predicate: Takes each response or exception and returns whether to try again; None keeps the default.

    Raises:
        ValueError: If a key is unknown, or its value is out of range.

    Example:
        ```python
        with tidegate.requests.options(route="catalogue", deadline=2.0):
            session.get(url)
        ```
    """

    __slots__ = ("_given",)

    def __init__(self, **given: Any) -> None:
        check(given)
        self._given = given

    def __enter__(self) -> options:
        AROUND.set(_Around(self, AROUND.get()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A generator may be resumed in another context than the one that entered the block: nothing to undo.
        # Or inside a block that its consumer has entered since, whose end must not bring this one back.
        around, inside = AROUND.get(), []
        while around is not None and around.block is not self:
            inside.append(around.block)
            around = around.before
        if around is not None:
            around = around.before
            for block in reversed(inside):
                around = _Around(block, around)
            AROUND.set(around)


class _Around(dict[str, Any]):
    """The options of a block, merged with those around it.

    The block keeps no state of its own, so that threads and tasks may share one.
    """

    __slots__ = ("before", "block")

    def __init__(self, block: options, before: _Around | None) -> None:
        super().__init__({**(before or NONE), **block._given})
        self.block = block
        self.before = before


def gathered(own: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns the options of one request: its own, which take precedence, merged with those of the context.

    Raises:
        ValueError: If a key is unknown, or its value is out of range.
    """
    around = AROUND.get()
    if own is None or own == NONE:
        return around or NONE
    if not hasattr(own, "keys"):
        raise ValueError(f"tidegate: the options of a request are a dict, not {own!r}")
    check(own)
    return {**around, **own} if around else own


def check(given: Mapping[str, Any]) -> None:
    """Validates options; raises a `ValueError` that names the key, the value and the rule."""
    for key, value in given.items():
        if key not in KEYS:
            raise ValueError(f"tidegate: {key!r} is no option of a request; they are {', '.join(KEYS)}")
        rule = _RULES[key](value)
        if rule is not None:
            raise ValueError(f"tidegate: {key} = {value!r}: must be {rule}")


def _deadline(value: Any) -> str | None:
    try:
        limit_of(value)
    except (ValueError, TypeError):
        return "a number of seconds or a timedelta"
    return None


def _one_of(rule: str, *kinds: type) -> Callable[[Any], str | None]:
    return lambda value: None if isinstance(value, kinds) else rule


def _callable(value: Any) -> str | None:
    return None if value is None or callable(value) else "callable"


def _criticality(value: Any) -> str | None:
    known = isinstance(value, str) and value in CRITICALITIES
    return None if known else f"one of {', '.join(CRITICALITIES)}"


_RULES: Final[dict[str, Callable[[Any], str | None]]] = {
    "policy": _one_of("a Policy, or the name of one of the adapter's `policies`", Policy, str, type(None)),
    "route": _one_of("a string", str, type(None)),
    "deadline": _deadline,
    "idempotent": _one_of("True, False or None", bool, type(None)),
    "criticality": _criticality,
    "cost": cost_rule,
    "weights": weights_rule,
    "body_factory": _callable,
    "stream": _one_of("True or False", bool),
    "retry_header": _one_of("True or False", bool),
    "predicate": _callable,
}


def flags_of(given: Mapping[str, Any]) -> int:
    """Returns the flags of criticality and cost, as `begin` takes them."""
    cost: int = given.get("cost", 1)
    return pack_request(CRITICALITIES[given.get("criticality", "normal")], cost)


def opinion(predicate: Callable[[Any], bool | None], subject: Any, outcome: int) -> int:
    """Returns the outcome with the opinion of the request's predicate; one that raises changes nothing."""
    try:
        answer = outcomes.not_awaitable(predicate(subject))
        opinion = None if answer is None else bool(answer)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        outcomes.warn_once(predicate, error, "predicate")
        return outcome
    if opinion is None:
        return outcome
    if opinion:
        return with_opinion(outcome or outcomes.TRANSIENT, "retry")
    return outcome if outcome == 0 else with_opinion(outcome, "do_not")
