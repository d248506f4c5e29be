"""The beginning of a failed response, for policies with `retry.read_errors` (semantics 15.8).

The host waits at most `READ_FOR` for at most `READ_AT_MOST` bytes. What was read goes to core, and the caller
still gets the whole response: first the bytes read here, then the rest.
"""

from __future__ import annotations

import zlib
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from tidegate._native import READ_AT_MOST, READ_FOR

from .drain import is_read
from .until import bounded

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import AsyncIterator, Iterator

    from .httpx_run import Family

INFLATED: Final = {"gzip": 47, "x-gzip": 47, "deflate": 47}
"""The encodings that zlib reads, and its argument for them (47: gzip or zlib, whichever it is)."""


def seconds_for(left: float) -> float:
    """Returns the time limit of reading, if the attempt has `left` seconds."""
    return min(READ_FOR / 1e6, max(left, 0.0))


def decoded(data: bytes, encoding: str) -> bytes:
    """Returns the text of a body in this `Content-Encoding`; nothing if it is not gzip or deflate."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return data
    if encoding not in INFLATED:
        return b""
    try:
        return zlib.decompressobj(INFLATED[encoding]).decompress(data, READ_AT_MOST)
    except zlib.error:
        return b""


class Begun:
    """A body of which a thread has read a part: that part, then the rest or the error that ended it."""

    def __init__(self, inner: Any, beginning: bytes, rest: Iterator[bytes], error: Exception | None) -> None:
        self._inner = inner
        self._beginning = beginning
        self._rest = rest
        self._error = error

    def __iter__(self) -> Iterator[bytes]:
        if self._beginning:
            yield self._beginning
        if self._error is not None:
            raise self._error
        yield from self._rest

    def close(self) -> None:
        """Closes the response."""
        self._inner.close()


class AsyncBegun:
    """A body of which an event loop has read a part. A read that was too slow stays open for the caller."""

    def __init__(self, inner: Any, beginning: bytes, kept: _Kept, pending: Future[bytes] | None) -> None:
        self._inner = inner
        self._beginning = beginning
        self._kept = kept
        self._pending = pending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        kept = self._kept
        if self._beginning:
            yield self._beginning
        pending, self._pending = self._pending, None
        if pending is not None:
            chunk = await pending
            if chunk:
                yield chunk
        if kept.error is not None:
            raise kept.error
        if not kept.whole:
            async for chunk in kept.rest:
                yield chunk

    async def aclose(self) -> None:
        """Closes the response and cancels the read that is still open."""
        pending, self._pending = self._pending, None
        if pending is not None:
            from asyncio import wait

            pending.cancel()
            await wait({pending})
        await self._inner.aclose()


def begin(response: Any, family: Family, timeouts: dict[str, Any] | None, left: float) -> bytes:
    """Reads the beginning of a response of httpx in a thread; returns what was read of its text."""
    from .httpx_run import sided

    stream = response.stream
    if isinstance(stream, family.bytes):
        return _text(response, b"".join(stream))
    if is_read(response, family):
        return cast("bytes", response.content[:READ_AT_MOST])
    limit = seconds_for(left)
    own = None if timeouts is None else timeouts.get("read")
    if timeouts is not None:
        timeouts["read"] = limit if own is None else min(own, limit)
    until, size = monotonic() + limit, 0
    chunks: list[bytes] = []
    rest = iter(stream)
    error: Exception | None = None
    whole = False
    try:
        with bounded(limit):
            while size < READ_AT_MOST and monotonic() < until:
                chunk = next(rest, None)
                if chunk is None:
                    whole = True
                    break
                chunks.append(chunk)
                size += len(chunk)
    except Exception as failure:
        error = failure
    except BaseException:
        stream.close()
        raise
    finally:
        if timeouts is not None:
            timeouts["read"] = own
    data = b"".join(chunks)
    if whole:
        stream.close()
        response.stream = family.bytes(data)
    else:
        response.stream = sided(Begun, family, "SyncByteStream")(stream, data, rest, error)
    return _text(response, data)


async def begin_async(response: Any, family: Family, left: float) -> bytes:
    """Reads the beginning of a response of httpx in an event loop; returns what was read of its text."""
    from tidegate._call.tasks import close

    from .httpx_run import sided

    stream = response.stream
    if isinstance(stream, family.bytes):
        return _text(response, b"".join(stream))
    if is_read(response, family):
        return cast("bytes", response.content[:READ_AT_MOST])
    kept = _Kept(stream.__aiter__())
    try:
        pending = await _read(kept, seconds_for(left), family)
    except BaseException as stopped:
        await close(stream.aclose(), stopped)
        raise
    data = b"".join(kept.chunks)
    if kept.whole:
        await stream.aclose()
        response.stream = family.bytes(data)
    else:
        response.stream = sided(AsyncBegun, family, "AsyncByteStream")(stream, data, kept, pending)
    return _text(response, data)


async def _read(kept: _Kept, limit: float, family: Family) -> Future[bytes] | None:
    """Reads until enough has come or the time is over; returns the read that is still open then."""
    from tidegate._call.timers import in_trio

    until = monotonic() + limit
    if in_trio():
        from trio import move_on_after

        with move_on_after(limit) as scope:
            while kept.more() and monotonic() < until:
                await kept.take()
        if scope.cancelled_caught:  # trio stops a read for good: the transport has closed its connection
            kept.error = family.module.ReadTimeout("the body of the failed answer came too slowly")
        return None
    from asyncio import ensure_future, wait

    while kept.more() and monotonic() < until:
        pending = ensure_future(kept.take())
        try:
            await wait({pending}, timeout=max(until - monotonic(), 0))
        except BaseException:
            pending.cancel()
            await wait({pending})
            raise
        if not pending.done():
            return pending
    return None


class _Kept:
    """What has been read of a body in an event loop."""

    def __init__(self, rest: Any) -> None:
        self.rest = rest
        self.chunks: list[bytes] = []
        self.size = 0
        self.whole = False
        self.error: BaseException | None = None

    def more(self) -> bool:
        """Returns whether more is to be read."""
        return not self.whole and self.error is None and self.size < READ_AT_MOST

    async def take(self) -> bytes:
        """Reads the next chunk and returns it; nothing at the end, and after an error."""
        try:
            chunk: bytes = await self.rest.__anext__()
        except StopAsyncIteration:
            self.whole = True
            return b""
        except Exception as error:
            self.error = error
            return b""
        self.chunks.append(chunk)
        self.size += len(chunk)
        return chunk


def _text(response: Any, data: bytes) -> bytes:
    return decoded(data, response.headers.get("content-encoding", ""))
