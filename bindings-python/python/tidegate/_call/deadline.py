"""Scopes, in one context variable: deadline, criticality and outer call that calls inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from tidegate import _native
from tidegate._engine.clock import live_clocks, to_us
from tidegate._engine.wire import CRITICALITIES, pack_remaining
from tidegate._native import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import ContextVar, Token
    from types import TracebackType

    from tidegate._engine.clock import Clock
    from tidegate._engine.engine import Engine

Scope: TypeAlias = "tuple[Engine | None, int, _Ends | None, Scope | None]"
"""Engine and call that run in this context, deadline and criticality, and the enclosing scope.

A call that the native half awaits is its own scope object; `_scope` is its tuple.
"""

Criticality: TypeAlias = Literal["best_effort", "degraded", "normal", "critical"]

SCOPE: Final = cast("ContextVar[Any]", _native.scope_variable())


current: Final = cast("Callable[[], Scope | None]", _native.scope)
"""Returns the scope of the running code, including native calls of this thread that set no variable."""


def _level(scope: Any) -> Scope:
    return cast("Scope", scope if type(scope) is tuple else scope._scope)


def leave(token: Token[Any]) -> None:
    """Restores the scope. Ignores a token from another context: a dropped coroutine may be closed there."""
    try:
        SCOPE.reset(token)
    except ValueError:
        pass


class _Ends:
    """Deadline and criticality that apply to all calls inside a scope.

    The deadline is a time on each clock, the process's own and those of tests; None without one. The
    criticality is None if it was not set.
    """

    __slots__ = ("before", "block", "criticality", "real", "tests")

    def __init__(
        self, block: _Block, real: int | None, tests: dict[Clock, int], criticality: int | None
    ) -> None:
        self.block = block
        self.before = SCOPE.get()
        self.real = real
        self.tests = tests
        self.criticality = criticality

    def after(self, before: Any) -> _Ends:
        """Returns a copy with another scope around it. Tasks may share this one, so it stays as it is."""
        made = object.__new__(_Ends)
        made.before, made.block, made.criticality = before, self.block, self.criticality
        made.real, made.tests = self.real, self.tests
        return made

    def left(self, engine: Engine) -> int:
        if self.real is None:
            return 1 << 53
        if engine.clock is None:
            return self.real - monotonic()
        end = self.tests.get(engine.clock)
        return (1 << 53) if end is None else end - engine.clock.now_us()


def inherited(scope: Scope, engine: Engine) -> tuple[int, int]:
    """Returns what `begin` inherits from a scope: packed time left and enclosing call, each 0 for none.

    An engine knows the deadline of an enclosing call of its own. That of another engine's call applies if
    both have the same clock.
    """
    parent, left = 0, -1
    around: Scope | None = scope
    ends: _Ends | None = None
    while around is not None:
        level = _level(around)
        other = level[0]
        if ends is None:
            ends = level[2]
        if other is engine:
            parent = parent or level[1]
        elif other is not None and level[1] and other.clock is engine.clock:
            its = other.native.time_left(level[1], True)
            left = its if left < 0 or 0 <= its < left else left
        around = level[3]
    if ends is not None and ends.real is not None:
        own = ends.left(engine)
        left = own if left < 0 else min(left, own)
        return pack_remaining(left), parent
    return (pack_remaining(left) if left >= 0 else 0), parent


def _ends(scope: Scope | None) -> _Ends | None:
    """Returns the innermost deadline and criticality of a scope."""
    while scope is not None:
        level = _level(scope)
        if level[2] is not None:
            return level[2]
        scope = level[3]
    return None


def criticality_of(scope: Scope | None, default: int) -> int:
    """Returns the number of the criticality set in a scope, or the default if none was set."""
    ends = _ends(scope)
    return default if ends is None or ends.criticality is None else ends.criticality


def _of_block(scope: Any) -> _Ends | None:
    """Returns what a `with` block has set, if this scope is that of one and not of a call."""
    return scope[2] if type(scope) is tuple else None


class _Block:
    """A `with` block around calls.

    It keeps no state of its own, so that threads and tasks may share one and enter it again inside itself.
    """

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A generator may be resumed in another context than the one that entered the block: nothing to undo.
        # Or inside a block that its consumer has entered since, whose end must not bring this one back.
        scope = SCOPE.get()
        inside: list[Scope] = []
        while (ends := _of_block(scope)) is not None and ends.block is not self:
            inside.append(scope)
            scope = ends.before
        if ends is None:
            return
        scope = ends.before
        for engine, call, other, outer in reversed(inside):
            scope = engine, call, other and other.after(scope), outer
        SCOPE.set(scope)


class deadline(_Block):  # noqa: N801 - it reads as a statement: `with tidegate.deadline(2.0):`
    """Sets a deadline for all calls inside, `span` from now; the earlier of nested deadlines wins.

    It applies to all policies and follows the context (tasks, `asyncio.to_thread`). It does not reach threads
    that get no copy of the context (`loop.run_in_executor`, `threading.Thread` before 3.14).

    Args:
        span: Seconds, or a `timedelta`. Zero or less refuses every call.

    Raises:
        ValueError: If `span` is not a number.

    Example:
        ```python
        with tidegate.deadline(2.0):
            policy.call(charge)
        ```
    """

    __slots__ = ("_us",)

    def __init__(self, span: Any) -> None:
        us = to_us(span)
        if us != us or isinstance(us, str):
            raise ValueError(f"a deadline is a number of seconds or a timedelta, not {span!r}")
        self._us = int(min(max(us, 0.0), 2.0**53))

    def __enter__(self) -> deadline:
        outer = current()
        clocks = live_clocks()
        real, tests = monotonic() + self._us, {clock: clock.now_us() + self._us for clock in clocks}
        around = _ends(outer)
        if around is not None and around.real is not None:
            real = min(real, around.real)
            for clock, end in around.tests.items():
                tests[clock] = min(tests.get(clock, end), end)
        ends = _Ends(self, real, tests, None if around is None else around.criticality)
        SCOPE.set((None, 0, ends, outer))
        return self


class criticality(_Block):  # noqa: N801 - it reads as a statement: `with tidegate.criticality("critical"):`
    """Sets the criticality of calls inside that set none themselves. It decides their order and shedding.

    The innermost one wins. It applies to all policies and follows the context as `deadline` does.

    Args:
        level: `"best_effort"`, `"degraded"`, `"normal"` or `"critical"`.

    Raises:
        ValueError: If `level` is another value.

    Example:
        ```python
        with tidegate.criticality("critical"):
            policy.call(charge)
        ```
    """

    __slots__ = ("_level",)

    def __init__(self, level: Criticality) -> None:
        self._level = criticality_number(level)

    def __enter__(self) -> criticality:
        outer = current()
        around = _ends(outer)
        real, tests = (None, {}) if around is None else (around.real, around.tests)
        SCOPE.set((None, 0, _Ends(self, real, tests, self._level), outer))
        return self


def criticality_number(level: object) -> int:
    """Returns the number of a criticality, as `begin` takes it.

    Raises:
        ValueError: If no criticality has this name.
    """
    number = CRITICALITIES.get(level) if isinstance(level, str) else None
    if number is None:
        raise ValueError(f"criticality = {level!r}: must be one of {', '.join(CRITICALITIES)}")
    return number
