"""Callers, which make calls under a policy. The happy path is native; the shells do the rest."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, ParamSpec, TypeVar, cast, overload

from tidegate import _native
from tidegate._engine.clock import to_us
from tidegate._engine.wire import (
    MAY_PARK,
    criticality_in,
    only_once,
    pack_remaining,
)

from . import lazy
from .attempts import Attempts
from .deadline import criticality_of, inherited
from .run import Run, awaited, not_async
from .run import isawaitable as inspect_awaitable
from .threads import drive, resume

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from tidegate._engine.clock import Span

    from .admission import Admission
    from .deadline import Scope
    from .fallback import Fallback
    from .policy import Policy
    from .timers import Timers

P = ParamSpec("P")
T = TypeVar("T")

_Made = TypeVar("_Made")
_Method = TypeVar("_Method")
FAST: Final = not os.environ.get("TIDEGATE_NO_FAST")
"""Whether the native half makes first attempts. If not, the shells make all; tests compare both ways."""


_OF_FUNCTIONS: Final = ("__code__", "__defaults__", "__kwdefaults__", "__globals__")


def _native_method(documented: _Method) -> _Method:
    """Returns the native method with the name, signature and docstring of this function."""
    return cast("_Method", _native.native_method(documented))


class Caller(_native.Runner):
    """Makes calls under a policy: as a function, as a coroutine, as a decorator.

    `Policy` is a caller with default settings; `Policy.at` makes others. Threads and any number of event
    loops can share a caller.
    """

    __slots__ = (
        "_bare",
        "_classify",
        "_engine",
        "_fallback",
        "_fast",
        "_flags",
        "_limit",
        "_passing",
        "_policy",
        "_route_key",
        "_urgent",
        "_weights",
    )

    _policy: Policy
    _judged_by_type = True
    """Whether the type of an exception decides its outcome, so that the native half continues after it."""

    if TYPE_CHECKING:

        def __new__(cls: type[_Made], *args: Any, **kwargs: Any) -> _Made: ...

    def _bind(
        self,
        policy: Policy,
        route: str,
        flags: int,
        limit: int,
        passing: str | None,
        *,
        fallback: Fallback | None = None,
        urgent: bool = False,
        bare: bool = False,
        weights: dict[str, int] | None = None,
    ) -> None:
        """Initialises the caller with the settings of its calls.

        Args:
            policy: Its policy.
            route: The key of its route.
            flags: Flags of all its calls, as `begin` takes them.
            limit: Time for each call, as `begin` takes it.
            passing: The parameter that receives the time of an attempt.
            fallback: The replacement of an error.
            urgent: Whether `flags` set a criticality, so that it is not inherited from the scope.
            bare: Whether its calls are admissions, whose exceptions get no note.
            weights: What each call will use of the limits that count weights.
        """
        engine = policy.engine
        if policy is not self:
            self._policy = policy
        self._engine = engine
        self._route_key = route
        self._flags = flags | MAY_PARK
        self._limit = limit
        self._classify = policy._classify_by
        self._passing = passing
        self._fallback = fallback
        self._urgent = urgent
        self._bare = bare
        self._weights = weights
        self._fast = FAST
        plain = FAST and self._classify is None and passing is None
        number, judged = policy._number, self._judged_by_type and policy._on is None
        token = engine.token if engine.explains else 0
        bare = fallback is None
        native = engine.native
        self._settle(native, engine, number, route, self._flags, limit, plain, judged, bare, token, weights)

    @_native_method
    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function under the policy, in this thread.

        Returns:
            What the function returned.

        Raises:
            Rejected: If the policy refused the call before any attempt.
            DeadlineExceeded: If the deadline passed before the call, or while it waited.
            TypeError: If the policy has an `attempt_timeout`, since blocking code cannot be interrupted.
                Pass the time to the function with `policy.at(pass_timeout="timeout")`, or use `acall`.
            BaseException: The function's own exception, the same object, with a note that says why there
                was no further attempt.
        """
        raise NotImplementedError  # native: `src/call.rs`; off the happy path it calls the methods below

    @_native_method
    async def acall(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Awaits an async function under the policy, inline in the running task (of asyncio or trio).

        Returns:
            What the function returned.

        Raises:
            Rejected: If the policy refused the call before any attempt.
            AttemptTimeout: If the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            asyncio.CancelledError: If the caller was cancelled (`trio.Cancelled` under trio). No outcome is
                counted, and the slot is released once the attempt has unwound.
            BaseException: The function's own exception, the same object, with a note that says why there
                was no further attempt.
        """
        raise NotImplementedError  # native: `src/awaitable.rs`; off the happy path it calls the methods below

    # The native half calls these methods. If one of them raises, it abandons the call.

    def _begun(
        self,
        scope: Scope | None,
        call: int,
        step: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Carries out a call from its first step."""
        self._check_sync()
        run, step = self._fresh(scope, call, step, self._flags, fn, args, kwargs)
        if self._fallback is None:
            return drive(run, step)
        try:
            return drive(run, step)
        except Exception as error:
            return self._fallback.give(self, error)

    def _failed(
        self,
        scope: Scope | None,
        call: int,
        attempt: int,
        step: int | None,
        failure: BaseException,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Continues after a failed attempt; `step` is the engine's reply, None if not yet reported."""
        try:
            return resume(self._run(scope, call, fn, args, kwargs), attempt, step, failure)
        except Exception as error:
            if self._fallback is None:
                raise
            return self._fallback.give(self, error)
        finally:
            del failure  # no cycle: exception, traceback, frame, exception

    def _abegun(
        self,
        scope: Scope | None,
        call: int,
        step: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...] | None,
        kwargs: dict[str, Any] | None,
    ) -> Coroutine[Any, Any, Any]:
        """Carries out an async call from its first step."""
        going = lazy.drive(*self._fresh(scope, call, step, self._flags, fn, args or (), kwargs))
        return going if self._fallback is None else self._fallback.agive(self, going)

    def _afailed(
        self,
        scope: Scope | None,
        call: int,
        attempt: int,
        step: int | None,
        ok: bool,
        value: Any,
        fn: Callable[..., Any],
        args: tuple[Any, ...] | None,
        kwargs: dict[str, Any] | None,
        timers: Timers | None,
    ) -> Coroutine[Any, Any, Any]:
        """Continues after an attempt that failed, or that succeeded although it was stopped."""
        run = self._run(scope, call, fn, args or (), kwargs)
        going = lazy.resume(run, attempt, step, ok, value, timers)
        return going if self._fallback is None else self._fallback.agive(self, going)

    @staticmethod
    def _uncallable(fn: object) -> NoReturn:
        """Raises a TypeError; to the author of `call(work())` it suggests `call(work)`."""
        close = getattr(fn, "close", None)
        if close is not None and inspect_awaitable(fn):
            close()  # prevents the warning that the coroutine was never awaited
        made = inspect_awaitable(fn)
        hint = "pass the function and its arguments: acall(work, 1), not acall(work(1))" if made else ""
        raise TypeError(f"{fn!r}: must be a function" + (f"; {hint}" if hint else ""))

    _not_async = staticmethod(not_async)
    _awaited = staticmethod(awaited)

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Callable[P, T]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorates a function or an async function so that it runs under the policy.

        A generator function, async or not, is one call from its first item to its end; see
        `docs/python.md`.
        """
        import functools
        import inspect

        if isinstance(fn, (classmethod, staticmethod)):
            kind = type(fn).__name__
            raise TypeError(f"@{self._policy.name} above @{kind}: put it below, next to the function")
        if not callable(fn):
            self._uncallable(fn)
        inner = fn
        while isinstance(inner, functools.partial):
            inner = inner.func
        if not (inspect.isfunction(inner) or inspect.ismethod(inner) or inspect.iscoroutinefunction(inner)):
            inner = getattr(inner, "__call__", inner)  # noqa: B004 - the bound method is inspected below
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            from .generators import agenerating, generating

            return (generating if inspect.isgeneratorfunction(inner) else agenerating)(self, fn)
        is_async = inspect.iscoroutinefunction(inner)
        if inspect.isfunction(fn):
            made = cast("Callable[..., Any]", _native.decorated(self, fn, is_async))
            functools.update_wrapper(made, fn)
            for name in _OF_FUNCTIONS:  # by which `inspect` takes it for a function, async or not
                setattr(made, name, getattr(fn, name))
            return made
        call, acall = self.call, self.acall
        if is_async:

            @functools.wraps(fn)
            async def awaiting(*args: Any, **kwargs: Any) -> Any:
                return await acall(fn, *args, **kwargs)

            return awaiting

        @functools.wraps(fn)
        def calling(*args: Any, **kwargs: Any) -> Any:
            return call(fn, *args, **kwargs)

        return calling

    def _shown(self, fn: Any) -> str:
        """Returns the text of a decorated function."""
        return f"<{getattr(fn, '__qualname__', repr(fn))} under policy {self._policy.name!r}>"

    def attempts(self) -> Attempts:
        """Makes a call as a loop over its attempts, for code that is not a function.

        Each loop is one call. An exception inside `with attempt` is judged like that of a plain callable. If
        a retry follows, the exception is suppressed; else the same object is raised, with a note that says
        why.

            for attempt in policy.attempts():           # async for attempt in policy.attempts():
                with attempt:                           #     with attempt:
                    order = charge(cart)                #         order = await charge(cart)

        `attempt.num` counts from 1. `attempt.remaining` is the time left in seconds, or None.
        `attempt.result(value)` passes `value` to the policy's `classify`. Without it, an attempt succeeds if
        its body ends normally, also by a `break` or `return` inside `with attempt`. Leaving the loop anywhere
        else before its end cancels the call: its permit is released, and no outcome is counted.

        In `async for`, an `attempt_timeout` and the deadline cancel the body inside `with attempt`. In a
        `for` loop the body cannot be interrupted, so a policy with an `attempt_timeout` is refused before the
        first attempt, as by `call`. `policy.at(pass_timeout="remaining").attempts()` declares that the body
        takes its time limit from `attempt.remaining`.

        Raises:
            Rejected: From the loop, if the policy refused the call before any attempt.
            AttemptTimeout: From `with attempt`, if the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            TypeError: From a `for` loop, if the policy has an `attempt_timeout` but no `pass_timeout` is set.
        """
        made = Attempts()
        made._caller = self
        return made

    def bulkhead(self) -> Admission:
        """Admits a block of code without retries: with `with`, `async with`, or as a decorator.

        The block is admitted like a call (rate limit, bulkhead, breaker, deadline), and its outcome is
        counted. There is one attempt, with no retry, no hedge and no fallback. An exception of the body is
        raised unchanged.

            with policy.bulkhead():                     # async with policy.bulkhead():
                rows = cursor.fetchall()

        `as` gives the attempt, with `remaining`, and `result(value)` for the policy's `classify`. In
        `async with`, an `attempt_timeout` and the deadline cancel the body.

        Raises:
            Rejected: From `with`, if the policy refused.
            AttemptTimeout: If the body ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            TypeError: From `with`, if the policy has an `attempt_timeout`, which cannot interrupt a thread;
                `policy.at(pass_timeout="remaining").bulkhead()` declares that the body observes it.
        """
        from .admission import Admission

        caller = Caller()
        flags = only_once(self._flags)
        passing, urgent = self._passing, self._urgent
        caller._bind(self._policy, self._route_key, flags, self._limit, passing, urgent=urgent, bare=True)
        return Admission(caller)

    def __reduce__(self) -> tuple[Any, ...]:
        settled = self._policy, self._route_key, self._flags, self._limit, self._passing
        more: Any = {"fallback": self._fallback, "urgent": self._urgent, "bare": self._bare}
        return partial(_again, weights=self._weights, **more), settled

    def __copy__(self: _Made) -> _Made:
        return self

    def __deepcopy__(self: _Made, memo: object) -> _Made:
        return self

    def _check_sync(
        self, way: str = 'name the parameter that takes its time, policy.at(pass_timeout="timeout"),'
    ) -> None:
        if self._passing is None and self._is_timed():
            raise TypeError(
                f"policy {self._policy.name!r} has an attempt_timeout, and blocking code cannot be"
                f" interrupted: {way} or go async"
            )

    def _run(self, scope: Scope | None, call: int, fn: Any, args: Any, kwargs: Any) -> Run:
        policy = self._policy
        return (_BareRun if self._bare else Run)(
            self._engine,
            policy,
            self._route_key,
            scope,
            call,
            fn,
            args,
            kwargs,
            self._classify,
            self._passing,
        )

    def _fresh(
        self, scope: Scope | None, call: int, step: int, flags: int, fn: Any, args: Any, kwargs: Any
    ) -> tuple[Run, int]:
        """Makes the run of a new call; returns it with its first step."""
        run = self._run(scope, call, fn, args, kwargs)
        run.races = self._policy._races(flags)
        return run, step

    def _inherit(self, scope: Scope) -> tuple[int, int, int]:
        """Returns what calls inherit from a scope: time left, enclosing call, criticality."""
        limit, parent = inherited(scope, self._engine)
        if self._limit:
            limit = min(limit, self._limit) if limit else self._limit
        own = criticality_in(self._flags)
        return limit, parent, own if self._urgent else criticality_of(scope, own)


def _again(policy: Policy, *settled: Any, **more: Any) -> Caller:
    """Makes a caller from its pickled settings."""
    caller = Caller()
    caller._bind(policy, *settled, **more)
    return caller


class _BareRun(Run):
    """Run of an admission: exceptions of its body get no note."""

    __slots__ = ()

    def note(self, verdict: str, note: str | None) -> str | None:
        """Returns None."""


def limit_of(deadline: Span | None) -> int:
    """Returns a span as `begin` takes it; 0 means no limit."""
    if deadline is None:
        return 0
    us = to_us(deadline)
    if isinstance(us, str) or us != us:
        raise ValueError(f"deadline = {deadline!r}: must be a number of seconds or a timedelta")
    return pack_remaining(int(min(max(us, 0.0), 2.0**53)))
