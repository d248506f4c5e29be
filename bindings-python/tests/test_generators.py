"""Generator functions behind a policy: one call from the first item to the end."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate._call.deadline import current
from tidegate.testing import FakeClock


class Source:
    """Makes generators that fail at the given places: (number of the generator, items before it)."""

    def __init__(self, *failures: tuple[int, int], error: type[BaseException] = ConnectionError) -> None:
        self.failures = failures
        self.error = error
        self.made = 0
        self.closed: list[int] = []

    def items(self, count: int = 3) -> Generator[int, Any, str]:
        self.made += 1
        made = self.made
        try:
            for number in range(count):
                if (made, number) in self.failures:
                    raise self.error(f"{made}, {number}")
                yield number
            if (made, count) in self.failures:
                raise self.error(f"{made}, {count}")
        finally:
            self.closed.append(made)
        return "the end"

    async def aitems(self, count: int = 3) -> AsyncIterator[int]:
        for number in self.items(count):
            await asyncio.sleep(0)
            yield number


def listed(policy: tidegate.Caller, source: Source, colour: str, count: int = 3) -> list[int]:
    if colour == "sync":
        return list(policy(source.items)(count))

    async def main() -> list[int]:
        return [item async for item in policy(source.aitems)(count)]

    return asyncio.run(main())


COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


def ends(policy: tidegate.Policy) -> Any:
    return policy.engine.snapshot()["policies"][policy.name]["ends"]


@COLOURS
def test_a_generator_is_one_call(engine: tidegate.Engine, colour: str) -> None:
    policy = quick(engine)
    assert listed(policy, Source(), colour) == [0, 1, 2]
    assert listed(policy, Source(), colour, 0) == []
    assert ends(policy) == {"ok": 2}


@COLOURS
def test_it_is_repeated_until_the_first_item(engine: tidegate.Engine, colour: str) -> None:
    policy, source = quick(engine), Source((1, 0), (2, 0))
    assert listed(policy, source, colour) == [0, 1, 2]
    assert (source.made, source.closed, ends(policy)) == (3, [1, 2, 3], {"ok": 1})


@COLOURS
def test_it_gives_up_like_any_call(engine: tidegate.Engine, colour: str) -> None:
    policy, source = quick(engine), Source(*((n, 0) for n in range(9)))
    with pytest.raises(ConnectionError) as caught:
        listed(policy, source, colour)
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
    assert (source.made, ends(policy)) == (3, {"attempts": 1})


@COLOURS
@pytest.mark.parametrize("at", [1, 2, 3])
def test_after_the_first_item_it_is_not(engine: tidegate.Engine, colour: str, at: int) -> None:
    policy, source = quick(engine), Source((1, at))
    got: list[int] = []

    async def main() -> None:
        async for item in policy(source.aitems)():
            got.append(item)

    def take() -> None:
        for item in policy(source.items)():
            got.append(item)

    with pytest.raises(ConnectionError, match=f"1, {at}"):
        take() if colour == "sync" else asyncio.run(main())
    assert (got, source.made) == (list(range(at)), 1)
    assert ends(policy) == {"not_retryable": 1}


@COLOURS
def test_the_slot_is_held_until_the_end(engine: tidegate.Engine, colour: str) -> None:
    policy = tidegate.Policy(engine=engine, bulkhead={"max_concurrency": 1})
    other = policy.at()

    async def main() -> None:
        made = policy(Source().aitems)()
        await made.__anext__()
        with pytest.raises(tidegate.BulkheadFull):
            await other.acall(asyncio.sleep, 0)
        assert [item async for item in made] == [1, 2]
        await other.acall(asyncio.sleep, 0)

    if colour == "async":
        return asyncio.run(main())
    made = policy(Source().items)()
    next(made)
    with pytest.raises(tidegate.BulkheadFull):
        other.call(int)
    assert list(made) == [1, 2]
    assert other.call(int) == 0
    return None


@COLOURS
def test_the_slot_goes_with_the_first_item_where_the_policy_says_so(
    engine: tidegate.Engine, colour: str
) -> None:
    policy = tidegate.Policy(engine=engine, bulkhead={"max_concurrency": 1}, slot_until="headers")

    async def main() -> None:
        made = policy(Source().aitems)()
        await made.__anext__()
        await policy.acall(asyncio.sleep, 0)
        assert [item async for item in made] == [1, 2]

    if colour == "async":
        return asyncio.run(main())
    made = policy(Source().items)()
    next(made)
    assert policy.call(int) == 0
    assert list(made) == [1, 2]
    return None


@COLOURS
@pytest.mark.parametrize("how", ["close", "drop", "break"])
def test_closed_early_it_was_a_good_one(engine: tidegate.Engine, colour: str, how: str) -> None:
    policy, source = quick(engine), Source()

    async def main() -> None:
        made: Any = policy(source.aitems)()
        async for item in made:
            assert item == 0
            break
        if how == "close":
            await made.aclose()
        del made
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert engine.snapshot()["live"] == 0

    if colour == "async":
        asyncio.run(main())
    else:
        made: Any = policy(source.items)()
        for item in made:
            assert item == 0
            break
        if how == "close":
            made.close()
        del made
        gc.collect()
    assert engine.snapshot()["live"] == 0
    assert source.closed == [1]
    assert ends(policy) == {"ok": 1}


def test_one_that_nobody_starts_is_no_call(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    policy(Source().items)().close()  # type: ignore[attr-defined]
    assert ends(policy) == {}


def test_values_and_exceptions_go_in(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    @policy
    def talks() -> Generator[Any, Any, str]:
        got = yield "first"
        try:
            yield got
        except KeyError as error:
            yield error.args
        return "done"

    made = talks()
    assert next(made) == "first"
    assert made.send(5) == 5
    assert made.throw(KeyError(7)) == (7,)
    with pytest.raises(StopIteration) as stop:
        next(made)
    assert stop.value.value == "done"

    @policy
    async def atalks() -> Any:
        got = yield "first"
        try:
            yield got
        except KeyError as error:
            yield error.args

    async def main() -> None:
        made = atalks()
        assert await made.__anext__() == "first"
        assert await made.asend(5) == 5
        assert await made.athrow(KeyError(7)) == (7,)
        with pytest.raises(StopAsyncIteration):
            await made.__anext__()

    asyncio.run(main())
    assert ends(policy) == {"ok": 2}


def test_the_result_of_yield_from_is_the_generators(engine: tidegate.Engine) -> None:
    def outer() -> Iterator[int]:
        assert (yield from quick(engine)(Source().items)(2)) == "the end"  # type: ignore[misc]
        assert (yield from quick(engine)(Source((1, 0)).items)(0)) == "the end"  # type: ignore[misc]

    assert list(outer()) == [0, 1]


def test_they_are_still_what_they_were(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    assert inspect.isgeneratorfunction(policy(Source().items))
    assert inspect.isasyncgenfunction(policy(Source().aitems))
    assert policy(Source().items).__name__ == "items"


def test_inside_is_inside_and_outside_is_not(engine: tidegate.Engine) -> None:
    outer, inner, tries = quick(engine), quick(engine), []

    def failing() -> None:
        tries.append(1)
        raise ConnectionError

    def count() -> int:
        tries.clear()
        with pytest.raises(ConnectionError):
            inner.call(failing)
        return len(tries)

    @outer
    def items() -> Iterator[int]:
        yield count()
        yield count()

    @outer
    async def aitems() -> AsyncIterator[int]:
        yield count()
        yield count()

    for item in items():
        assert (item, count(), current()) == (1, 3, None)

    async def main() -> None:
        async for item in aitems():
            assert (item, count(), current()) == (1, 3, None)

    asyncio.run(main())


@COLOURS
def test_the_deadline_holds_between_items(clock: FakeClock, fake: tidegate.Engine, colour: str) -> None:
    policy = tidegate.Policy(engine=fake, deadline=5, retry={})
    source = Source()

    async def main() -> None:
        made = policy(source.aitems)()
        assert await made.__anext__() == 0
        clock.tick(6)
        with pytest.raises(tidegate.DeadlineExceeded):
            await made.__anext__()

    if colour == "async":
        asyncio.run(main())
    else:
        made = policy(source.items)()
        assert next(made) == 0
        clock.tick(6)
        with pytest.raises(tidegate.DeadlineExceeded):
            next(made)
    assert fake.snapshot()["live"] == 0
    assert source.closed == [1] or colour == "async"


@pytest.mark.parametrize("waits", ["before the first item", "after it"])
@pytest.mark.parametrize("key", ["deadline", "attempt_timeout"])
def test_an_item_that_takes_too_long_is_stopped(
    clock: FakeClock, fake: tidegate.Engine, waits: str, key: str
) -> None:
    """The deadline holds to the end; an attempt's time ends with its first item."""
    policy = tidegate.Policy(engine=fake, **{key: 5})  # type: ignore[arg-type]
    unwound = []

    @policy
    async def items() -> AsyncIterator[int]:
        try:
            if waits == "after it":
                yield 0
            await clock.sleep(50)
            yield 1
        finally:
            unwound.append(1)

    async def take() -> list[int]:
        return [item async for item in items()]

    async def main() -> None:
        task = asyncio.create_task(take())
        await clock.advance(100)
        if waits == "after it" and key == "attempt_timeout":
            assert await task == [0, 1]
        else:
            kind = tidegate.DeadlineExceeded if key == "deadline" else tidegate.AttemptTimeout
            with pytest.raises(kind):
                await task
            if sys.version_info >= (3, 11):
                assert task.cancelling() == 0
        assert unwound == [1]

    asyncio.run(main())


def test_a_consumer_that_is_slow_is_not_stopped(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, deadline=5)

    async def main() -> None:
        made = policy(Source().aitems)()
        await made.__anext__()
        task = asyncio.create_task(clock.sleep(20))
        await clock.advance(30)
        await task
        with pytest.raises(tidegate.DeadlineExceeded):
            await made.__anext__()

    asyncio.run(main())


def test_cancelled_while_it_makes_an_item(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=engine, bulkhead={"max_concurrency": 1}, deadline=60)

    @policy
    async def items(first: bool) -> AsyncIterator[int]:
        if first:
            yield 0
        await asyncio.sleep(60)
        yield 1

    async def take(first: bool) -> None:
        async for _ in items(first):
            pass

    async def main() -> None:
        for first in (True, False):
            task = asyncio.create_task(take(first))
            for _ in range(4):
                await asyncio.sleep(0)
            assert engine.snapshot()["live"] == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert engine.snapshot()["live"] == 0

    asyncio.run(main())


def test_a_loop_that_ends_closes_a_generator_that_was_left_open(engine: tidegate.Engine) -> None:
    policy, closed, told = quick(engine, bulkhead={"max_concurrency": 1}), list[int](), list[Any]()

    @policy
    async def items() -> AsyncIterator[int]:
        try:
            yield 0
        finally:
            await asyncio.sleep(0)
            closed.append(1)

    async def main() -> AsyncIterator[int]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        made = items()
        assert await made.__anext__() == 0
        return made

    made = asyncio.run(main())
    assert (closed, told) == ([1], [])
    assert policy.snapshot()["ends"] == {"ok": 1}
    del made


@COLOURS
def test_classify_sees_failures_and_an_end_without_items(engine: tidegate.Engine, colour: str) -> None:
    seen: list[Any] = []

    def classify(subject: Any) -> Any:
        seen.append(subject)
        return "transient" if isinstance(subject, KeyError) else None

    source = Source((1, 0), error=KeyError)
    assert listed(quick(engine, classify=classify), source, colour) == [0, 1, 2]
    assert [type(subject) for subject in seen] == [KeyError]
    listed(quick(engine, classify=classify), Source(), colour, 0)
    assert seen[1:] == (["the end"] if colour == "sync" else [None])


def test_a_generator_under_an_attempt_timeout_takes_its_time(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=2)
    with pytest.raises(TypeError, match="pass_timeout"):
        next(policy(Source().items)())

    @policy.at(pass_timeout="timeout")
    def items(*, timeout: float = 0) -> Iterator[float]:
        yield timeout

    assert list(items()) == [2.0]
