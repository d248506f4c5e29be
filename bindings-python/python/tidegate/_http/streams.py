"""Timeouts of streams through httpx (semantics 7.7): the first piece that counts, and silence between pieces.

No client library is imported here.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate._call import outcomes
from tidegate._engine.errors import TidegateError
from tidegate._engine.wire import VERDICTS, verdict_of
from tidegate._native import HELD_AT_MOST

from .body import LoopBody, ThreadBody
from .drain import is_read
from .silence import Pieces, Silence
from .until import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

_ALONE: Final = (b"HTTP/1.1", b"HTTP/1.0")
"""The versions of HTTP under which a connection carries one response at a time."""


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


def _source(run: Any, response: Any) -> tuple[Any, Pieces]:
    """Returns the stream of a response, or of the body that has been read already, and its `Pieces`."""
    stream = response.stream
    if is_read(response, run.family) and not isinstance(stream, run.family.bytes):
        return run.family.bytes(response.content), run.pieces("identity")
    return stream, run.pieces(encoding_of(response))


def hold(run: Any, response: Any) -> None:
    """Reads a response up to its first piece that counts, its end, or 64 kB, in a thread."""
    first: list[bytes] = []
    size = 0
    stream, pieces = _source(run, response)
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

    first: list[bytes] = []
    size = 0
    stream, pieces = _source(run, response)
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
    """A delivered body of httpx whose silence is bounded.

    Most pieces are in the client's buffer when they are asked for. So where the body has a connection of its
    own (HTTP/1), the connection says when a read waits for the server, and a piece costs two comparisons.
    Otherwise a read is taken to wait for each piece.
    """

    _due: float = inf
    """When the engine wants to know the age, or the deadline is over: microseconds on the engine's clock."""

    def __init__(self, run: Any, inner: Any, step: int) -> None:
        held = isinstance(inner, Held)
        super().__init__(run, inner, step, inner.pieces if held else run.pieces(run.encoding))
        self._first: list[bytes] = inner.first if held else []
        self._rest = inner.rest if held else inner
        self._unread: list[bytes] = []
        self._plain = self._pieces.plain
        self._some = False  # whether a piece has come since the last look, where each of them counts
        self._aim()

    def _aim(self) -> None:
        self._due = inf if self._until is None else self._until

    def _read(self) -> None:
        """Looks at the pieces that have come since the last look."""
        if self._some:
            self._some, self._waited = False, 0
        elif self._unread:
            piece = b"".join(self._unread)
            self._unread.clear()
            self._heard(piece)

    def _check(self) -> TidegateError | None:
        """Returns the error of a call that is out of time."""
        self._read()
        late = self._late()
        self._aim()
        return late

    def _end(self, outcome: int) -> None:
        if self._call and outcome == 0:
            self._read()
        super()._end(outcome)


class SyncStream(_Stream, ThreadBody):
    """A body that is read in a thread: each receive is limited to the time left."""

    def receive(self, read: Callable[[float | None], Any]) -> Any:
        """Reads from the server; `read` takes the seconds for which it may wait."""
        late = self._check()
        if late is not None:
            raise late
        self._began = self._now()
        got = read(self._seconds())
        self._ended()
        return got

    def _received(self, rest: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces of a body whose connection cannot say when a read waits."""

        def read(left: float | None) -> bytes | None:
            with bounded(left):
                return next(rest, None)

        while (piece := self.receive(read)) is not None:
            yield piece

    def __iter__(self) -> Iterator[bytes]:
        clock, keep = self._now, None if self._plain else self._unread.append
        wire = self._run.wire  # type: ignore[attr-defined]
        try:
            while self._first:
                yield self._first.pop(0)
            rest = iter(self._rest)
            if wire is None:
                rest = self._received(rest)
            else:
                wire.reader = ref(self)  # weak: a body that is dropped unread frees its slot at once
            for piece in rest:
                if keep is None:
                    self._some = True
                else:
                    keep(piece)
                if clock() >= self._due and (late := self._check()) is not None:
                    raise late
                yield piece
            self._read()
            self._finish()
        except GeneratorExit:
            raise  # closed early: `close` follows
        except BaseException as error:
            if self._began >= 0:
                self._read()
                self._ended()
            late = error if isinstance(error, TidegateError) else self._late()
            if late is not None:
                self._close_quietly()
                self._end(outcomes.CANCELLED)
                if late is error:
                    raise
                raise late from error
            self._end(self._run.judge_error(error))
            raise
        finally:
            if wire is not None:
                wire.reader = None


class _Waiting:
    """The rest of a read that has begun to wait: awaiting it resumes the read."""

    __slots__ = ("_read", "_trap")

    def __init__(self, read: Any, trap: Any) -> None:
        self._read = read
        self._trap = trap

    def __await__(self) -> Generator[Any, Any, Any]:
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
                return end.value


class AsyncStream(_Stream, LoopBody):
    """A body that is read in an event loop: a read is cancelled when its time is up."""

    async def _receive(self, read: Any) -> Any:
        """Awaits a read from the server. One that does not wait needs no timer."""
        from tidegate._call.timers import arm

        if not hasattr(read, "send"):
            read = read.__await__()
        try:
            trap = read.send(None)
        except StopIteration as end:
            return end.value
        run, call = self._run, self._call
        late = self._check()
        if late is not None:
            read.close()
            raise late
        armed = None
        self._began = self._now()
        if call and self._until is not None:
            armed = arm(run.engine, call, self._until - self._began)
            armed.reports[call] = self._event
        failure: BaseException | None = None
        got = None
        try:
            got = await _Waiting(read, trap)
        except BaseException as error:
            failure = error
        stopped = None
        if armed is not None:
            stopped = armed.disarm(call, failure)
            armed.reports.pop(call, None)
        if stopped is not None:
            self._end(outcomes.CANCELLED)  # the read has unwound, so the slot can be released (R12)
            if stopped[1] and failure is not None:
                raise failure
            raise run.refuse(VERDICTS[verdict_of(stopped[0])]) from failure
        self._ended()
        if failure is not None:
            raise failure
        return got

    async def _received(self, rest: Any) -> AsyncGenerator[bytes, None]:
        """The pieces of a body whose connection cannot say when a read waits."""
        go_on = rest.__anext__
        while True:
            try:
                piece = await self._receive(go_on())
            except StopAsyncIteration:
                return
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from tidegate._call.tasks import close

        clock, keep = self._now, None if self._plain else self._unread.append
        run: Any = self._run
        wire = run.wire
        while self._first:
            yield self._first.pop(0)
        rest = self._rest.__aiter__()
        pieces = rest
        if wire is None:
            pieces = self._received(rest)
        else:
            _listen(wire, ref(self))
        try:
            async for piece in pieces:
                if keep is None:
                    self._some = True
                else:
                    keep(piece)
                if clock() >= self._due and (late := self._check()) is not None:
                    raise late
                yield piece
            self._read()
            self._finish()
        except GeneratorExit:
            raise  # closed early: `aclose` follows
        except TidegateError as error:
            self._end(outcomes.CANCELLED)
            await close(self._inner.aclose(), error)
            raise
        except Exception as error:
            # The client's own timeout is a millisecond longer, and in a busy loop it may fire first.
            self._read()
            late = self._late()
            if late is not None:
                await close(self._inner.aclose())
                raise late from error
            self._end(run.judge_error(error))
            raise
        except BaseException as error:
            self._end(run.judge_error(error))
            raise
        finally:
            if wire is None:
                await pieces.aclose()
            else:
                wire.__dict__.pop("read", None)
            if hasattr(rest, "aclose"):
                await rest.aclose()


def _listen(wire: Any, stream: ref[AsyncStream]) -> None:
    """Makes the connection of httpcore say when a read waits, until its `read` is removed again."""
    inner = wire.read

    async def read(*args: Any, **more: Any) -> Any:
        body = stream()
        return await (inner(*args, **more) if body is None else body._receive(inner(*args, **more)))

    wire.read = read


def wire_of(response: Any, library: str, kind: type | None) -> Any:
    """Returns the connection that a response is read from; None if other code or responses share it."""
    stream, extensions = response.stream, response.extensions
    if isinstance(stream, Held):
        stream = stream.inner
    own = type(stream).__module__ == f"{library}._transports.default"
    if not own or extensions.get("http_version") not in _ALONE:
        return None
    wire = extensions.get("network_stream")
    if kind is None:
        return wire if hasattr(wire, "read") and hasattr(wire, "__dict__") else None
    return wire if isinstance(wire, kind) else None
