"""An engine and its shell-side state: waiters and their wakers, timers, hooks, store. A fork resets it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args
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


LinkState = Literal["ok", "metered", "offline"]
"""State of the device's link: see `Engine.set_link`."""
_LINK_STATES: Final = get_args(LinkState)


def draw_seed() -> int:
    """Returns 64 random bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


class Engine:
    """Holds everything that policies share: routes, slots, budgets.

    A process has one engine by default. Make a separate engine to isolate a test or a hot upstream.

    Args:
        seed: Seed of the random generator (64 bits), its only source of randomness; drawn from the operating
            system if left out.
        clock: A `tidegate.testing.FakeClock` in place of the system's monotonic clock.
        history: How many records the engine keeps about calls that were retried, refused or failed, for
            `explain`; 0 keeps none. A record takes 144 bytes and contains no URL path, no query and no error
            text. Calls that succeed at the first attempt need no record.
        journal: Whether the engine records all its inputs, for `journal` and `replay`; `explain` then also
            reports the route's numbers at that moment. A journal grows by about 80 bytes an event until it is
            taken, up to 100,000 inputs.
        logs: Whether retries, refusals and changes of breakers are logged (`docs/python/telemetry.md`).
        max_routes: How many routes the engine keeps state for, 1 to 524,288; further keys share their
            policy's `overflow` route.
        store: The store through which policies with `store = "fleet"` share their state with other
            processes: a `tidegate.fleet.RedisStore`. Without a store (None) such policies are refused.

    Raises:
        ValueError: If `max_routes` or `history` is out of range.
        TypeError: If `store` is not a store.
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
        """Attaches a store; `tidegate.fleet.attach` documents the details.

        Raises:
            TypeError: If `store` is not a store.
            ValueError: If the engine already has a store.
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
        """Changes the engine's test mode from now on; `tidegate.testing` documents the modes."""
        woken = self.inspector.test(active, attempts, cap)
        self.tunings += 1
        if woken is not None:
            self.wake(woken)

    def report(self, call: int, event: int, fn: object, value: object) -> int:
        """Reports to a call how an attempt ended.

        While it does, hooks can look up the attempt's function and its result or exception.
        """
        ends = self.hooks.ends
        ends[call] = (fn, value)
        try:
            return self.on(call, event)
        finally:
            ends.pop(call, None)

    def delivered(self, call: int, fn: object, value: object, woken: list[int]) -> None:
        """Delivers the records of a call's last step to hooks, with its attempt; wakes calls in `woken`."""
        ends = self.hooks.ends
        ends[call] = (fn, value)
        try:
            self.wake(woken)
        finally:
            ends.pop(call, None)

    def begun(self, reply: tuple[int, int] | tuple[int, int, list[int]]) -> tuple[int, int]:
        """Wakes the calls that can continue because of a `begin`; returns the new call and its first step."""
        if len(reply) == 3:
            self.wake(reply[2])
        return reply[0], reply[1]

    def wake(self, calls: Iterable[int]) -> None:
        """Wakes the owners of these calls, sends commands to the store, and delivers records to hooks.

        A call whose event loop no longer exists is cancelled at once, which frees its place.
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
        """Blocks this thread until the lock is released or `us` microseconds have passed.

        A negative `us` means no limit.
        """
        if self.clock is None:
            lock.acquire(True, us / 1e6 if us >= 0 else -1)
        else:
            self.clock.park(lock, us if us >= 0 else None)

    def wall(self) -> float:
        """Returns the wall clock in seconds since 1970. Dates in server headers are compared with it."""
        return time.time() if self.clock is None else self.clock.wall()

    def set_link(self, state: LinkState) -> None:
        """Tells the engine the state of the device's link: `ok` (at first), `metered` or `offline`.

        While it is offline, first attempts still start, retries and hedges wait until it is back (at
        most until the deadline or `retry_time_limit`; without both, `max_retry_after` after the
        failure), and failures to connect are no evidence for a breaker. Then they start within a
        second, spread evenly. While it is metered, no hedges start.

        Raises:
            ValueError: If the state is not one of these three.

        Example:
            >>> from tidegate import Policy
            >>> engine = Policy(deadline=5.0).engine  # that of the process, as it was given none
            >>> engine.set_link("offline")
            >>> engine.set_link("ok")
        """
        if state not in _LINK_STATES:
            raise ValueError(f"state = {state!r}: must be one of {', '.join(_LINK_STATES)}")
        self.native.set_link(_LINK_STATES.index(state))

    def snapshot(self) -> Snapshot:
        """Returns the engine's state at this moment: calls, waiters, and counters by policy and route."""
        return cast("Snapshot", self.native.snapshot())

    def on_event(self, callback: Callable[[Record], object], types: Iterable[str] | None = None) -> Hook:
        """Calls a function with every record.

        The function runs in the thread that caused the record, before any wait that the record announces. An
        exception from the function is logged once and does not reach the call. If the function returns a
        context manager for a `retry_scheduled` record, the engine enters it at once and exits it when the
        next attempt starts; the hook must then listen to `attempt_started` and `call_done` too.

        Args:
            callback: The function; it is called from all threads that make calls.
            types: The types of records to receive (`tidegate.events.TYPES`); all of them if left out. A hook
                without the types that every call produces adds no cost to calls that succeed.

        Returns:
            The hook. Its `close`, or the end of its `with` block, removes it.

        Raises:
            ValueError: If a type does not exist.

        Example:
            >>> engine = Engine()
            >>> with engine.on_event(print, types=["breaker_changed"]):
            ...     pass
        """
        return self.hooks.add(callback, wanted(types), None)

    def explain(self, of: Any) -> CallExplanation | None:
        """Explains why a call waits or why it ended as it did, with the numbers behind the decision.

        Args:
            of: The exception or the HTTP response that a call ended with; or a call's number, from a record
                or a report.

        Returns:
            The explanation. None if the engine has no record of the call: its first attempt succeeded, or
            `history` newer records have replaced its own.

        Raises:
            TypeError: If `of` is neither an exception, nor an HTTP response, nor a number.

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
        explanation = None if call is None else self.inspector.explain_call(call)
        return None if explanation is None else CallExplanation._of(explanation)

    def mark(self, error: object, call: int) -> None:
        """Marks an exception or a response with the call that it ended, by numbers only, which pickle."""
        try:
            error.__tidegate__ = (self.token, call)  # type: ignore[attr-defined]
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: S110 - one without a dict, or one that refuses attributes
            pass

    def call_of(self, error: object) -> int | None:
        """Returns the number of this engine's call that an exception or a response ended, else None."""
        try:
            token, call = getattr(error, "__tidegate__", (None, None))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return None  # its attributes raise
        return call if token == self.token else None

    def journal(self, *, take: bool = False) -> str:
        """Returns all inputs of the engine, one line each, for `Engine.replay`.

        The engine keeps the last 100,000 inputs. A line `dropped` marks older ones that are missing, and
        `replay` refuses a journal with such a line.

        Args:
            take: Whether to remove the returned lines from the engine, to bound its memory. The next journal
                continues where this one ends; `replay` takes all of them concatenated.

        Raises:
            ValueError: If the engine keeps no journal.
        """
        if not self.journals:
            raise ValueError("journal = False: make the engine with Engine(journal=True)")
        head = [] if self._taken else [f"tidegate journal 1 seed {self.seed} routes {self.max_routes}"]
        self._taken = self._taken or take
        return "".join(f"{line}\n" for line in [*head, *self.inspector.journal(take)])

    @classmethod
    def replay(cls, journal: str) -> Engine:
        """Makes an engine and feeds it a journal. With the same seed it makes the same decisions.

        Its clock shows the time at the end of the journal. It keeps a journal itself, so that it can explain
        calls. `answers` contains its reply to each line.

        Raises:
            ValueError: If a line is not a valid journal line; the message names the line and the reason.
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
        """Returns the engine's learned state as JSON: budgets, rates, limits, breakers, throttles, holds.

        Calls are not saved. Saving changes nothing and takes one pass over the routes.
        """
        return self.inspector.save()

    def restore(self, saved: str, *, elapsed: Span = 0.0) -> Restored:
        """Restores the state that another engine has saved, for example in an earlier process.

        Make the policies and pools first: state of unknown ones is not restored.

        Args:
            saved: The text that `save` returned.
            elapsed: Time since then: seconds or `timedelta`, 0 or more.

        Returns:
            The numbers of routes restored and left out, and the policies, pools and components not restored.

        Raises:
            StateError: If `saved` was not written by `save`, another version wrote it, or the engine has
                already begun calls. The engine is then unchanged.
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
"""Test mode of all engines: active or not, attempts per call (0: as in the policy), and whether as a cap."""

_MOST_ROUTES: Final = 524_288
_MOST_HISTORY: Final = 1_000_000
_LATEST_US: Final = 1 << 63

GONE: Final = object()
"""Returned by a waker whose event loop no longer exists, so that the call cannot be woken."""

_engines: Final[WeakSet[Engine]] = WeakSet()
_default: list[Engine] = []


def default_engine() -> Engine:
    """Returns the engine of the process; makes it at the first use."""
    if not _default:
        _default.append(Engine())
    return _default[0]


def engine_of(given: Engine | None) -> Engine:
    """Returns the engine that a policy or a pool was given; that of the process if it was given none.

    Raises:
        TypeError: If it is no engine.
    """
    if given is None:
        return default_engine()
    if not isinstance(given, Engine):
        raise TypeError(f"engine = {given!r}: must be a tidegate.Engine")
    return given


def can_be_marked(of: object) -> bool:
    """Returns whether `of` is an exception, or an HTTP response of any client."""
    return isinstance(of, BaseException) or hasattr(of, "status_code") or hasattr(of, "status")


def explain(of: Any) -> CallExplanation | None:
    """Explains why a call of any engine ended as it did, with the numbers behind the decision.

    Args:
        of: The exception or the HTTP response that the call ended with.

    Returns:
        The explanation. None if the first attempt succeeded, if the engine keeps no `history`, or if
        `history` newer records have replaced those of the call.

    Raises:
        TypeError: If `of` is neither.
    """
    engines = [engine for engine in list(_engines) if engine.call_of(of) is not None]
    if not engines and not can_be_marked(of):
        raise TypeError(f"explain({of!r}): must be an exception or an HTTP response")
    return engines[0].explain(of) if engines else None


def test_all(how: tuple[bool, int, bool]) -> None:
    """Changes the test mode of all engines from now on, including engines made later."""
    global tested  # noqa: PLW0603 - one setting for the process is what is asked for
    tested = how
    for engine in list(_engines):
        engine.test(*how)


def use(engine: Engine | None) -> Engine | None:
    """Makes an engine the default engine of the process; returns the previous one."""
    before = _default[0] if _default else None
    _default[:] = [] if engine is None else [engine]
    return before


def _after_fork_in_child() -> None:
    for engine in list(_engines):
        engine.waiters.clear()
        engine.timers.clear()
        engine.hooks.after_fork()
        engine.native.after_fork(draw_seed())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
