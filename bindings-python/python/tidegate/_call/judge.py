"""Outcomes of exceptions of plain functions (semantics 1.5). Imported at the first failure."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegate._engine.errors import (
    AttemptTimeout,
    CoolingDown,
    DeadlineExceeded,
    RateLimited,
    Rejected,
    StreamStalled,
    TargetsLimited,
    Throttled,
    TidegateError,
)
from tidegate._engine.wire import KINDS, OPINIONS, kind_of, pack_outcome, unpack_outcome, with_opinion

from . import errors_gen as table
from .left import seen as seen_with
from .left import taken, taken_status
from .outcomes import UNLISTED, Outcome, Unknown
from .reading import at, read, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .left import Owner
    from .policy import Policy

PERMANENT: Final = pack_outcome(KINDS["permanent"])
_SAID: Final = -4
"""Permanent because of a status, or as an error of our own: no note is needed."""
_TIMEOUTS: Final = (AttemptTimeout, StreamStalled, DeadlineExceeded)
_WORDS: Final = {name: pack_outcome(number) for name, number in KINDS.items()}
_RETRYABLE: Final = frozenset(
    KINDS[name] for name in ("transient", "throttled", "timeout", "never_sent", "conflict")
)
_OPINIONS: Final = pack_outcome(0, 1) | pack_outcome(0, 2)
_ERRNOS: Final = {
    number: _WORDS[name]
    for code, name in table.ERRNOS.items()
    if (number := getattr(errno, code, None)) is not None
}
_MULTIPLE: Final = re.compile(r"Multiple exceptions: \[Errno (\d+)\]")
_MOST_TYPES: Final = 512
_MEMBERS: Final = 8
_GROUPED: Final = 0
"""Marker among the ids of visited errors: this is the member of a group, and nested groups are ignored."""
_Judges: TypeAlias = "tuple[Policy, Owner]"
"""A policy, and its call, for which inner calls have left outcomes."""
_rows: Final[dict[type, tuple[int, bool] | None]] = {}
"""Table row by type: the outcome bits of its class, and whether it is a wrapper."""


def key_of(kind: type) -> str:
    """Returns the key of a type in the table: its top-level module and its own name."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}".replace("_socket.", "socket.", 1)


def row_of(kind: type) -> tuple[int, bool] | None:
    """Returns the row of a type, or of its nearest base class with a row. Results are cached."""
    try:
        return _rows[kind]
    except KeyError:
        pass
    except TypeError:
        return None  # its metaclass makes the type unhashable
    found = None
    for base in kind.__mro__:
        name = table.TYPES.get(key_of(base))
        if name is not None:
            found = _WORDS[name], key_of(base) in table.WRAPS
            break
    if len(_rows) >= _MOST_TYPES:
        _rows.clear()
    _rows[kind] = found
    return found


def is_retryable(outcome: int) -> bool:
    """Returns whether the class of this outcome is retryable."""
    return outcome >= 0 and kind_of(outcome) in _RETRYABLE


def of_own(error: TidegateError) -> int:
    """Returns the outcome of an inner policy's error (semantics 1.4.5).

    A refusal is retryable, and does not count as evidence about the remote side.
    """
    outcome = of_type_alone(type(error))
    if outcome is not None:
        return outcome
    wait = read(error, "retry_in")
    return pack_outcome(KINDS["throttled"], retry_after=wait if isinstance(wait, (int, float)) else None)


def of_type_alone(kind: type[Exception]) -> int | None:
    """Returns the outcome of a type if no instance can change it: a listed type, or an error of our own."""
    if issubclass(kind, TidegateError):
        if issubclass(kind, (RateLimited, Throttled, CoolingDown, TargetsLimited)):
            return None
        if issubclass(kind, Rejected):
            return _WORDS["conflict"]
        return _WORDS["timeout" if issubclass(kind, _TIMEOUTS) else "permanent"]
    name = table.TYPES.get(key_of(kind))
    if name is None or key_of(kind) in table.WRAPS or not is_retryable(_WORDS[name]):
        return None
    return _WORDS[name]


def judge(error: BaseException, policy: Policy, owner: Owner = None) -> int:
    """Returns the outcome of an exception under a policy, or `UNLISTED`; without a call, takes none left."""
    outcome = seen_with(error) if owner is None else taken(error, owner)
    if outcome is None:
        outcome = _known(error, policy, owner)
        if outcome is None or outcome == PERMANENT:
            outcome = UNLISTED
        elif outcome == _SAID:
            outcome = PERMANENT
    return outcome if policy._on is None else wanted(policy._on, error, outcome)


def of_client(error: BaseException, policy: Policy, own: type[BaseException], owner: Owner = None) -> int:
    """Returns the outcome of an exception that an HTTP client raised, by the same table as `judge`.

    An error of the client's own class `own` that the table does not list is transient (semantics 1.4.3).
    """
    outcome = seen_with(error) if owner is None else taken(error, owner)
    if outcome is None:
        outcome = _known(error, policy, owner)
    if outcome is None:
        return _WORDS["transient"] if isinstance(error, own) else PERMANENT
    return PERMANENT if outcome == _SAID else outcome


def _known(error: BaseException, policy: Policy, owner: Owner) -> int | None:
    """Returns the outcome that the table gives an error, or one of its causes; None if it has none."""
    try:
        return _chain(error, (policy, owner), set(), own_context=False)
    except Exception:  # an attribute raised, which must not break the call
        return None


def _chain(error: BaseException, judges: _Judges, seen: set[int], *, own_context: bool) -> int | None:
    """Returns the outcome of the error, else of its causes; None if none of them is known."""
    if id(error) in seen or len(seen) >= table.DEEPEST + (_GROUPED in seen):
        return None
    left = taken(error, judges[1]) if seen and judges[1] is not None else None
    if left is not None:
        return left  # what an inner call has said of a cause
    seen.add(id(error))
    said = _says(error, *judges)
    if said is not None:
        outcome, wraps = said
        if not wraps:
            return outcome
        inner = _causes(error, judges, seen, wrapper=True)
        return outcome if inner is None else inner
    inner = _causes(error, judges, seen, wrapper=own_context)
    return _group(error, judges, seen) if inner is None else inner


def _causes(error: BaseException, judges: _Judges, seen: set[int], *, wrapper: bool) -> int | None:
    """Returns the first known outcome among the causes of an error. Wrappers store causes in several ways."""
    named: list[Any] = [error.__cause__]
    if wrapper:
        named += [read(error, "reason"), read(error, "orig")]
        named += reversed(read(error, "args") or ())
        keywords = read(error, "kwargs")
        named.append(keywords.get("error") if isinstance(keywords, dict) else None)
        if error.__cause__ is None and not error.__suppress_context__:
            named.append(error.__context__)
    for cause in named:
        if isinstance(cause, BaseException):
            outcome = _chain(cause, judges, seen, own_context=wrapper)
            if outcome is not None:
                return outcome
    return None


def _group(error: BaseException, judges: _Judges, seen: set[int]) -> int | None:
    """Returns the outcome of a group: retryable if each of its first members is (semantics 1.5.14).

    One member that must not be repeated, by the opinion of a call within (1.6.4), forbids it for the group.
    """
    members = read(error, "exceptions")
    if not isinstance(members, tuple) or not members:
        return None
    if len(members) == 1:
        return (
            _chain(members[0], judges, seen, own_context=False) if isinstance(members[0], Exception) else None
        )
    if _GROUPED in seen:
        return None
    first, forbidden = None, False
    for member in members[:_MEMBERS]:
        if not isinstance(member, Exception):
            return None
        outcome = _chain(member, judges, {*seen, _GROUPED}, own_context=False)
        if outcome is None or not is_retryable(outcome):
            return None
        first = outcome if first is None else first
        forbidden = forbidden or unpack_outcome(outcome)[1] == OPINIONS["do_not"]
    return with_opinion(first, "do_not") if forbidden and first is not None else first


def _says(error: BaseException, policy: Policy, owner: Owner) -> tuple[int, bool] | None:
    """Returns the outcome of the error itself, without its causes, and whether it is a wrapper."""
    if isinstance(error, TidegateError):
        own = of_own(error)
        return _SAID if own == PERMANENT else own, False
    outcome = _status(error, policy, owner)
    if outcome is None:
        outcome = _database(error)
    if outcome is not None:
        return outcome, False
    row = row_of(type(error))
    if row is not None:
        return row
    if isinstance(error, OSError):
        number = read(error, "errno")
        if number is None:  # asyncio combines the errors of several addresses into one text
            text = _MULTIPLE.match(str(error))
            number = int(text[1]) if text else None
        if isinstance(number, int):
            return _ERRNOS.get(number, PERMANENT), False
    return None


def _status(error: BaseException, policy: Policy, owner: Owner) -> int | None:
    """Returns the outcome of a status or code in the error, judged like that of a response."""
    response = read(error, "response")
    code = read(read(response, "Error"), "Code")
    if isinstance(code, str) and code in table.THROTTLING_CODES:
        return _answer(error, 429, policy)
    status = status_of(error)
    if status is None:
        return _grpc(error, policy)
    left = None if owner is None else taken_status(status, owner)
    return _answer(error, status, policy) if left is None else left


def _grpc(error: BaseException, policy: Policy) -> int | None:
    """Returns the outcome of a gRPC error, whose `code` is a method."""
    asked = read(error, "code")
    if not callable(asked) or not any(key_of(base).startswith("grpc.") for base in type(error).__mro__):
        return None
    meaning = table.GRPC.get(read(asked(), "name"))
    if isinstance(meaning, int):
        trailing = read(error, "trailing_metadata")
        return _judged(policy, meaning, trailing() if callable(trailing) else None)
    if meaning is None:
        return None
    return _SAID if meaning == "permanent" else _WORDS[meaning]


def _answer(error: BaseException, status: int, policy: Policy) -> int:
    """Returns the outcome of a status and the error's response headers."""
    for path in table.HEADER_PATHS:
        headers = at(error, path)
        if headers is not None:
            return _judged(policy, status, headers)
    return _judged(policy, status, None)


def _judged(policy: Policy, status: int, headers: Any) -> int:
    wall = int(policy.engine.wall() * 1e6)
    outcome = policy.engine.native.classify(policy._number, status, _lines(headers), wall)
    return _SAID if outcome == PERMANENT else outcome


def of_status(answer: Any, policy: Policy) -> int:
    """Returns the outcome of what `classify` returned: a status, or a status and headers (semantics 1.4)."""
    status, headers = answer if isinstance(answer, tuple) else (answer, None)
    if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 999:
        raise Unknown(f"{answer!r} is no status: a status is a whole number from 100 to 999")
    if status < 400:
        return 0
    outcome = _judged(policy, status, headers)
    return PERMANENT if outcome == _SAID else outcome


def outcome_of(status: Any, headers: Any, policy: Policy) -> Outcome:
    """Returns the outcome that an HTTP answer has under a policy (semantics 1.4.10)."""
    if isinstance(status, bool) or not isinstance(status, int):
        raise TypeError(f"status = {status!r}: must be a whole number from 100 to 999")
    if not 100 <= status <= 999:
        raise ValueError(f"status = {status!r}: must be a whole number from 100 to 999")
    lines = _strict(headers)
    if status < 400:
        return Outcome("ok")
    wall = int(policy.engine.wall() * 1e6)
    kind, opinion, wait = unpack_outcome(policy.engine.native.classify(policy._number, status, lines, wall))
    name = next(name for name, number in policy._kinds.items() if number == kind)
    word: Any = next(word for word, number in OPINIONS.items() if number == opinion)
    return Outcome(name, word, wait)


def _strict(headers: Any) -> list[tuple[bytes, bytes]]:
    """Returns headers as bytes. Raises a TypeError if they are not what `Policy.outcome_of` takes."""
    lines: list[tuple[bytes, bytes]] = []
    try:
        if not isinstance(headers, (str, bytes)):
            for name, value in headers.items() if hasattr(headers, "items") else headers or ():
                values = value if isinstance(value, list) else [value]
                if not all(isinstance(text, (str, bytes)) for text in (name, *values)):
                    break
                lines += [(_bytes(name), _bytes(text)) for text in values]
            else:
                return lines
    except (TypeError, ValueError):
        pass  # no iterable, or not of pairs
    rule = "a mapping or an iterable of pairs, with names and values of str or bytes, or None"
    raise TypeError(f"headers of type {type(headers).__name__}: must be {rule}")  # values may be secret


def _lines(headers: Any) -> list[tuple[bytes, bytes]]:
    """Returns headers as bytes; an empty list if they cannot be read. Some clients list a name's values."""
    try:
        items: Iterable[Any] = headers.items() if hasattr(headers, "items") else headers or ()
        lines = ((name, value if isinstance(value, list) else [value]) for name, value in items)
        return [(_bytes(name), _bytes(value)) for name, values in lines for value in values]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return []


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")


def _database(error: BaseException) -> int | None:
    """Returns the outcome of a database's error code; None if the error has none."""
    state = read(error, "sqlstate") or read(error, "pgcode")
    if isinstance(state, str) and len(state) == 5:
        name = table.SQLSTATES.get(state) or table.SQLSTATES.get(state[:2])
        return _WORDS[name or "permanent"]
    name = table.SQLITE.get(read(error, "sqlite_errorname"))
    if name is None and type(error).__module__.partition(".")[0] in table.MYSQL_ROOTS:
        arguments = read(error, "args") or (None,)
        number = read(error, "errno") or arguments[0]
        if isinstance(number, int) and number > 0:
            name = table.MYSQL.get(number, "permanent")
    return None if name is None else _WORDS[name]


def wanted(on: tuple[type[Exception], ...], error: Any, outcome: int) -> int:
    """Returns the outcome of an error, made retryable if the policy's `on` names it (semantics 1.5.17)."""
    if not isinstance(error, on):
        return outcome
    if not is_retryable(outcome):
        return _WORDS["transient"]
    return outcome & ~_OPINIONS


def note_of(error: BaseException) -> str:
    """Returns the note of an error whose type is not in the table."""
    name = type(error).__name__
    return "tidegate: " + table.NOTE.format(error=name, on=f"on=({name},)")
