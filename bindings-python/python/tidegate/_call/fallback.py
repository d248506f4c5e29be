"""Fallbacks, which replace a call's final error. They run last, outside all components (semantics 7.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._engine.errors import AttemptTimeout, TidegateError
from tidegate._engine.wire import VERDICTS, kind_of

from . import outcomes
from .run import COROUTINES, isawaitable, not_async

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from .caller import Caller

    On: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]"

_ATTEMPTS: Final = VERDICTS.index("attempts")


class Fallback:
    """A value, or a function from the final error to a value; and the errors that it replaces."""

    __slots__ = ("given", "on")

    def __init__(self, given: Any, on: On | None) -> None:
        types = on if isinstance(on, tuple) else (on,)
        if not (callable(on) or on is None or (types and all(isinstance(one, type) for one in types))):
            rule = "must be an exception class, a tuple of them, or a callable that is given the error"
            raise ValueError(f"fallback_on = {on!r}: {rule}")
        self.given = given
        self.on = on

    def stands_in_for(self, caller: Caller, error: Exception) -> bool:
        """Returns whether the fallback replaces this error. Cancellations never get here: no `Exception`."""
        on = self.on
        if on is not None:
            try:
                if isinstance(on, (type, tuple)):
                    return isinstance(error, on)
                return bool(outcomes.not_awaitable(on(error)))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as broken:
                outcomes.warn_once(on, broken, "fallback_on")
                return False
        policy, native = caller._policy, caller._engine.native
        if isinstance(error, TidegateError) and not isinstance(error, AttemptTimeout):
            return error.reason in VERDICTS and native.falls_back(
                policy._number, VERDICTS.index(error.reason), None, False
            )
        outcome, judged = outcomes.of_exception(error, policy), False
        if caller._classify is not None:
            answer = outcomes.by(caller._classify, error, outcomes.STOPPED, policy)
            if answer != outcomes.STOPPED:
                outcome, judged = answer, True
        return native.falls_back(policy._number, _ATTEMPTS, kind_of(outcome), judged)

    def give(self, caller: Caller, error: Exception) -> Any:
        """Returns what the caller gets; raises `error` if the fallback does not replace it."""
        if not self.stands_in_for(caller, error):
            raise error
        given, ok = self.given, False
        try:
            if callable(given):
                value = given(error)
                if type(value) in COROUTINES:
                    raise not_async(value, given)
            else:
                value = given
            ok = True
        except BaseException as failure:
            _chain(failure, error)
            raise
        finally:
            caller._engine.native.note_fallback(caller._route, ok)
            del error  # no cycle: exception, traceback, frame, exception
        return value

    async def agive(self, caller: Caller, going: Coroutine[Any, Any, Any]) -> Any:
        """Awaits a call and returns its result, or the fallback's value for an error that it replaces."""
        try:
            return await going
        except Exception as error:
            if not self.stands_in_for(caller, error):
                raise
            given, ok = self.given, False
            try:
                value: Any = given(error) if callable(given) else given
                if callable(given) and isawaitable(value):
                    value = await value
                ok = True
            except BaseException as failure:
                _chain(failure, error)
                raise
            finally:
                caller._engine.native.note_fallback(caller._route, ok)
            return value


def _chain(failure: BaseException, error: Exception) -> None:
    """Sets the original error as the cause of a fallback's own failure."""
    try:
        if failure is not error and failure.__cause__ is None and isinstance(failure, Exception):
            failure.__cause__ = error
    except Exception:  # noqa: S110 - an exception that refuses attributes is raised without a cause
        pass
