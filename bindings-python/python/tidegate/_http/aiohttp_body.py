"""aiohttp's responses while they are read: slot and deadline last until the connection is released.

Nothing is wrapped. A callback of the connection reports when it returns to its pool or is closed, whichever
way the body was read. When the deadline passes, its error is set as the stream's exception, which the reader
then gets.
"""

from __future__ import annotations

from asyncio import ensure_future, get_running_loop, wait
from time import monotonic
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter
from weakref import ref

from tidegate._call.open_call import Open
from tidegate._call.timers import timers_of
from tidegate._native import READ_AT_MOST

from .beginning import seconds_for
from .drain import DRAIN_BYTES, DRAIN_SECONDS

if TYPE_CHECKING:
    from asyncio import Future

    from tidegate._call.open_call import OpenRun


def is_open(response: Any) -> bool:
    """Returns whether a part of the body has yet to arrive."""
    return response.connection is not None and not response.content.is_eof()


class Body(Open):
    """The call of a response that is being read."""

    def __init__(self, run: OpenRun, response: Any, step: int) -> None:
        super().__init__(run, None, step)
        self._response = ref(response)  # no reference cycle: a response dropped unread frees its slot at once
        self._parked: dict[int, tuple[float, Any]] | None = None
        response.connection.add_callback(self._released)
        self._watch()

    def _watch(self) -> None:
        """Waits for the deadline, on the shared timer of the loop."""
        if self._until is not None:
            engine = self._run.engine
            timers = timers_of(engine)
            due: Future[None] = get_running_loop().create_future()
            due.add_done_callback(self._due)
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
    if data:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)
            content.unread_data(data)
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
