"""Time limit of blocking I/O in a thread, and the hooks that make HTTP clients observe it.

A client's own timeout applies to each receive, so a server that sends a byte a second blocks a thread for
ever. Here each receive, send, connect and handshake is limited to the time left of the attempt (or of the
body, or of a drain), and none begins after that. This needs no watchdog thread: the reader checks the clock.
"""

from __future__ import annotations

import io
import sys
from contextvars import ContextVar
from http.client import HTTPConnection, HTTPResponse
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType
    from weakref import ref

UNTIL: Final[ContextVar[float | None]] = ContextVar("tidegate.until", default=None)
"""The time limit, in seconds on the process's monotonic clock; None for no limit."""

_PIECE: Final = 64 * 1024
"""Number of bytes to send between two checks of the clock."""
_LEAST: Final = 1e-3
"""Shortest socket timeout in seconds. A timeout of 0 would make the socket non-blocking."""


class bounded:  # noqa: N801 - it reads as a statement: `with bounded(0.5):`
    """Limits blocking operations inside to so many seconds from now; None removes the limit."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._token: Token[float | None] | None = None

    def __enter__(self) -> None:
        self._token = UNTIL.set(None if self._seconds is None else monotonic() + self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            UNTIL.reset(self._token)


def spare(own: float | None) -> float | None:
    """Returns the timeout of an operation in seconds, above 0: the time left, and at most `own`.

    Raises:
        TimeoutError: If no time is left.
    """
    until = UNTIL.get()
    if until is None:
        return own
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    left = max(left, _LEAST)
    return left if own is None else min(own, left)


# httpx and httpx2: the network backend of the transport's pool.


def bound_transport(inner: object) -> None:
    """Makes future connections of an `HTTPTransport` observe the time limit.

    Has no effect on other transports, which have no such pool: they apply the timeouts of their requests.
    """
    pool = getattr(inner, "_pool", None)
    backend = getattr(pool, "_network_backend", None)
    core = sys.modules.get(type(pool).__module__.partition(".")[0])
    if hasattr(backend, "connect_tcp") and type(backend) is not _Network and hasattr(core, "ReadTimeout"):
        pool._network_backend = _Network(backend, core)  # type: ignore[union-attr]


class _Network:
    """A network backend of httpcore whose streams observe the time limit."""

    def __init__(self, inner: Any, core: Any) -> None:
        self._inner = inner
        self._core = core

    def connect_tcp(self, *args: Any, timeout: float | None = None, **more: Any) -> Wire:
        left = _left(timeout, self._core.ConnectTimeout)
        return Wire(self._inner.connect_tcp(*args, timeout=left, **more), self._core)

    def connect_unix_socket(self, *args: Any, timeout: float | None = None, **more: Any) -> Wire:
        left = _left(timeout, self._core.ConnectTimeout)
        return Wire(self._inner.connect_unix_socket(*args, timeout=left, **more), self._core)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Wire:
    """A connection of httpcore that observes the time limit.

    Attributes:
        reader: The body that is being read from it, if its silence is bounded: it counts how long reads wait.
    """

    def __init__(self, inner: Any, core: Any) -> None:
        self._inner = inner
        self._core = core
        self.reader: ref[Any] | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        body = None if self.reader is None else self.reader()
        if body is None:
            return self._inner.read(max_bytes, timeout=_left(timeout, self._core.ReadTimeout))

        def read(left: float | None) -> Any:
            least = timeout if left is None else left if timeout is None else min(left, timeout)
            return self._inner.read(max_bytes, timeout=_left(least, self._core.ReadTimeout))

        return body.receive(read)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        write, late = self._inner.write, self._core.WriteTimeout
        for start in range(0, len(buffer), _PIECE):
            piece = buffer if len(buffer) <= _PIECE else buffer[start : start + _PIECE]
            write(piece, timeout=_left(timeout, late))

    def start_tls(self, *args: Any, timeout: float | None = None, **more: Any) -> Wire:
        left = _left(timeout, self._core.ConnectTimeout)
        return Wire(self._inner.start_tls(*args, timeout=left, **more), self._core)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _left(own: float | None, late: type[Exception]) -> float | None:
    try:
        return spare(own)
    except TimeoutError as error:
        raise late(*error.args) from None


# urllib3, and requests through it: the connections of its pools.

_connections: Final[dict[type, type]] = {}


def bound_pool(kind: type) -> dict[str, Any]:
    """Returns the class attributes with which a subclass of a urllib3 pool observes the time limit."""
    connection = getattr(kind, "ConnectionCls", None)
    if not isinstance(connection, type) or not issubclass(connection, HTTPConnection):
        return {}
    if issubclass(connection, _Connection):
        return {}
    if connection not in _connections:
        body = {"__module__": connection.__module__, "__qualname__": connection.__qualname__}
        _connections[connection] = type(connection.__name__, (_Connection, connection), body)
    return {"ConnectionCls": _connections[connection]}


class _Connection:
    """A connection of urllib3 that observes the time limit."""

    sock: Any
    timeout: Any
    response_class: type

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.response_class = _Response

    def _new_conn(self) -> Any:
        if UNTIL.get() is not None:
            own = self.timeout
            self.timeout = self._connecting(own if isinstance(own, (int, float)) else None)
        sock = super()._new_conn()  # type: ignore[misc]
        if UNTIL.get() is not None and hasattr(sock, "settimeout"):
            try:
                sock.settimeout(self._connecting(sock.gettimeout()))  # for a handshake, or a proxy's answer
            except BaseException:
                sock.close()
                raise
        return sock

    def _connecting(self, own: float | None) -> float | None:
        """Like `spare`, but raises urllib3's own error: urllib3 takes others for a failure while sending."""
        late: Any = sys.modules["urllib3.exceptions"].ConnectTimeoutError
        try:
            return spare(own)
        except TimeoutError:
            raise late(self, "no time is left for this connection") from None

    def send(self, data: Any) -> None:
        if self.sock is not None and UNTIL.get() is not None:
            self.sock.settimeout(spare(self.sock.gettimeout()))
        super().send(data)  # type: ignore[misc]


class _Response(HTTPResponse):
    """A response whose headers are read within the time limit."""

    def __init__(self, sock: Any, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(_Received(raw, sock))


class _Received(io.RawIOBase):
    """The file of a socket, which applies the time limit to each receive."""

    def __init__(self, inner: Any, sock: Any) -> None:
        self._inner = inner
        self._sock = sock

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._inner.fileno())

    def readinto(self, buffer: Any) -> Any:
        if UNTIL.get() is None:
            return self._inner.readinto(buffer)
        own = self._sock.gettimeout()
        self._sock.settimeout(spare(own))
        try:
            return self._inner.readinto(buffer)
        finally:
            if self._sock.fileno() >= 0:
                self._sock.settimeout(own)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._inner.close()
