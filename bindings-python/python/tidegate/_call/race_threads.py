"""Concurrent attempts of a call, in threads (semantics 8).

The caller's thread carries out the steps; each attempt runs on a worker thread of ours. An attempt that lost
cannot be interrupted. It keeps its resources and its slot until it ends, and then reports its end (R12).
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from tidegate._engine.wire import (
    ATTEMPT,
    CANCEL,
    DONE,
    POLL,
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
from tidegate._native import within

from .outcomes import CANCELLED
from .run import COROUTINES, Run, not_async
from .target import OF_LANE
from .threads import discard_held

if TYPE_CHECKING:
    from collections.abc import Callable

_REAL: Final = 0.02
"""Real seconds that a test clock waits for running attempts before it moves."""


def race(run: Run, step: int) -> Any:
    """Carries out a call that may hedge to its end. Reports any interruption to the engine."""
    contest = _Race(run)
    engine, call = run.engine, run.call
    engine.waiters[call] = contest.wake
    try:
        step, won = contest.drive(step)
    except BaseException:
        reply = engine.native.on(call, CANCEL)
        if not isinstance(reply, int):
            engine.wake(reply[1])
        discard_held(run)
        raise
    finally:
        engine.waiters.pop(call, None)
        contest.close()
    lane = contest.lanes.get(won, run)
    lane.made = run.made
    try:
        if not is_done(step):
            lane.attempts = run.attempts
            return lane.stream(step)
        lane.attempts, run.call, lane.call = run.made, 0, 0
        return lane.conclude(step)
    except BaseException:
        lane.abandon()
        discard_held(lane)
        raise


class _Race:
    """A call's running attempts, and its ended ones that are not yet reported."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.call = run.call  # for attempts that report their end after `run.call` has been cleared
        self.lanes: dict[int, Run] = {}
        self.ended: deque[tuple[int, bool, Any]] = deque()
        self._news = allocate_lock()
        self._news.acquire()
        self._guard = allocate_lock()
        self._over = False
        self._out: set[int] = set()

    def wake(self) -> None:
        """Wakes the caller's thread."""
        try:
            self._news.release()
        except RuntimeError:
            pass  # it has been woken already

    def drive(self, step: int) -> tuple[int, int]:
        """Carries out steps until one ends the race; returns it with the result's lane, or -1 for none."""
        run = self.run
        while True:
            for attempt in self._out:
                if has_lane(stops_of(step), attempt):
                    # It timed out or lost. Its thread keeps running, but this is its result.
                    self.lanes[lane_of(attempt)].stopped(attempt, None)
            action = action_of(step)
            if action == DONE:
                return step, lane_of_result(step)
            if awaits_body(step):
                return step, lane_of(run.attempts)
            if action == ATTEMPT:
                self._start(attempt_of(step))
            us = span_of(step)
            if us and not self.ended:
                self._wait(us)
            step = self._report() if self.ended else run.engine.on(run.call, POLL)

    def _wait(self, us: int) -> None:
        if self.run.engine.clock is not None and self.lanes and self._news.acquire(True, _REAL):
            return
        self.run.engine.park(self._news, us)

    def _start(self, attempt: int) -> None:
        run = self.run
        run.attempts = run.made = attempt
        lane = self.lanes[lane_of(attempt)] = run.lane()
        lane.attempts = 255  # so that abandoning the call does not report attempts that still run
        self._out.add(attempt)
        us = run.engine.native.time_left(run.call)
        context = copy_context()
        context.run(OF_LANE.set, (run.engine, run.call, run.engine.native.target_of(run.call)))
        try:
            in_thread(lambda: context.run(self._attempt, lane, attempt, us))
        except BaseException as error:  # no thread could be started: counts as a failed attempt
            self.ended.append((attempt, False, error))

    def _attempt(self, lane: Run, attempt: int, us: int) -> None:
        """Body of an attempt's thread: runs the attempt and reports how it ended. Never raises."""
        ok, value = False, None
        try:
            value = within((lane.engine, lane.call, None, lane.scope), lane.start, attempt, us)
            if type(value) in COROUTINES:
                raise not_async(value, lane.fn)
            ok = True
        except BaseException as error:
            value = error
        with self._guard:
            late = self._over
            if not late:
                self.ended.append((attempt, ok, value))
        if late:
            self._lost(lane, attempt, ok, value)
        else:
            self.wake()
        value = None  # no cycle: exception, traceback, frame, exception

    def _report(self) -> int:
        """Reports the end of an attempt to the engine; releases a failed result before the next step."""
        attempt, ok, value = self.ended.popleft()
        lane = self.lanes[lane_of(attempt)]
        self._out.discard(attempt)
        try:
            step = lane.report(attempt, ok, value)
        except BaseException:
            lane.engine.on(lane.call or self.run.call, finished(attempt, CANCELLED))
            raise
        if awaits_body(step):
            self.run.attempts = attempt
        elif ok and not is_done(step):
            lane.release(value)
        return step

    def close(self) -> None:
        """Ends the race: attempts that end from now on have lost."""
        with self._guard:
            self._over = True
        while self.ended:
            attempt, ok, value = self.ended.popleft()
            self._lost(self.lanes[lane_of(attempt)], attempt, ok, value)

    def _lost(self, lane: Run, attempt: int, ok: bool, value: Any) -> None:
        """Reports the end of an attempt that lost, which frees its permit, and discards its result."""
        lane.engine.on(self.call, finished(attempt, CANCELLED))
        if ok:
            try:
                lane.discard(value)
            except Exception:  # noqa: S110 - no caller receives it
                pass


IDLE: Final = 10.0
"""Seconds after which an idle worker thread ends."""


class _Worker:
    """A worker thread, which runs one job after the other."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work
        self.turn = allocate_lock()
        self.turn.acquire()
        # A daemon thread, so that an attempt that hangs does not keep the program from ending.
        threading.Thread(target=self._run, name="tidegate: attempts", daemon=True).start()

    def _run(self) -> None:
        while self.work is not None:
            self.work()
            self.work = None
            _idle.append(self)
            if not self.turn.acquire(True, IDLE):
                try:
                    _idle.remove(self)
                except ValueError:
                    self.turn.acquire()  # `in_thread` has just taken this worker and releases the lock


_idle: Final[list[_Worker]] = []


def in_thread(work: Callable[[], object]) -> None:
    """Runs a job on an idle worker thread, or on a new one."""
    try:
        worker = _idle.pop()
    except IndexError:
        _Worker(work)
        return
    worker.work = work
    worker.turn.release()


def forget_threads() -> None:
    """Forgets idle threads in the child of a fork, where they do not exist."""
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
