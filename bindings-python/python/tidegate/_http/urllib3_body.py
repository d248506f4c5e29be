"""The bodies of urllib3's responses: slot and deadline last until they are read, closed or dropped.

Every way to read one (`read`, `stream`, `read_chunked`, `data`, `requests.Response.iter_lines`, …) uses the
socket's file, so this module wraps that file: each receive is limited to the time left, and the file is
closed when the body is complete. A receive has the sizes of chunks in it, which are taken out before the
pieces of a stream are looked at.
"""

from __future__ import annotations

import io
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate._call import outcomes
from tidegate._call.open_call import MARGIN, Open
from tidegate._engine.errors import TidegateError
from tidegate._native import HELD_AT_MOST, Frames

from .silence import Silence
from .until import bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .silence import Pieces

_PIECE: Final = 16 * 1024
_BUFFER: Final = 32 * 1024
"""Bytes that a receive takes at most. Larger than `http.client`'s, since each receive is noted."""
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


def guard(run: Any, raw: Any, step: int, own_read: float | None) -> None:
    """Applies the deadline to the body; the end of reading it ends the call."""
    receiver = receiver_of(raw)
    if receiver is None:
        receiver = receive(raw, own_read)
    if run.limits is None or not run.call:
        receiver.body = Body(run, None, step)
    else:
        if receiver.heard is None:
            receiver.heard = Heard(run, raw)
        receiver.body = StreamBody(run, None, step, receiver.heard)
    kind = type(raw)
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (_Told, kind), {"__module__": kind.__module__})
    raw.__class__ = _classes[kind]


def receiver_of(raw: Any) -> Receiver | None:
    """Returns the file that this module has put under a response; None without one."""
    file = getattr(getattr(raw._original_response, "fp", None), "raw", None)
    return file if isinstance(file, Receiver) else None


def receive(raw: Any, own_read: float | None) -> Receiver:
    """Puts a file of ours under a response that has yet to be read."""
    original = raw._original_response
    receiver = Receiver(original, socket_of(raw), own_read)
    original.fp = io.BufferedReader(receiver, _BUFFER)
    return receiver


def hold(run: Any, raw: Any, own_read: float | None) -> None:
    """Receives a response up to its first piece that counts, its end, or 64 kB.

    Raises:
        TimeoutError: If there is none in time.
        OSError: If the connection breaks before.
    """
    receiver = receive(raw, own_read)
    heard = receiver.heard = Heard(run, raw)
    size = 0
    while not heard.ended and size < HELD_AT_MOST:
        data = receiver.pull(run.left())
        size += len(data)
        if not data:
            if heard.endless:
                return
            raise ConnectionResetError("the connection ended within the body")
        if heard.came(data) or heard.pieces.failure:
            return


class Heard:
    """What has been received of a body: which of it counts, and whether it is all of it.

    Attributes:
        pieces: Which pieces count.
        ended: Whether all of the body has come.
        endless: Whether the body ends with its connection.
    """

    __slots__ = ("_frames", "_plain", "ended", "endless", "pieces")

    def __init__(self, run: Any, raw: Any) -> None:
        original = raw._original_response
        chunked, length = bool(original.chunked), original.length
        self.pieces: Pieces = run.pieces(raw.headers.get("content-encoding", "identity"))
        self._plain = self.pieces.plain
        self.endless = not chunked and length is None
        self.ended = not chunked and length == 0
        self._frames = Frames(chunked, None if chunked else length)

    def came(self, data: bytes) -> bool:
        """Reads what a receive has brought; returns whether it counts."""
        if self._plain:
            counts, self.ended = self._frames.skim(data)
        else:
            piece, self.ended = self._frames.read(data)
            counts = self.pieces.counts(piece) if piece else False
        self.ended = self.ended or (self.endless and not data)
        return counts


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


class StreamBody(Silence, Body):
    """The call of a response whose silence is bounded."""

    def __init__(self, run: Any, inner: Any, step: int, heard: Heard) -> None:
        super().__init__(run, inner, step, heard.pieces)
        self._heard_of = heard

    def _left(self) -> float | None:
        return self._seconds()

    def failed(self, error: BaseException) -> BaseException:
        """Returns the error of a failed read: that of the timeout that has passed, else `error`."""
        if self._began >= 0:
            self._ended()
        return super().failed(error)

    def _end(self, outcome: int) -> None:
        if self._pieces.meter is not None:
            self._pieces.meter.whole = self._heard_of.ended
        super()._end(outcome)

    def waits(self) -> None:
        """Notes that a receive begins."""
        self._began = self._now()

    def came(self, data: bytes) -> None:
        """Notes what a receive has brought."""
        self._ended()
        if self._heard_of.came(data):
            self._waited = 0
        if self._pieces.failure and self._call:
            self._end(self._pieces.failure)  # a failed body, which the caller reads to its end


class Receiver(io.RawIOBase):
    """The file that `http.client` reads from: wraps the socket's file and checks the time at each receive.

    Attributes:
        body: The call of the body; None before the delivery.
        heard: What has been received, where a policy has timeouts of streams.
    """

    def __init__(self, original: Any, sock: Any, own_read: float | None) -> None:
        self.body: Body | None = None
        self.heard: Heard | None = None
        self._first: list[bytes] = []  # received before the delivery
        self._inner = original.fp
        self._original = ref(original)  # no reference cycle: dropped unread, it frees its slot at once
        self._sock = sock
        self._own = own_read
        self._before = None if sock is None else sock.gettimeout()
        self._ended = False
        self._drained = False  # whether the socket's file has nothing more in its buffer

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._inner.fileno())

    def pull(self, left: float) -> bytes:
        """Receives before the delivery, within `left` seconds; what it has received is read again later.

        Raises:
            TimeoutError: If nothing comes in time.
        """
        if left <= 0:
            raise TimeoutError("timed out")
        if self._sock is not None and left != inf:
            left += MARGIN
            self._sock.settimeout(left if self._own is None else min(self._own, left))
        data: bytes = self._inner.read1(_PIECE)
        if data:
            self._first.append(data)
        return data

    def readinto(self, buffer: Any) -> int:
        body = self.body
        left = None if body is None else body.check()
        if self._first:
            return self._held(buffer)
        if self._sock is not None and body is not None:
            limit = self._own if left is None else left if self._own is None else min(self._own, left)
            if limit != self._sock.gettimeout():  # setting it is a system call
                self._sock.settimeout(limit)
        stream = body if isinstance(body, StreamBody) else None
        try:
            if body is None:
                count = self._receive(buffer)
            else:
                if stream is not None:
                    stream.waits()
                if self._sock is None:
                    with bounded(left):
                        count = self._receive(buffer)
                else:
                    count = self._receive(buffer)
        except OSError as error:
            raise error if body is None else body.failed(error) from None
        self._ended = count == 0
        if stream is not None:
            stream.came(bytes(memoryview(buffer)[:count]))
        if body is not None:
            body.check()
        return count

    def _receive(self, buffer: Any) -> int:
        """Receives once, at first what `http.client` has received with the head.

        A buffered reader waits for more than it has if it is asked for more than fits into its buffer.
        """
        if self._drained:
            received: int = self._inner.raw.readinto(buffer)
            return received
        part = memoryview(buffer)[: io.DEFAULT_BUFFER_SIZE]
        count: int = self._inner.readinto1(part)
        self._drained = count < len(part)
        return count

    def _held(self, buffer: Any) -> int:
        """Gives what was received before the delivery."""
        piece = self._first.pop(0)
        count = min(len(buffer), len(piece))
        buffer[:count] = piece[:count]
        if count < len(piece):
            self._first.insert(0, piece[count:])
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
            if self.body is not None:
                self.body.end(outcomes.TRANSIENT if short else 0)


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
