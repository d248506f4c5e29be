"""Our errors as the HTTP client's callers expect them: each is also an exception of httpx (or httpx2).

Whoever writes `except httpx.TimeoutException` around a client, an SDK above all, means our timeouts too.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from ._errors import AttemptTimeout, DeadlineExceeded, TidegateError

_classes: Final[dict[tuple[type, str], type]] = {}


def as_http(error: TidegateError, module: str, request: Any) -> TidegateError:
    """The same error, of a class that is the client library's own too."""
    cls = _class_of(type(error), module)
    error.__class__ = cls  # the layout is the same: neither side adds slots
    error._request = request  # type: ignore[attr-defined]  # httpx: what `error.request` answers
    return error


def _class_of(kind: type, module: str) -> type:
    known = _classes.get((kind, module))
    if known is None:
        library = sys.modules[module]
        if issubclass(kind, AttemptTimeout):
            theirs = library.ReadTimeout
        elif issubclass(kind, DeadlineExceeded):
            theirs = library.TimeoutException
        else:
            theirs = library.TransportError
        body = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": _reduce}
        known = _classes[kind, module] = type(kind.__name__, (kind, theirs), body)
    return known


def _reduce(self: TidegateError) -> tuple[Any, ...]:
    kind = next(base for base in type(self).__mro__[1:] if issubclass(base, TidegateError))
    library = next(base.__module__ for base in type(self).__mro__ if base.__name__ == "HTTPError")
    return _restore, (kind, library.partition(".")[0], self.args, self.__dict__)


def _restore(
    kind: type[TidegateError], module: str, args: tuple[Any, ...], state: dict[str, Any]
) -> TidegateError:
    __import__(module)
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return as_http(error, module, state.get("_request"))
