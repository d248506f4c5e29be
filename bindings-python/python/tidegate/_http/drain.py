"""A failed answer is read to its end where that is small and quick, which keeps its connection.

Else it is closed. What has been read stands in for the stream, raw: the answer can still be the caller's.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from .until import bounded

if TYPE_CHECKING:
    from .httpx_run import Family

DRAIN_BYTES: Final = 64 * 1024
"""Raw bytes that are read at most."""
DRAIN_SECONDS: Final = 0.25
"""Seconds that it may take, less where less is left."""


def drain(response: Any, family: Family, timeouts: dict[str, Any] | None, left: float) -> None:
    """Empties and closes a response in a thread."""
    stream = response.stream
    if isinstance(stream, family.bytes):
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
    except Exception:  # noqa: S110 - it failed already; the next attempt tells
        pass
    finally:
        try:
            stream.close()
        except Exception:  # noqa: S110
            pass
        kept.settle(family)


async def drain_async(response: Any, family: Family, left: float) -> None:
    """The same in an event loop. A cancellation of the caller ends the reading, and not the closing."""
    from tidegate._call.tasks import close
    from tidegate._call.timers import in_trio

    stream = response.stream
    if isinstance(stream, family.bytes):
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

    # `Task.cancel` would also interrupt a transport that closes a connection, which its pool would never get
    # back. A scope of anyio, which httpx requires, waits for what the transport shields.
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
    except Exception:  # noqa: S110 - it failed already; the next attempt tells
        pass


async def _end(stream: Any, kept: _Kept, family: Family, reading: Any = None) -> None:
    """Closes the stream after the reader has ended."""
    if reading is not None and not reading.done():
        from asyncio import wait

        await wait({reading})
    try:
        await stream.aclose()
    except Exception:  # noqa: S110 - a stream that cannot be closed is closed
        pass
    finally:
        kept.settle(family)


def _limit(left: float) -> float:
    return min(DRAIN_SECONDS, max(left, 0.0))


def _shorten(timeouts: dict[str, Any] | None, left: float) -> float:
    """The limit of a drain; the transport's own read timeout is not longer."""
    limit = _limit(left)
    if timeouts is not None:
        own = timeouts.get("read")
        timeouts["read"] = limit if own is None else min(own, limit)
    return limit


class _Kept:
    """What has been read of a response."""

    def __init__(self, response: Any, limit: float) -> None:
        self.response = response
        self.whole = False
        self.worth_it = limit > 0 and (content_length(response) or 0) <= DRAIN_BYTES
        self._until = monotonic() + limit
        self._chunks: list[bytes] = []
        self._size = 0

    def take(self, chunk: bytes) -> bool:
        """Keeps a chunk; False where it has become too much or too late."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        return self._size <= DRAIN_BYTES and monotonic() <= self._until

    def settle(self, family: Family) -> None:
        """The response with what has been read, or closed."""
        if self.whole:
            self.response.stream = family.bytes(b"".join(self._chunks))
        else:
            self.response.is_closed = True


def content_length(response: Any) -> int | None:
    """What the answer says its body has, if it says so."""
    try:
        return int(response.headers["content-length"])
    except (KeyError, ValueError):
        return None
