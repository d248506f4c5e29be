"""Places where policies and pools are defined, to tell a definition run again from a conflicting one."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final, NamedTuple
from weakref import ref

_OPTIMIZED: Final = 0x1
"""Flag of a function's code object. Those of modules, notebook cells and class bodies do not have it."""


class Place(NamedTuple):
    """A definition outside functions: its module, the body that it is in, and the code that ran."""

    module: str
    scope: str
    code: ref[Any]

    def replaces(self, other: Place | None) -> bool:
        """Returns whether this is the same definition run again, by a notebook cell or a reloaded module.

        Each run of a module or a cell has a code object of its own.
        """
        return other is not None and self[:2] == other[:2] and self.code() is not other.code()


def place(depth: int) -> Place | None:
    """Returns the place of a constructor call; None inside a function, which may run any number of times."""
    frame = sys._getframe(depth + 1)
    code, module = frame.f_code, frame.f_globals.get("__name__")
    if code.co_flags & _OPTIMIZED or not isinstance(module, str):
        return None
    return Place(module, "<module>" if code.co_name.startswith("<") else code.co_name, ref(code))


class Shared:
    """State that policies of the same name share in Python: the latest options, and their place."""

    __slots__ = ("__weakref__", "config", "number", "place")

    def __init__(self, number: int, config: dict[str, Any], place: Place | None) -> None:
        self.number = number
        self.config = config
        self.place = place


def warn_again(what: str, place: Place, depth: int) -> None:
    """Warns that a definition that ran again has retuned an existing policy or pool."""
    text = f"tidegate: {what} is defined again in {place.module}, with other settings: it has been retuned"
    warnings.warn(text, stacklevel=depth + 2)
