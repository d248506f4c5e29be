"""The shell for event loops: carries out steps in the caller's task, waits, wakes, cancels; decides nothing.

Which loop it is, asyncio's or trio's, only the timers know.
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
"""Seconds that closing an unreceived answer may take, and again once the closing is cancelled."""


async def drive(run: Run, step: int) -> Any:
    """Carries out a call from this step to its end. An interruption of any kind is reported to the engine."""
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
    """Goes on after an attempt that the fast path has made; with this step, if the engine was told of it."""
    try:
        if step is None:
            step = await _settle(run, attempt, ok, value, timers)
        else:
            step = run.failed(attempt, value, step)
    except BaseException as error:
        run.abandon()
        await discard_held(run, error)
        raise
    return await drive(run, step)


async def discard_held(run: Run, error: BaseException | None = None) -> None:
    """Closes the answers of a call that ends with an error: no caller receives them."""
    for value in run.undelivered():
        await discard(run, value, error)


async def discard(run: Run, value: Any, error: BaseException | None = None) -> None:
    """Closes an answer that no caller receives, within `2 * CLOSE_SECONDS`, even if the caller is cancelled.

    Args:
        run: The call.
        value: The answer.
        error: What the call is ending with; a coroutine that is thrown away may await nothing more.
    """
    try:
        closing = run.discard(value)
    except Exception:
        return  # nobody waits for it
    if closing is not None:
        await close(closing, error)


async def close(closing: Any, error: BaseException | None = None) -> None:
    """Awaits what closes an answer; `discard` says how."""
    if isinstance(error, GeneratorExit):
        _begin(closing)
    elif in_trio():
        import trio

        with trio.move_on_after(CLOSE_SECONDS, shield=True):
            await _quietly(closing)
    else:
        await _shielded(closing)


def _begin(closing: Any) -> None:
    """Runs a coroutine up to where it would wait: a coroutine that is thrown away can do no more."""
    try:
        closing.send(None)
        closing.close()
    except Exception:  # noqa: S110 - the end of the coroutine among them
        pass


async def _quietly(closing: Awaitable[object]) -> None:
    try:
        await closing
    except Exception:  # noqa: S110 - nobody waits for it
        pass


async def _shielded(closing: Awaitable[object]) -> None:
    """Awaits in asyncio, in a task of its own: whoever cancels us waits for it, and is obeyed afterwards."""
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
    return await _settle(run, attempt, ok, value, timers)


async def _settle(run: Run, attempt: int, ok: bool, value: Any, timers: Timers | None) -> int:
    """Reports an attempt, and releases a failed result before anything else happens."""
    step = settle(run, attempt, ok, value, timers)
    if ok and not is_done(step) and not awaits_body(step):
        released = run.release(value)
        if released is not None:  # a plain callable's results hold nothing
            await released
    return step


def settle(run: Run, attempt: int, ok: bool, value: Any, timers: Timers | None) -> int:
    """Tells our own stop from the caller's cancellation, and reports the attempt."""
    run.attempts = attempt
    stopped = None if timers is None else timers.disarm(run.call, None if ok else value)
    if stopped is None:
        return run.report(attempt, ok, value)
    step, foreign = stopped
    if ok:
        # It finished although it was stopped. A good answer ends the call: it is not asked for twice.
        run.held[lane_of(attempt)] = (True, value)
        outcome = max(run.judge(True, value), 0)
        return run.engine.on(run.call, finished(attempt, outcome))
    if foreign:
        raise value  # the caller's own end, or the program's: no attempt of ours to repeat
    run.stopped(attempt, value)
    # It has unwound: from here on its permit is somebody else's (R12).
    after = run.engine.on(run.call, finished(attempt, CANCELLED))
    return step if is_done(step) else after


async def park(run: Run, step: int) -> int:
    """Waits until there is something to do; registers, then polls, so that no wake is lost (R3)."""
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
