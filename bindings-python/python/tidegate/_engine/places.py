"""Where policies and pools are defined: a definition that runs again is no second one that disagrees."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final, NamedTuple
from weakref import ref

_OPTIMIZED: Final = 0x1
"""The flag of a function's code. That of a module, a cell of a notebook or a class body does not have it."""


class Place(NamedTuple):
    """A definition outside functions: its module, whose body it is in, and the code that ran."""

    module: str
    scope: str
    code: ref[Any]

    def replaces(self, other: Place | None) -> bool:
        """Is it the same definition, run again: a cell, or a module that is loaded anew?

        One run of a module is one code object, and the next run has another one.
        """
        return other is not None and self[:2] == other[:2] and self.code() is not other.code()


def place(depth: int) -> Place | None:
    """Where the caller of a constructor stands; None within a function, which may run any number of times."""
    frame = sys._getframe(depth + 1)
    code, module = frame.f_code, frame.f_globals.get("__name__")
    if code.co_flags & _OPTIMIZED or not isinstance(module, str):
        return None
    return Place(module, "<module>" if code.co_name.startswith("<") else code.co_name, ref(code))


class Shared:
    """What the policies of one name share in this half: what was given last, and where."""

    __slots__ = ("__weakref__", "config", "number", "place")

    def __init__(self, number: int, config: dict[str, Any], place: Place | None) -> None:
        self.number = number
        self.config = config
        self.place = place


def warn_again(what: str, place: Place, depth: int) -> None:
    """Says that a definition that ran again has changed what is there."""
    text = f"tidegate: {what} is defined again in {place.module}, with other settings: it has been retuned"
    warnings.warn(text, stacklevel=depth + 2)
