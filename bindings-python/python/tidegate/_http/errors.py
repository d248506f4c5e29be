"""Our errors in classes that are also exceptions of the HTTP client library.

Code with `except httpx.TimeoutException` around a client, as in many SDKs, expects our timeouts there too.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from tidegate._engine.errors import AttemptTimeout, DeadlineExceeded, StreamStalled, TidegateError

_THEIRS: Final = {
    # classes for an attempt timeout, a deadline, other errors; and the attribute behind `error.request`
    "httpx": ("ReadTimeout", "TimeoutException", "TransportError", "_request"),
    "httpx2": ("ReadTimeout", "TimeoutException", "TransportError", "_request"),
    "requests": ("ReadTimeout", "Timeout", "ConnectionError", "request"),
    "urllib3.exceptions": ("TimeoutError", "TimeoutError", "HTTPError", None),
    "aiohttp": ("ServerTimeoutError", "ServerTimeoutError", "ClientConnectionError", None),
}
_classes: Final[dict[tuple[type, str], type]] = {}


def as_http(error: TidegateError, library: str, request: Any) -> TidegateError:
    """Returns a copy of the error in a class that is also one of the client library."""
    cls: Any = _class_of(type(error), library)
    made = cls.__new__(cls, *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    where = _THEIRS[library][3]
    if where is not None:
        setattr(made, where, request)
    return made  # type: ignore[no-any-return]


def _class_of(kind: type, library: str) -> type:
    known = _classes.get((kind, library))
    if known is None:
        attempt, deadline, other, _ = _THEIRS[library]
        name = (
            attempt
            if issubclass(kind, (AttemptTimeout, StreamStalled))
            else deadline
            if issubclass(kind, DeadlineExceeded)
            else other
        )
        theirs = getattr(importlib.import_module(library), name)
        body = {
            "__module__": kind.__module__,
            "__doc__": kind.__doc__,
            "__reduce__": _reduce,
            "_library": library,
            "__str__": kind.__str__,
        }
        if library == "requests":
            body["response"] = None
        known = _classes[kind, library] = type(kind.__name__, (kind, theirs), body)
    return known


def _reduce(self: Any) -> tuple[Any, ...]:
    kind = next(base for base in type(self).__mro__[1:] if issubclass(base, TidegateError))
    # Requests of httpx drop their streams when pickled; those of other libraries may not be picklable.
    state = {key: value for key, value in self.__dict__.items() if key != "request"}
    return _restore, (kind, self._library, self.args, state)


def _restore(
    kind: type[TidegateError], library: str, args: tuple[Any, ...], state: dict[str, Any]
) -> TidegateError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return as_http(error, library, state.get("_request"))
