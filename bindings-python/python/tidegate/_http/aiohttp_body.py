"""aiohttp's responses while they are read: slot and deadline last until the connection is released.

Nothing is wrapped. A callback of the connection reports when it returns to its pool or is closed, whichever
way the body was read. When the deadline passes, its error is set as the stream's exception, which the reader
then gets. Where silence is bounded the stream gets a class that says when data come and when a read waits.
"""

from __future__ import annotations

from asyncio import ensure_future, get_running_loop, wait
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from warnings import catch_warnings, simplefilter
from weakref import ref

from tidegate._call.open_call import Open
from tidegate._call.timers import timers_of
from tidegate._native import HELD_AT_MOST, READ_AT_MOST

from .beginning import seconds_for
from .drain import DRAIN_BYTES, DRAIN_SECONDS
from .silence import Silence

if TYPE_CHECKING:
    from asyncio import Future

    from tidegate._call.open_call import OpenRun

    from .silence import Pieces

_classes: Final[dict[tuple[type, bool], type]] = {}
_TOGETHER: Final = 512
"""Pieces that are kept at most, if no read waits meanwhile."""
_bodies: Final[dict[int, StreamBody]] = {}
"""The bodies whose silence is bounded, by the id of their stream, until their connection is released."""


def is_open(response: Any) -> bool:
    """Returns whether a part of the body has yet to arrive."""
    return response.connection is not None and not response.content.is_eof()


class _Reading(Open):
    """The call of a response that is being read."""

    def _open(self, response: Any) -> None:
        self._response = ref(response)  # no reference cycle: a response dropped unread frees its slot at once
        self._parked: dict[int, tuple[float, Any]] | None = None
        response.connection.add_callback(self._released)
        self._watch()

    def _watch(self) -> None:
        """Waits for the deadline, on the shared timer of the loop."""
        if self._until is not None and (self._call or not self._had_call):
            engine = self._run.engine
            timers = timers_of(engine)
            due: Future[None] = get_running_loop().create_future()
            # Weak, because a response may be dropped unread meanwhile, and this body with it.
            due.add_done_callback(partial(_told, ref(self), timers.parked, -id(self)))
            self._parked = timers.parked
            timers.park(-id(self), due, max(self._until - engine.native.now(), 0))

    def _due(self, due: Future[None]) -> None:
        if due.cancelled() or self._parked is None:
            return
        self._parked.pop(-id(self), None)
        late = self._late()
        if late is None:
            self._watch()
            return
        self._parked = None
        response = self._response()
        if response is not None:
            response.content.set_exception(late)
            response.close()

    def _released(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.pop(-id(self), None)
        response = self._response()
        error = None if response is None else response.content.exception()
        if error is None or type(error).__name__ == "ClientConnectionError":  # closed by its reader
            self._end(0)
        else:
            self._end(self._run.judge_error(error))


def _told(body: ref[_Reading], parked: dict[int, tuple[float, Any]], key: int, due: Future[None]) -> None:
    """Tells a body that its time may be up; forgets the timer of one that is gone."""
    reading = body()
    if reading is not None:
        reading._due(due)
    elif key in parked and parked[key][1] is due:
        del parked[key]


class Body(_Reading):
    """The call of a response whose deadline still applies."""

    def __init__(self, run: OpenRun, response: Any, step: int) -> None:
        super().__init__(run, None, step)
        self._open(response)


class StreamBody(Silence, _Reading):
    """The call of a response whose silence is bounded.

    Where each byte counts, the stream's own count of bytes says whether a piece has come, so a piece costs
    nothing. Otherwise the stream keeps the pieces that come, and they are looked at together.
    """

    def __init__(self, run: Any, response: Any, step: int, pieces: Pieces | None) -> None:
        super().__init__(run, None, step, pieces or pieces_of(run, response))
        self._content = content = response.content
        self._key = id(content)
        keeps = not self._pieces.plain
        self._unread: list[bytes] = list(getattr(content, "_buffer", ())) if keeps and pieces is None else []
        self._total = None if keeps else content.total_bytes  # when it was looked at last
        known = type(content), keeps
        if known not in _classes:
            _classes[known] = _listening(*known)
        content.__class__ = _classes[known]
        _bodies[self._key] = self
        self._open(response)

    def _event(self) -> int:
        self._look()
        return super()._event()

    def _look(self) -> None:
        """Looks at the pieces that have come, while a read may wait for the event loop to give it some."""
        if self._began < 0:
            self._read()
        else:
            self.goes_on()
            self._began = self._now()

    def _read(self) -> None:
        """Looks at the pieces that have come since the last look."""
        if self._unread:
            piece = b"".join(self._unread)
            self._unread.clear()
            self._heard(piece)
        elif self._total is not None and self._total != self._content.total_bytes:
            self._total, self._waited = self._content.total_bytes, 0

    def _end(self, outcome: int) -> None:
        if self._call and outcome == 0:
            self._read()
            if self._pieces.meter is not None:
                self._pieces.meter.whole = self._content.is_eof()
        super()._end(outcome)

    def waits(self) -> None:
        """Notes that a read waits for data."""
        self._read()
        self._began = self._now()

    def goes_on(self) -> None:
        """Notes that a read no longer waits."""
        self._ended()
        self._read()

    def _released(self) -> None:
        _bodies.pop(self._key, None)
        super()._released()


class _Waiting:
    """A stream of aiohttp that says when a read waits for data."""

    __slots__ = ()

    async def _wait(self, name: str) -> None:
        body = _bodies.get(id(self))
        if body is None:
            await super()._wait(name)  # type: ignore[misc]
            return
        body.waits()
        try:
            await super()._wait(name)  # type: ignore[misc]
        finally:
            body.goes_on()


def _listening(kind: type, keeps: bool) -> type:
    """Returns the class of streams of this kind that say when a read waits, and keep the data that come."""
    feed = kind.feed_data  # type: ignore[attr-defined]

    def feed_data(self: Any, data: bytes, *more: Any) -> Any:
        body = _bodies.get(id(self))
        if body is not None and data:
            unread = body._unread
            unread.append(data)
            if len(unread) >= _TOGETHER:
                body._look()
        return feed(self, data, *more)

    members: dict[str, Any] = {"__module__": kind.__module__, "__slots__": ()}
    if keeps:
        members["feed_data"] = feed_data
    return type(kind.__name__, (_Waiting, kind), members)


def pieces_of(run: Any, response: Any) -> Pieces:
    """Returns the reader of a body's pieces. What a meter reads, aiohttp has unpacked."""
    pieces: Pieces = run.pieces(response.headers.get("Content-Encoding", "identity"), "identity")
    return pieces


async def hold(run: Any, response: Any) -> Pieces:
    """Reads a response up to its first piece that counts, its end, or 64 kB, and puts the bytes back."""
    content, pieces = response.content, pieces_of(run, response)
    chunks: list[bytes] = []
    size = 0
    try:
        while size < HELD_AT_MOST:
            chunk = await content.readany()
            if not chunk:
                break
            chunks.append(chunk)
            size += len(chunk)
            if pieces.counts(chunk) or pieces.failure:
                break
    except BaseException:
        response.close()
        raise
    _put_back(content, b"".join(chunks))
    return pieces


def _put_back(content: Any, data: bytes) -> None:
    if data:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)
            content.unread_data(data)


async def begin(response: Any, left: float) -> bytes:
    """Reads the beginning of a failed response; the bytes go back into its stream. Returns what was read."""
    limit = seconds_for(left)
    until = monotonic() + limit
    content = response.content
    chunks: list[bytes] = []
    while not content.at_eof() and sum(map(len, chunks)) < READ_AT_MOST:
        reading = ensure_future(content.readany())
        try:
            await wait({reading}, timeout=max(until - monotonic(), 0))
        finally:
            if not reading.done():
                reading.cancel()
                await wait({reading})
        if reading.cancelled() or reading.exception() is not None:
            break
        chunks.append(reading.result())
    data = b"".join(chunks)
    _put_back(content, data)
    return data


async def drain(response: Any, left: float) -> bool:
    """Reads a failed response to its end if it is small and quick, and keeps the data in it."""
    limit = min(DRAIN_SECONDS, max(left, 0.0))
    reading = ensure_future(_read(response, limit))
    try:
        await wait({reading}, timeout=limit)
    finally:
        if not reading.done():
            reading.cancel()
            await wait({reading})
    if reading.cancelled() or reading.exception() is not None:
        return False
    return reading.result()


async def _read(response: Any, limit: float) -> bool:
    if limit <= 0 or (response.content_length or 0) > DRAIN_BYTES:
        return False
    until = monotonic() + limit
    chunks: list[bytes] = []
    size = 0
    content = response.content
    while not content.at_eof():
        chunk = await content.readany()
        chunks.append(chunk)
        size += len(chunk)
        if size > DRAIN_BYTES or monotonic() > until:
            return False
    response._body = b"".join(chunks)
    return True
