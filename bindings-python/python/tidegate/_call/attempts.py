"""A call as a loop over its attempts: `for attempt in policy.attempts(): with attempt: ...`.

The loop does the work of a shell, from the outside: it yields an attempt for a step that starts one, parks on
a step that waits, and ends on a step that is done. It uses the shells' `settle` and `park`, and makes no
decisions of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import ref

from tidegate._engine.hooks import nothing
from tidegate._engine.wire import (
    FINISHED_1,
    FIRST,
    OK_1,
    attempt_of,
    is_attempt,
    is_done,
    is_wait,
    lane_of,
    span_of,
    verdict_of,
    weights_rule,
)

from . import lazy
from .deadline import SCOPE
from .threads import park, settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import Token
    from types import TracebackType

    from tidegate._engine.engine import Engine

    from .caller import Caller
    from .deadline import Scope
    from .run import Run
    from .timers import Timers

Inside: TypeAlias = "tuple[Engine, int, None, Scope | None]"
"""The scope of the body of an attempt: engine, call, no deadline of its own, the scope around the loop."""

_Begun: TypeAlias = "tuple[Scope | None, int, int]"
"""A call that has begun: the scope around it, its number and its first step."""

_NOTHING: Final = object()
_Kind = TypeVar("_Kind", bound="_Loop")


# These classes have no `__init__`, because in CPython its frame costs as much as the object.


class Attempts:
    """Result of `Policy.attempts`. Each loop over it, `for` or `async for`, is one call."""

    __slots__ = ("_caller",)
    _caller: Caller

    def __iter__(self) -> Iterator[Attempt]:
        return iter(new_loop(SyncLoop, self._caller).turn, None)  # ends without the price of a StopIteration

    def __aiter__(self) -> AsyncLoop:
        return new_loop(AsyncLoop, self._caller)


class Attempt:
    """One attempt, which can be entered once: `with attempt:`.

    An exception inside is judged. If a retry follows, the exception is suppressed; else the same object is
    raised, with a note that says why.

    Attributes:
        num: Its number; the first is 1.
    """

    __slots__ = ("_due", "_inside", "_kept", "_next", "_owner", "_timers", "_token", "_value", "num")

    num: int
    _due: int | None
    _inside: Inside
    _kept: _Loop | None
    _next: int | None
    _owner: ref[_Loop]
    _timers: Timers | None
    _token: Token[Any] | None
    _value: Any

    @property
    def remaining(self) -> float | None:
        """Seconds left for this attempt, 0 or more; None without a deadline and an attempt timeout."""
        if self._due is None:
            return None
        return max(self._due - self._inside[0].native.now(), 0) / 1e6

    def result(self, value: Any) -> None:
        """Sets the attempt's result, for the policy's `classify`, which may judge it a failure.

        Without a result, an attempt whose body ends normally succeeds.
        """
        self._value = value

    def settle(self, **totals: int) -> bool:
        """Tells what the attempt has used so far of each weight, such as `attempt.settle(tokens=1200)`.

        What exceeds the reservation is charged at once. At the attempt's end the last totals hold, and the
        rest of the reservation comes back. A lower total than before is ignored.

        Returns:
            Whether all totals were taken: False once the attempt has ended, and for a weight that it does not
            have.

        Raises:
            ValueError: If a total is not a whole number from 0 to 2**53 - 1.
        """
        broken = weights_rule(totals)
        if broken is not None:
            raise ValueError(f"settle: {totals!r}: must be {broken}")
        engine, call, _, _ = self._inside
        taken = [engine.native.settle(call, self.num, name, total) for name, total in totals.items()]
        return all(taken)

    def __repr__(self) -> str:
        return f"<Attempt {self.num}, remaining {self.remaining}>"

    def __enter__(self) -> Attempt:
        owner = self._owner()
        if owner is None or not owner.call or self._token is not None:
            raise RuntimeError(
                f"tidegate: attempt {self.num} can be entered once, in the loop that made it, in its turn"
            )
        if self._due is not None and owner.awaits:
            engine, call, _, _ = self._inside
            self._timers = lazy.arm(engine, call, max(self._due - engine.native.now(), 0))
        self._token = SCOPE.set(self._inside)
        self._kept = owner  # a dropped loop cancels its call, which must not happen under a running body
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        token, owner = self._token, self._kept
        if token is None or owner is None:
            return False
        self._kept = None
        try:
            SCOPE.reset(token)
        except ValueError:
            pass  # a dropped coroutine may be closed in another context
        value = self._value if error is None else error
        try:
            if value is _NOTHING and owner.run is None and self._timers is None:
                engine, call, _, _ = self._inside
                reply = engine.native.on(call, FINISHED_1)
                if reply == OK_1:
                    owner.call = 0
                    return True
                step = owner.succeeded(reply)
            else:
                run = owner.shell()
                if value is _NOTHING:
                    value = run.classify = None  # there is no result to classify
                if owner.awaits:
                    step = lazy.settle(run, self.num, error is None, value, self._timers)
                else:
                    step = settle(run, self.num, error is None, value)
            self._next = step
            if is_done(step):
                owner.end(step)
            elif is_attempt(step):  # the engine has counted it: leaving now must report it
                owner.shell().attempts = attempt_of(step)
        except BaseException as raised:
            owner.close()
            if raised is not error:
                raise
            BaseException.with_traceback(raised, traceback)  # bypasses a `__setattr__` of the exception
            return False
        else:
            return True
        finally:
            del error, value, owner  # no cycle: exception, traceback, frame, exception


class _Loop:
    """One call. Dropping the loop before its end (break, an exception, a closed generator) cancels it.

    Attributes:
        call: Its number while it runs; None before, 0 afterwards.
        run: What the shells know of it; None while it is on the happy path, which needs no such object.
    """

    __slots__ = ("__weakref__", "_attempt", "_caller", "_inside", "call", "run")

    awaits: bool
    call: int | None
    run: Run | None
    _attempt: Attempt | None
    _caller: Caller
    _inside: Inside

    def __del__(self) -> None:
        if self.call:
            self.close()

    def close(self) -> None:
        """Cancels the call unless it has ended: releases its permit and counts no outcome."""
        if self.call:
            run = self.shell()
            self.call = 0
            run.abandon()
            run.held = {}

    def shell(self) -> Run:
        """Returns the run of a call that leaves the happy path."""
        if self.run is None:
            _, call, _, scope = self._inside
            self.run = self._caller._run(scope, call, nothing, (), {})
            self.run.attempts = 0 if self._attempt is None else self._attempt.num
        return self.run

    def succeeded(self, reply: int | tuple[int, list[int]]) -> int:
        """Returns the step after a successful attempt 1 if that step is not the plain end of the call."""
        engine, call, _, _ = self._inside
        run = self.shell()
        run.held[lane_of(1)] = True, None
        run.judged = 0
        if isinstance(reply, int):
            return reply
        engine.delivered(call, nothing, None, reply[1])
        return reply[0]

    def end(self, step: int) -> None:
        """Ends the call; raises its error unless it succeeded."""
        run, self.call = self.shell(), 0
        run.call = 0
        if verdict_of(step):  # verdict 0 is ok, and a loop has no result to return
            run.conclude(step)
        run.held = {}

    def _step(self) -> int | None:
        """Returns the step of a call that has not ended, and begins the call on first use."""
        if self.call is None:
            self.call, caller = 0, self._caller
            begun: _Begun | None = caller._start(False, not self.awaits)
            scope, call, step = begun or self._begin_timed()
            self._inside = caller._engine, call, None, scope
            self.call = call
            if not caller._fast:
                self.shell()
            return step
        attempt = self._attempt
        if attempt is not None and attempt._next is None:
            if attempt._kept is None:
                self.close()
            raise RuntimeError(f"tidegate: attempt {attempt.num} has to be made in a `with attempt:` block")
        return None if attempt is None else attempt._next

    def _begin_timed(self) -> _Begun:
        """Begins a call in a thread under a policy with an attempt timeout.

        Raises:
            TypeError: If the caller does not declare that the body observes `attempt.remaining`.
        """
        self._caller._check_sync(
            'policy.at(pass_timeout="remaining").attempts() says that the body takes its time from'
            " attempt.remaining,"
        )
        begun: _Begun = self._caller._start()
        return begun

    def _later(self, step: int) -> Attempt | None:
        """Returns the attempt that a step starts; None if the call has succeeded."""
        if not is_attempt(step):
            self.end(step)
            return None
        num, us = attempt_of(step), span_of(step)
        if self.run is not None:
            self.run.attempts = num
        return self._new_attempt(num, self._inside[0].native.now() + us if us >= 0 else None)

    def _new_attempt(self, num: int, due: int | None) -> Attempt:
        """Returns the next attempt for the body of the loop."""
        attempt = self._attempt = Attempt()
        attempt.num = num
        attempt._owner = ref(self)
        attempt._inside = self._inside
        attempt._due = due
        attempt._kept = attempt._next = attempt._timers = attempt._token = None
        attempt._value = _NOTHING
        return attempt


class SyncLoop(_Loop):
    """The `for` loop, in a thread."""

    __slots__ = ()
    awaits = False

    def turn(self) -> Attempt | None:
        """Returns the next attempt, after the wait before it; None once the call has ended."""
        if self.call == 0 or (step := self._step()) is None:
            return None
        try:
            if step == FIRST:
                return self._new_attempt(1, None)
            if is_wait(step):
                step = park(self.shell(), step)
            return self._later(step)
        except BaseException:
            self.close()
            raise


class AsyncLoop(_Loop):
    """The `async for` loop, in a task."""

    __slots__ = ()
    awaits = True

    def __aiter__(self) -> AsyncLoop:
        return self

    async def __anext__(self) -> Attempt:
        if self.call != 0 and (step := self._step()) is not None:
            try:
                if step == FIRST:
                    return self._new_attempt(1, None)
                if is_wait(step):
                    step = await lazy.park(self.shell(), step)
                attempt = self._later(step)
            except BaseException:
                self.close()
                raise
            if attempt is not None:
                return attempt
        raise StopAsyncIteration


def new_loop(kind: type[_Kind], caller: Caller) -> _Kind:
    """Returns a loop whose call has not begun."""
    loop = kind()
    loop._caller = caller
    loop._attempt = loop.call = loop.run = None
    return loop
