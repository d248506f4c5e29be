"""One call of urllib3, or of requests, which uses urllib3. Neither is imported here."""

from __future__ import annotations

import http.client
import io
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tidegate._call.open_call import MARGIN
from tidegate._native import READ_AT_MOST

from .beginning import decoded, seconds_for
from .drain import DRAIN_BYTES, DRAIN_SECONDS
from .run import HttpRun, is_seekable
from .until import bounded
from .urllib3_body import guard, hold, is_open, receiver_of, socket_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from .front import Front

_PIECE: Final = 16 * 1024


class Urllib3Run(HttpRun):
    """A request that urllib3 sends, under a policy."""

    __slots__ = ("own_read",)

    own_read: float | None
    """The caller's own read timeout, in seconds."""

    def __init__(self, front: Front, request: Any, options: Mapping[str, Any]) -> None:
        super().__init__(front, request, options)
        self.own_read = None

    def raw(self, value: Any) -> Any:
        """Returns urllib3's response."""
        return value

    def start(self, attempt: int, us: int) -> Any:
        """Sends the request."""
        raise NotImplementedError

    def answer(self, value: Any) -> tuple[int, Callable[[], list[tuple[bytes, bytes]]]]:
        """Returns the status of a response, and a function for its headers."""
        raw = self.raw(value)
        return raw.status, lambda: [
            (name.encode("latin-1"), text.encode("latin-1", "replace")) for name, text in raw.headers.items()
        ]

    def streams(self, value: Any) -> bool:
        """Returns whether the body has yet to be read."""
        return is_open(self.raw(value))

    def guard(self, value: Any, step: int) -> None:
        """Applies the deadline to the body, instead of the attempt timeout."""
        guard(self, self.raw(value), step, self.own_read)

    def attach(self, value: Any, info: dict[str, Any]) -> None:
        """Stores the report in `response.tidegate`."""
        value.tidegate = info

    def release(self, value: Any) -> None:
        """Reads a small failed response to its end, so that its connection is reused; closes a large one."""
        raw = self.raw(value)
        if is_open(raw) and not _drain(raw, min(DRAIN_SECONDS, max(self.left(), 0.0))):
            self.gone.append(value)
            self.discard(value)

    def accepts(self) -> str:
        """Returns the request's `Accept`."""
        for name, value in self.request.headers.items():
            if name.lower() == "accept":
                return value.decode("latin-1") if isinstance(value, bytes) else str(value)
        return ""

    def content(self) -> bytes | None:
        """Returns the body of the request if it is in memory."""
        body = self.request.body or b""
        if isinstance(body, str):
            return body.encode()
        return bytes(body) if isinstance(body, (bytes, bytearray)) else None

    def hold(self, value: Any) -> None:
        """Receives a stream up to its first piece that counts.

        Raises:
            Exception: The client's error, if there is none in time, or the connection breaks.
        """
        raw = self.raw(value)
        try:
            hold(self, raw, self.own_read)
        except OSError as error:
            self.discard(value)
            raise self.broken(raw, error) from error
        except BaseException:
            self.discard(value)
            raise

    def broken(self, raw: Any, error: OSError) -> Exception:
        """Returns urllib3's error for a stream that has broken, or stalled, before its first piece."""
        from urllib3.exceptions import ProtocolError, ReadTimeoutError

        if isinstance(error, TimeoutError):
            return ReadTimeoutError(raw._pool, raw.url, "no piece of the stream came in time")
        return ProtocolError(f"Connection broken: {error!r}", error)

    def _judge_answer(self, value: Any) -> int:
        raw = self.raw(value)
        receiver = receiver_of(raw) if self.holds and is_open(raw) else None
        heard = None if receiver is None else receiver.heard
        failure = 0 if heard is None else heard.pieces.failure
        return failure or super()._judge_answer(value)

    def begun(self, value: Any) -> Any:
        """Returns a response after the beginning of a failure, or the first piece of a stream, was read."""
        if self.is_held(value) and is_open(self.raw(value)):
            self.hold(value)
        if self.begins(value):
            raw = self.raw(value)
            data = _begin(raw, seconds_for(self.left())) if is_open(raw) else b""
            self.keep(value, decoded(data, raw.headers.get("content-encoding", "")))
        return value

    def final(self, value: Any) -> None:
        """Puts `x-should-retry: false` into a failed response."""
        value.headers["x-should-retry"] = "false"

    def retries_before(self) -> str | None:
        """Returns the value of the request's `x-stainless-retry-count`."""
        for name, value in self.request.headers.items():
            if name.lower() == "x-stainless-retry-count":
                return str(value)
        return None

    def discard(self, value: Any) -> None:
        """Closes a response that no caller receives."""
        raw = self.raw(value)
        raw.close()
        raw.release_conn()  # frees the connection's place in a blocking pool

    def own_errors(self) -> type[BaseException]:
        """Returns the base class of urllib3's errors."""
        from urllib3.exceptions import HTTPError

        return HTTPError

    def is_timeout(self, error: BaseException) -> bool:
        """Returns whether urllib3 timed out after the request may have been sent."""
        from urllib3 import exceptions

        if isinstance(error, exceptions.TimeoutError):
            return not isinstance(error, never_sent(exceptions))
        return is_slow_send(error)

    def within(self, us: int) -> bounded:
        """Returns a context manager that limits an attempt to `us` microseconds."""
        return bounded(us / 1e6 + MARGIN if us >= 0 else None)

    def timeout(self, own: Any, us: int) -> Any:
        """Returns the caller's own `urllib3.Timeout`, limited to the time of the attempt."""
        import urllib3

        left = self.seconds_for(us)
        if not isinstance(own, urllib3.Timeout):
            own = urllib3.Timeout(connect=own, read=own)
        spans = [span for span in (own.total, own._read) if isinstance(span, (int, float))]
        self.own_read = min(spans) if spans else None  # the process's default is set on the socket
        if left is None:
            return own

        total = min(own.total, left) if isinstance(own.total, (int, float)) else left
        return urllib3.Timeout(total=total, connect=own._connect, read=own._read)


def never_sent(exceptions: ModuleType) -> tuple[type[BaseException], ...]:
    """Returns urllib3's errors for requests never sent: no connection, no resolved name, no pool place."""
    return (
        exceptions.NewConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyError,
        exceptions.EmptyPoolError,
        exceptions.ClosedPoolError,
    )


def is_slow_send(error: BaseException) -> bool:
    """Returns whether sending the request ran out of time.

    urllib3 wraps the socket's error in a `ProtocolError`. A `TimeoutError` with a number is the system's own
    (`ETIMEDOUT`: the other side was silent).
    """
    from urllib3.exceptions import ProtocolError

    if not isinstance(error, ProtocolError):
        return False
    return any(isinstance(cause, TimeoutError) and cause.errno is None for cause in error.args)


def replay_of(body: Any) -> tuple[bool, Any]:
    """Returns whether this body can be sent again, and the file to rewind for that; before attempt 1."""
    if body is None or isinstance(body, (bytes, bytearray, memoryview, str, list, tuple)):
        return True, None
    return (True, body) if is_seekable(body) else (False, None)


class _Begun(io.RawIOBase):
    """A body of which a part has been read: that part, then the rest or the error that ended it."""

    def __init__(self, beginning: bytes, original: Any, error: Exception | None) -> None:
        self._beginning = io.BytesIO(beginning)
        self._original = original
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._beginning.readinto(buffer)
        if count:
            return count
        if self._error is not None:
            raise self._error
        chunk: bytes = self._original.read1(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._original.close()


def _begin(raw: Any, limit: float) -> bytes:
    """Reads the beginning of a response; the bytes read stand before the rest."""
    original = raw._original_response
    until = monotonic() + limit
    sock = socket_of(raw)
    before = None if sock is None else sock.gettimeout()
    if sock is not None and limit > 0:
        sock.settimeout(limit)
    chunks: list[bytes] = []
    size = 0
    whole = False
    error: Exception | None = None
    try:
        with bounded(limit):
            while size < READ_AT_MOST and monotonic() < until:
                chunk = original.read1(_PIECE)
                chunks.append(chunk)
                size += len(chunk)
                if not chunk or original.length == 0:  # before Python 3.13 `read1` does not close by itself
                    if original.length:
                        error = http.client.IncompleteRead(b"".join(chunks), original.length)
                    whole = error is None
                    break
    except Exception as failure:
        error = failure
    if sock is not None and sock.fileno() >= 0:
        sock.settimeout(before)
    data = b"".join(chunks)
    if whole:
        original.close()
        raw.release_conn()
        raw._fp = io.BytesIO(data)
    else:
        raw._fp = io.BufferedReader(_Begun(data, original, error))
    raw.length_remaining = None
    return data


def _drain(raw: Any, limit: float) -> bool:
    """Reads the rest of a response if it is small and quick; the bytes read replace the stream."""
    original = raw._original_response
    length = original.length
    if limit <= 0 or (length or 0) > DRAIN_BYTES:
        return False
    until = monotonic() + limit
    sock = socket_of(raw)
    if sock is not None:
        sock.settimeout(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        with bounded(limit):
            while not original.isclosed():
                chunk = original.read1(_PIECE)
                chunks.append(chunk)
                size += len(chunk)
                if size > DRAIN_BYTES or monotonic() > until:
                    return False
                if not chunk or original.length == 0:  # before Python 3.13 `read1` does not close by itself
                    if original.length:
                        return False  # cut short
                    original.close()
    except Exception:
        return False  # the attempt has failed already
    raw.release_conn()
    raw._fp = io.BytesIO(b"".join(chunks))
    raw.length_remaining = None
    return True
