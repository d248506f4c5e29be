"""A retry that comes at once stays native: hooks, logs, notes and timers are told what they always were."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate._call import outcomes
from tidegate.events import Record
from tidegate.testing import FakeClock

AT_ONCE: dict[str, Any] = {"max_attempts": 4, "backoff": {"base": 0, "max": 0}, "budget": None}

COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


class Work:
    """Fails with these exceptions, one after the other; then answers how often it was called."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.made = 0

    def __call__(self, *args: object) -> int:
        self.made += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.made

    async def awaited(self, *args: object) -> int:
        return self(*args)


def made(policy: tidegate.Caller, work: Work, colour: str, *args: object) -> int:
    if colour == "sync":
        return policy.call(work, *args)
    return asyncio.run(_awaits(policy, work, args))


async def _awaits(policy: tidegate.Caller, work: Work, args: tuple[object, ...]) -> int:
    return await policy.acall(work.awaited, *args)


@pytest.fixture
def shells(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the native half has asked of the Python half."""
    asked: list[str] = []
    for name in ("_begun", "_failed", "_abegun", "_afailed"):
        before = getattr(tidegate.Caller, name)

        def spy(self: Any, *args: Any, before: Any = before, name: str = name) -> Any:
            asked.append(name)
            return before(self, *args)

        monkeypatch.setattr(tidegate.Caller, name, spy)
    return asked


@COLOURS
def test_attempts_that_come_at_once_never_leave_the_native_half(
    engine: tidegate.Engine, shells: list[str], colour: str
) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, bulkhead={"max_concurrency": 1}, engine=engine)
    work = Work(ConnectionError("1"), TimeoutError("2"), BrokenPipeError("3"))
    assert made(policy, work, colour, 1, 2, 3, 4, 5) == 4
    told = engine.snapshot()
    assert (told["live"], shells) == (0, [])


@COLOURS
def test_a_bug_is_raised_as_it_is_with_a_note_that_says_how_to_repeat_it(
    engine: tidegate.Engine, shells: list[str], colour: str
) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, engine=engine)
    first, bug = ConnectionError("first"), ValueError("a bug")
    with pytest.raises(ValueError, match="a bug") as raised:
        made(policy, Work(first, bug), colour)
    assert raised.value is bug
    (note,) = bug.__notes__
    assert "ValueError is not listed as an error that may pass" in note
    assert "on=(ValueError,)" in note
    assert (bug.__cause__, bug.__context__) == (None, None)
    assert shells == ["_failed" if colour == "sync" else "_afailed"]
    assert engine.snapshot()["live"] == 0


@COLOURS
def test_what_is_exhausted_has_its_note_and_its_last_exception(engine: tidegate.Engine, colour: str) -> None:
    errors = [ConnectionError(str(number)) for number in range(4)]
    last = errors[-1]
    with pytest.raises(ConnectionError) as raised:
        made(tidegate.Policy(retry=AT_ONCE, engine=engine), Work(*errors), colour)
    assert raised.value is last
    assert last.__notes__ == ["tidegate: gave up after 4 attempts"]


@COLOURS
def test_a_wait_between_native_attempts_is_the_shells(
    engine: tidegate.Engine, shells: list[str], colour: str
) -> None:
    """What is waited for is what the exception asks: the second attempt comes at once, the third does not."""
    policy = tidegate.Policy(retry={**AT_ONCE, "max_retry_after": 5}, engine=engine)
    inner = tidegate.RateLimited("inner", reason="rate_limited", retry_in=0.02, policy="p", route="r")
    started = engine.native.now()
    assert made(policy, Work(ConnectionError(), inner), colour) == 3
    assert engine.native.now() - started >= 20_000
    assert shells == ["_failed" if colour == "sync" else "_afailed"]


@COLOURS
def test_a_fallback_stands_in_for_what_native_attempts_brought(engine: tidegate.Engine, colour: str) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, fallback="instead", engine=engine)
    work = Work(*[ConnectionError(str(number)) for number in range(9)])
    assert made(policy, work, colour) == "instead"
    assert work.made == 4
    bug = tidegate.Policy(retry=AT_ONCE, fallback="instead", fallback_on=ValueError, engine=engine)
    assert made(bug, Work(ConnectionError(), ValueError()), colour) == "instead"


@COLOURS
def test_a_journal_knows_the_call_of_a_bug(colour: str) -> None:
    engine = tidegate.Engine(seed=1, journal=True)
    policy = tidegate.Policy("j", retry=AT_ONCE, engine=engine)
    with pytest.raises(ValueError, match="a bug") as raised:
        made(policy, Work(ConnectionError(), ValueError("a bug")), colour)
    told = engine.explain(raised.value)
    assert told is not None
    assert told.attempts == 2


@COLOURS
@pytest.mark.parametrize(
    "types", [["attempt_done"], ["call_done", "attempt_done"], ["retry_scheduled"], None]
)
def test_hooks_are_told_function_and_exception(
    engine: tidegate.Engine, both_paths: None, colour: str, types: list[str] | None
) -> None:
    told: list[Record] = []
    engine.on_event(told.append, types=types)
    policy = tidegate.Policy("p", retry=AT_ONCE, engine=engine)
    assert made(policy, Work(ConnectionError(), TimeoutError()), colour) == 3
    ends = [(record.attempt, record.error) for record in told if record.type == "attempt_done"]
    if types is None or "attempt_done" in types:
        assert ends == [(1, "ConnectionError"), (2, "TimeoutError"), (3, None)]
    retries = [(record.attempt, record.error) for record in told if record.type == "retry_scheduled"]
    if types is None or "retry_scheduled" in types:
        assert retries == [(2, "ConnectionError"), (3, "TimeoutError")]
    if colour == "async":
        names = {record.function for record in told if record.type in ("attempt_done", "retry_scheduled")}
        assert names == {f"{Work.__module__}.Work.awaited"}
    assert not engine.hooks.ends


@COLOURS
def test_the_log_is_asked_at_each_retry(
    engine: tidegate.Engine, colour: str, shells: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Turned on while a call is under way, it writes from then on; a breaker's change is always written."""
    policy = tidegate.Policy(
        "p",
        retry={**AT_ONCE, "max_attempts": 6},
        breaker={"consecutive": 4, "break_duration": 60, "unit": "attempt"},
        engine=engine,
    )
    caplog.set_level(logging.WARNING, "tidegate")

    class Louder(Work):
        def __call__(self, *args: object) -> int:
            if self.made == 1:
                caplog.set_level(logging.INFO, "tidegate")
            return super().__call__(*args)

    with pytest.raises(ConnectionError):
        made(policy, Louder(*[ConnectionError(str(number)) for number in range(6)]), colour)
    lines = [(record.levelname, record.getMessage().split(" ", 1)[0]) for record in caplog.records]
    assert lines[:2] == [("INFO", "retry"), ("INFO", "retry")]
    assert ("WARNING", "breaker") in lines
    caplog.clear()
    caplog.set_level(logging.WARNING, "tidegate")
    with pytest.raises(tidegate.BreakerOpen):
        made(policy, Work(), colour)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_an_exception_of_any_type_is_what_the_shell_says_it_is(engine: tidegate.Engine) -> None:
    """Types are judged once, exceptions of an inner policy one by one."""

    class Own(ConnectionError):
        pass

    class Stopped(BaseException):
        pass

    refused = tidegate.RateLimited("", reason="rate_limited", retry_in=1.5, policy="p", route="r")
    busy = tidegate.BulkheadFull("", reason="queue_full", retry_in=1.5, policy="p", route="r")
    policy = tidegate.Policy(retry={}, engine=engine)

    def of(error: BaseException) -> int:
        return outcomes.of_exception(error, policy)

    assert of(Own()) == of(ConnectionError()) == outcomes.TRANSIENT == outcomes.of_type(ConnectionError)
    assert outcomes.of_type(Own) == outcomes.ASK
    assert of(Stopped()) == outcomes.STOPPED == outcomes.of_type(Stopped)
    assert of(busy) == outcomes.CONFLICT
    assert of(refused) >> 18 == 1501
    assert of(ConnectionRefusedError()) == outcomes.NEVER_SENT == outcomes.of_type(ConnectionRefusedError)
    assert of(KeyError()) == outcomes.PERMANENT
    assert of(TimeoutError()) == outcomes.TIMEOUT


def test_types_of_exceptions_are_not_kept_for_ever(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, engine=engine)
    seen = []
    for number in range(1100):
        kind = type(f"E{number}", (ConnectionError,), {})
        seen.append(weakref.ref(kind))
        assert policy.call(Work(kind())) == 2
    del kind
    gc.collect()
    assert sum(ref() is not None for ref in seen) <= 512


def test_a_second_native_attempt_has_its_time_and_is_stopped(
    engine: tidegate.Engine, both_paths: None
) -> None:
    """The first attempt suspends and is put on the loop's timer; the second gets a moment of its own."""
    policy = tidegate.Policy(retry={**AT_ONCE, "max_attempts": 2}, attempt_timeout=0.2, engine=engine)
    number = 0

    async def work() -> int:
        nonlocal number
        number += 1
        await asyncio.sleep(0.05 if number == 1 else 5)
        raise ConnectionError(str(number))

    async def main() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(tidegate.AttemptTimeout) as raised:
            await policy.acall(work)
        assert raised.value.__notes__ == ["tidegate: gave up after 2 attempts"]
        assert not any(timers.running or timers.stopped for timers in engine.timers.values())
        return loop.time() - started

    assert 0.2 <= asyncio.run(main()) < 5
    assert (number, engine.snapshot()["live"]) == (2, 0)


def test_cancelled_inside_a_second_native_attempt(engine: tidegate.Engine, both_paths: None) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, bulkhead={"max_concurrency": 1}, deadline=30, engine=engine)
    number = 0

    async def work() -> None:
        nonlocal number
        number += 1
        await asyncio.sleep(0)
        if number == 1:
            raise ConnectionError
        await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.ensure_future(policy.acall(work))
        for _ in range(9):
            await asyncio.sleep(0)
        assert number == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await policy.acall(asyncio.sleep, 0, "free") == "free"

    asyncio.run(main())
    assert engine.snapshot()["live"] == 0


def test_an_interrupt_in_a_later_attempt_is_given_up_at_once(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, bulkhead={"max_concurrency": 1}, engine=engine)
    work = Work(ConnectionError(), ConnectionError(), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        policy.call(work)
    assert (policy.call(int), engine.snapshot()["live"]) == (0, 0)


def test_a_coroutine_from_a_later_sync_attempt_is_the_wrong_colour(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, engine=engine)

    def work() -> Any:
        if not work.__dict__.setdefault("made", False):
            work.__dict__["made"] = True
            raise ConnectionError
        return asyncio.sleep(0)

    with pytest.raises(TypeError, match=r"use policy\.acall"):
        policy.call(work)


@COLOURS
def test_calls_inside_later_attempts_know_where_they_are(engine: tidegate.Engine, colour: str) -> None:
    """A policy inside does not retry while the one around it does, in any attempt."""
    outer = tidegate.Policy(retry=AT_ONCE, engine=engine)
    inner = tidegate.Policy(retry=AT_ONCE, engine=engine)
    works = [Work(*[ConnectionError()] * 9) for _ in range(4)]

    class Nests(Work):
        def __call__(self, *args: object) -> int:
            self.made += 1
            return inner.call(works[self.made - 1])

        async def awaited(self, *args: object) -> int:
            self.made += 1
            return await inner.acall(works[self.made - 1].awaited)

    with pytest.raises(ConnectionError):
        made(outer, Nests(), colour)
    assert [work.made for work in works] == [1, 1, 1, 1]


def test_a_deadline_ends_native_attempts_that_never_wait(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = quick(fake, retry={"max_attempts": 200, "backoff": {"base": 0, "max": 0}}, deadline=1)

    def work() -> None:
        clock.tick(0.3)
        raise ConnectionError

    with pytest.raises(ConnectionError) as raised:
        policy.call(work)
    assert "deadline" in raised.value.__notes__[0]
    assert 0.9 <= clock.now() <= 1.5
