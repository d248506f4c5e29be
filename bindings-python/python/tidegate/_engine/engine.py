"""An engine and what the shells keep beside it: who waits, how to wake them, what a fork leaves behind."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet, WeakValueDictionary

from tidegate import _native

from .clock import to_us
from .hooks import Hooks, wanted
from .wire import CANCEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidegate._call.timers import Timers

    from .clock import Clock, Span
    from .explain import CallExplanation, Restored
    from .hooks import Hook
    from .places import Place, Shared
    from .record import Record
    from .snapshot import Snapshot
    from .store import Carrier, Link


def draw_seed() -> int:
    """64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


class Engine:
    """Holds everything that policies share: routes, slots, budgets.

    A process has one engine by default. Make one of your own to isolate a test or a hot upstream.

    Args:
        seed: All the randomness there is (64 bits); drawn from the operating system where it is left out.
        clock: A `tidegate.testing.FakeClock` in the place of the system's monotonic clock.
        history: How many records it keeps about calls that were retried, refused or failed, so that
            `explain` can say why; 120 bytes each, none for a call that just works. 0 for none. They hold no
            URL path, no query and no text of an error.
        journal: Whether it writes down everything that is put into it, for `journal` and `replay`; `explain`
            then has the numbers of that moment too. A journal grows by about 80 bytes an event, until taken,
            up to 100,000 inputs.
        logs: Whether retries, refusals and changes of breakers are logged (`docs/python/telemetry.md`).
        max_routes: How many routes it keeps state for, 1 to 524,288; keys beyond share their policy's
            `overflow` route.
        store: Where policies that say `store = "fleet"` share their state with other processes: a
            `tidegate.fleet.RedisStore`. None for nowhere, and such policies are refused.

    Raises:
        ValueError: If `max_routes` or `history` is out of range.
        TypeError: If `store` is no store.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        clock: Clock | None = None,
        history: int = 512,
        journal: bool = False,
        logs: bool = True,
        max_routes: int = 10_000,
        store: Carrier | None = None,
    ) -> None:
        if not 1 <= max_routes <= _MOST_ROUTES:
            raise ValueError(f"max_routes = {max_routes!r}: must be a whole number from 1 to {_MOST_ROUTES}")
        if not 0 <= history <= _MOST_HISTORY:
            raise ValueError(f"history = {history!r}: must be a whole number from 0 to {_MOST_HISTORY}")
        self.seed: Final = draw_seed() if seed is None else seed & (1 << 64) - 1
        self.max_routes: Final = max_routes
        self.token: Final = draw_seed() | 1  # engines may share a seed
        self.native: Final = _native.Engine(self.seed, clock is not None, journal, max_routes, history)
        self.inspector: Final = _native.Inspector(self.native)
        self.logs: Final = logs
        self.journals: Final = journal
        self.explains: Final = journal or history > 0
        self._taken = False
        self.answers: tuple[str, ...] = ()
        self.clock: Final = clock
        self.hooks: Final = Hooks(self, self.inspector)
        self.link: Link | None = None
        self.waiters: Final[dict[int, Callable[[], object]]] = {}
        self.timers: Final[dict[int, Timers]] = {}
        self.shared: Final[WeakValueDictionary[str, Shared]] = WeakValueDictionary()
        self.pool_places: Final[dict[str, Place | None]] = {}
        self.tunings = 0
        if clock is not None:
            clock.attach(self)
        _engines.add(self)
        if tested != UNTESTED:
            self.test(*tested)
        if store is not None:
            self.attach(store)

    def attach(self, store: Carrier) -> None:
        """Attaches a store: `tidegate.fleet.attach` says how.

        Raises:
            TypeError: If it is no store.
            ValueError: If the engine has one already.
        """
        from .store import Link

        if not callable(getattr(store, "carry", None)):
            raise TypeError(f"store = {store!r}: must be a tidegate.fleet.RedisStore")
        if self.link is not None:
            raise ValueError(f"store = {store!r}: the engine has a store already, {self.link.carrier!r}")
        self.link = Link(store, _native.Fleet(self.native))
        self.wake(self.link.native.attach("lua" if store.scripts else "plain", store.namespace, draw_seed()))

    def on(self, call: int, event: int) -> int:
        """Reports an event of a call, and wakes the calls that can continue because of it."""
        reply = self.native.on(call, event)
        if isinstance(reply, int):
            return reply
        self.wake(reply[1])
        return reply[0]

    def test(self, active: bool, attempts: int, cap: bool) -> None:
        """Tests the engine in another way from now on: `tidegate.testing` says how."""
        woken = self.inspector.test(active, attempts, cap)
        self.tunings += 1
        if woken is not None:
            self.wake(woken)

    def report(self, call: int, event: int, fn: object, value: object) -> int:
        """Tells a call how an attempt ended, and hooks what it was: a function, its result or exception."""
        ends = self.hooks.ends
        ends[call] = (fn, value)
        try:
            return self.on(call, event)
        finally:
            ends.pop(call, None)

    def told(self, call: int, fn: object, value: object, woken: list[int]) -> None:
        """Hooks what a call's step has done, and which attempt it was about; wakes whom it woke."""
        ends = self.hooks.ends
        ends[call] = (fn, value)
        try:
            self.wake(woken)
        finally:
            ends.pop(call, None)

    def begun(self, reply: tuple[int, int] | tuple[int, int, list[int]]) -> tuple[int, int]:
        """The call and the step of a `begin`, after waking the calls that can continue because of it."""
        if len(reply) == 3:
            self.wake(reply[2])
        return reply[0], reply[1]

    def wake(self, calls: Iterable[int]) -> None:
        """Wakes the owners of these calls, and tells hooks what the step has done.

        An owner whose event loop is gone gives its place up at once.
        """
        pending = list(calls)
        while pending:
            call = pending.pop(0)
            waker = self.waiters.get(call)
            if waker is not None and waker() is GONE:
                self.waiters.pop(call, None)
                for timers in list(self.timers.values()):
                    timers.parked.pop(call, None)
                reply = self.native.on(call, CANCEL)
                if not isinstance(reply, int):
                    pending.extend(reply[1])
        if self.link is not None:
            self.link.send(self)
        self.hooks.deliver()

    def park(self, lock: Any, us: int) -> None:
        """Blocks this thread until the lock is released or the span has passed; below 0 there is no end."""
        if self.clock is None:
            lock.acquire(True, us / 1e6 if us >= 0 else -1)
        else:
            self.clock.park(lock, us if us >= 0 else None)

    def wall(self) -> float:
        """The wall clock, in seconds since 1970: dates of servers are measured by it."""
        return time.time() if self.clock is None else self.clock.wall()

    def snapshot(self) -> Snapshot:
        """The state of everything, pulled: calls, waiters, and by policy and route what has happened."""
        return cast("Snapshot", self.native.snapshot())

    def on_event(self, callback: Callable[[Record], object], types: Iterable[str] | None = None) -> Hook:
        """Calls a function with every record, in the thread that caused it, before the wait that it begins.

        What the function raises is logged once and reaches no call. One that answers a context manager to a
        `retry_scheduled` has it held until the next attempt starts (it has to listen to `attempt_started` and
        `call_done` too).

        Args:
            callback: The function; it is called from all threads that make calls.
            types: Which types of records (`tidegate.events.TYPES`); all of them if left out. Who leaves out
                what every call has costs nothing to calls that work.

        Returns:
            The hook: `close` ends it, and so does the end of a `with` block.

        Raises:
            ValueError: If a type does not exist.

        Example:
            >>> engine = Engine()
            >>> with engine.on_event(print, types=["breaker_changed"]):
            ...     pass
        """
        return self.hooks.add(callback, wanted(types), None)

    def explain(self, of: Any) -> CallExplanation | None:
        """Why a call waits, or ended as it did, with the numbers that were looked at.

        Args:
            of: The exception or the HTTP response that a call ended with; or a call's number, as records and
                reports have it.

        Returns:
            None where the engine knows nothing of it: the call just worked, or more than `history` records
            are newer.

        Raises:
            TypeError: If it is none of these.

        Example:
            ```python
            try:
                policy.call(charge, order)
            except Exception as error:
                print(engine.explain(error))
            ```
        """
        from .explain import CallExplanation

        is_number = isinstance(of, int) and not isinstance(of, bool)
        if not is_number and not can_be_marked(of):
            raise TypeError(f"explain({of!r}): must be an exception, an HTTP response, or a call's number")
        call = of if is_number else self.call_of(of)
        told = None if call is None else self.inspector.explain_call(call)
        return None if told is None else CallExplanation._of(told)

    def mark(self, error: object, call: int) -> None:
        """Notes on an exception or a response which call it ended: numbers, so that it can be pickled."""
        try:
            error.__tidegate__ = (self.token, call)  # type: ignore[attr-defined]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: S110 - one without a dict, or one that refuses attributes
            pass

    def call_of(self, error: object) -> int | None:
        """The call that an exception or a response ended, if it was one of this engine's."""
        try:
            token, call = getattr(error, "__tidegate__", (None, None))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return None  # one whose attributes raise
        return call if token == self.token else None

    def journal(self, *, take: bool = False) -> str:
        """Everything that was put into the engine, one line each, for `Engine.replay`.

        At most the last 100,000 inputs are kept. A line `dropped` stands for those that are missing, and
        `replay` refuses it.

        Args:
            take: Whether the lines are taken out, so that the journal stops growing. The next ones go on
                where these end: the text of all of them, one behind the other, is what `replay` takes.

        Raises:
            ValueError: If the engine keeps none.
        """
        if not self.journals:
            raise ValueError("journal = False: make the engine with Engine(journal=True)")
        head = [] if self._taken else [f"tidegate journal 1 seed {self.seed} routes {self.max_routes}"]
        self._taken = self._taken or take
        return "".join(f"{line}\n" for line in [*head, *self.inspector.journal(take)])

    @classmethod
    def replay(cls, journal: str) -> Engine:
        """An engine that was told what stands in a journal: the same seed, and so the same decisions.

        Its clock stands where the journal ends. It keeps a journal itself, so that it can explain calls; what
        it said to each line is in `answers`.

        Raises:
            ValueError: If a line is none of a journal's: which, and why.
        """
        from .clock import ManualClock
        from .explain import replayable

        seed, routes, lines = replayable(journal)
        clock = ManualClock()
        engine = cls(seed=seed, clock=clock, journal=True, logs=False, max_routes=routes)
        answers, us = engine.inspector.replay(lines)
        if us > _LATEST_US:
            raise ValueError(
                f"journal, its end: now = {us} us: must be at most {_LATEST_US} us, "
                "which no clock reaches; replay the lines before the one that says so"
            )
        engine.answers = tuple(answers)
        clock.move(us)
        return engine

    def save(self) -> str:
        """What the engine has learned, as JSON: budgets, rates, limits, breakers, throttles, holds.

        Calls are not in it. It changes nothing, and costs one pass over the routes.
        """
        return self.inspector.save()

    def restore(self, saved: str, *, elapsed: Span = 0.0) -> Restored:
        """Goes on from what another engine has saved, in a process of its own. Make policies and pools first.

        Args:
            saved: What `save` has answered.
            elapsed: How long ago that was: seconds or `timedelta`, 0 or more.

        Returns:
            What goes on, and what does not.

        Raises:
            StateError: If it is not what `save` writes, another version wrote it, or the engine has begun
                calls. Nothing has been changed.
            ValueError: If `elapsed` is out of range.
        """
        from .explain import Restored

        us = to_us(elapsed)
        if isinstance(us, str) or not 0 <= us < 1 << 63:
            raise ValueError(f"elapsed = {elapsed!r}: must be seconds or a timedelta, 0 or more")
        restored = Restored(*self.inspector.restore(saved, int(us)))
        self.tunings += 1
        return restored


UNTESTED: Final = (True, 0, False)
tested = UNTESTED
"""How all engines are tested: are they active, how many attempts (0: as the policy says), is that a cap?"""

_MOST_ROUTES: Final = 524_288
_MOST_HISTORY: Final = 1_000_000
_LATEST_US: Final = 1 << 63

GONE: Final = object()
"""A waker's answer: nobody can be woken there any more."""

_engines: Final[WeakSet[Engine]] = WeakSet()
_default: list[Engine] = []


def default_engine() -> Engine:
    """The engine of the process, made when it is first needed."""
    if not _default:
        _default.append(Engine())
    return _default[0]


def can_be_marked(of: object) -> bool:
    """Is it an exception, or an HTTP response of any client?"""
    return isinstance(of, BaseException) or hasattr(of, "status_code") or hasattr(of, "status")


def explain(of: Any) -> CallExplanation | None:
    """Why a call ended as it did, with the numbers that were looked at, whichever engine it was one of.

    Args:
        of: The exception or the HTTP response that it ended with.

    Returns:
        None for a call that just worked, and where the engine keeps no `history`, or more than that is newer.

    Raises:
        TypeError: If it is neither.
    """
    engines = [engine for engine in list(_engines) if engine.call_of(of) is not None]
    if not engines and not can_be_marked(of):
        raise TypeError(f"explain({of!r}): must be an exception or an HTTP response")
    return engines[0].explain(of) if engines else None


def test_all(how: tuple[bool, int, bool]) -> None:
    """Tests all engines in another way from now on, those to come too."""
    global tested  # noqa: PLW0603 - one setting for the process is what is asked for
    tested = how
    for engine in list(_engines):
        engine.test(*how)


def use(engine: Engine | None) -> Engine | None:
    """Makes an engine the process's own; answers the one before."""
    before = _default[0] if _default else None
    _default[:] = [] if engine is None else [engine]
    return before


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.waiters.clear()
        engine.timers.clear()
        engine.native.after_fork(draw_seed())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
