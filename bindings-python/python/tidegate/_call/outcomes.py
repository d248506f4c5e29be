"""Outcomes of the exceptions and results of plain callables (semantics 1.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import ref

from tidegate._engine.frozen import Frozen
from tidegate._engine.wire import KINDS, OPINIONS, pack_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate._engine.clock import Span

    from .left import Owner
    from .policy import Policy

Class: TypeAlias = Literal[
    "ok", "transient", "throttled", "timeout", "never_sent", "conflict", "permanent", "ignored", "cancelled"
]

TRANSIENT: Final = pack_outcome(KINDS["transient"])
TIMEOUT: Final = pack_outcome(KINDS["timeout"])
NEVER_SENT: Final = pack_outcome(KINDS["never_sent"])
CONFLICT: Final = pack_outcome(KINDS["conflict"])
PERMANENT: Final = pack_outcome(KINDS["permanent"])
CANCELLED: Final = pack_outcome(KINDS["cancelled"])
STOPPED: Final = -1
"""The caller was cancelled: reported as a Cancel event, and the exception is raised unchanged."""

ASK: Final = -2
"""Returned by `of_type` if the outcome depends on the exception, not only on its type."""

UNLISTED: Final = -3
"""Permanent because the type of the error is not in the table, which its note says."""


class Outcome(Frozen):
    """Result of a `classify` callable, with more detail than a class name.

    Args:
        kind: The class of the outcome, or the name of a kind that the policy declares.
        opinion: `"retry"` or `"do_not"`: whether to retry, whatever the class; None leaves it to the class.
        retry_after: Time to wait as requested by the remote side, in seconds or as `timedelta`, or None. The
            attribute is in seconds.

    Raises:
        TypeError: If `retry_after` is another value.
    """

    kind: str
    opinion: Literal["retry", "do_not"] | None = None
    retry_after: float | None = None

    def __init__(
        self,
        kind: str,
        opinion: Literal["retry", "do_not"] | None = None,
        retry_after: Span | None = None,
    ) -> None:
        wait: Any = retry_after
        if isinstance(wait, timedelta):
            wait = wait.total_seconds()
        elif isinstance(wait, bool) or not isinstance(wait, int | float | None):
            raise TypeError(f"retry_after = {wait!r}: must be a number of seconds or a timedelta")
        self.__dict__.update(kind=kind, opinion=opinion, retry_after=wait)


Classify: TypeAlias = "Callable[[Any], str | int | tuple[int, Any] | Outcome | None]"
"""Returns a class, the name of one of the policy's `kinds`, an `Outcome`, or None for the default.

Or an HTTP status, alone or in a pair with the headers: it is judged like that of a response.
"""


def of_exception(error: BaseException, policy: Policy, owner: Owner = None) -> int:
    """Returns the outcome of an exception that a plain callable raised."""
    if not isinstance(error, Exception):
        return STOPPED
    from .judge import judge

    outcome = judge(error, policy, owner)
    return PERMANENT if outcome == UNLISTED else outcome


def of_type(kind: type[BaseException]) -> int:
    """Returns the outcome of a type's exceptions, or `ASK`. The native half caches it for each type."""
    if not issubclass(kind, Exception):
        return STOPPED
    from .judge import of_type_alone

    outcome = of_type_alone(kind)
    return ASK if outcome is None else outcome


RETURNS: Final = "names of classes, statuses, pairs of status and headers, tidegate.Outcome, and None"
"""What `classify` may return."""


def check_classify(classify: object) -> None:
    """Raises a TypeError unless this is a function, or None."""
    if classify is not None and not callable(classify):
        raise TypeError(f"classify = {classify!r}: must be a function that takes a result or an exception")


def by(classify: Classify, subject: Any, default: int, policy: Policy) -> int:
    """Returns the outcome that the user's `classify` names; `default` if it returns None or raises."""
    kinds = policy._kinds
    try:
        answer = not_awaitable(classify(subject))
        if answer is None:
            return default
        if isinstance(answer, (int, tuple)):
            from .judge import of_status

            return of_status(answer, policy)
        if isinstance(answer, str):
            return pack_outcome(_number(answer, kinds))
        if not isinstance(answer, Outcome):
            raise Unknown(f"it returned a {type(answer).__name__}; there are {RETURNS}")
        return pack_outcome(_number(answer.kind, kinds), OPINIONS[answer.opinion], answer.retry_after)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        warn_once(classify, error)
        return default


def _number(name: str, kinds: Mapping[str, int]) -> int:
    number = kinds.get(name)
    if number is None:
        known = ", ".join(kinds)
        raise Unknown(f"{name!r} is no class, and no kind that the policy declares; there are {known}")
    return number


def not_awaitable(answer: Any) -> Any:
    """Returns what a user's function returned; refuses what an async one did, which is true and unknown."""
    if hasattr(type(answer), "__await__"):
        close = getattr(answer, "close", None)
        if close is not None:
            close()  # prevents the warning that the coroutine was never awaited
        raise Unknown("it is async, and nothing awaits it")
    return answer


class Unknown(LookupError):
    """Raised for what a user's function returns and nobody knows; its text may be shown."""


_warned: dict[int, object] = {}
"""Callables already warned about, by id. A weak reference removes the entry, since ids are reused."""


def warn_once(judge: Any, error: BaseException, name: str = "classify") -> None:
    """Warns once per failing callable that it is ignored.

    The text of its error is left out, since it may quote a response.
    """
    key = id(judge)
    if key in _warned:
        return
    try:
        _warned[key] = ref(judge, lambda _: _warned.pop(key, None))
    except TypeError:
        _warned[key] = judge  # a strong reference, so that the id is not reused
    import warnings

    try:
        where = f"{judge.__module__}.{judge.__qualname__}"
    except Exception:
        where = type(judge).__name__
    why = f": {error}" if isinstance(error, Unknown) else ""
    try:
        warnings.warn(
            f"tidegate: {name}={where} failed, and is ignored where it does: {type(error).__name__}{why}",
            RuntimeWarning,
            stacklevel=2,
        )
    except Exception:  # noqa: S110 - a warning turned into an error must not break the call either
        pass
