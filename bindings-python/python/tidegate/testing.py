"""For tests: a clock that moves on request or when all threads or tasks wait; switches for all policies.

with tidegate.testing.set_active(False):            # calls go straight through
...
with tidegate.testing.set_testing(attempts=1):      # no waits, so many attempts
...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from . import _native
from ._engine import engine as _engine
from ._engine.clock import ManualClock
from ._engine.store import Lost, Refused

if TYPE_CHECKING:
    from ._call.timers import Timers
    from ._engine.clock import Clock
    from ._engine.engine import Engine

__all__ = [
    "FakeClock",
    "MemoryStore",
    "Switch",
    "assert_idle",
    "is_active",
    "is_testing",
    "set_active",
    "set_testing",
]

_IDLE_TURNS = 20
"""Number of event loop turns without a change on the clock after which the loop counts as idle."""


class Switch:
    """Result of `set_active` and `set_testing`, which act at once; the end of a `with` block undoes them."""

    def __init__(self, how: tuple[bool, int, bool]) -> None:
        self._before = _engine.tested
        _engine.test_all(how)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        _engine.test_all(self._before)


def set_active(active: bool) -> Switch:
    """Switches all policies of the process off, or on again.

    While they are off, every call makes one attempt: nothing is retried, limited, refused or timed, and the
    engine learns nothing. A call that raises a `TypeError` otherwise (a blocking function under an
    `attempt_timeout`) still does.

    Args:
        active: Whether policies are active.

    Example:
        >>> with set_active(False):
        ...     assert not is_active()
        >>> is_active()
        True
    """
    return Switch((bool(active), *_engine.tested[1:]))


def is_active() -> bool:
    """Returns whether policies are active."""
    return _engine.tested[0]


def set_testing(testing: bool = True, *, attempts: int = 1, cap: bool = False) -> Switch:
    """Makes all policies that retry do so `attempts` times, and never wait between attempts.

    Limits, breakers and deadlines work as usual. `Retry-After` is ignored, and no retry budget refuses an
    attempt. Budgets still count calls and results, and decide again afterwards.

    Args:
        testing: Whether to switch this mode on; False switches it off.
        attempts: Attempts of a call including the first, 1 to 100.
        cap: Whether a policy with fewer attempts keeps its own number.

    Raises:
        ValueError: If `attempts` is out of range.

    Example:
        >>> with set_testing(attempts=2):
        ...     assert is_testing()
        >>> is_testing()
        False
    """
    if not 1 <= attempts <= 100:
        raise ValueError(f"attempts = {attempts!r}: must be a whole number from 1 to 100")
    return Switch((_engine.tested[0], attempts if testing else 0, cap and testing))


def is_testing() -> bool:
    """Returns whether `set_testing` determines the number of attempts."""
    return _engine.tested[1] > 0


def assert_idle(engine: Engine | None = None) -> None:
    """Checks that no call is unfinished: none runs, waits, holds a permit or has a timer.

    Args:
        engine: The engine; the default engine of the process if left out.

    Raises:
        AssertionError: With a list of everything that is left.
    """
    engine = _engine.engine_of(engine)
    view: Any = engine.snapshot()
    left = [f"{key} {view[key]}" for key in ("live", "lingering", "lost", "waiting") if view[key]]
    left += [f"{len(engine.waiters)} waiters"] if engine.waiters else []
    for timers in list(engine.timers.values()):
        for name in ("running", "parked", "stopped"):
            count = len(getattr(timers, name))
            left += [f"{count} {name} on a timer"] if count else []
    for route in view["routes"]:
        where = f"policy {route['policy']}, route {route['key']}"
        left += [f"{route['active']} active ({where})"] if route["active"] else []
        out = route["pool"]["in_flight"] if route["pool"] else 0
        left += [f"{out} permits out ({where})"] if out else []
    left += [
        f"{pool['pool']['in_flight']} permits out (pool {name})"
        for name, pool in view["pools"].items()
        if pool["pool"] and pool["pool"]["in_flight"]
    ]
    if left:
        raise AssertionError(f"tidegate is not idle: {', '.join(left)}")


class MemoryStore:
    """A store in place of Redis: in one test, several engines share it as if they were processes.

    It supports only the commands that engines send, and answers at once, in the thread of the call.

    Args:
        clock: The server's clock; the clock of the process if left out.
        namespace: Prefix of the keys.
        scripts: Whether the simulated server runs scripts.

    Example:
        >>> store = MemoryStore()
        >>> here, there = (tidegate.Engine(seed=seed, store=store) for seed in (1, 2))
        >>> store.up = False  # and both go on without it
    """

    inline: Final = True
    """Commands run in the calling thread, not in the store's worker thread."""

    def __init__(
        self, clock: Clock | None = None, *, namespace: str = "tidegate", scripts: bool = True
    ) -> None:
        self._native = _native.MemoryStore()
        self._now = _native.monotonic if clock is None else clock.now_us
        self.namespace: Final = namespace
        self.scripts: Final = scripts
        self.up = True
        """Whether it answers. While it is False, every command is lost."""
        self.commands = 0
        """Number of commands received, including lost ones."""

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        """Runs one command of an engine.

        Raises:
            Refused: If the answer is an error.
            Lost: If `up` is False.
        """
        del key, seconds
        self.commands += 1
        if not self.up:
            raise Lost("the store is not up")
        ok, answer = self._native.execute(words, self._now())
        if not ok:
            raise Refused(answer.decode("utf-8", "replace"))
        return answer

    def flush(self) -> None:
        """Deletes everything, scripts included, as if the server had been replaced."""
        for words in ([b"FLUSHALL"], [b"SCRIPT", b"FLUSH"]):
            self._native.execute(words, self._now())

    def describe(self) -> list[str]:
        """Returns its contents: one line per key, with its time to live in milliseconds."""
        return self._native.describe(self._now())


class FakeClock(ManualClock):
    """A clock for a separate engine: `Engine(seed=1, clock=FakeClock())`.

    **In threads**, a wait of the library (backoff, queue) moves the clock forward at once, so that a scenario
    of ten minutes takes milliseconds. With `auto=False` the wait blocks until another thread calls `tick`.

    **In an event loop** (asyncio or trio), `await clock.advance(seconds)` moves the clock to each due time in
    turn and lets the tasks run there. With `autojump=True` the clock moves by itself: when the loop is idle,
    it jumps to the next due time. `await clock.sleep(seconds)` sleeps on this clock, for the code under test.

    Args:
        auto: Whether a waiting thread moves the clock itself.
        autojump: Whether an idle event loop moves the clock. A loop is idle if nothing has happened on the
            clock for `threshold` real seconds and some turns of the loop. Without it a call that waits in a
            loop waits until the test calls `advance`.
        threshold: Real seconds without activity before a jump, for `autojump`; more than 0 if sockets are
            involved.

    `autojump` and `threshold` are attributes too: a test sets them on the clock of the fixture
    `tidegate_clock`, before its first call.
    """

    def __init__(self, *, auto: bool = True, autojump: bool = False, threshold: float = 0.0) -> None:
        super().__init__()
        self._auto = auto
        self.autojump = autojump
        """Whether an idle event loop moves the clock."""
        self.threshold = threshold
        """Real seconds without activity before a jump, for `autojump`."""
        self._timers: list[Timers] = []
        self._sleepers: list[tuple[int, Any]] = []
        self._threads: list[tuple[int, Any]] = []
        self._epoch = 0
        self._watching: WeakSet[Any] = WeakSet()  # not ids, which are reused for new loops

    # Methods for tests.

    def now(self) -> float:
        """Returns the seconds since the clock was made."""
        return self._us / 1e6

    def tick(self, seconds: float) -> None:
        """Moves the clock, and wakes the threads whose wait is over. In event loops use `advance`."""
        self.move(self._us + round(seconds * 1e6))

    async def advance(self, seconds: float) -> None:
        """Moves the clock to each due time in turn, and lets this loop's tasks run at each."""
        target = self._us + round(seconds * 1e6)
        await self._settle()
        while (due := self._next()) is not None and due <= target:
            self.move(max(due, self._us))
            self._fire()
            await self._settle()
        self.move(max(target, self._us))
        self._fire()
        await self._settle()

    async def sleep(self, seconds: float) -> None:
        """Sleeps on this clock."""
        future = _future()
        entry = (self._us + round(seconds * 1e6), future)
        self._sleepers.append(entry)
        self._touched()
        try:
            await future
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    # Methods for the library.

    def watch(self, timers: Timers) -> None:
        """Adds the timers of an event loop that use this clock."""
        self._timers.append(timers)

    def changed(self, timers: Timers) -> None:
        """Notifies the clock that a wait in an event loop has changed."""
        del timers
        self._touched()

    def park(self, lock: Any, us: int | None) -> None:
        """Blocks this thread until the lock is released or `us` microseconds have passed on this clock."""
        if self._auto:
            super().park(lock, us)
            return
        entry = (self._us + us if us is not None else 1 << 62, lock)
        with self._guard:
            self._threads.append(entry)
        try:
            lock.acquire()
        finally:
            with self._guard:
                if entry in self._threads:
                    self._threads.remove(entry)

    def move(self, us: int) -> None:
        """Moves the clock forward, and wakes the threads whose wait is over."""
        super().move(us)
        with self._guard:
            due = [lock for moment, lock in self._threads if moment <= self._us]
        for lock in due:
            try:
                lock.release()
            except RuntimeError:
                pass  # it has been woken already

    def _next(self) -> int | None:
        """Returns the next due time in the event loops, in microseconds; None if nothing is due."""
        dues = [round(timers.next * 1e6) for timers in self._timers if timers.next != float("inf")]
        dues += [moment for moment, future in self._sleepers if not future.done()]
        return min(dues, default=None)

    def _fire(self) -> None:
        self._epoch += 1
        for moment, future in list(self._sleepers):
            if moment <= self._us and not future.done():
                future.set_result(None)
        for timers in self._timers:
            if timers.next != float("inf") and round(timers.next * 1e6) <= self._us:
                timers.fire()

    async def _settle(self) -> None:
        if _in_trio():
            from trio.testing import wait_all_tasks_blocked

            return await wait_all_tasks_blocked()
        from asyncio import sleep

        for _ in range(_IDLE_TURNS):
            await sleep(0)
        return None

    def _touched(self) -> None:
        """Restarts the detection of an idle loop, since something happened on the clock."""
        self._epoch += 1
        if not self.autojump:
            return
        if _in_trio():
            self._watch_trio()
            return
        import asyncio

        loop = asyncio.get_running_loop()
        if loop not in self._watching:
            self._watching.add(loop)
            self._watch_idle(loop, self._epoch, _IDLE_TURNS)

    def _watch_idle(self, loop: Any, epoch: int, turns: int) -> None:
        if epoch != self._epoch:
            epoch, turns = self._epoch, _IDLE_TURNS
        if turns:
            loop.call_soon(self._watch_idle, loop, epoch, turns - 1)
        elif self.threshold:
            loop.call_later(self.threshold, self._jump, loop, epoch)
        else:
            self._jump(loop, epoch)

    def _watch_trio(self) -> None:
        """Watches for an idle loop in trio, which can report that."""
        from trio.lowlevel import current_trio_token, spawn_system_task
        from trio.testing import wait_all_tasks_blocked

        token = current_trio_token()
        if token in self._watching:
            return

        async def watch() -> None:
            try:
                while True:
                    epoch = self._epoch
                    await wait_all_tasks_blocked(self.threshold)
                    if epoch != self._epoch:
                        continue
                    due = self._next()
                    if due is None:
                        return
                    self.move(max(due, self._us))
                    self._fire()
            finally:
                self._watching.discard(token)

        self._watching.add(token)
        spawn_system_task(watch, name="tidegate: fake clock")

    def _jump(self, loop: Any, epoch: int) -> None:
        if epoch == self._epoch and (due := self._next()) is not None:
            self.move(max(due, self._us))
            self._fire()
        if self._next() is None:
            self._watching.discard(loop)
        else:
            self._watch_idle(loop, self._epoch, _IDLE_TURNS)


def _in_trio() -> bool:
    import sys

    if "trio" not in sys.modules:
        return False
    from ._call.timers import in_trio

    return in_trio()


def _future() -> Any:
    """Makes the future that a sleep waits for."""
    if _in_trio():
        from ._call.trio_timers import Event

        return Event()
    import asyncio

    return asyncio.get_running_loop().create_future()
