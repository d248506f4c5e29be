"""The bodies of urllib3's responses: slot and deadline last until they are read, closed or dropped.

Every way to read one (`read`, `stream`, `read_chunked`, `data`, `requests.Response.iter_lines`, …) uses the
socket's file, so this module wraps that file: each receive is limited to the time left, and the file is
closed when the body is complete.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate._call import outcomes
from tidegate._call.open_call import Open
from tidegate._engine.errors import TidegateError

from .until import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate._call.open_call import OpenRun

_classes: Final[dict[type, type]] = {}


def is_open(raw: Any) -> bool:
    """Returns whether this is a response from a socket with data left to read."""
    original = getattr(raw, "_original_response", None)
    return isinstance(getattr(original, "fp", None), io.BufferedReader)


def socket_of(raw: Any) -> Any:
    """Returns the socket that a response is read from; None if unknown."""
    sock = getattr(getattr(raw, "connection", None), "sock", None)
    if sock is None:  # http.client has moved it to the response: the connection closes after it
        sock = getattr(getattr(raw._original_response.fp, "raw", None), "_sock", None)
    return sock if hasattr(sock, "settimeout") else None


def guard(run: OpenRun, raw: Any, step: int, own_read: float | None) -> None:
    """Applies the deadline to the body; the end of reading it ends the call."""
    original = raw._original_response
    receiver = _Receiver(Body(run, None, step), original, socket_of(raw), own_read)
    original.fp = io.BufferedReader(receiver)
    kind = type(raw)
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (_Told, kind), {"__module__": kind.__module__})
    raw.__class__ = _classes[kind]


class Body(Open):
    """The call of a response that is being read."""

    def end(self, outcome: int) -> None:
        """Reports to the engine, once, how reading ended."""
        self._end(outcome)

    def failed(self, error: BaseException) -> BaseException:
        """Returns the error of a failed read: that of the deadline if it has passed, else `error`."""
        late = self._late()
        if late is not None:
            late.__cause__ = error
            return late
        self._end(self._run.judge_error(error))
        return error

    def check(self) -> float | None:
        """Returns the seconds left; None for no limit.

        Raises:
            DeadlineExceeded: If the deadline has passed.
        """
        late = self._late()
        if late is not None:
            raise late
        return self._left()


class _Receiver(io.RawIOBase):
    """The file that `http.client` reads from: wraps the socket's file and checks the time at each receive."""

    def __init__(self, body: Body, original: Any, sock: Any, own_read: float | None) -> None:
        self._body = body
        self._inner = original.fp
        self._original = ref(original)  # no reference cycle: dropped unread, it frees its slot at once
        self._sock = sock
        self._own = own_read
        self._before = None if sock is None else sock.gettimeout()
        self._ended = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._inner.fileno())

    def readinto(self, buffer: Any) -> int:
        left = self._body.check()
        if self._sock is not None:
            self._sock.settimeout(
                self._own if left is None else left if self._own is None else min(self._own, left)
            )
        try:
            with bounded(left):
                count: int = self._inner.readinto1(buffer)
        except OSError as error:
            raise self._body.failed(error) from None
        self._ended = count == 0
        self._body.check()
        return count

    def close(self) -> None:
        if self.closed:
            return
        original = self._original()
        short = self._ended and original is not None and (original.chunked or bool(original.length))
        try:
            super().close()
            self._inner.close()
            if self._sock is not None:
                self._sock.settimeout(self._before)
        except OSError:
            pass  # the socket is already closed
        finally:
            self._body.end(outcomes.TRANSIENT if short else 0)


class _Told:
    """A response that raises our own errors unchanged, where urllib3 would wrap them as its own."""

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        """Reads as in urllib3, with our own errors unwrapped."""
        failure: BaseException
        try:
            data: bytes = super().read(*args, **kwargs)  # type: ignore[misc]
            return data
        except Exception as error:
            failure = _ours(error)
        raise failure

    def read1(self, *args: Any, **kwargs: Any) -> bytes:
        """Reads as in urllib3, with our own errors unwrapped."""
        failure: BaseException
        try:
            data: bytes = super().read1(*args, **kwargs)  # type: ignore[misc]
            return data
        except Exception as error:
            failure = _ours(error)
        raise failure

    def read_chunked(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        """Reads as in urllib3, with our own errors unwrapped."""
        failure: BaseException
        try:
            yield from super().read_chunked(*args, **kwargs)  # type: ignore[misc]
            return
        except Exception as error:
            failure = _ours(error)
        raise failure


def _ours(error: BaseException) -> BaseException:
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, TidegateError):
            return inner
        inner = inner.__cause__
    return error
