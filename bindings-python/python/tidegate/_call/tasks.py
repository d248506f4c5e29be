"""The shell for event loops: carries out the engine's steps in the caller's task and makes no decisions.

Only the timers depend on whether the event loop is asyncio's or trio's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._engine.wire import (
    ATTEMPT,
    DONE,
    POLL,
    action_of,
    attempt_of,
    awaits_body,
    finished,
    has_span,
    is_done,
    is_wait,
    lane_of,
    span_of,
)

from .deadline import SCOPE, leave
from .outcomes import CANCELLED
from .run import COROUTINES, awaited
from .timers import arm, in_trio, timers_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .run import Run
    from .timers import Timers

CLOSE_SECONDS: Final = 0.5
"""Time limit for closing a result that no caller receives, in seconds; and again after that is cancelled."""


async def drive(run: Run, step: int) -> Any:
    """Carries out a call from this step to its end. Reports any interruption to the engine."""
    if run.races:
        from .race_tasks import race

        return await race(run, step)
    try:
        while True:
            action = action_of(step)
            if action == ATTEMPT:
                step = await _attempt(run, step)
            elif action == DONE:
                run.call = 0
                return run.conclude(step)
            elif awaits_body(step):
                return run.stream(step)
            else:
                step = await park(run, step)
    except BaseException as error:
        run.abandon()
        await discard_held(run, error)
        raise


async def resume(
    run: Run, attempt: int, step: int | None, ok: bool, value: Any, timers: Timers | None
) -> Any:
    """Continues after an attempt made by the fast path.

    `step` is the engine's reply if the attempt was already reported, else None.
    """
    try:
        if step is None:
            step = await _settle(run, attempt, ok, value, timers)
        else:
            step = run.failed(attempt, value, step)
    except BaseException as error:
        run.abandon()
        await discard_held(run, error)
        raise
    finally:
        del value  # no cycle: exception, traceback, frame, exception
    return await drive(run, step)


async def discard_held(run: Run, error: BaseException | None = None) -> None:
    """Closes the results of a call that ends with an error, since no caller receives them."""
    for value in run.undelivered():
        await discard(run, value, error)


async def discard(run: Run, value: Any, error: BaseException | None = None) -> None:
    """Closes a result that no caller receives, within `2 * CLOSE_SECONDS`, even if the caller is cancelled.

    Args:
        run: The call.
        value: The result.
        error: The error that ends the call; after a `GeneratorExit` the coroutine must not await any more.
    """
    try:
        closing = run.discard(value)
    except Exception:
        return  # the caller already gets the call's own error
    if closing is not None:
        await close(closing, error)


async def close(closing: Any, error: BaseException | None = None) -> None:
    """Awaits the closing of a result, under the rules of `discard`."""
    if isinstance(error, GeneratorExit):
        _begin(closing)
    elif in_trio():
        import trio

        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await _quietly(closing)
    else:
        await _shielded(closing)


def _begin(closing: Any) -> None:
    """Runs a coroutine up to its first wait, which is all that is possible while ours is being closed."""
    try:
        closing.send(None)
        closing.close()
    except Exception:  # noqa: S110 - includes StopIteration, the normal end of the coroutine
        pass


async def _quietly(closing: Awaitable[object]) -> None:
    try:
        await closing
    except Exception:  # noqa: S110 - no caller is interested in this error
        pass


async def _shielded(closing: Awaitable[object]) -> None:
    """Awaits in a separate asyncio task. Raises a cancellation of ours only after that task has ended."""
    from asyncio import CancelledError, ensure_future, get_running_loop, wait

    task = ensure_future(_quietly(closing))
    until = get_running_loop().time() + CLOSE_SECONDS
    cancelled: CancelledError | None = None
    stopped = False
    while not task.done():
        left = until - get_running_loop().time()
        if left <= 0:
            if stopped:
                break
            task.cancel()
            stopped, left = True, CLOSE_SECONDS
            until += CLOSE_SECONDS
        try:
            await wait({task}, timeout=left)
        except CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _attempt(run: Run, step: int) -> int:
    attempt = run.attempts = attempt_of(step)
    ok, timers = False, None
    token = SCOPE.set((run.engine, run.call, None, run.scope))
    if has_span(step):
        timers = arm(run.engine, run.call, span_of(step))
    try:
        made = run.start(attempt, span_of(step))
        value = await (made if type(made) in COROUTINES else awaited(made, run.fn))
        ok = True
    except BaseException as error:
        value = error
    leave(token)
    try:
        return await _settle(run, attempt, ok, value, timers)
    finally:
        del value  # no cycle: exception, traceback, frame, exception


async def _settle(run: Run, attempt: int, ok: bool, value: Any, timers: Timers | None) -> int:
    """Reports an attempt, and releases a failed result before the next step."""
    try:
        step = settle(run, attempt, ok, value, timers)
        if ok and not is_done(step) and not awaits_body(step):
            released = run.release(value)
            if released is not None:  # results of plain callables hold no resources
                await released
    finally:
        del value  # no cycle: exception, traceback, frame, exception
    return step


def settle(run: Run, attempt: int, ok: bool, value: Any, timers: Timers | None) -> int:
    """Reports an attempt, after telling our own stop of it from a cancellation by the caller."""
    run.attempts = attempt
    try:
        stopped = None if timers is None else timers.disarm(run.call, None if ok else value)
        if stopped is None:
            return run.report(attempt, ok, value)
        step, foreign = stopped
        if ok:
            # It finished although it was stopped. A successful result ends the call, so there is no retry.
            run.held[lane_of(attempt)] = (True, value)
            outcome = max(run.judge(True, value), 0)
            return run.engine.on(run.call, finished(attempt, outcome))
        if foreign:
            raise value  # the caller was cancelled or the program ends: no retry
        run.stopped(attempt, value)
        # The attempt has unwound, so that its permit can be given to another call (R12).
        after = run.engine.on(run.call, finished(attempt, CANCELLED))
        return step if is_done(step) else after
    finally:
        del value  # no cycle: exception, traceback, frame, exception


async def park(run: Run, step: int) -> int:
    """Waits for the next step. Registers its waker before it polls, so that no wake-up is lost (R3)."""
    engine, call = run.engine, run.call
    timers = timers_of(engine)
    parked = timers.waker()
    engine.waiters[call] = parked
    try:
        while True:
            step = engine.on(call, POLL)
            if not is_wait(step):
                return step
            us = span_of(step)
            if us:
                timers.park(call, parked.future, us)
                await parked.future
                parked.renew()
    finally:
        engine.waiters.pop(call, None)
        timers.parked.pop(call, None)
