"""Outcomes that an inner call passes to its outer call when it leaves a retry to it (semantics 1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate import _native
from tidegate._engine.wire import KINDS, kind_of, pack_outcome, with_opinion

if TYPE_CHECKING:
    from .policy import Policy

_KEY: Final = "__tidegate_left__"
"""Attribute in which an exception stores the outcome. The native half looks up the same name."""

_STEPS_BACK: Final = {"nested": "retry", "method": "do_not", "one_shot_body": "do_not", "opinion": "do_not"}
"""The verdicts that pass an outcome on, and the opinion about a retry by the outer call."""

_KIND: Final = pack_outcome(31)
_answers: Final[dict[int, tuple[Any, int]]] = {}
"""By id of a failed result: a weak reference, which removes the entry, and the outcome."""


def leave(value: Any, ok: bool, verdict: str, outcome: int, policy: Policy) -> None:
    """Stores the outcome of a call with its exception or failed result, for the next outer call."""
    opinion = _STEPS_BACK.get(verdict)
    if opinion is None or outcome < 0 or (ok and opinion == "do_not"):
        return
    number = kind_of(outcome)
    if number >= len(KINDS):  # numbers of custom kinds differ between policies, so store the base class
        own = {at: name for name, at in policy._kinds.items()}
        number = KINDS[policy.kinds[own[number]]]
    word = with_opinion(outcome & ~_KIND | pack_outcome(number), opinion)
    try:
        if not ok:
            value.__dict__[_KEY] = word
            return
        key = id(value)
        _answers[key] = ref(value, lambda _: _forget(key)), word
        _native.left_answers(len(_answers))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 - without attribute or weak reference the table's rules apply
        pass


def taken(error: BaseException) -> int | None:
    """Returns the outcome stored with an exception and removes it, so that it counts once."""
    try:
        word = error.__dict__.pop(_KEY, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None
    return word if type(word) is int else None


def is_left(value: Any) -> bool:
    """Returns whether an outcome is stored for this result. The native half asks only if any is stored."""
    return id(value) in _answers


def taken_answer(value: Any) -> int:
    """Returns the outcome stored for a result and removes it; 0, a success, without one."""
    if not _answers:
        return 0
    held = _answers.get(id(value))
    if held is None or held[0]() is not value:
        return 0
    _forget(id(value))
    return held[1]


def _forget(key: int) -> None:
    _answers.pop(key, None)
    _native.left_answers(len(_answers))
