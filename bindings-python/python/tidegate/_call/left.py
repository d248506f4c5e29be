"""Judgements that calls leave for the call around them when they step back from a retry (semantics 1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate import _native
from tidegate._engine.wire import KINDS, kind_of, pack_outcome, with_opinion

if TYPE_CHECKING:
    from .policy import Policy

_KEY: Final = "__tidegate_left__"
"""Where an exception keeps it. The native half looks for this name."""

_STEPS_BACK: Final = {"nested": "retry", "method": "do_not", "one_shot_body": "do_not", "opinion": "do_not"}
"""The verdicts that leave a judgement, and whether the call around may repeat."""

_KIND: Final = pack_outcome(31)
_answers: Final[dict[int, tuple[Any, int]]] = {}
"""Failed answers by their id, each with a weak reference that removes it."""


def leave(value: Any, ok: bool, verdict: str, outcome: int, policy: Policy) -> None:
    """Leaves what a call has judged with its result, for the next call around it."""
    opinion = _STEPS_BACK.get(verdict)
    if opinion is None or outcome < 0 or (ok and opinion == "do_not"):
        return
    number = kind_of(outcome)
    if number >= len(KINDS):  # the kinds of another policy have other numbers
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
    except BaseException:  # noqa: S110 - what takes no attribute and no weak reference is judged by the table
        pass


def taken(error: BaseException) -> int | None:
    """Takes what was left with an exception: it counts once."""
    try:
        word = error.__dict__.pop(_KEY, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None
    return word if type(word) is int else None


def is_left(value: Any) -> bool:
    """Was something left with this answer? The native half asks, while anything is left at all."""
    return id(value) in _answers


def taken_answer(value: Any) -> int:
    """Takes what was left with an answer; 0, a success, if nothing was."""
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
