"""The bodies of urllib3's answers: slot and deadline last until they are read, closed or thrown away.

Every way to read one (`read`, `stream`, `read_chunked`, `data`, `requests.Response.iter_lines`, …) ends at
the socket's file, and that is where this looks on: each receive gets the time that is left, and the file is
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
    """Whether this is an answer from a socket, of which something is left to read."""
    original = getattr(raw, "_original_response", None)
    return isinstance(getattr(original, "fp", None), io.BufferedReader)


def socket_of(raw: Any) -> Any:
    """The socket that an answer is read from; None where it cannot be told."""
    sock = getattr(getattr(raw, "connection", None), "sock", None)
    if sock is None:  # http.client has handed it over to the answer: the connection ends with it
        sock = getattr(getattr(raw._original_response.fp, "raw", None), "_sock", None)
    return sock if hasattr(sock, "settimeout") else None


def guard(run: OpenRun, raw: Any, step: int, own_read: float | None) -> None:
    """From here on the deadline holds for the body, and reading it to its end ends the call."""
    original = raw._original_response
    receiver = _Receiver(Body(run, None, step), original, socket_of(raw), own_read)
    original.fp = io.BufferedReader(receiver)
    kind = type(raw)
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (_Told, kind), {"__module__": kind.__module__})
    raw.__class__ = _classes[kind]


class Body(Open):
    """The call of an answer that is being read."""

    def end(self, outcome: int) -> None:
        """Tells the engine, once, how reading ended."""
        self._end(outcome)

    def failed(self, error: BaseException) -> BaseException:
        """What a failed read is: the deadline's error, where it was that."""
        late = self._late()
        if late is not None:
            late.__cause__ = error
            return late
        self._end(self._run.judge_error(error))
        return error

    def check(self) -> float | None:
        """The seconds that are left, None without end.

        Raises:
            DeadlineExceeded: If none are.
        """
        late = self._late()
        if late is not None:
            raise late
        return self._left()


class _Receiver(io.RawIOBase):
    """What `http.client` reads from: the socket's own file, one receive at a time."""

    def __init__(self, body: Body, original: Any, sock: Any, own_read: float | None) -> None:
        self._body = body
        self._inner = original.fp
        self._original = ref(original)  # no cycle: thrown away unread, it gives its slot back at once
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
            pass  # the socket is gone
        finally:
            self._body.end(outcomes.TRANSIENT if short else 0)


class _Told:
    """A response that passes our own errors on as they are, and not as failures of the connection."""

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        """As urllib3 reads."""
        failure: BaseException
        try:
            data: bytes = super().read(*args, **kwargs)  # type: ignore[misc]
            return data
        except Exception as error:
            failure = _ours(error)
        raise failure

    def read1(self, *args: Any, **kwargs: Any) -> bytes:
        """As urllib3 reads."""
        failure: BaseException
        try:
            data: bytes = super().read1(*args, **kwargs)  # type: ignore[misc]
            return data
        except Exception as error:
            failure = _ours(error)
        raise failure

    def read_chunked(self, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        """As urllib3 reads."""
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
