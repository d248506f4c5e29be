"""Outcomes that an inner call passes to its outer call when it leaves a retry to it (semantics 1.6)."""

from __future__ import annotations

from itertools import count
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
"""The most outcomes that are kept with one object, which calls may share for ever."""
_answers: Final[dict[int, tuple[Any, dict[Owner, int]]]] = {}
"""By id of a failed result: a weak reference, which removes the entry, and the outcomes by owner."""
_plain: Final[dict[tuple[Owner, int], tuple[Any, int]]] = {}
"""By owner and id of a failed result without weak references, such as a dict: the result, and its outcome.

The entry keeps the result, so that no other object can have its id. The newest `_MOST` are kept, and none
for long after its call: while there are any, every call of the process asks whether its result is among them.
"""
_statuses: Final[dict[Owner, dict[int, int]]] = {}
"""By owner: the status of a result that must not be repeated, and the outcome; for the newest `_MOST` owners.

A function that returns such an answer has succeeded, so the native half does not ask for these. They count
for an HTTP client, and for an error with that status (1.6.7).
"""
_EVERY: Final = 64
"""After so many results that are none of these, entries whose call has ended without taking them go."""
_asked = count(1)


def leave(value: Any, ok: bool, verdict: str, outcome: int, policy: Policy, scope: Scope | None) -> None:
    """Stores the outcome of a call with its exception or failed result, for the next outer call."""
    opinion = _STEPS_BACK.get(verdict)
    if opinion is None or outcome < 0 or (ok and value is None):
        return  # a function that returns None has seldom returned the None of an inner call
    number = kind_of(outcome)
    if number >= len(KINDS):  # numbers of custom kinds differ between policies, so store the base class
        own = {at: name for name, at in policy._kinds.items()}
        number = KINDS[policy.kinds[own[number]]]
    word = with_opinion(outcome & ~_KIND | pack_outcome(number), opinion)
    owner = around(scope)
    try:
        if opinion == "do_not" and owner is not None:
            from .reading import status_of

            _keep_status(status_of(value), owner, word)
        if not ok:
            _keep(value.__dict__.setdefault(_KEY, {}), owner, word)
            return
        if opinion == "do_not":
            return
        key = id(value)
        held = _answers.get(key)
        if held is None or held[0]() is not value:
            try:
                held = _answers[key] = ref(value, lambda _: _forget(key)), {}
            except TypeError:
                _keep_plain(value, owner, word)
                return
        _keep(held[1], owner, word)
        _count()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: S110 - without an attribute to store it in, the table's rules apply
        pass


def _keep(held: dict[Owner, int], owner: Owner, word: int) -> None:
    held.pop(owner, None)
    held[owner] = word
    while len(held) > _MOST:
        del held[next(iter(held))]


def _keep_status(status: int | None, owner: Owner, word: int) -> None:
    if status is None:
        return
    held = _statuses.pop(owner, {})
    held[status] = word
    _statuses[owner] = held  # its owner is the newest one
    while len(_statuses) > _MOST:
        _statuses.pop(next(iter(_statuses)), None)


def taken_status(status: int, owner: Owner) -> int | None:
    """Returns the outcome of a result of this status that the call must not repeat, and removes it."""
    held = _statuses.get(owner)
    if held is None:
        return None
    word = held.pop(status, None)
    if not held:
        _statuses.pop(owner, None)
    return word


def _keep_plain(value: Any, owner: Owner, word: int) -> None:
    if owner is None:
        return  # no call would take it
    _drop_ended()
    _plain.pop((owner, id(value)), None)
    _plain[owner, id(value)] = value, word
    while len(_plain) > _MOST:
        _plain.pop(next(iter(_plain)), None)
    _count()


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
    key = id(value)
    if key in _answers or any(key == other for _, other in list(_plain)):
        return True
    if _plain and next(_asked) % _EVERY == 0:
        _drop_ended()
    return False


def taken_answer(value: Any, owner: Owner) -> int:
    """Returns the outcome stored for a result and this call, and removes it; 0, a success, without one."""
    if not _answers and not _plain:
        return 0
    kept = _plain.pop((owner, id(value)), None)
    if kept is not None:
        _count()
        return kept[1]
    held = _answers.get(id(value))
    if held is None or held[0]() is not value:
        return 0
    word = held[1].pop(owner, 0)
    if not held[1]:
        _forget(id(value))
    return word


def _drop_ended() -> None:
    """Drops the oldest plain results whose call has ended: its function has replaced them."""
    for entry in list(_plain):
        if _is_live(entry[0]):
            break
        _plain.pop(entry, None)
    _count()


def _is_live(owner: Owner) -> bool:
    from tidegate._engine.engine import _engines

    for engine in list(_engines):
        if owner is not None and engine.token == owner[0]:
            found = engine.inspector.explain_call(owner[1])
            return found is not None and found["reason"] is None
    return False


def _forget(key: int) -> None:
    _answers.pop(key, None)
    _count()


def _count() -> None:
    _native.left_answers(len(_answers) + len(_plain))


def around(scope: Scope | None) -> Owner:
    """Returns the innermost call of a scope, of whichever engine; None without one."""
    while scope is not None:
        engine, call, _, scope = scope if type(scope) is tuple else scope._scope  # type: ignore[attr-defined]
        if engine is not None and call:
            return engine.token, call
    return None
