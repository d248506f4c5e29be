"""Generators under a policy: one call until the generator ends.

Until the first item it is a call like any other: an attempt makes the generator and asks for an item, and a
failed attempt is retried. The first item corresponds to the headers of an HTTP response: its attempt wins and
the attempt timeout no longer applies. Further items are passed on as they come. The call keeps its slot and
its deadline until the end, and there are no further retries.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from tidegate._engine.wire import (
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
from .open_call import Open, refuse_streams
from .outcomes import CANCELLED
from .run import HEAD, Run
from .threads import discard_held, park, settle

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator

    from .caller import Caller


class _First:
    """The first item and its generator: the result of a successful attempt."""

    __slots__ = ("inner", "item")

    def __init__(self, inner: Any, item: Any) -> None:
        self.inner = inner
        self.item = item


class _GeneratorRun(Run):
    """The call of a generator."""

    __slots__ = ()

    def judge(self, ok: bool, value: Any) -> int:
        """Returns `HEAD` for an attempt with a first item, else the outcome of its end or exception."""
        return HEAD if type(value) is _First else super().judge(ok, value)

    def discard(self, value: Any) -> Any:
        """Closes a generator whose first item came too late (async: an awaitable)."""
        if type(value) is _First:
            return (value.inner.aclose if hasattr(value.inner, "aclose") else value.inner.close)()
        return None

    def judge_error(self, error: BaseException) -> int:
        """Returns the outcome of an exception after the first item."""
        return self.judge(False, error)


def _begin(caller: Caller, fn: Any, args: Any, kwargs: Any) -> tuple[_GeneratorRun, int]:
    refuse_streams(caller._policy, ("first_byte_timeout", "idle_timeout"), "a generator function")
    until_body = caller._policy._setting("slot_until") == "body"
    scope, call, step = caller._start(until_body)
    run = _GeneratorRun(
        caller._engine, caller._policy, caller._route_key, scope, call, fn, args, kwargs,
        caller._classify, caller._passing,
    )  # fmt: skip
    return run, step


def _opened(run: _GeneratorRun, first: _First, step: int) -> Open:
    """Returns the open call of a generator, which ends together with the generator."""
    run.held = {}
    if not awaits_body(step):
        run.call, step = 0, 0  # the call has ended with its first item
    return Open(run, first.inner, step)


def generating(caller: Caller, fn: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Wraps a generator function so that it runs under a policy."""

    @functools.wraps(fn)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        caller._check_sync()
        run, step = _begin(caller, fn, args, kwargs)
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
    """Resumes the generator in the scope of its call; its consumer runs outside that scope."""
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
    """Wraps an async generator function so that it runs under a policy."""

    @functools.wraps(fn)
    async def generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run, step = _begin(caller, fn, args, kwargs)
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
    """Returns the next item; cancels the generator when the deadline passes."""
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
            opened._end(CANCELLED)  # the generator has unwound, so the slot can be released (R12)
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


def _unhooked(inner: Any) -> Any:
    """Returns the first `__anext__` of a generator that the event loop does not come to know.

    At its end a loop closes all the generators it knows at once. The one around this one closes this one too,
    and the two would get in each other's way.
    """
    before = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        return inner.__anext__()
    finally:
        sys.set_asyncgen_hooks(*before)


async def _aattempt(run: _GeneratorRun, step: int) -> int:
    attempt = run.attempts = attempt_of(step)
    us, timers = span_of(step), None
    ok = True
    value: Any = None
    if has_span(step):
        timers = lazy.arm(run.engine, run.call, us)
    try:
        inner = _within(run, run.start, attempt, us)
        value = _First(inner, await _awithin(run, _unhooked(inner)))
    except StopAsyncIteration:
        pass
    except BaseException as error:
        ok, value = False, error
    try:
        return lazy.settle(run, attempt, ok, value, timers)
    finally:
        del value  # no cycle: exception, traceback, frame, exception
