"""The bodies of good answers: slot and deadline last until they are read, closed or thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate._call import outcomes
from tidegate._call.open_call import Open

from .until import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class SyncBody(Open):
    """A body that is read in a thread: each receive gets the time that is left."""

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

    def _close_quietly(self) -> None:
        """Closes an answer whose time is up: its reader gets an error, and may not think of closing it."""
        try:
            self._inner.close()
        except Exception:  # noqa: S110 - that its time is up matters more
            pass

    def close(self) -> None:
        """Closes the answer; one that is closed early was a good one."""
        try:
            self._inner.close()
        finally:
            self._end(0)


class AsyncBody(Open):
    """A body that is read in an event loop: a read that outlives the deadline is stopped."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from tidegate._call.tasks import close
        from tidegate._call.timers import arm

        run = self._run
        chunks = self._inner.__aiter__()
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
                failure: BaseException | None = None
                chunk = b""
                try:
                    chunk = await chunks.__anext__()
                except BaseException as error:
                    failure = error
                stopped = None if timers is None else timers.disarm(call, failure)
                if stopped is not None:
                    self._end(outcomes.CANCELLED)  # the read has unwound: the slot goes on (R12)
                    if stopped[1] and failure is not None:
                        raise failure
                    await close(self._inner.aclose())
                    raise run.refuse("deadline") from failure
                if isinstance(failure, StopAsyncIteration):
                    break
                if failure is not None:
                    late = None if call else self._late()
                    if late is not None:
                        await close(self._inner.aclose())
                        raise late from failure
                    self._end(run.judge_error(failure))
                    raise failure
                yield chunk
            self._end(0)
        finally:
            if hasattr(chunks, "aclose"):
                await chunks.aclose()

    async def aclose(self) -> None:
        """Closes the answer; one that is closed early was a good one."""
        try:
            await self._inner.aclose()
        finally:
            self._end(0)
