"""Draining: reads a small failed response to its end, so that its connection can be reused.

Large or slow ones are closed. The raw bytes read replace the stream, since the caller may still get the
response.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .until import bounded

if TYPE_CHECKING:
    from .httpx_run import Family

DRAIN_BYTES: Final = 64 * 1024
"""Maximum number of raw bytes to read."""
DRAIN_SECONDS: Final = 0.25
"""Time limit in seconds; shorter if the attempt has less time left."""


def is_read(response: Any, family: Family) -> bool:
    """Returns whether the body is in memory, where an inner transport or the user's code may have read it.

    The stream of such a response must not be read again: its connection may carry another request by now.
    """
    return isinstance(response.stream, family.bytes) or hasattr(response, "_content")


def drain(response: Any, family: Family, timeouts: dict[str, Any] | None, left: float) -> None:
    """Drains and closes a response in a thread."""
    stream = response.stream
    if is_read(response, family):
        return
    limit = _shorten(timeouts, left)
    kept = _Kept(response, limit)
    try:
        if kept.worth_it:
            with bounded(limit):
                for chunk in stream:
                    if not kept.take(chunk):
                        break
                else:
                    kept.whole = True
    except Exception:  # noqa: S110 - the attempt has failed already
        pass
    finally:
        try:
            stream.close()
        except Exception:  # noqa: S110
            pass
        kept.settle(family)


async def drain_async(response: Any, family: Family, left: float) -> None:
    """Drains and closes a response in an event loop. Cancelling the caller stops the reading only."""
    from tidegate._call.tasks import close
    from tidegate._call.timers import in_trio

    stream = response.stream
    if is_read(response, family):
        return
    limit = _limit(left)
    kept = _Kept(response, limit)
    if in_trio():
        from trio import move_on_after

        try:
            with move_on_after(limit):
                await _read(stream, kept)
        finally:
            await close(_end(stream, kept, family))
        return
    from asyncio import ensure_future, wait

    from anyio import CancelScope

    # `Task.cancel` would also interrupt a transport while it closes a connection, and the pool would lose
    # that connection. A scope of anyio, which httpx requires, waits for code that the transport shields.
    scope = CancelScope()
    reading = ensure_future(_read_in(scope, stream, kept))
    stopped: BaseException | None = None
    try:
        await wait({reading}, timeout=limit)
    except BaseException as error:
        stopped = error
        raise
    finally:
        scope.cancel()
        await close(_end(stream, kept, family, reading), stopped)


async def _read_in(scope: Any, stream: Any, kept: _Kept) -> None:
    with scope:
        await _read(stream, kept)


async def _read(stream: Any, kept: _Kept) -> None:
    try:
        if kept.worth_it:
            async for chunk in stream:
                if not kept.take(chunk):
                    break
            else:
                kept.whole = True
    except Exception:  # noqa: S110 - the attempt has failed already
        pass


async def _end(stream: Any, kept: _Kept, family: Family, reading: Any = None) -> None:
    """Closes the stream after the reader has ended."""
    if reading is not None and not reading.done():
        from asyncio import wait

        await wait({reading})
    try:
        await stream.aclose()
    except Exception:  # noqa: S110 - a stream that fails to close counts as closed
        pass
    finally:
        kept.settle(family)


def _limit(left: float) -> float:
    return min(DRAIN_SECONDS, max(left, 0.0))


def _shorten(timeouts: dict[str, Any] | None, left: float) -> float:
    """Returns the time limit of a drain, and lowers the transport's read timeout to it."""
    limit = _limit(left)
    if timeouts is not None:
        own = timeouts.get("read")
        timeouts["read"] = limit if own is None else min(own, limit)
    return limit


class _Kept:
    """The bytes read of a response."""

    def __init__(self, response: Any, limit: float) -> None:
        self.response = response
        self.whole = False
        begun = response.is_stream_consumed  # the user's code has taken the first pieces
        self.worth_it = limit > 0 and not begun and (content_length(response) or 0) <= DRAIN_BYTES
        self._until = monotonic() + limit
        self._chunks: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> bool:
        """Keeps a chunk; returns False once the size or time limit is exceeded."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._size <= DRAIN_BYTES and monotonic() <= self._until

    def settle(self, family: Family) -> None:
        """Puts the bytes read into the response, or marks it closed if they are incomplete."""
        if self.whole:
            self.response.stream = family.bytes(b"".join(self._chunks))
        else:
            self.response.is_closed = True


def content_length(response: Any) -> int | None:
    """Returns the value of `Content-Length`; None if it is absent or invalid."""
    try:
        return int(response.headers["content-length"])
    except (KeyError, ValueError):
        return None
