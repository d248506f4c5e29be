"""Timeouts of streams (semantics 7.7): the first piece that counts, and silence between pieces.

A piece costs no event and no timer: the reader notes for how long reads have waited, and reports it when the
call's timer fires. No client library is imported here.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tidegate._call import outcomes
from tidegate._call.open_call import MARGIN, Open
from tidegate._engine.wire import VERDICTS, progress, verdict_of
from tidegate._native import HELD_AT_MOST, Events

from .body import LoopBody, ThreadBody
from .until import UNTIL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from tidegate._call.policy import Policy

KEYS: Final = ("first_byte_timeout", "idle_timeout", "deadline_until")

GROUP: Final = 64
"""Pieces of a delivered body that are looked at together."""


class Limits:
    """The timeouts that a policy has for streams.

    Attributes:
        first_byte: Whether it has a `first_byte_timeout`; core keeps its length.
        idle: The `idle_timeout` in microseconds; None without one.
        until_delivery: Whether the deadline ends at the delivery.
        events: Whether only data of server-sent events count.
    """

    __slots__ = ("events", "first_byte", "idle", "until_delivery")

    def __init__(self, first_byte: bool, idle: int | None, until_delivery: bool, events: bool) -> None:
        self.first_byte = first_byte
        self.idle = idle
        self.until_delivery = until_delivery
        self.events = events


def limits_of(policy: Policy) -> Limits | None:
    """Returns the timeouts that a policy has for streams; None without any."""
    first_byte = policy._setting("first_byte_timeout") is not None
    idle = policy._setting("idle_timeout")
    until_delivery = policy._setting("deadline_until") == "delivery"
    if not first_byte and idle is None and not until_delivery:
        return None
    silence = int(idle) if isinstance(idle, (int, float)) else None
    return Limits(first_byte, silence, until_delivery, policy._setting("counts") == "sse_data")


class Pieces:
    """Which pieces of one body count.

    Attributes:
        events: The reader of events; None if each byte counts.
        failure: The outcome of the last failure that an event of the stream has reported; 0 without one.
    """

    __slots__ = ("events", "failure")

    def __init__(self, limits: Limits, coded: bool) -> None:
        # A body with a content coding cannot be read here: each of its bytes counts.
        self.events = Events() if limits.events and not coded else None
        self.failure = 0

    def counts(self, piece: bytes) -> bool:
        """Reads a piece and returns whether it counts."""
        if self.events is None:
            return len(piece) > 0
        read: tuple[bool, int] = self.events.read(piece)
        counts, failure = read
        self.failure = failure or self.failure
        return counts


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
    pieces = Pieces(run.limits, is_coded(response))
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
    pieces = Pieces(run.limits, is_coded(response))
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


def is_coded(response: Any) -> bool:
    """Returns whether a body has a content coding, so that its bytes are not those of events."""
    return bool(response.headers.get("content-encoding", "identity").lower() != "identity")


class _Stream(Open):
    """A delivered body whose silence is bounded. Its call runs."""

    def __init__(self, run: Any, inner: Any, step: int) -> None:
        super().__init__(run, inner, step)
        self._now = run.engine.native.now
        self._pieces = inner.pieces if isinstance(inner, Held) else Pieces(run.limits, run.coded)
        self._first: list[bytes] = inner.first if isinstance(inner, Held) else []
        self._rest = inner.rest if isinstance(inner, Held) else inner
        self._unread: list[bytes] = []
        self._waited = 0  # since the last piece that counts, in microseconds
        self._began = -1  # of the read that waits; negative while nothing reads

    def _event(self) -> int:
        """Returns the report of the silence so far."""
        age = self._waited
        if self._began >= 0:
            age += max(self._now() - self._began, 0)
        return progress(self._run.attempts, age)

    def _read(self) -> None:
        """Reads the pieces that have come, before the age is asked."""
        if self._unread:
            if self._pieces.counts(b"".join(self._unread)):
                self._waited = 0
            self._unread.clear()
            if self._pieces.failure and self._call:
                self._end(self._pieces.failure)  # a failed body, which the caller reads to its end

    def _ended(self) -> None:
        """Notes the end of a read that has waited."""
        self._waited += max(self._now() - self._began, 0)
        self._began = -1


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

    def _until_now(self, now: int) -> float | None:
        """Returns when the next reads end at the latest, on the process's monotonic clock."""
        run: Any = self._run
        if not self._call:
            return None
        left = None if run.limits.idle is None else run.limits.idle - self._waited + self._slack()
        if run.until is not None:
            left = run.until - now if left is None else min(left, run.until - now)
        return None if left is None else monotonic() + max(left, 0) / 1e6 + MARGIN

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
                    until, again = self._until_now(began), began + self._slack()
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
            self._end(0)
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
                    self._end(run.judge_error(failure))
                    raise failure
                piece = piece or b""
                keep(piece)
                yield piece
            self._read()
            self._end(0)
        finally:
            if timers is not None:
                timers.reports.pop(known, None)
            if hasattr(rest, "aclose"):
                await rest.aclose()
