"""Errors of our class and of the replaced library's class at once, so that `except` clauses still work."""

from __future__ import annotations

import sys
from typing import Any, ClassVar, Final, TypeVar, cast

from tidegate._engine.errors import TidegateError

E = TypeVar("E", bound="DoorError")

_classes: Final[dict[tuple[type, type], type]] = {}


class DoorError(TidegateError):
    """An error with a corresponding class, its twin, in the replaced library.

    Pickling and copying keep the message, the attributes and the notes. After unpickling, the error is also
    an instance of the twin if the library has been imported there.
    """

    _twin: ClassVar[tuple[str, str]] = ("", "")
    """Module and name of the other library's class."""

    def __reduce__(self) -> tuple[Any, ...]:
        kind = next(base for base in type(self).__mro__ if "_twin" in vars(base))
        return _restore, (kind, self.args, self.__dict__)


def joined(error: E) -> E:
    """Makes the error an instance of its twin too, if that library has been imported; returns it."""
    kind = type(error)
    module, name = kind._twin
    theirs = getattr(sys.modules.get(module), name, None)
    if not isinstance(theirs, type) or issubclass(kind, theirs):
        return error
    made = _classes.get((kind, theirs))
    if made is None:
        body = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": DoorError.__reduce__}
        made = _classes[kind, theirs] = type(kind.__name__, (kind, theirs), body)
    error.__class__ = cast("type[E]", made)  # the layout is the same, since neither class adds slots
    return error


def _restore(kind: type[DoorError], args: tuple[Any, ...], state: dict[str, Any]) -> DoorError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return joined(error)
