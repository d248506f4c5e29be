"""The shell for threads: carries out the engine's steps in the caller's thread and makes no decisions."""

from __future__ import annotations

import sys
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, Final

from tidegate._engine.wire import (
    ATTEMPT,
    DONE,
    POLL,
    action_of,
    attempt_of,
    awaits_body,
    is_done,
    is_wait,
    span_of,
)
from tidegate._native import within

from .run import COROUTINES, not_async

if TYPE_CHECKING:
    from .run import Run


def drive(run: Run, step: int) -> Any:
    """Carries out a call from this step to its end. Reports any interruption to the engine."""
    if run.races:
        from .race_threads import race

        return race(run, step)
    try:
        while True:
            action = action_of(step)
            if action == ATTEMPT:
                step = _attempt(run, step)
            elif action == DONE:
                run.call = 0
                return run.conclude(step)
            elif awaits_body(step):
                return run.stream(step)
            else:
                step = park(run, step)
    except BaseException:
        run.abandon()
        discard_held(run)
        raise


def discard_held(run: Run) -> None:
    """Closes the results of a call that ends with an error, since no caller receives them."""
    for value in run.undelivered():
        try:
            run.discard(value)
        except Exception:  # noqa: S110 - the caller already gets the call's own error
            pass


def resume(run: Run, attempt: int, step: int | None, failure: BaseException) -> Any:
    """Continues after a failed attempt made by the fast path.

    `step` is the engine's reply if the attempt was already reported, else None.
    """
    try:
        if step is None:
            step = settle(run, attempt, not isinstance(failure, BaseException), failure)
        else:
            step = run.failed(attempt, failure, step)
    except BaseException:
        run.abandon()
        discard_held(run)
        raise
    finally:
        del failure  # no cycle: exception, traceback, frame, exception
    return drive(run, step)


def _attempt(run: Run, step: int) -> int:
    attempt = run.attempts = attempt_of(step)
    ok = False
    value: Any = None
    try:
        value = within((run.engine, run.call, None, run.scope), run.start, attempt, span_of(step))
        if type(value) in COROUTINES:
            raise not_async(value, run.fn)
        ok = True
    except BaseException as error:
        value = error
    try:
        return settle(run, attempt, ok, value)
    finally:
        del value  # no cycle: exception, traceback, frame, exception


def settle(run: Run, attempt: int, ok: bool, value: Any) -> int:
    """Reports an attempt, and releases a failed result before the next step."""
    run.attempts = attempt
    try:
        step = run.report(attempt, ok, value)
        if ok and not is_done(step) and not awaits_body(step):
            run.release(value)
    finally:
        del value  # no cycle: exception, traceback, frame, exception
    return step


_NOTICED: Final = 1_000
"""Shortest wait, in microseconds, that is worth a warning in an event loop."""


def _warn_in_a_loop(run: Run) -> None:
    """Warns if the wait blocks an event loop that runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        import warnings

        text = f"tidegate: policy {run.policy.name!r} waits in an event loop and blocks it: use acall there"
        warnings.warn(text, RuntimeWarning, stacklevel=2)


def park(run: Run, step: int) -> int:
    """Waits for the next step. Registers its waker before it polls, so that no wake-up is lost (R3)."""
    engine, call = run.engine, run.call
    lock = allocate_lock()
    lock.acquire()

    def waker() -> None:
        try:
            lock.release()
        except RuntimeError:
            pass  # it has been woken already

    engine.waiters[call] = waker
    try:
        step = engine.on(call, POLL)
        while is_wait(step):
            us = span_of(step)
            if us:
                if engine.clock is None and abs(us) >= _NOTICED:
                    _warn_in_a_loop(run)
                engine.park(lock, us)
            step = engine.on(call, POLL)
        return step
    finally:
        engine.waiters.pop(call, None)
