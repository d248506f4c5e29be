"""The bodies of successful responses: slot and deadline last until they are read, closed or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate._call import outcomes
from tidegate._call.open_call import Open

from .until import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class ThreadBody(Open):
    """A body that is read in a thread; this class closes it."""

    def _close_quietly(self) -> None:
        """Closes a response that is out of time: its reader gets an error and may not close it."""
        try:
            self._inner.close()
        except Exception:  # noqa: S110 - the reader gets the error of the timeout
            pass

    def close(self) -> None:
        """Closes the response; closing it early counts as a success."""
        try:
            self._inner.close()
        finally:
            self._end(0)


class LoopBody(Open):
    """A body that is read in an event loop; this class closes it."""

    async def aclose(self) -> None:
        """Closes the response; closing it early counts as a success."""
        try:
            await self._inner.aclose()
        finally:
            self._end(0)


class SyncBody(ThreadBody):
    """A body that is read in a thread: each receive is limited to the time left."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            chunks = iter(self._inner)
            while True:
                with bounded(self._left()):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                late = self._late()
                if late is not None:
                    self._close_quietly()
                    raise late
                yield chunk
            self._end(0)
        except GeneratorExit:
            raise  # closed early: `close` follows
        except BaseException as error:
            late = self._late()
            if late is not None:
                self._close_quietly()
                raise late from error
            self._end(self._run.judge_error(error))
            raise


class AsyncBody(LoopBody):
    """A body that is read in an event loop: a read is cancelled when the deadline passes."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from tidegate._call.tasks import close
        from tidegate._call.timers import arm

        run = self._run
        chunks = self._inner.__aiter__()
        failure: BaseException | None = None
        try:
            while True:
                call = self._call
                late = self._late()
                if late is not None:
                    await close(self._inner.aclose())
                    raise late
                timers = None
                if call and self._until is not None:
                    timers = arm(run.engine, call, self._until - run.engine.native.now())
                failure = None
                chunk = b""
                try:
                    chunk = await chunks.__anext__()
                except BaseException as error:
                    failure = error
                stopped = None if timers is None else timers.disarm(call, failure)
                if stopped is not None:
                    self._end(outcomes.CANCELLED)  # the read has unwound, so the slot can be released (R12)
                    if stopped[1] and failure is not None:
                        raise failure
                    await close(self._inner.aclose())
                    raise run.refuse("deadline") from failure
                if isinstance(failure, StopAsyncIteration):
                    break
                if failure is not None:
                    # The client's own timeout is a millisecond longer, and in a busy loop it may fire first.
                    late = None if call and not isinstance(failure, Exception) else self._late()
                    if late is not None:
                        await close(self._inner.aclose())
                        raise late from failure
                    self._end(run.judge_error(failure))
                    raise failure
                yield chunk
            self._end(0)
        finally:
            failure = None  # no cycle: exception, traceback, frame, exception
            if hasattr(chunks, "aclose"):
                await chunks.aclose()
