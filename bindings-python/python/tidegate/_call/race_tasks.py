"""Concurrent attempts of a call, in an event loop (semantics 8).

The caller's task carries out the steps; each attempt has a task of its own. When the call ends, for whatever
reason, its remaining tasks are cancelled and awaited, so that none is left behind.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from tidegate._engine.wire import (
    ATTEMPT,
    CANCEL,
    DONE,
    POLL,
    WAIT,
    action_of,
    attempt_of,
    awaits_body,
    finished,
    has_lane,
    is_done,
    lane_of,
    lane_of_result,
    span_of,
    stops_of,
)

from .deadline import SCOPE
from .outcomes import CANCELLED
from .run import COROUTINES, Run, awaited
from .target import OF_LANE
from .tasks import discard, discard_held
from .timers import in_trio, timers_of

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Coroutine
    from typing import Protocol

    class Crew(Protocol):
        """The tasks of a race."""

        async def __aenter__(self) -> object: ...
        async def __aexit__(self, *error: object) -> None: ...

        def start(self, attempt: int, work: Coroutine[Any, Any, None]) -> None:
            """Starts a task for an attempt."""

        def stop(self, attempt: int) -> None:
            """Cancels the task of an attempt if it still runs."""

        async def join(self) -> None:
            """Waits for all tasks. A cancellation meanwhile is raised only after they have ended."""


async def race(run: Run, step: int) -> Any:
    """Carries out a call that may hedge to its end. Reports any interruption to the engine."""
    crew: Crew
    if in_trio():
        from .trio_timers import TrioCrew

        crew = TrioCrew()
    else:
        crew = _Tasks()
    contest = _Race(run, crew)
    failure: BaseException | None = None
    answer = None
    async with crew:  # no exception may leave the block, since trio would wrap it in a group
        try:
            answer = await contest.decided(step)
        except BaseException as error:
            failure = error
            await contest.called_off(error)
    if failure is None:
        return answer
    try:
        raise failure
    finally:
        del failure, contest  # no cycle: exception, traceback, frame, exception


class _Race:
    """A call's running attempts, and its ended ones that are not yet reported."""

    def __init__(self, run: Run, crew: Crew) -> None:
        self.run = run
        self.crew = crew
        self.timers = timers_of(run.engine)
        self.parked = self.timers.waker()
        self.lanes: dict[int, Run] = {}
        self.out: set[int] = set()
        self.stopped: set[int] = set()
        self.ended: deque[tuple[int, bool, Any]] = deque()

    async def decided(self, step: int) -> Any:
        """Carries out the race and returns what the caller gets, or raises."""
        run = self.run
        run.engine.waiters[run.call] = self.parked
        try:
            step = await self._drive(step)
        finally:
            run.engine.waiters.pop(run.call, None)
            self.timers.parked.pop(run.call, None)
        await self.crew.join()
        won = lane_of_result(step) if is_done(step) else lane_of(run.attempts)
        await self._sweep(won)
        lane = self.lanes.get(won, run)
        lane.made = run.made
        if not is_done(step):
            lane.attempts = run.attempts
            return lane.stream(step)
        lane.attempts, run.call, lane.call = run.made, 0, 0
        return lane.conclude(step)

    async def called_off(self, error: BaseException) -> None:
        """Ends the call with an error. Attempts keep their permits until they have unwound (R12)."""
        run = self.run
        for attempt in self.out - self.stopped:  # a second cancellation would interrupt its clean-up
            self.crew.stop(attempt)
        if run.call:
            run.engine.on(run.call, CANCEL)
        try:
            await self.crew.join()
        except BaseException:  # noqa: S110 - the caller already gets `error`
            pass
        await self._sweep(-1)
        for attempt in range(1, run.made):  # all of them: one whose report was interrupted is in no set
            run.engine.on(run.id, finished(attempt, CANCELLED))
        run.abandon()
        await discard_held(run, error)

    async def _drive(self, step: int) -> int:
        """Carries out steps up to the one that ends the race."""
        run = self.run
        while True:
            self._stop(stops_of(step))
            action = action_of(step)
            if action == DONE or awaits_body(step):
                return step
            if action == ATTEMPT:
                self._start(attempt_of(step))
            us = span_of(step)
            if action == WAIT and self.out and self.out <= self.stopped:
                us = -1  # all are being stopped: no attempt starts before they have unwound (R3, R12)
            if us and not self.ended:
                self.timers.park(run.call, self.parked.future, us)
                await self.parked.future
            if self.parked.future.done():
                self.parked.renew()  # before polling the engine, so that a later wake-up is not lost
            step = await self._report() if self.ended else run.engine.on(run.call, POLL)

    def _start(self, attempt: int) -> None:
        run = self.run
        run.attempts = run.made = attempt
        lane = self.lanes[lane_of(attempt)] = run.lane()
        lane.attempts = attempt
        self.out.add(attempt)
        native = run.engine.native
        where = native.target_of(run.call)
        self.crew.start(attempt, self._attempt(lane, attempt, native.time_left(run.call), where))

    def _stop(self, bits: int) -> None:
        for attempt in self.out:
            if has_lane(bits, attempt) and attempt not in self.stopped:
                self.stopped.add(attempt)
                self.crew.stop(attempt)

    async def _attempt(self, lane: Run, attempt: int, us: int, where: str | None) -> None:
        """Body of an attempt's task: runs the attempt and reports how it ended. Never raises."""
        SCOPE.set((lane.engine, lane.call, None, lane.scope))
        OF_LANE.set((lane.engine, lane.call, where))
        ok, value = False, None
        try:
            made = lane.start(attempt, us)
            value = await (made if type(made) in COROUTINES else awaited(made, lane.fn))
            ok = True
        except BaseException as error:
            value = error
        self.ended.append((attempt, ok, value))
        self.parked.set()
        value = None  # no cycle: exception, traceback, frame, exception

    async def _report(self) -> int:
        """Reports the end of an attempt to the engine; releases a failed result before the next step."""
        run = self.run
        attempt, ok, value = self.ended.popleft()
        lane = self.lanes[lane_of(attempt)]
        self.out.discard(attempt)
        if attempt in self.stopped:
            return await self._unwound(lane, attempt, ok, value)
        step = lane.report(attempt, ok, value)
        if awaits_body(step):
            run.attempts = attempt
        elif ok and not is_done(step):
            released = lane.release(value)
            if released is not None:
                await released
        return step

    async def _unwound(self, lane: Run, attempt: int, ok: bool, value: Any) -> int:
        """Reports a stopped attempt that has unwound while the call continues."""
        self.stopped.discard(attempt)
        outcome = CANCELLED
        if ok:
            lane.held[lane_of(attempt)] = (True, value)
            outcome = max(lane.judge(True, value), 0)
        elif isinstance(value, Exception) or not _is_end(value):
            lane.stopped(attempt, value)
        else:
            raise value
        step = lane.engine.on(lane.call, finished(attempt, outcome))
        if ok and not is_done(step):
            del lane.held[lane_of(attempt)]
            await self._discard(attempt, value)
        return step

    async def _sweep(self, won: int) -> None:
        """Reports the attempts that were stopped when the race ended, and discards their results."""
        run = self.run
        while self.ended:
            attempt, ok, value = self.ended.popleft()
            lane = self.lanes[lane_of(attempt)]
            run.engine.on(lane.call, finished(attempt, CANCELLED))
            if lane_of(attempt) == won:  # its timeout ended the call, so it has the call's result
                if ok:
                    lane.held[won] = (True, value)
                else:
                    lane.stopped(attempt, value)
            elif ok:
                await self._discard(attempt, value)

    async def _discard(self, attempt: int, value: Any) -> None:
        await discard(self.lanes.get(lane_of(attempt), self.run), value)


def _is_end(error: BaseException) -> bool:
    """Returns whether the exception ends the program."""
    return isinstance(error, (KeyboardInterrupt, SystemExit))


class _Tasks:
    """The tasks of a race, in asyncio."""

    def __init__(self) -> None:
        self._tasks: dict[int, Task[None]] = {}

    async def __aenter__(self) -> object:
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    def start(self, attempt: int, work: Coroutine[Any, Any, None]) -> None:
        from asyncio import get_running_loop

        self._tasks[attempt] = get_running_loop().create_task(work, name=f"tidegate: attempt {attempt}")

    def stop(self, attempt: int) -> None:
        task = self._tasks.get(attempt)
        if task is not None:
            task.cancel()

    async def join(self) -> None:
        from asyncio import CancelledError, wait

        cancelled: CancelledError | None = None
        while pending := [task for task in self._tasks.values() if not task.done()]:
            try:
                await wait(pending)
            except CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
