"""Timeouts of streams through httpx (semantics 7.7): the first piece that counts, and silence between pieces.

No client library is imported here.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from tidegate._call import outcomes
from tidegate._engine.wire import VERDICTS, verdict_of
from tidegate._native import HELD_AT_MOST

from .body import LoopBody, ThreadBody
from .silence import GROUP, Pieces, Silence
from .until import UNTIL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator


class Held:
    """A body of which the pieces up to its delivery have been read."""

    def __init__(self, inner: Any, rest: Any, first: list[bytes], pieces: Pieces) -> None:
        self.inner = inner
        self.rest = rest
        self.first = first
        self.pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        while self.first:
            yield self.first.pop(0)
        yield from self.rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.first:
            yield self.first.pop(0)
        async for piece in self.rest:
            yield piece

    def close(self) -> None:
        """Closes the response."""
        self.inner.close()

    async def aclose(self) -> None:
        """Closes the response."""
        if hasattr(self.rest, "aclose"):
            await self.rest.aclose()
        await self.inner.aclose()


def hold(run: Any, response: Any) -> None:
    """Reads a response up to its first piece that counts, its end, or 64 kB, in a thread."""
    stream, first, size = response.stream, [], 0
    pieces = run.pieces(encoding_of(response))
    try:
        rest = iter(stream)
        for piece in rest:
            first.append(piece)
            size += len(piece)
            if pieces.counts(piece) or pieces.failure or size >= HELD_AT_MOST:
                break
            if run.left() <= 0:
                raise run.out_of_time()
    except BaseException:
        stream.close()
        raise
    response.stream = run.sided(Held)(stream, rest, first, pieces)


async def ahold(run: Any, response: Any) -> None:
    """Reads a response up to its first piece that counts, its end, or 64 kB, in an event loop."""
    from tidegate._call.tasks import close

    stream, first, size = response.stream, [], 0
    pieces = run.pieces(encoding_of(response))
    rest = stream.__aiter__()
    try:
        async for piece in rest:
            first.append(piece)
            size += len(piece)
            if pieces.counts(piece) or pieces.failure or size >= HELD_AT_MOST:
                break
    except BaseException as error:
        await close(stream.aclose(), error)
        raise
    response.stream = run.sided(Held)(stream, rest, first, pieces)


def encoding_of(response: Any) -> str:
    """Returns the content coding of a body."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding


class _Stream(Silence):
    """A delivered body of httpx whose silence is bounded."""

    def __init__(self, run: Any, inner: Any, step: int) -> None:
        held = isinstance(inner, Held)
        super().__init__(run, inner, step, inner.pieces if held else run.pieces(run.encoding))
        self._first: list[bytes] = inner.first if held else []
        self._rest = inner.rest if held else inner
        self._unread: list[bytes] = []

    def _read(self) -> None:
        """Reads the pieces that have come, before the age is asked."""
        if self._unread:
            piece = b"".join(self._unread)
            self._unread.clear()
            self._heard(piece)

    def _end(self, outcome: int) -> None:
        if self._call and outcome == 0:
            self._read()
        super()._end(outcome)


class SyncStream(_Stream, ThreadBody):
    """A body that is read in a thread: each receive is limited to the time left.

    Most pieces are there already when they are asked for. So they are looked at in groups, of at most `GROUP`
    pieces and a 16th of `idle_timeout`, by which a silence may be noticed late. After pieces that did not
    count each is looked at by itself.
    """

    def _slack(self) -> int:
        """Returns for how many microseconds the limit of a read may be used again."""
        idle = self._run.limits.idle  # type: ignore[attr-defined]
        return 0 if self._waited else 1_000_000 if idle is None else int(idle) // 16

    def _until_now(self) -> float | None:
        """Returns when the next reads end at the latest, on the process's monotonic clock."""
        left = self._seconds(self._slack())
        return None if left is None else monotonic() + left

    def __iter__(self) -> Iterator[bytes]:
        limit, unlimit, clock, unread = UNTIL.set, UNTIL.reset, self._now, self._unread
        keep, times = unread.append, self._pieces.events is not None
        until: float | None = None
        again = -1
        try:
            while self._first:
                yield self._first.pop(0)
            rest = iter(self._rest)
            while True:
                began = clock()
                if began >= again or len(unread) >= GROUP:
                    self._read()
                    late = self._late()
                    if late is not None:
                        self._close_quietly()
                        raise late
                    until, again = self._until_now(), began + self._slack()
                self._began = began
                token = limit(until)
                try:
                    piece = next(rest, None)
                finally:
                    unlimit(token)
                if piece is None:
                    break
                if times:
                    self._waited += clock() - began
                self._began = -1
                keep(piece)
                yield piece
            self._read()
            self._finish()
        except GeneratorExit:
            raise  # closed early: `close` follows
        except BaseException as error:
            if self._began >= 0:
                self._read()
                self._ended()
            late = self._late()
            if late is not None:
                self._close_quietly()
                raise late from error
            self._end(self._run.judge_error(error))
            raise


class _Waiting:
    """The rest of a read that has begun to wait: awaiting it resumes the read."""

    __slots__ = ("_read", "_trap")

    def __init__(self, read: Any, trap: Any) -> None:
        self._read = read
        self._trap = trap

    def __await__(self) -> Generator[Any, Any, bytes]:
        trap = self._trap
        while True:
            try:
                sent = yield trap
            except GeneratorExit:
                self._read.close()
                raise
            except BaseException as error:
                step = partial(self._read.throw, error)
            else:
                step = partial(self._read.send, sent)
            try:
                trap = step()
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


class AsyncStream(_Stream, LoopBody):
    """A body that is read in an event loop: a read is cancelled when its time is up.

    Most pieces are there already when they are asked for: a read that does not wait needs no timer.
    """

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from tidegate._call.tasks import close
        from tidegate._call.timers import arm

        run = self._run
        while self._first:
            yield self._first.pop(0)
        rest = self._rest.__aiter__()
        go_on, unread = rest.__anext__, self._unread
        keep = unread.append
        timers: Any = None
        trap: Any = None
        known = self._call
        try:
            while True:
                read = go_on()
                if not hasattr(read, "send"):
                    read = read.__await__()
                piece: bytes | None = None
                try:
                    trap = read.send(None)
                except StopIteration as end:
                    piece = end.value
                except StopAsyncIteration:
                    break
                except BaseException as error:
                    self._end(run.judge_error(error))
                    raise
                if piece is not None and len(unread) < GROUP:
                    keep(piece)
                    yield piece
                    continue
                self._read()
                late = self._late()
                if late is not None:
                    read.close()
                    await close(self._inner.aclose())
                    raise late
                if piece is not None:
                    keep(piece)
                    yield piece
                    continue
                call = self._call
                armed = None
                self._began = self._now()
                if call and self._until is not None:
                    armed = timers = arm(run.engine, call, self._until - self._began)
                    timers.reports[call] = self._event
                failure: BaseException | None = None
                try:
                    piece = await _Waiting(read, trap)
                except BaseException as error:
                    failure = error
                stopped = None if armed is None else armed.disarm(call, failure)
                if stopped is not None:
                    self._end(outcomes.CANCELLED)  # the read has unwound, so the slot can be released (R12)
                    if stopped[1] and failure is not None:
                        raise failure
                    await close(self._inner.aclose())
                    raise run.refuse(VERDICTS[verdict_of(stopped[0])]) from failure
                self._ended()
                if isinstance(failure, StopAsyncIteration):
                    break
                if failure is not None:
                    # The client's own timeout is a millisecond longer, and in a busy loop it may fire first.
                    late = self._late() if isinstance(failure, Exception) else None
                    if late is not None:
                        await close(self._inner.aclose())
                        raise late from failure
                    self._end(run.judge_error(failure))
                    raise failure
                piece = piece or b""
                keep(piece)
                yield piece
            self._read()
            self._finish()
        finally:
            if timers is not None:
                timers.reports.pop(known, None)
            if hasattr(rest, "aclose"):
                await rest.aclose()
