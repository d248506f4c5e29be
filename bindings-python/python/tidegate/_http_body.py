"""The bodies of good answers: slot and deadline last until they are read, closed or thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _classify
from ._wire import ATTEMPT_SHIFT, DEADLINE, DONE, FINISHED, SPAN_SHIFT, TIMER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ._errors import TidegateError
    from ._http import HttpRun


class _Open:
    """A call whose answer is being read; or one that has ended with a failure, whose deadline still holds."""

    def __init__(self, run: HttpRun, inner: Any, step: int) -> None:
        self._run = run
        self._inner = inner
        self._call = run.call
        # A call that goes on is ended by the engine, once; of one that has ended only the clock is left.
        self._had_call = run.call != 0
        us = (step >> SPAN_SHIFT) - 1
        self._until = run.engine.native.now() + us if us >= 0 else None

    def _end(self, outcome: int) -> None:
        """Tells the engine, once, how reading ended."""
        call, self._call = self._call, 0
        if call:
            run = self._run
            outcome = _classify.CANCELLED if outcome < 0 else outcome
            run.engine.on(call, FINISHED | run.attempts << ATTEMPT_SHIFT | outcome)

    def _late(self) -> TidegateError | None:
        """The error of a deadline that has passed, if the engine says that it has."""
        if self._until is not None and self._run.engine.native.now() >= self._until:
            if not self._call:
                return None if self._had_call else self._run.refuse("deadline")
            step = self._run.engine.on(self._call, TIMER)
            if step & 3 == DONE:
                self._end(_classify.CANCELLED)  # what cannot be stopped is reported
                if step >> 12 & 63 == DEADLINE:
                    return self._run.refuse("deadline")
            else:
                us = (step >> SPAN_SHIFT) - 1
                self._until = self._run.engine.native.now() + us if us >= 0 else None
        return None

    def __del__(self) -> None:
        if self._call:
            self._end(_classify.STOPPED)  # thrown away unread: the slot goes on


class SyncBody(_Open):
    """A body that is read in a thread; its deadline is looked at between chunks, as no read can be cut."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                late = self._late()
                if late is not None:
                    raise late
                yield chunk
            self._end(0)
        except GeneratorExit:
            raise  # closed early: `close` follows
        except BaseException as error:
            late = self._late()
            if late is not None:
                raise late from error
            self._end(self._run.judge_error(error))
            raise

    def close(self) -> None:
        """Closes the answer; one that is closed early was a good one."""
        try:
            self._inner.close()
        finally:
            self._end(0)


class AsyncBody(_Open):
    """A body that is read in an event loop: a read that outlives the deadline is stopped."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        from asyncio import get_running_loop

        from ._timers import timers_of

        run = self._run
        chunks = self._inner.__aiter__()
        try:
            while True:
                call = self._call
                late = self._late()
                if late is not None:
                    raise late
                timers = None
                if call and self._until is not None:
                    timers = timers_of(run.engine)
                    timers.arm(get_running_loop(), call, self._until - run.engine.native.now())
                failure: BaseException | None = None
                try:
                    chunk = await chunks.__anext__()
                except BaseException as error:
                    failure = error
                stopped = None if timers is None else timers.disarm(call, failure)
                if stopped is not None:
                    self._call = 0
                    if stopped[1] and failure is not None:
                        raise failure
                    raise run.refuse("deadline") from failure
                if isinstance(failure, StopAsyncIteration):
                    break
                if failure is not None:
                    late = None if call else self._late()
                    if late is not None:
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
