"""Outcomes that an inner call passes to its outer call when it leaves a retry to it (semantics 1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import ref

from tidegate import _native
from tidegate._engine.wire import KINDS, kind_of, pack_outcome, with_opinion

if TYPE_CHECKING:
    from .deadline import Scope
    from .policy import Policy

Owner: TypeAlias = "tuple[int, int] | None"
"""The call that an outcome is left for: its engine's token and its number; None for any call."""

_KEY: Final = "__tidegate_left__"
"""Attribute in which an exception stores outcomes by owner. The native half looks up the same name."""

_STEPS_BACK: Final = {"nested": "retry", "method": "do_not", "one_shot_body": "do_not", "opinion": "do_not"}
"""The verdicts that pass an outcome on, and the opinion about a retry by the outer call."""

_KIND: Final = pack_outcome(31)
_MOST: Final = 64
"""Outcomes kept with one object: one that calls share, and that nobody takes them from, must not grow."""
_answers: Final[dict[int, tuple[Any, dict[Owner, int]]]] = {}
"""By id of a failed result: a weak reference, which removes the entry, and the outcomes by owner."""


def leave(value: Any, ok: bool, verdict: str, outcome: int, policy: Policy, scope: Scope | None) -> None:
    """Stores the outcome of a call with its exception or failed result, for the next outer call."""
    opinion = _STEPS_BACK.get(verdict)
    if opinion is None or outcome < 0 or (ok and opinion == "do_not"):
        return
    number = kind_of(outcome)
    if number >= len(KINDS):  # numbers of custom kinds differ between policies, so store the base class
        own = {at: name for name, at in policy._kinds.items()}
        number = KINDS[policy.kinds[own[number]]]
    word = with_opinion(outcome & ~_KIND | pack_outcome(number), opinion)
    owner = around(scope)
    try:
        if not ok:
            _keep(value.__dict__.setdefault(_KEY, {}), owner, word)
            return
        key = id(value)
        held = _answers.get(key)
        if held is None or held[0]() is not value:
            held = _answers[key] = ref(value, lambda _: _forget(key)), {}
        _keep(held[1], owner, word)
        _native.left_answers(len(_answers))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 - without attribute or weak reference the table's rules apply
        pass


def _keep(held: dict[Owner, int], owner: Owner, word: int) -> None:
    held.pop(owner, None)
    held[owner] = word
    while len(held) > _MOST:
        del held[next(iter(held))]


def taken(error: BaseException, owner: Owner) -> int | None:
    """Returns the outcome stored with an exception for this call and removes it, so that it counts once."""
    try:
        held = error.__dict__.get(_KEY)
        if type(held) is not dict:
            return None
        word = held.pop(owner if owner in held else None, None)
        if not held:
            del error.__dict__[_KEY]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None
    return word if type(word) is int else None


def seen(error: BaseException) -> int | None:
    """Returns the outcome stored last with an exception, for whichever call, and leaves it there."""
    try:
        words = list(error.__dict__.get(_KEY, {}).values())
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None
    return words[-1] if words and type(words[-1]) is int else None


def is_left(value: Any) -> bool:
    """Returns whether an outcome is stored for this result. The native half asks only if any is stored."""
    return id(value) in _answers


def taken_answer(value: Any, owner: Owner) -> int:
    """Returns the outcome stored for a result and this call, and removes it; 0, a success, without one."""
    if not _answers:
        return 0
    held = _answers.get(id(value))
    if held is None or held[0]() is not value:
        return 0
    word = held[1].pop(owner, 0)
    if not held[1]:
        _forget(id(value))
    return word


def _forget(key: int) -> None:
    _answers.pop(key, None)
    _native.left_answers(len(_answers))


def around(scope: Scope | None) -> Owner:
    """Returns the innermost call of a scope, of whichever engine; None without one."""
    while scope is not None:
        engine, call, _, scope = scope if type(scope) is tuple else scope._scope  # type: ignore[attr-defined]
        if engine is not None and call:
            return engine.token, call
    return None
