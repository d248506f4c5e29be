"""The native happy path: the same as the shells, coroutines in all but name, and nothing left behind."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import random
import signal
import sys
import threading
import time
import types
import weakref
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import anyio
import pytest

import tidegate
from conftest import quick
from tidegate._deadline import SCOPE, current
from tidegate._native import awaitable_type
from tidegate.testing import FakeClock


def guarded(engine: tidegate.Engine, limit: int = 1, **rest: Any) -> tidegate.Policy:
    """A policy with a queue of any length."""
    bulkhead = {"max_concurrency": limit, "max_queue": None, "acquire_timeout": None}
    return tidegate.Policy(engine=engine, bulkhead=bulkhead, **rest)


async def suspend(times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


# The same as the shells.


class Script:
    """What a function does on each of its calls, and what became of it: drawn from a seed."""

    def __init__(self, seed: int, policy: tidegate.Policy) -> None:
        self.random = random.Random(seed)
        self.policy = policy
        self.depth = 0

    def step(self) -> Any:
        draw = self.random.random()
        if draw < 0.25:
            raise ConnectionError(f"e{self.random.randrange(9)}")
        if draw < 0.32:
            raise ValueError("a bug")
        if draw < 0.36:
            raise GeneratorExit if self.random.random() < 0.5 else KeyboardInterrupt
        return self.random.randrange(100)

    def sync(self, *args: int, key: int = 0) -> Any:
        if self.depth < 2 and self.random.random() < 0.3:
            self.depth += 1
            try:
                return self.policy.call(self.sync, 1, key=2)
            finally:
                self.depth -= 1
        return self.step(), args, key

    async def wait(self, *args: int, key: int = 0) -> Any:
        await suspend(self.random.randrange(3))
        if self.depth < 2 and self.random.random() < 0.3:
            self.depth += 1
            try:
                return await self.policy.acall(self.wait, 1, key=2)
            finally:
                self.depth -= 1
        return self.step(), args, key


async def outcome(work: Any) -> Any:
    try:
        value = work()
        return "value", (await value if inspect.isawaitable(value) else value)
    except BaseException as error:
        return type(error), error.args, getattr(error, "__notes__", None)


def story(seed: int, fast: bool, colour: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("tidegate._policy.FAST", fast)
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=seed, clock=clock)
    draw = random.Random(seed)
    settings: dict[str, Any] = {"retry": {"max_attempts": draw.randrange(1, 4)}}
    if draw.random() < 0.5:
        settings["bulkhead"] = {"max_concurrency": draw.randrange(1, 3)}
    if draw.random() < 0.5:
        settings["deadline"] = draw.choice([0.3, 5])
    policy = tidegate.Policy("p", engine=engine, **settings)
    script = Script(seed, policy)

    def call() -> Any:
        return policy.call(script.sync, 7, key=8) if colour == "sync" else policy.acall(script.wait, 7, key=8)

    async def main() -> list[Any]:
        told = []
        for _ in range(8):
            told.append(await outcome(call))
            clock.tick(draw.random())
        return told

    return asyncio.run(main()), clock.now(), engine.snapshot()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_native_and_shell_tell_the_same_story(colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = set()
    for seed in range(60):
        native, shell = (story(seed, fast, colour, monkeypatch) for fast in (True, False))
        assert native == shell, seed
        kinds |= {told[0] for told in native[0]}
    assert {"value", ConnectionError, ValueError} <= kinds


def test_the_switch_switches(engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for name in ("_begun", "_failed", "_abegun", "_afailed"):
        before = getattr(tidegate.Caller, name)

        def spy(self: Any, *args: Any, before: Any = before, name: str = name) -> Any:
            seen.append(name)
            return before(self, *args)

        monkeypatch.setattr(tidegate.Caller, name, spy)
    native = quick(engine)
    monkeypatch.setattr("tidegate._policy.FAST", False)
    shell = quick(engine)
    assert (native.call(int), asyncio.run(native.acall(asyncio.sleep, 0, 1)), seen) == (0, 1, [])
    assert (shell.call(int), asyncio.run(shell.acall(asyncio.sleep, 0, 1))) == (0, 1)
    assert seen == ["_begun", "_abegun"]


# Methods.


def test_the_methods_are_what_their_functions_say(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    assert "in this thread" in (policy.call.__doc__ or "")
    assert policy.acall.__name__ == "acall"
    assert list(inspect.signature(policy.call).parameters) == ["fn", "args", "kwargs"]
    assert inspect.iscoroutinefunction(policy.acall)
    assert asyncio.iscoroutinefunction(functools.partial(policy.acall, suspend))
    assert not inspect.iscoroutinefunction(policy.call)
    assert inspect.ismethod(policy.call)
    assert mock.create_autospec(policy).call.return_value is not None
    assert tidegate.Caller.call(policy, max, 3, 4) == 4
    assert functools.partial(policy.call, max)(*[1, 2], key=lambda x: -x) == 1
    assert policy.call(*(max, 1, 2, 3, 4, 5)) == 5
    assert asyncio.run(policy.acall(*(asyncio.sleep,), delay=0, result=3)) == 3


@pytest.mark.parametrize("name", ["call", "acall"])
def test_wrong_arguments(engine: tidegate.Engine, name: str) -> None:
    with pytest.raises(TypeError, match="missing the function"):
        getattr(quick(engine), name)()
    with pytest.raises(TypeError):
        getattr(tidegate.Caller, name)(int, int)
    with pytest.raises(TypeError):
        getattr(tidegate.Caller, name)()
    with pytest.raises(RuntimeError, match="has not been made"):
        getattr(tidegate.Caller(), name)(int)
    with pytest.raises(TypeError):
        quick(engine).call(3)  # type: ignore[arg-type]
    assert engine.snapshot()["live"] == 0


def test_a_subclass_may_put_its_own_around(engine: tidegate.Engine) -> None:
    class Counting(tidegate.Policy):
        made = 0

        def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            self.made += 1
            return super().call(fn, *args, **kwargs)

    policy = Counting(engine=engine, retry={})
    assert (policy.call(int), policy.made) == (0, 1)
    with mock.patch.object(tidegate.Policy, "call", return_value=7):
        assert quick(engine).call(int) == 7
    assert quick(engine).call(int) == 0


@pytest.mark.parametrize("fast", [True, False])
def test_the_wrong_colour_is_told(
    engine: tidegate.Engine, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._policy.FAST", fast)
    policy, other = quick(engine), quick(engine)
    with pytest.raises(TypeError, match=r"async function \(<function suspend.*use policy\.acall"):
        policy.call(suspend)
    with pytest.raises(TypeError, match=r"use policy\.acall"):
        policy.call(lambda: suspend())
    with pytest.raises(TypeError, match=r"use policy\.acall"):
        policy.call(other.acall, suspend)
    with pytest.raises(TypeError, match=r"not async \(<class 'int'> returned int\): use policy\.call"):
        asyncio.run(policy.acall(int))  # type: ignore[arg-type]
    ends = engine.snapshot()["policies"][policy.name]["ends"]
    assert ends == {"not_retryable": 4}


# A coroutine in all but name.


def test_it_is_taken_for_a_coroutine(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    async def main() -> None:
        made = policy.acall(suspend)
        assert type(made) is awaitable_type()
        assert isinstance(made, Coroutine) and asyncio.iscoroutine(made) and inspect.isawaitable(made)
        assert not made.cr_running and not made.cr_suspended and made.cr_await is None
        task = asyncio.create_task(made)
        await asyncio.sleep(0)
        assert made.cr_suspended
        assert made.cr_await.__name__ == "suspend"
        assert "suspend" in str(task.get_stack())
        assert "Caller.acall" in repr(task)
        await task
        assert made.cr_await is None and made.cr_frame is None
        assert await asyncio.wait_for(policy.acall(asyncio.sleep, 0, 3), 1) == 3
        assert await asyncio.ensure_future(policy.acall(asyncio.sleep, 0, 4)) == 4
        assert await asyncio.shield(policy.acall(asyncio.sleep, 0, 5)) == 5
        assert await asyncio.gather(*(policy.acall(asyncio.sleep, 0, n) for n in range(9))) == list(range(9))
        done, _ = await asyncio.wait([asyncio.create_task(policy.acall(suspend))])
        assert len(done) == 1
        async with anyio.create_task_group() as group:
            group.start_soon(policy.acall, suspend)
        if sys.version_info >= (3, 11):
            async with asyncio.TaskGroup() as tasks:
                made = tasks.create_task(policy.acall(asyncio.sleep, 0, 6))
            assert made.result() == 6
        if sys.version_info >= (3, 12):
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            assert await asyncio.create_task(policy.acall(asyncio.sleep, 0, 7)) == 7

    asyncio.run(main(), debug=True)
    asyncio.run(main())
    assert asyncio.run(policy.acall(suspend)) is None


def test_whatever_can_be_awaited_is(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    class Later:
        def __await__(self) -> Iterator[Any]:
            yield from policy.acall(suspend).__await__()
            return 5

    @types.coroutine
    def old() -> Any:
        yield
        return 6

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, 7)
        return [
            await policy.acall(Later),
            await policy.acall(old),
            await policy.acall(lambda: future),
            await policy.acall(policy.acall, asyncio.sleep, 0, 8),
            await policy.acall(functools.partial(asyncio.sleep, 0, 9)),
        ]

    assert asyncio.run(main()) == [5, 6, 7, 8, 9]


def test_the_protocol_by_hand(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    @types.coroutine
    def steps() -> Any:
        got = []
        for number in range(2):
            try:
                got.append((yield number))
            except KeyError as error:
                got.append(error.args)
        return tuple(got)

    made = policy.acall(steps)
    with pytest.raises(TypeError, match="just-started"):
        made.send(1)
    assert made.send(None) == 0
    assert made.send("a") == 1
    with pytest.raises(StopIteration) as stop:
        made.throw(KeyError("b"))
    assert stop.value.value == ("a", ("b",))
    for again in (lambda: made.send(None), lambda: made.throw(KeyError()), lambda: next(made)):  # type: ignore[call-overload]
        with pytest.raises(RuntimeError, match="already awaited"):
            again()
    made.close()
    made = policy.acall(steps)
    with pytest.raises(KeyError):
        made.throw(KeyError("early"))
    with pytest.raises(RuntimeError, match="already awaited"):
        made.send(None)
    assert engine.snapshot()["policies"].get(policy.name, {"attempts": 1})["attempts"] == 1
    returned = policy.acall(lambda: steps())
    assert [next(iter(returned)), next(iter(returned))] == [0, 1]  # type: ignore[call-overload]
    returned.close()


def test_it_is_not_entered_twice(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    made: Any = None
    seen: list[Any] = []

    async def inside() -> None:
        seen.append((made.cr_running, made.cr_suspended, made.cr_frame, made.cr_await))
        for again in (lambda: made.send(None), made.close, lambda: made.throw(KeyError())):
            with pytest.raises(ValueError, match="already executing"):
                again()

    made = policy.acall(inside)
    asyncio.run(made)
    assert seen == [(True, False, None, None)]


def test_never_awaited_is_warned_of(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    with pytest.warns(RuntimeWarning, match=r"'Caller\.acall' of <function suspend .* was never awaited"):
        policy.acall(suspend)
    assert engine.snapshot()["policies"][policy.name]["attempts"] == 0


@pytest.mark.parametrize("ending", ["close", "drop", "cycle", "exit"])
@pytest.mark.parametrize("settings", [{}, {"deadline": 5}, {"attempt_timeout": 5}])
@pytest.mark.parametrize("phase", ["user", "shell"])
def test_thrown_away_half_way(
    engine: tidegate.Engine, ending: str, phase: str, settings: dict[str, Any]
) -> None:
    """Wherever it stands the call ends, once, and the user's coroutine has unwound."""
    policy = guarded(engine, retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}}, **settings)
    unwound: list[int] = []
    failing = [phase == "shell"]

    async def hang() -> None:
        if failing.pop():
            failing.append(False)
            raise ConnectionError
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            unwound.append(1)

    async def main() -> None:
        made: Any = policy.acall(hang)
        made.send(None)
        assert engine.snapshot()["live"] == 1
        if ending == "close":
            made.close()
            made.close()
        elif ending == "exit":
            with pytest.raises(GeneratorExit):
                made.throw(GeneratorExit())
        elif ending == "cycle":
            box = [made]
            box.append(box)
        del made
        box = []
        gc.collect()
        assert engine.snapshot()["live"] == 0
        assert unwound == [1]
        assert await policy.acall(asyncio.sleep, 0, "free") == "free"

    asyncio.run(main())


def test_a_coroutine_that_ignores_its_end(engine: tidegate.Engine) -> None:
    @types.coroutine
    def stubborn() -> Any:
        while True:
            try:
                yield
            except GeneratorExit:
                yield

    made: Any = guarded(engine).acall(lambda: wrapped(stubborn()))
    made.send(None)
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        made.close()
    assert engine.snapshot()["live"] == 0


async def wrapped(inner: Any) -> Any:
    return await inner


def test_a_deadline_needs_a_task(engine: tidegate.Engine) -> None:
    made: Any = guarded(engine, deadline=5).acall(wrapped, types.coroutine(lambda: (yield))())
    with pytest.raises(RuntimeError):
        made.send(None)
    assert engine.snapshot()["live"] == 0


# Nothing is left behind.


class Thing:
    pass


@pytest.mark.parametrize("how", ["returns", "raises", "retries", "cancelled", "timeout", "classified"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_nothing_is_kept(engine: tidegate.Engine, colour: str, how: str) -> None:
    """Functions, arguments, results and exceptions die with their last reference, without the collector."""
    if colour == "sync" and how in ("cancelled", "timeout"):
        how = "interrupted"
    settings: dict[str, Any] = {"retry": {"max_attempts": 2, "backoff": {"base": 0, "max": 0}}}
    if how == "timeout":
        settings = {"attempt_timeout": 0.01}
    policy = tidegate.Policy(
        engine=engine, classify=(lambda _: None) if how == "classified" else None, **settings
    )
    seen: list[weakref.ref[Any]] = []

    def kept(thing: Any) -> Any:
        seen.append(weakref.ref(thing))
        return thing

    class Broken(ConnectionError):
        pass

    class Interrupted(KeyboardInterrupt):
        pass

    def work(thing: Thing, *, key: Thing) -> Thing:
        del thing, key
        if how == "raises" or (how == "retries" and len(seen) < 4):
            raise kept(Broken())
        if how == "interrupted":
            raise kept(Interrupted())
        return kept(Thing())  # type: ignore[no-any-return]

    async def awork(thing: Thing, *, key: Thing) -> Thing:
        await suspend()
        if how in ("cancelled", "timeout"):
            await asyncio.sleep(0.5)
        return work(thing, key=key)

    def once() -> None:
        def fn(*args: Any, **kwargs: Any) -> Any:
            return (work if colour == "sync" else awork)(*args, **kwargs)

        kept(fn)
        try:
            if colour == "sync":
                kept(policy.call(fn, kept(Thing()), key=kept(Thing())))
            else:
                asyncio.run(main(fn))
        except (Broken, tidegate.AttemptTimeout, KeyboardInterrupt):
            pass

    async def main(fn: Any) -> None:
        if how == "cancelled":
            task = asyncio.create_task(policy.acall(fn, kept(Thing()), key=kept(Thing())))
            await suspend(3)
            task.cancel()
            await asyncio.wait([task])
        else:
            made = policy.acall(fn, kept(Thing()), key=kept(Thing()))
            kept(await made)

    gc.collect()
    gc.disable()
    try:
        once()
        if how in ("cancelled", "timeout", "raises", "retries", "interrupted"):
            gc.collect()  # asyncio.run and a traceback of our own frames
        alive = [ref() for ref in seen if ref() is not None]
    finally:
        gc.enable()
    assert len(seen) >= 3
    assert alive == []


def test_counts_of_references_stay(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=engine, retry={})
    marker, none = Thing(), sys.getrefcount(None)

    def work(thing: Thing, *, key: Thing) -> Thing:
        return key if thing is marker else thing

    async def awork(thing: Thing, *, key: Thing) -> Thing:
        await suspend()
        return key

    async def main() -> None:
        for _ in range(500):
            assert await policy.acall(awork, marker, key=marker) is marker

    def before() -> list[int]:
        things: list[Any] = [marker, work, awork, policy, engine, engine.native, True, awaitable_type()]
        return [sys.getrefcount(thing) for thing in things]

    asyncio.run(main())
    told = before()
    for _ in range(500):
        assert policy.call(work, marker, key=marker) is marker
    asyncio.run(main())
    gc.collect()
    assert [now - then for now, then in zip(before(), told, strict=True)] == pytest.approx([0] * 8, abs=5)
    if sys.version_info < (3, 12):
        assert abs(sys.getrefcount(None) - none) < 300


@pytest.mark.parametrize("turns", range(12))
@pytest.mark.parametrize("settings", [{}, {"deadline": 60}, {"attempt_timeout": 60}])
def test_cancelled_at_every_await_point(
    engine: tidegate.Engine, turns: int, settings: dict[str, Any]
) -> None:
    policy = guarded(engine, retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}}, **settings)

    async def work(fails: list[int]) -> str:
        await suspend(2)
        if fails:
            fails.pop()
            raise ConnectionError
        await suspend(2)
        return "done"

    async def main() -> None:
        victim = asyncio.create_task(policy.acall(work, [1]))
        waiter = asyncio.create_task(policy.acall(work, []))
        await suspend(turns)
        victim.cancel()
        results = await asyncio.wait_for(asyncio.gather(victim, waiter, return_exceptions=True), 5)
        assert results[1] == "done"
        assert results[0] == "done" or isinstance(results[0], asyncio.CancelledError)
        view = engine.snapshot()
        assert (view["live"], view["waiting"]) == (0, 0)

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
@pytest.mark.parametrize("fast", [True, False])
def test_an_interrupt_at_any_moment_loses_no_call(
    engine: tidegate.Engine, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._policy.FAST", fast)
    retry = {"max_attempts": 2, "backoff": {"base": 0, "max": 0}, "budget": None}
    policy = guarded(engine, retry=retry)
    struck = 0

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def work(times: list[int]) -> int:
        if times:
            times.pop()
            raise ConnectionError
        return 1

    before = signal.signal(signal.SIGALRM, interrupt)
    draw = random.Random(3)
    until = time.monotonic() + 2
    try:
        while time.monotonic() < until:
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(2e-6, 3e-4))
                    for _ in range(300):
                        policy.call(work, [1] if draw.random() < 0.3 else [])
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                struck += 1
            view = engine.snapshot()
            assert (view["live"], view["lingering"], view["waiting"]) == (0, 0, 0)
            assert current() is None
    finally:
        signal.signal(signal.SIGALRM, before)
    assert struck > 100
    assert policy.call(work, []) == 1


# Many at once.


def test_eight_threads_hammer_one_policy(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=engine,
        bulkhead={"max_concurrency": 3, "max_queue": None, "acquire_timeout": None},
        retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}, "budget": None},
    )
    guard, inside, peak = threading.Lock(), 0, 0

    def work(number: int) -> int:
        nonlocal inside, peak
        with guard:
            inside += 1
            peak = max(peak, inside)
        if number % 50 == 0:
            time.sleep(0.0001)  # lets the others run into the limit
        with guard:
            inside -= 1
        if number % 7 == 0 and number not in failed:
            failed.add(number)
            raise ConnectionError
        return number

    async def awork(number: int) -> int:
        await suspend(number % 3)
        return work(number)

    failed: set[int] = set()

    def sync(start: int) -> int:
        return sum(policy.call(work, number) for number in range(start, start + 400))

    def loop(start: int) -> int:
        async def main() -> int:
            return sum(await asyncio.gather(*(policy.acall(awork, n) for n in range(start, start + 400))))

        return asyncio.run(main())

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(sync if at % 2 else loop, at * 400) for at in range(8)]
        total = sum(job.result(60) for job in jobs)
    assert total == sum(range(3200))
    assert peak == 3
    ends = engine.snapshot()["policies"][policy.name]
    assert ends["ends"] == {"ok": 3200}
    assert ends["attempts"] == 3200 + len(failed)


def test_the_fast_path_wakes_a_waiting_thread_and_a_waiting_task(engine: tidegate.Engine) -> None:
    policy = guarded(engine)
    started, release = threading.Event(), threading.Event()
    times: list[float] = []

    def hold() -> None:
        started.set()
        release.wait(10)
        times.append(time.monotonic())

    def thread() -> None:
        policy.call(lambda: times.append(time.monotonic()))

    async def main() -> None:
        holder = asyncio.to_thread(policy.call, hold)
        tasks = [asyncio.create_task(holder)]
        await asyncio.to_thread(started.wait, 10)
        other = threading.Thread(target=thread)
        other.start()
        await asyncio.to_thread(until, lambda: engine.snapshot()["waiting"] == 1)

        async def mine() -> None:
            times.append(time.monotonic())

        tasks.append(asyncio.create_task(policy.acall(mine)))
        await asyncio.sleep(0.01)
        assert engine.snapshot()["waiting"] == 2
        release.set()
        await asyncio.gather(*tasks)
        other.join(10)

    asyncio.run(main())
    assert len(times) == 3
    assert max(times) - min(times) < 0.3  # not at the next look after max_park


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_who_gives_up_wakes_who_waits(
    engine: tidegate.Engine, colour: str, fast: bool, attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, not at the waiter's next look."""
    monkeypatch.setattr("tidegate._policy.FAST", fast)
    policy = guarded(engine, retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}})
    times: list[float] = []
    tries: list[int] = []
    other = threading.Thread(target=policy.call, args=(lambda: times.append(time.monotonic()),))

    def gives_up() -> None:
        tries.append(1)
        if len(tries) < attempt:
            raise ConnectionError
        other.start()
        until(lambda: engine.snapshot()["waiting"] == 1)
        times.append(time.monotonic())
        raise asyncio.CancelledError

    async def agives_up() -> None:
        await suspend()
        gives_up()

    with pytest.raises(asyncio.CancelledError):
        policy.call(gives_up) if colour == "sync" else asyncio.run(policy.acall(agives_up))
    other.join(10)
    assert len(times) == 2
    assert times[1] - times[0] < 0.3


def until(true: Any) -> None:
    while not true():
        time.sleep(0.001)


# What is around a call.


def tries_of(call: Any) -> int:
    made: list[int] = []

    def failing() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        call(failing)
    return len(made)


async def atries_of(policy: tidegate.Policy) -> int:
    made: list[int] = []

    async def failing() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await policy.acall(failing)
    return len(made)


def quicker(engine: tidegate.Engine) -> tidegate.Policy:
    return tidegate.Policy(
        engine=engine, retry={"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}
    )


def test_calls_nest_on_a_thread(engine: tidegate.Engine) -> None:
    outer, inner, third = quicker(engine), quicker(engine), quicker(tidegate.Engine(seed=2))
    assert outer.call(lambda: tries_of(inner.call)) == 1
    assert outer.call(lambda: third.call(lambda: tries_of(inner.call))) == 1
    assert third.call(lambda: tries_of(inner.call)) == 3
    assert outer.call(lambda: (inner.call(int), tries_of(inner.call))[1]) == 1
    assert outer.call(lambda: asyncio.run(atries_of(inner))) == 1
    assert outer.call(lambda: next(iter([tries_of(inner.call)]))) == 1
    assert tries_of(inner.call) == 3
    assert current() is None

    def loops() -> int:
        made = 0
        try:
            for attempt in inner.attempts():
                with attempt:
                    made += 1
                    raise ConnectionError
        except ConnectionError:
            pass
        return made

    assert outer.call(loops) == 1
    assert loops() == 3


def test_deadlines_hold_inside_calls_that_set_nothing(clock: FakeClock, fake: tidegate.Engine) -> None:
    outer, inner = tidegate.Policy(engine=fake, retry={}), tidegate.Policy(engine=fake, retry={})

    def within() -> None:
        with tidegate.deadline(5):
            assert inner.call(lambda: current()) is not None
            clock.tick(6)
            with pytest.raises(tidegate.DeadlineExceeded):
                inner.call(int)
        inner.call(int)

    outer.call(within)
    with tidegate.deadline(3):
        outer.call(lambda: clock.tick(4))
        with pytest.raises(tidegate.DeadlineExceeded):
            outer.call(int)


def test_calls_nest_in_tasks(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)

    async def gathered() -> list[int]:
        return await asyncio.gather(*(atries_of(inner) for _ in range(3)))

    async def later(gate: asyncio.Event) -> int:
        await gate.wait()
        return await atries_of(inner)

    async def main() -> None:
        assert await outer.acall(atries_of, inner) == 1
        assert await outer.acall(gathered) == [1, 1, 1]
        assert await outer.acall(asyncio.to_thread, tries_of, inner.call) == 1
        assert await atries_of(inner) == 3
        assert await outer.acall(twice) == (1, 1)
        assert current() is None
        gate = asyncio.Event()

        async def spawn() -> asyncio.Task[int]:
            return asyncio.create_task(later(gate))

        task = await outer.acall(spawn)
        older = asyncio.create_task(later(gate))
        gate.set()
        assert await task == 3  # the call that it was made in has ended
        assert await older == 3
        assert await outer.acall(asyncio.wait_for, asyncio.create_task(later(gate)), 1) == 3
        assert await outer.acall(mixed) == 1

    async def twice() -> tuple[int, int]:
        await inner.acall(suspend)
        return await atries_of(inner), await atries_of(inner)

    async def mixed() -> int:
        return inner.call(lambda: tries_of(inner.call))

    asyncio.run(main())


def test_siblings_are_not_nested_while_a_call_is_suspended(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)

    async def main() -> None:
        gate = asyncio.Event()
        await outer.acall(suspend)
        holder = asyncio.create_task(outer.acall(gate.wait))
        await suspend(2)
        assert engine.snapshot()["live"] == 1
        assert await atries_of(inner) == 3
        assert tries_of(inner.call) == 3
        gate.set()
        await holder

    asyncio.run(main())


def test_where_there_are_greenlets_the_variable_tells(
    engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, inner = quicker(engine), quicker(engine)
    before = SCOPE.get()
    assert outer.call(SCOPE.get) is before
    monkeypatch.setitem(sys.modules, "greenlet", types.ModuleType("greenlet"))
    assert outer.call(SCOPE.get)[0] is engine
    assert outer.call(lambda: tries_of(inner.call)) == 1
    assert tries_of(outer.call) == 3
    assert outer.call(lambda: contextless(tries_of, inner.call)) == 3
    assert SCOPE.get() is before
    monkeypatch.undo()
    assert outer.call(SCOPE.get) is before


def contextless(fn: Any, *args: Any) -> Any:
    from contextvars import Context

    return Context().run(fn, *args)


def test_an_older_context_is_not_the_inside_of_a_call(engine: tidegate.Engine) -> None:
    outer, inner = quicker(engine), quicker(engine)
    with tidegate.deadline(60):
        assert outer.call(lambda: contextless(tries_of, inner.call)) == 3
    assert outer.call(lambda: copy.copy(tries_of(inner.call))) == 1
