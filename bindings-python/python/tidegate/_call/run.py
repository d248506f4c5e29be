"""A call that has left the happy path: the state that its shell needs, and its conclusion."""

from __future__ import annotations

from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from tidegate import _native
from tidegate._engine.errors import AttemptTimeout, TidegateError
from tidegate._engine.hooks import nothing
from tidegate._engine.wire import (
    DEADLINE,
    LOST,
    STALE,
    VERDICTS,
    finished,
    headers,
    is_done,
    lane_of,
    lane_of_result,
    span_of,
    verdict_of,
)

from . import outcomes
from .left import leave, taken_answer
from .notes import add_note, has_note, note_of, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate._engine.engine import Engine

    from .deadline import Scope
    from .left import Owner
    from .policy import Policy

_ITERABLE_COROUTINE: Final = 0x100  # `inspect.CO_ITERABLE_COROUTINE`: an old-style coroutine

HEAD: Final = -2
"""Outcome of an attempt whose successful response has arrived up to its headers; the body follows."""


COROUTINES: Final = frozenset({CoroutineType, _native.awaitable_type()})
"""Types that only an async function returns; a sign that one was passed to a synchronous method."""


def not_async(value: Any, fn: object) -> TypeError:
    """Makes the error of a synchronous call that was given an async function; closes its coroutine."""
    value.close()
    return TypeError(
        f"policy.call was given an async function ({fn!r} returned a coroutine): use policy.acall"
    )


async def awaited(value: Any, fn: object) -> Any:
    """Awaits what an async function returned; raises a TypeError if it is not awaitable."""
    if not isawaitable(value):
        kind = type(value).__name__
        raise TypeError(
            f"policy.acall was given a function that is not async ({fn!r} returned {kind}): use policy.call"
        )
    return await value


def isawaitable(value: Any) -> bool:
    """Same as `inspect.isawaitable`, without importing `inspect`."""
    if hasattr(type(value), "__await__"):
        return True
    return isinstance(value, GeneratorType) and bool(value.gi_code.co_flags & _ITERABLE_COROUTINE)


class Run:
    """One call: its callable, its results by lane, its number in the engine. Adapters subclass it.

    `races` is true if attempts may run concurrently. `attempts` is the number of the newest attempt that the
    shell knows of; once the headers of a response have been accepted, it is the attempt they came from.
    `made` is the number of attempts that a race has started.
    """

    __slots__ = (
        "_call",
        "args",
        "attempts",
        "classify",
        "engine",
        "fn",
        "held",
        "id",
        "judged",
        "kwargs",
        "made",
        "passing",
        "policy",
        "races",
        "route",
        "scope",
        "unlisted",
    )

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        route: str,
        scope: Scope | None,
        call: int,
        fn: Callable[..., Any] = nothing,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        classify: outcomes.Classify | None = None,
        passing: str | None = None,
    ) -> None:
        self.engine = engine
        self.policy = policy
        self.route = route
        self.scope = scope
        self.id = self._call = call
        self.fn = fn
        self.args = args
        self.kwargs = kwargs or {}
        self.classify = classify
        self.passing = passing
        self.races = False
        self.attempts = 0
        self.made = 0
        self.held: dict[int, tuple[bool, Any]] = {}
        self.judged: int | None = None
        self.unlisted = 0

    @property
    def call(self) -> int:
        """Number of the call while it runs, 0 afterwards; `id` keeps the number."""
        return self._call

    @call.setter
    def call(self, call: int) -> None:
        self._call = call
        self.id = call or self.id

    @property
    def owner(self) -> Owner:
        """The call as the owner of outcomes that inner calls have left for it."""
        return self.engine.token, self.id

    def start(self, attempt: int, us: int) -> Any:
        """Makes an attempt (async: an awaitable). Its time limit is `us` microseconds, negative for none."""
        del attempt
        if self.passing is None:
            return self.fn(*self.args, **self.kwargs)
        left, own = us / 1e6 if us >= 0 else None, self.kwargs.get(self.passing)
        if left is None or (isinstance(own, (int, float)) and own < left):
            left = own  # the caller's own time limit, which is the earlier one
        return self.fn(*self.args, **{**self.kwargs, self.passing: left})

    def judge(self, ok: bool, value: Any) -> int:
        """Returns the outcome of an attempt as bits of an event word, or `STOPPED`, or `HEAD`."""
        if ok:
            outcome = taken_answer(value, self.owner)
        elif isinstance(value, Exception):
            from .judge import judge

            outcome = judge(value, self.policy, self.owner)
        else:
            return outcomes.STOPPED
        if self.classify is not None:
            outcome = outcomes.by(self.classify, value, outcome, self.policy)
        if not ok and outcome == outcomes.UNLISTED:
            self.unlisted = id(value)  # not the exception itself, whose traceback refers to this run
            outcome = outcomes.PERMANENT
        return outcome

    def release(self, value: Any) -> Any:
        """Releases the resources of a failed result before the next step (async: an awaitable or None)."""

    def discard(self, value: Any) -> Any:
        """Releases the resources of a result that no caller receives (async: an awaitable or None)."""

    def undelivered(self) -> list[Any]:
        """Removes and returns the results still held after the call has raised; the shell discards them."""
        held, self.held = self.held, {}
        return [value for ok, value in held.values() if ok]

    def lane(self) -> Run:
        """Makes a shallow copy for one attempt of a race; it shares the dict of results, `held`."""
        twin = object.__new__(type(self))
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if hasattr(self, name):
                    setattr(twin, name, getattr(self, name))
        if hasattr(self, "__dict__"):
            vars(twin).update(vars(self))
        return twin

    def deliver(self, value: Any, verdict: str, note: str | None, retry_in: float | None) -> Any:
        """Returns what the caller gets for a result."""
        del verdict, note, retry_in
        return value

    def stream(self, step: int) -> Any:
        """Returns a successful response whose body follows. The call ends when the body has been read."""
        raise NotImplementedError

    def report(self, attempt: int, ok: bool, value: Any) -> int:
        """Reports the end of an attempt to the engine and returns the engine's step."""
        self.held[lane_of(attempt)] = (ok, value)  # first, so that the shell discards it on an interruption
        outcome = self.judged = self.judge(ok, value)
        if outcome == outcomes.STOPPED:
            if not self.races:  # a race first waits for its other attempts
                self.abandon()
            try:
                raise value
            finally:
                del value  # no cycle: exception, traceback, frame, exception
        event = headers(attempt) if outcome == HEAD else finished(attempt, outcome)
        step = self.engine.report(self.call, event, self.fn, value)
        if outcome == HEAD and is_done(step):  # the response came too late: its body is not read
            self.engine.on(self.call, finished(attempt, outcomes.CANCELLED))
        return step

    def failed(self, attempt: int, failure: BaseException, step: int) -> int:
        """Stores the failure of an attempt that was already reported to the engine; returns `step`."""
        self.attempts = attempt
        self.held[lane_of(attempt)] = (False, failure)
        return step

    def abandon(self) -> None:
        """Cancels the call once its attempt has unwound, which frees its permit."""
        if self.call:
            abandon(self.engine, self.call, self.attempts)
            self.call = 0

    def stopped(self, attempt: int, cause: BaseException | None) -> None:
        """Stores an `AttemptTimeout` as the result of an attempt that we stopped."""
        error = self.refuse("attempt_timeout")
        error.__cause__ = cause
        self.held[lane_of(attempt)] = (False, error)

    def conclude(self, step: int) -> Any:
        """Ends the call: returns the result, or raises the original exception or an error of our own."""
        verdict, lane, span = verdict_of(step), lane_of_result(step), span_of(step)
        retry_in = None if span < 0 else span / 1000
        name = VERDICTS[verdict]
        last = self.held.get(lane_of(self.attempts))
        held = self.held.get(lane) if lane >= 0 else last if verdict in (STALE, LOST) else None
        if held is None or (held[0] and not self.intact(held[1])):
            error: BaseException = self.refuse(name, retry_in)
            if last is not None and not last[0]:
                cause: BaseException = last[1]
                stopped = verdict == DEADLINE and isinstance(cause, AttemptTimeout)
                error.__cause__ = cause.__cause__ if stopped else cause
        else:
            ok, value = held
            leave(
                value,
                ok,
                name,
                self.judged if self.judged is not None else self.judge(ok, value),
                self.policy,
                self.scope,
            )
            note = note_of(name, self.attempts, retry_in, self.policy._seconds("retry.max_retry_after"))
            if ok:
                answer = self.deliver(value, name, note, retry_in)
                self.held.clear()  # failures and answers may refer to this call
                return answer
            if name == "not_retryable" and id(value) == self.unlisted:
                note = self._how_to_repeat(value)
            add_note(value, self.note(name, note))
            error = value
        for lane in [lane for lane, (ok, _) in self.held.items() if not ok]:
            del self.held[lane]  # what is left are answers that no caller receives
        if self.engine.explains:
            self.engine.mark(error, self.id)
        try:
            raise error
        finally:
            held = last = value = cause = None  # type: ignore[assignment]
            del error  # no cycle: exception, traceback, frame, exception

    def _how_to_repeat(self, error: BaseException) -> str | None:
        """Returns the note for an exception of an unlisted type; None if the policy makes no retries."""
        from .judge import note_of

        note = note_of(error)
        attempts = self.policy._count("retry.max_attempts")
        retries = attempts is not None and attempts > 1
        return note if retries and not has_note(error, note) else None

    def note(self, verdict: str, note: str | None) -> str | None:
        """Returns the note of a verdict; adapters may override it with a more specific one."""
        del verdict
        return note

    def refuse(self, verdict: str, retry_in: float | None = None) -> TidegateError:
        """Returns the error of a call that ends without a result of an attempt."""
        return refusal(verdict, self.policy, self.route, retry_in, self.id)

    def intact(self, value: Any) -> bool:
        """Returns whether this earlier result can still be delivered."""
        del value
        return True


def abandon(engine: Engine, call: int, attempts: int) -> None:
    """Cancels a call and reports its attempts, which have unwound. Has no effect on a call that has ended."""
    woken = engine.native.abandon(call, min(attempts, 255))
    if woken is not None:
        engine.wake(woken)
