"""The native happy path: the same as the shells, coroutines in all but name."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import random
import sys
import types
from collections.abc import Coroutine, Iterator
from typing import Any
from unittest import mock

import anyio
import pytest

import tidegate
from conftest import quick
from fast import guarded, suspend
from tidegate._native import awaitable_type
from tidegate.testing import FakeClock

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
    monkeypatch.setattr("tidegate._call.caller.FAST", fast)
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
    monkeypatch.setattr("tidegate._call.caller.FAST", False)
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
    assert inspect.iscoroutinefunction(functools.partial(policy.acall, suspend))
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
    monkeypatch.setattr("tidegate._call.caller.FAST", fast)
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


@pytest.mark.parametrize("suspends", [0, 1])
@pytest.mark.parametrize("result", [None, 7, (), (1, 2), ValueError("a value"), StopIteration(3), KeyError])
def test_any_result_arrives_by_every_way(engine: tidegate.Engine, result: Any, suspends: int) -> None:
    policy = quick(engine)

    async def work() -> Any:
        await suspend(suspends)
        return result

    def ended(step: Any) -> Any:
        for _ in range(suspends):
            step()
        with pytest.raises(StopIteration) as stop:
            step()
        return stop.value.value

    @types.coroutine
    def around() -> Any:
        return (yield from policy.acall(work))

    async def main() -> None:
        assert await policy.acall(work) is result
        assert await asyncio.create_task(policy.acall(work)) is result
        assert await around() is result
        sent, iterated = policy.acall(work), policy.acall(work)
        assert ended(lambda: sent.send(None)) is result
        assert ended(lambda: next(iterated)) is result  # type: ignore[call-overload]
        try:
            raise KeyError
        except KeyError as handled:
            assert await policy.acall(work) is result
            errors.append((sys.exc_info()[1], handled))

    errors: list[Any] = []
    asyncio.run(main())
    assert errors[0][0] is errors[0][1]


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


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a task counts its cancellations from 3.11 on")
@pytest.mark.parametrize("fast", [True, False])
def test_a_cancellation_from_before_the_call_is_not_taken_for_ours(
    clock: FakeClock, fake: tidegate.Engine, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._call.caller.FAST", fast)
    policy = tidegate.Policy(engine=fake, attempt_timeout=5)

    async def body() -> None:
        try:
            await clock.sleep(100)
        except asyncio.CancelledError:
            pass  # swallowed: the task still counts it
        with pytest.raises(tidegate.AttemptTimeout):
            await policy.acall(clock.sleep, 100)

    async def main() -> None:
        task = asyncio.create_task(body())
        await clock.advance(1)
        task.cancel()
        await clock.advance(20)
        await task
        assert task.cancelling() == 1

    asyncio.run(main())
