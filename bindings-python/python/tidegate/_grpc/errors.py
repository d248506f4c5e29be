"""Our errors in classes that are also errors of gRPC, with a status."""

from __future__ import annotations

from types import new_class
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped,unused-ignore]

from tidegate._engine.errors import CallLost, CostAboveBurst, TidegateError

if TYPE_CHECKING:
    from collections.abc import Callable

_classes: Final[dict[tuple[type, bool], type]] = {}


def status_of(kind: type[TidegateError]) -> Any:
    """Returns the `grpc.StatusCode` of one of our errors, the same as in the other languages (7.6.3)."""
    if kind.http_status == 429:
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if kind.http_status == 504:
        return grpc.StatusCode.DEADLINE_EXCEEDED
    if issubclass(kind, CostAboveBurst):
        return grpc.StatusCode.FAILED_PRECONDITION
    if issubclass(kind, CallLost):
        return grpc.StatusCode.INTERNAL
    return grpc.StatusCode.UNAVAILABLE


def as_grpc(error: TidegateError, is_async: bool) -> TidegateError:
    """Returns a copy of the error in a class that is also a `grpc.RpcError`, or a `grpc.aio.AioRpcError`."""
    cls: Any = _class_of(type(error), is_async)
    made = cls.__new__(cls, *error.args)
    made.args = error.args
    made.__dict__.update(error.__dict__)
    return made  # type: ignore[no-any-return]


def _class_of(kind: type[TidegateError], is_async: bool) -> type:
    known = _classes.get((kind, is_async))
    if known is None:
        status = status_of(kind)
        body: dict[str, Any] = {
            "__module__": kind.__module__,
            "__doc__": kind.__doc__,
            "__str__": kind.__str__,
            "__repr__": kind.__repr__,
            "__reduce__": _reduce,
            "_is_async": is_async,
            "code": lambda self: status,
            "details": _text,
            "debug_error_string": _text,
            "initial_metadata": _nothing,
            "trailing_metadata": _nothing,
        }
        if is_async:
            bases: tuple[type, ...] = (kind, grpc.aio.AioRpcError)
        else:
            bases = (kind, grpc.RpcError, grpc.Call, grpc.Future)
            body |= _ENDED
        known = _classes[kind, is_async] = new_class(
            kind.__name__, bases, exec_body=lambda namespace: namespace.update(body)
        )
    return known


def _text(self: Any) -> str:
    return str(self)


def _nothing(self: Any) -> None:
    """There is no metadata: no server has answered."""


def _raises(self: Any, timeout: float | None = None) -> Any:
    """Raises the error, as the result of a call that has failed does."""
    raise self


def _itself(self: Any, timeout: float | None = None) -> Any:
    return self


def _called(self: Any, fn: Callable[[Any], object]) -> None:
    fn(self)


_ENDED: Final[dict[str, Any]] = {
    "result": _raises,
    "exception": _itself,
    "traceback": lambda self, timeout=None: self.__traceback__,
    "add_done_callback": _called,
    "add_callback": lambda self, callback: False,
    "cancel": lambda self: False,
    "cancelled": lambda self: False,
    "done": lambda self: True,
    "running": lambda self: False,
    "is_active": lambda self: False,
    "time_remaining": _nothing,
}
"""Methods of a `grpc.Call` that has ended: interceptors around ours get the error in place of a call."""


def _reduce(self: Any) -> tuple[Any, ...]:
    kind = next(base for base in type(self).__mro__[1:] if issubclass(base, TidegateError))
    return _restore, (kind, self._is_async, self.args, self.__dict__)


def _restore(
    kind: type[TidegateError], is_async: bool, args: tuple[Any, ...], state: dict[str, Any]
) -> TidegateError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return as_grpc(error, is_async)
