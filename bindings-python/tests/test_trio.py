"""Under trio, alone and beside threads and event loops of asyncio: the same calls, the same ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import trio
import trio.lowlevel

import tidegate
from conftest import Origin, quick
from fast import guarded
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")


class Flaky:
    """Fails a number of times, then works."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.tries = 0

    async def __call__(self) -> int:
        await trio.lowlevel.checkpoint()
        self.tries += 1
        if self.tries <= self.failures:
            raise ConnectionError("no")
        return self.tries


def timed(engine: tidegate.Engine, attempts: int = 3, **rest: Any) -> tidegate.Policy:
    """Attempts of 5 s, a second apart."""
    backoff = {"base": 1, "max": 1, "jitter": "none"}
    return tidegate.Policy(
        engine=engine, attempt_timeout=5, retry={"max_attempts": attempts, "backoff": backoff}, **rest
    )


@pytest.fixture
def jumping() -> FakeClock:
    return FakeClock(autojump=True)


def engine_of(clock: FakeClock) -> tidegate.Engine:
    return tidegate.Engine(seed=1, clock=clock)


def test_a_call_retries(engine: tidegate.Engine) -> None:
    assert trio.run(quick(engine).acall, Flaky(2)) == 3


def test_a_call_without_a_timer_and_one_with_one(engine: tidegate.Engine) -> None:
    for deadline in (None, 30.0):
        assert trio.run(quick(engine, deadline=deadline).acall, Flaky(0)) == 1


def test_a_decorated_function_and_a_loop(engine: tidegate.Engine) -> None:
    policy, seen = quick(engine, deadline=30), []
    flaky = policy(Flaky(1).__call__)

    async def main() -> int:
        async for attempt in policy.attempts():
            with attempt:
                seen.append(attempt.num)
                await trio.lowlevel.checkpoint()
                if attempt.num < 3:
                    raise ConnectionError
        return await flaky()

    assert trio.run(main) == 2
    assert seen == [1, 2, 3]


def test_an_attempt_that_is_too_slow_is_stopped(jumping: FakeClock) -> None:
    policy, stopped = timed(engine_of(jumping)), []

    async def slow() -> None:
        try:
            await jumping.sleep(100)
        except trio.Cancelled:
            stopped.append(jumping.now())
            raise

    with pytest.raises(tidegate.AttemptTimeout) as caught:
        trio.run(policy.acall, slow)
    assert stopped == [5, 11, 17]
    assert isinstance(caught.value.__cause__, trio.Cancelled)


def test_a_deadline_ends_a_call(jumping: FakeClock) -> None:
    policy = tidegate.Policy(engine=engine_of(jumping), deadline=7)
    with pytest.raises(tidegate.DeadlineExceeded):
        trio.run(policy.acall, jumping.sleep, 100)
    assert jumping.now() == 7


def test_a_good_answer_of_a_stopped_attempt_is_kept(jumping: FakeClock) -> None:
    async def stubborn() -> str:
        try:
            await jumping.sleep(100)
        except trio.Cancelled:
            return "all the same"
        return "never"

    assert trio.run(timed(engine_of(jumping)).acall, stubborn) == "all the same"


def test_an_error_that_a_stop_has_become_is_ours(jumping: FakeClock) -> None:
    async def turns() -> None:
        try:
            await jumping.sleep(100)
        except trio.Cancelled as error:
            raise ValueError from error

    with pytest.raises(tidegate.AttemptTimeout):
        trio.run(timed(engine_of(jumping)).acall, turns)
    assert jumping.now() == 17


def test_a_group_that_a_stop_has_become_is_ours(jumping: FakeClock) -> None:
    async def breaks() -> None:
        try:
            await jumping.sleep(100)
        finally:
            raise ValueError

    async def grouped() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(breaks)
            nursery.start_soon(jumping.sleep, 100)

    with pytest.raises(tidegate.AttemptTimeout):
        trio.run(timed(engine_of(jumping), attempts=1).acall, grouped)


@pytest.mark.parametrize("after", [2.0, 5.0, 5.5, 12.0])
def test_a_cancellation_from_outside_is_the_callers(jumping: FakeClock, after: float) -> None:
    """In the first attempt, as it is stopped, in the wait after it, in the third."""
    policy, seen = timed(engine_of(jumping)), []

    async def call() -> None:
        try:
            await policy.acall(jumping.sleep, 100)
        except BaseException as error:
            seen.append(type(error))
            raise

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await jumping.sleep(after)
                scope.cancel()

    trio.run(main)
    assert seen == [trio.Cancelled]
    assert policy.snapshot()["ends"] == {"cancelled": 1}


def test_users_scopes_inside_are_their_own(jumping: FakeClock) -> None:
    async def moves_on() -> str:
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.sleep_forever()
        return "moved on"

    assert trio.run(timed(engine_of(jumping)).acall, moves_on) == "moved on"


def test_a_queue_hands_over_between_tasks(engine: tidegate.Engine) -> None:
    policy, order = guarded(engine), []

    async def work(number: int) -> None:
        order.append(number)
        await trio.sleep(0.001)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(policy.acall, work, number)

    trio.run(main)
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_one_policy_for_threads_loops_and_trio_at_once(engine: tidegate.Engine) -> None:
    """One slot for all: whoever gives it back wakes whoever waits, wherever that runs."""
    policy, lock, active, most = guarded(engine, deadline=60), threading.Lock(), [0], [0]
    rounds = 30

    def enter() -> None:
        with lock:
            active[0] += 1
            most[0] = max(most[0], active[0])

    def leave() -> None:
        with lock:
            active[0] -= 1

    def blocking() -> None:
        enter()
        leave()

    async def awaiting() -> None:
        enter()
        await anyio.sleep(0.0001)
        leave()

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(rounds):
                group.start_soon(policy.acall, awaiting)

    def thread() -> None:
        for _ in range(rounds):
            policy.call(blocking)

    runs = [thread, thread]
    runs += [lambda: anyio.run(many, backend="trio"), lambda: anyio.run(many, backend="trio")]
    runs += [lambda: anyio.run(many, backend="asyncio"), lambda: asyncio.run(many())]
    threads = [threading.Thread(target=run) for run in runs]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert not any(one.is_alive() for one in threads)
    assert most == [1]
    assert policy.snapshot()["ends"] == {"ok": 6 * rounds}


def test_a_waiter_whose_run_has_ended_is_skipped(engine: tidegate.Engine) -> None:
    """Thrown away with its run, it cannot be woken: the permit goes to the next."""
    policy, inside, go = guarded(engine), threading.Event(), threading.Event()
    held: list[Any] = []

    def occupy() -> None:
        inside.set()
        go.wait(10)

    async def abandon() -> None:
        waiting = policy.acall(trio.sleep, 0)
        held.append(waiting)
        waiting.send(None)  # parked, and left behind

    thread = threading.Thread(target=policy.call, args=(occupy,))
    thread.start()
    inside.wait(10)
    trio.run(abandon)
    assert len(engine.waiters) == 1
    go.set()
    thread.join()
    assert policy.call(lambda: "free") == "free"
    assert engine.waiters == {}
    for one in held:
        one.close()


def test_a_wake_comes_from_another_thread(engine: tidegate.Engine) -> None:
    policy, inside, go = guarded(engine), threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go.wait(10)

    async def main() -> str:
        async def free() -> None:
            await trio.sleep(0.01)
            go.set()

        async def answer() -> str:
            return "woken"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(free)
            return await policy.acall(answer)
        raise AssertionError

    thread = threading.Thread(target=policy.call, args=(hold,))
    thread.start()
    inside.wait(10)
    assert trio.run(main) == "woken"
    thread.join()


def test_generators(jumping: FakeClock) -> None:
    policy, sources = timed(engine_of(jumping), deadline=60), iter([1, 2])

    @policy
    async def items() -> AsyncIterator[int]:
        if next(sources) == 1:
            await jumping.sleep(100)  # stopped after 5 s, and asked for again
        yield 1
        yield 2

    @policy
    async def late() -> AsyncIterator[int]:
        yield 1
        await jumping.sleep(100)

    async def main() -> None:
        assert [item async for item in items()] == [1, 2]
        with pytest.raises(tidegate.DeadlineExceeded):
            async for _ in late():
                pass

    trio.run(main)
    assert jumping.now() == 66


def test_a_loop_stops_its_body(jumping: FakeClock) -> None:
    policy = timed(engine_of(jumping))

    async def main() -> list[int]:
        seen = []
        async for attempt in policy.attempts():
            with attempt:
                seen.append(attempt.num)
                if attempt.num < 3:
                    await jumping.sleep(100)
        return seen

    assert trio.run(main) == [1, 2, 3]
    assert jumping.now() == 12


def test_advance_and_sleep_on_a_clock_that_stands_still() -> None:
    clock = FakeClock()
    policy, ends = timed(engine_of(clock)), []

    async def call() -> None:
        with pytest.raises(tidegate.AttemptTimeout):
            await policy.acall(clock.sleep, 100)
        ends.append(clock.now())

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await clock.advance(16.9)
            assert ends == []
            await clock.advance(0.2)
            assert ends == [17]

    trio.run(main)


def test_the_real_clock_stops_and_wakes_too(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=engine, attempt_timeout=0.01, retry={"max_attempts": 2, "backoff": {"base": 0.001}}
    )

    async def main() -> float:
        started = trio.current_time()
        with pytest.raises(tidegate.AttemptTimeout):
            await policy.acall(trio.sleep, 10)
        return trio.current_time() - started

    assert 0.02 <= trio.run(main) < 5


def test_a_coroutine_that_is_thrown_away_in_an_attempt_gives_its_slot_back(engine: tidegate.Engine) -> None:
    policy = guarded(engine, attempt_timeout=5)

    async def main() -> None:
        call = policy.acall(trio.sleep, 1)
        call.send(None)  # its trap is never answered
        call.close()
        assert await policy.acall(trio.sleep, 0) is None

    trio.run(main)


def test_nested_calls_share_a_slot_and_a_deadline(jumping: FakeClock) -> None:
    policy = tidegate.Policy(
        engine=engine_of(jumping), bulkhead={"max_concurrency": 1}, deadline=5, retry={"max_attempts": 3}
    )
    tries = []

    async def fails() -> None:
        tries.append(1)
        raise ConnectionError

    async def inner() -> None:
        await policy.acall(fails)

    with pytest.raises(ConnectionError):
        trio.run(policy.at(idempotent=False).acall, inner)
    assert len(tries) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_httpx_on_both(origin: Origin, engine: tidegate.Engine, module: Any, backend: str) -> None:
    origin.sequence(503, {"status": 503, "body": "x" * 100_000}, 200)
    policy = quick(engine, deadline=20.0)

    async def main() -> Any:
        inner = module.AsyncHTTPTransport(limits=module.Limits(max_connections=1))
        transport = tidegate.httpx.AsyncTransport(inner, policy)
        async with module.AsyncClient(transport=transport) as client:
            return await client.get(origin.url + "/x")

    response = anyio.run(main, backend=backend)
    assert response.status_code == 200
    assert response.extensions["tidegate"]["attempts"] == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_httpx_times_out_on_both(origin: Origin, engine: tidegate.Engine, module: Any, backend: str) -> None:
    origin.sequence({"fault": "hang"}, {"fault": "hang"})
    policy = tidegate.Policy(engine=engine, attempt_timeout=0.05, retry={"max_attempts": 2})

    async def main() -> None:
        transport = tidegate.httpx.AsyncTransport(module.AsyncHTTPTransport(), policy)
        async with module.AsyncClient(transport=transport) as client:
            with pytest.raises(module.TimeoutException):
                await client.get(origin.url + "/x")

    anyio.run(main, backend=backend)
    assert policy.snapshot()["attempts"] == 2


def test_anyio_scopes_on_asyncio(engine: tidegate.Engine) -> None:
    """Its cancellations are the caller's, whatever else is stopped beside."""
    policy = tidegate.Policy(engine=engine, attempt_timeout=30)

    async def main() -> bool:
        with anyio.move_on_after(0.01) as scope:
            await policy.acall(anyio.sleep, 10)
        return scope.cancelled_caught

    assert anyio.run(main)
    assert policy.snapshot()["ends"] == {"cancelled": 1}
