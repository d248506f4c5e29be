"""A call as a loop over its attempts: `for attempt in policy.attempts(): with attempt: ...`.

The loop does the work of a shell, from the outside: it yields an attempt for a step that starts one, parks on
a step that waits, and ends on a step that is done. It uses the shells' `settle` and `park`, and makes no
decisions of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tidegate._engine.wire import (
    attempt_of,
    has_span,
    is_attempt,
    is_done,
    is_wait,
    span_of,
    verdict_of,
    weights_rule,
)

from . import lazy
from .deadline import SCOPE, leave
from .threads import park, settle

if TYPE_CHECKING:
    from contextvars import Token
    from types import TracebackType

    from .caller import Caller
    from .run import Run
    from .timers import Timers

_NOTHING: Final = object()


class Attempts:
    """Result of `Policy.attempts`. Each loop over it, `for` or `async for`, is one call."""

    __slots__ = ("_caller",)

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __iter__(self) -> SyncLoop:
        self._caller._check_sync(
            'policy.at(pass_timeout="remaining").attempts() says that the body takes its time from'
            " attempt.remaining,"
        )
        return SyncLoop(self._caller)

    def __aiter__(self) -> AsyncLoop:
        return AsyncLoop(self._caller)


class Attempt:
    """One attempt, which can be entered once: `with attempt:`.

    An exception inside is judged. If a retry follows, the exception is suppressed; else the same object is
    raised, with a note that says why.

    Attributes:
        num: Its number; the first is 1.
    """

    __slots__ = ("_due", "_kept", "_next", "_owner", "_run", "_step", "_timers", "_token", "_value", "num")

    def __init__(self, owner: SyncLoop | AsyncLoop, run: Run, step: int) -> None:
        us = span_of(step)
        self.num: Final = attempt_of(step)
        self._owner = ref(owner)
        self._kept: SyncLoop | AsyncLoop | None = None
        self._run = run
        self._step = step
        self._due = run.engine.native.now() + us if us >= 0 else None
        self._next: int | None = None
        self._timers: Timers | None = None
        self._token: Token[Any] | None = None
        self._value: Any = _NOTHING

    @property
    def remaining(self) -> float | None:
        """Seconds left for this attempt, 0 or more; None without a deadline and an attempt timeout."""
        if self._due is None:
            return None
        return max(self._due - self._run.engine.native.now(), 0) / 1e6

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
        run = self._run
        taken = [run.engine.native.settle(run.id, self.num, name, total) for name, total in totals.items()]
        return all(taken)

    def __repr__(self) -> str:
        return f"<Attempt {self.num}, remaining {self.remaining}>"

    def __enter__(self) -> Attempt:
        run, owner = self._run, self._owner()
        if owner is None or run.call == 0 or self._token is not None:
            raise RuntimeError(
                f"tidegate: attempt {self.num} can be entered once, in the loop that made it, in its turn"
            )
        if has_span(self._step) and owner.awaits:
            us = max((self._due or 0) - run.engine.native.now(), 0)
            self._timers = lazy.arm(run.engine, run.call, us)
        self._token = SCOPE.set((run.engine, run.call, None, run.scope))
        self._kept = owner  # a dropped loop cancels its call, which must not happen under a running body
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        run, token, owner = self._run, self._token, self._kept
        if token is None or owner is None:
            return False
        self._kept = None
        leave(token)
        value = self._value if error is None else error
        if value is _NOTHING:
            value = run.classify = None  # there is no result to classify
        try:
            if owner.awaits:
                step = lazy.settle(run, self.num, error is None, value, self._timers)
            else:
                step = settle(run, self.num, error is None, value)
            self._next = step
            if is_attempt(step):
                run.attempts = attempt_of(step)  # the engine has counted it: leaving now must report it
            elif is_done(step):
                owner.end(step)
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
    """One call. Dropping the loop before its end (break, an exception, a closed generator) cancels it."""

    __slots__ = ("__weakref__", "_attempt", "_begun", "_caller", "_run")

    awaits: bool

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._begun = False
        self._run: Run | None = None
        self._attempt: Attempt | None = None

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Cancels the call unless it has ended: releases its permit and counts no outcome."""
        run = self._run
        if run is not None:
            run.abandon()
            run.held = {}

    def end(self, step: int) -> None:
        """Ends the call; raises its error unless it succeeded."""
        run = self._run
        assert run is not None  # noqa: S101 - it has made a step
        run.call = 0
        if verdict_of(step):  # verdict 0 is ok, and a loop has no result to return
            run.conclude(step)
        run.held = {}

    def _at(self) -> int | None:
        """Returns the call's current step, and begins the call on first use; None once it has ended."""
        if not self._begun:
            self._begun = True
            self._run, step = self._caller._start(self.awaits)
            return step
        run, attempt = self._run, self._attempt
        if run is None or run.call == 0:
            return None
        if attempt is not None and attempt._next is None:
            if attempt._kept is None:
                self.close()
            raise RuntimeError(f"tidegate: attempt {attempt.num} has to be made in a `with attempt:` block")
        return None if attempt is None else attempt._next

    def _turn(self, step: int) -> Attempt | None:
        """Returns the attempt that a step starts; None if the call has succeeded."""
        run = self._run
        assert run is not None  # noqa: S101 - it has made a step
        if is_attempt(step):
            self._attempt = Attempt(self, run, step)  # type: ignore[arg-type]
            run.attempts = self._attempt.num
            return self._attempt
        self.end(step)
        return None


class SyncLoop(_Loop):
    """The `for` loop, in a thread."""

    __slots__ = ()
    awaits = False

    def __iter__(self) -> SyncLoop:
        return self

    def __next__(self) -> Attempt:
        step = self._at()
        if step is not None and (run := self._run) is not None:
            try:
                if is_wait(step):
                    step = park(run, step)
                if (attempt := self._turn(step)) is not None:
                    return attempt
            except BaseException:
                self.close()
                raise
        raise StopIteration


class AsyncLoop(_Loop):
    """The `async for` loop, in a task."""

    __slots__ = ()
    awaits = True

    def __aiter__(self) -> AsyncLoop:
        return self

    async def __anext__(self) -> Attempt:
        step = self._at()
        if step is not None and (run := self._run) is not None:
            try:
                if is_wait(step):
                    step = await lazy.park(run, step)
                if (attempt := self._turn(step)) is not None:
                    return attempt
            except BaseException:
                self.close()
                raise
        raise StopAsyncIteration
