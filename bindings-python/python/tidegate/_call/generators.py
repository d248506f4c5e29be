"""Generators behind a policy: one call from the first item to the end.

Until the first item it is a call like any other: an attempt makes the generator and asks for an item, and one
that fails is repeated. The first item is what the head of an answer is to an HTTP client: it wins, the
attempt's timeout ends, and what follows is passed on as it comes, with slot and deadline, never repeated.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tidegate._engine.wire import (
    SLOT_UNTIL_BODY,
    attempt_of,
    awaits_body,
    has_span,
    is_attempt,
    is_done,
    lane_of,
    span_of,
)
from tidegate._native import within

from . import lazy
from .deadline import SCOPE, leave
from .open_call import Open
from .outcomes import CANCELLED
from .run import HEAD, Run
from .threads import discard_held, park, settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

    from .caller import Caller


class _First:
    """The first item, and the generator that it came from: the head of a good answer."""

    __slots__ = ("inner", "item")

    def __init__(self, inner: Any, item: Any) -> None:
        self.inner = inner
        self.item = item


class _GeneratorRun(Run):
    """A generator under a policy."""

    __slots__ = ()

    def judge(self, ok: bool, value: Any) -> int:
        """The outcome of an attempt that has brought an item, or has ended without one."""
        return HEAD if type(value) is _First else super().judge(ok, value)

    def discard(self, value: Any) -> Any:
        """Closes a generator whose first item came too late (async: an awaitable)."""
        if type(value) is _First:
            return (value.inner.aclose if hasattr(value.inner, "aclose") else value.inner.close)()
        return None

    def judge_error(self, error: BaseException) -> int:
        """The outcome of an exception after the first item."""
        return self.judge(False, error)


def _begin(caller: Caller, awaits: bool, fn: Any, args: Any, kwargs: Any) -> tuple[_GeneratorRun, int]:
    until_body = caller._policy._setting("slot_until") == "body"
    begun, step = caller._start(awaits, SLOT_UNTIL_BODY if until_body else 0)
    run = _GeneratorRun(
        begun.engine, begun.policy, begun.route, begun.scope, begun.call, fn, args, kwargs,
        begun.classify, begun.passing,
    )  # fmt: skip
    return run, step


def _opened(run: _GeneratorRun, first: _First, step: int) -> Open:
    """From here on the call ends when the generator does."""
    run.held = {}
    if not awaits_body(step):
        run.call, step = 0, 0  # it has ended with its first item
    return Open(run, first.inner, step)


def generating(caller: Caller, fn: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A generator function behind a policy."""

    @functools.wraps(fn)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        caller._check_sync()
        run, step = _begin(caller, False, fn, args, kwargs)
        try:
            while not is_done(step) and not awaits_body(step):
                step = _attempt(run, step) if is_attempt(step) else park(run, step)
            result = run.held.get(lane_of(run.attempts), (False, None))[1]
            if is_done(step):
                run.call = 0
                result = run.conclude(step)
        except BaseException:
            run.abandon()
            discard_held(run)
            raise
        if type(result) is not _First:
            return result
        opened, inner, item = _opened(run, result, step), result.inner, result.item
        del result
        try:
            while True:
                try:
                    go_on, value = inner.send, (yield item)
                except GeneratorExit:
                    _within(run, inner.close)
                    opened._end(0)
                    raise
                except BaseException as error:
                    go_on, value = inner.throw, error
                late = opened._late()
                if late is not None:
                    _within(run, inner.close)
                    raise late
                try:
                    item = _within(run, go_on, value)
                except StopIteration as end:
                    opened._end(0)
                    return end.value
                finally:
                    del value
        except GeneratorExit:
            raise
        except BaseException as error:
            opened._end(run.judge_error(error))
            raise

    return generator


def _within(run: _GeneratorRun, go_on: Callable[..., Any], *value: Any) -> Any:
    """Lets the generator go on, inside its call; what consumes it is not inside."""
    return within((run.engine, run.call, None, run.scope), go_on, *value)


def _attempt(run: _GeneratorRun, step: int) -> int:
    attempt = run.attempts = attempt_of(step)
    ok = True
    value: Any = None
    try:
        inner = _within(run, run.start, attempt, span_of(step))
        value = _First(inner, _within(run, next, inner))
    except StopIteration as end:
        value = end.value
    except BaseException as error:
        ok, value = False, error
    try:
        return settle(run, attempt, ok, value)
    finally:
        del value  # no cycle: exception, traceback, frame, exception


def agenerating(caller: Caller, fn: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """An async generator function behind a policy."""

    @functools.wraps(fn)
    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run, step = _begin(caller, True, fn, args, kwargs)
        try:
            while not is_done(step) and not awaits_body(step):
                step = await (_aattempt(run, step) if is_attempt(step) else lazy.park(run, step))
            result = run.held.get(lane_of(run.attempts), (False, None))[1]
            if is_done(step):
                run.call = 0
                result = run.conclude(step)
        except BaseException as error:
            run.abandon()
            await lazy.discard_held(run, error)
            raise
        if type(result) is not _First:
            return
        opened, inner, item = _opened(run, result, step), result.inner, result.item
        del result
        try:
            while True:
                try:
                    go_on, value = inner.asend, (yield item)
                except GeneratorExit:
                    await _awithin(run, inner.aclose())
                    opened._end(0)
                    raise
                except BaseException as error:
                    go_on, value = inner.athrow, error
                try:
                    item = await _next(run, opened, go_on, value)
                except StopAsyncIteration:
                    opened._end(0)
                    return
                finally:
                    del value
        except GeneratorExit:
            raise
        except BaseException as error:
            opened._end(run.judge_error(error))
            raise

    return generator


async def _next(run: _GeneratorRun, opened: Open, go_on: Callable[[Any], Any], value: Any) -> Any:
    """The next item; an item that outlives the deadline is stopped."""
    late = opened._late()
    if late is not None:
        await _awithin(run, opened._inner.aclose())
        raise late
    call, timers = opened._call, None
    if call and opened._until is not None:
        timers = lazy.arm(run.engine, call, max(opened._until - run.engine.native.now(), 0))
    failure: BaseException | None = None
    item = None
    try:
        item = await _awithin(run, go_on(value))
    except BaseException as error:
        failure = error
    stopped = None if timers is None else timers.disarm(call, failure)
    try:
        if stopped is not None:
            opened._end(CANCELLED)  # it has unwound: the slot is released (R12)
            if stopped[1] and failure is not None:
                raise failure
            raise run.refuse("deadline") from failure
        if failure is not None:
            raise failure
    finally:
        del failure, value  # no cycle: exception, traceback, frame, exception
    return item


async def _awithin(run: _GeneratorRun, going: Any) -> Any:
    token = SCOPE.set((run.engine, run.call, None, run.scope))
    try:
        return await going
    finally:
        leave(token)


async def _aattempt(run: _GeneratorRun, step: int) -> int:
    attempt = run.attempts = attempt_of(step)
    us, timers = span_of(step), None
    ok = True
    value: Any = None
    if has_span(step):
        timers = lazy.arm(run.engine, run.call, us)
    try:
        inner = _within(run, run.start, attempt, us)
        value = _First(inner, await _awithin(run, inner.__anext__()))
    except StopAsyncIteration:
        pass
    except BaseException as error:
        ok, value = False, error
    try:
        return lazy.settle(run, attempt, ok, value, timers)
    finally:
        del value  # no cycle: exception, traceback, frame, exception
