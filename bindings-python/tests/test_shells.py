"""The shells: waiting, waking, cancelling, in threads and in event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")


def guarded(engine: tidegate.Engine, limit: int = 1, **rest: Any) -> tidegate.Policy:
    """A policy with a queue of any length."""
    bulkhead = {"max_concurrency": limit, "max_queue": None, "acquire_timeout": None}
    return tidegate.Policy(engine=engine, bulkhead=bulkhead, **rest)


class Flaky:
    """Fails a number of times, then works."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or ConnectionError("no")
        self.tries = 0

    def __call__(self) -> int:
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error
        return self.tries

    async def wait(self) -> int:
        await asyncio.sleep(0)
        return self()


# Retries.


def test_a_sync_call_retries(fake: tidegate.Engine) -> None:
    assert quick(fake).call(Flaky(2)) == 3


def test_an_async_call_retries(engine: tidegate.Engine) -> None:
    assert asyncio.run(quick(engine).acall(Flaky(2).wait)) == 3


def test_an_async_call_retries_a_result_that_classify_calls_a_failure(engine: tidegate.Engine) -> None:
    policy, answers = quick(engine, classify=lambda value: "transient" if value < 3 else None), [1, 2, 3]

    async def next_answer() -> int:
        return answers.pop(0)

    assert asyncio.run(policy.acall(next_answer)) == 3


def test_the_original_exception_the_same_object(engine: tidegate.Engine) -> None:
    for colour in ("sync", "async"):
        flaky = Flaky(9)
        with pytest.raises(ConnectionError) as caught:
            quick(engine).call(flaky) if colour == "sync" else asyncio.run(quick(engine).acall(flaky.wait))
        assert caught.value is flaky.error
        assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
        assert flaky.tries == 3


def test_a_delay_of_zero_never_sleeps(engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidegate.Engine, "park", lambda *_: pytest.fail("it slept"))
    policy = tidegate.Policy(engine=engine, retry={"backoff": {"base": 0, "max": 0}})
    assert policy.call(Flaky(2)) == 3


def test_ten_minutes_take_milliseconds_in_a_thread(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=fake,
        retry={
            "max_attempts": 11,
            "budget": {"kind": "window"},
            "backoff": {"base": 60, "multiplier": 1, "max": 60, "jitter": "none"},
        },
    )
    started = time.monotonic()
    assert policy.call(Flaky(10)) == 11
    assert clock.now() == 600
    assert time.monotonic() - started < 60


def test_ten_minutes_take_milliseconds_in_a_loop() -> None:
    clock = FakeClock(autojump=True)
    policy = tidegate.Policy(
        engine=tidegate.Engine(seed=1, clock=clock),
        retry={
            "max_attempts": 11,
            "budget": {"kind": "window"},
            "backoff": {"base": 60, "multiplier": 1, "max": 60, "jitter": "none"},
        },
    )
    started = time.monotonic()
    assert asyncio.run(policy.acall(Flaky(10).wait)) == 11
    assert clock.now() == 600
    assert time.monotonic() - started < 60


def test_advance_goes_through_everything_that_falls_due(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=fake,
        attempt_timeout=5,
        retry={"max_attempts": 3, "backoff": {"base": 1, "max": 1, "jitter": "none"}},
    )

    async def main() -> None:
        task = asyncio.ensure_future(policy.acall(clock.sleep, 100))
        await clock.advance(16.9)
        assert not task.done()
        await clock.advance(0.2)
        with pytest.raises(tidegate.AttemptTimeout) as caught:
            await task
        assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)

    asyncio.run(main())


# Our own stop and the caller's cancellation.


async def stop_at(clock: FakeClock, policy: tidegate.Policy, fn: Any, cancel: str) -> Any:
    """Runs a call that is stopped at 5 s, and cancelled before, at the same tick, after, or not at all."""
    task = asyncio.ensure_future(policy.acall(fn))
    await clock.advance(4)
    if cancel == "before":
        task.cancel()
    if cancel == "same tick":
        clock.move(5_000_000)
        clock._fire()
        task.cancel()
    if cancel == "same tick, first":
        task.cancel()
        clock.move(5_000_000)
        clock._fire()
    await clock.advance(10)
    if cancel == "after":
        task.cancel()
    await clock.advance(10)
    assert task.done()
    return await asyncio.wait({task}) and task


@pytest.mark.parametrize("verdict", ["attempt_timeout", "deadline"])
@pytest.mark.parametrize("cancel", ["no", "before", "same tick", "same tick, first"])
def test_our_stop_is_told_from_the_callers_cancellation(
    clock: FakeClock, fake: tidegate.Engine, verdict: str, cancel: str
) -> None:
    policy = tidegate.Policy(engine=fake, **{verdict: 5})

    async def hang() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        task = await stop_at(clock, policy, hang, cancel)
        if cancel == "no":
            kind = tidegate.AttemptTimeout if verdict == "attempt_timeout" else tidegate.DeadlineExceeded
            assert isinstance(task.exception(), kind)
        else:
            assert task.cancelled()
        if sys.version_info >= (3, 11):
            assert task.cancelling() == (0 if cancel == "no" else 1)

    asyncio.run(main())


@pytest.mark.parametrize("cancel", ["no", "same tick"])
@pytest.mark.parametrize("how", ["returns", "raises", "waits on"])
def test_a_function_may_swallow_the_stop(
    clock: FakeClock, fake: tidegate.Engine, how: str, cancel: str
) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=5, retry={"max_attempts": 2})

    async def stubborn() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if how == "raises":
                raise OSError("unwinding") from None
            if how == "waits on":
                await clock.sleep(3)
        return "an answer all the same"

    async def main() -> None:
        task = await stop_at(clock, policy, stubborn, cancel)
        if how == "raises":
            assert isinstance(task.exception(), tidegate.AttemptTimeout if cancel == "no" else OSError)
        else:
            assert task.result() == "an answer all the same"

    asyncio.run(main())


def test_a_stop_leaves_the_tasks_own_timeouts_alone(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=5)

    async def main() -> None:
        caught = []

        async def body() -> None:
            for _ in range(3):
                try:
                    await policy.acall(clock.sleep, 100)
                except tidegate.AttemptTimeout as error:
                    caught.append(error)
                await asyncio.sleep(0)

        task = asyncio.ensure_future(body())
        await clock.advance(16)
        await task
        assert len(caught) == 3

    asyncio.run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout is new in 3.11")
def test_asyncio_timeout_around_a_call(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=engine, attempt_timeout=5)

    async def main() -> None:
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.02):
                await policy.acall(asyncio.sleep, 10)
        assert not isinstance(caught.value, tidegate.TidegateError)

    asyncio.run(main())


def test_cancellation_is_noticed_at_once(engine: tidegate.Engine) -> None:
    held = guarded(engine)
    slow = tidegate.Policy(engine=engine, retry={"backoff": {"base": 60, "max": 60, "jitter": "none"}})

    async def main() -> None:
        async def where(fn: Any) -> float:
            task = asyncio.ensure_future(fn)
            await asyncio.sleep(0.01)
            started = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return time.monotonic() - started

        assert await where(slow.acall(asyncio.sleep, 60)) < 0.5
        assert await where(slow.acall(Flaky(9).wait)) < 0.5
        holder = asyncio.ensure_future(held.acall(asyncio.sleep, 60))
        await asyncio.sleep(0)
        assert await where(held.acall(asyncio.sleep, 60)) < 0.5
        assert await where(holder) < 0.5

    asyncio.run(main())


def test_cancellation_at_every_await_point(engine: tidegate.Engine) -> None:
    """Whatever the moment, the permit goes on and nothing is left."""

    async def scenario(policy: tidegate.Policy, flaky: Flaky) -> int:
        return await policy.acall(flaky.wait)

    async def main() -> None:
        for turns in range(60):
            retry = {"max_attempts": 3, "backoff": {"base": 0.001, "max": 0.001}, "budget": None}
            policy = guarded(engine, retry=retry)
            tasks = [asyncio.ensure_future(scenario(policy, Flaky(2))) for _ in range(3)]
            victim = tasks[turns % 3]
            for _ in range(turns // 3):
                await asyncio.sleep(0.0002 if turns % 2 else 0)
            victim.cancel()
            await asyncio.wait(tasks)
            done = [task for task in tasks if task is not victim]
            assert [task.result() for task in done] == [3, 3]
            assert engine.snapshot()["live"] == 0

    asyncio.run(main())


def test_1000_cancelled_waiters_leave_nothing(engine: tidegate.Engine) -> None:
    policy = guarded(engine)

    async def main() -> None:
        holder = asyncio.ensure_future(policy.acall(asyncio.sleep, 60))
        await asyncio.sleep(0)
        waiters = [asyncio.ensure_future(policy.acall(asyncio.sleep, 60)) for _ in range(1000)]
        await asyncio.sleep(0)
        assert engine.snapshot()["waiting"] == 1000
        for waiter in random.Random(1).sample(waiters, 1000):
            waiter.cancel()
        await asyncio.wait(waiters)
        assert engine.snapshot()["waiting"] == 0
        assert engine.snapshot()["live"] == 1
        holder.cancel()
        await asyncio.wait([holder])
        assert await policy.acall(asyncio.sleep, 0, "free") == "free"

    asyncio.run(main())


def test_a_coroutine_thrown_away_gives_its_slot_back(engine: tidegate.Engine) -> None:
    policy = guarded(engine)
    coroutine = policy.acall(_hang)
    coroutine.send(None)
    assert engine.snapshot()["live"] == 1
    coroutine.close()
    del coroutine
    gc.collect()
    assert engine.snapshot()["live"] == 0


async def _hang() -> None:
    class Forever:
        def __await__(self) -> Any:
            yield

    await Forever()


# Threads.


def test_threads_and_loops_share_one_policy(engine: tidegate.Engine) -> None:
    policy = guarded(engine, limit=3)
    lock = threading.Lock()
    now = peak = total = 0

    def enter() -> None:
        nonlocal now, peak, total
        with lock:
            now, total = now + 1, total + 1
            peak = max(peak, now)

    def leave() -> None:
        nonlocal now
        with lock:
            now -= 1

    def work() -> None:
        enter()
        time.sleep(0.0005)
        leave()

    async def awork() -> None:
        enter()
        await asyncio.sleep(0.0005)
        leave()

    def thread() -> None:
        for _ in range(25):
            policy.call(work)

    def loop() -> None:
        async def one() -> None:
            for _ in range(25):
                await policy.acall(awork)

        async def main() -> None:
            await asyncio.gather(*(one() for _ in range(8)))

        asyncio.run(main())

    with ThreadPoolExecutor(18) as pool:
        jobs = [pool.submit(thread) for _ in range(16)] + [pool.submit(loop) for _ in range(2)]
        for job in jobs:
            job.result(60)
    assert total == 16 * 25 + 2 * 8 * 25
    assert peak == 3


def test_a_closed_loop_does_not_break_its_wakers(engine: tidegate.Engine) -> None:
    policy = guarded(engine)
    loop = asyncio.new_event_loop()
    started, release = threading.Event(), threading.Event()

    def hold() -> None:
        started.set()
        release.wait(10)

    holder = threading.Thread(target=policy.call, args=(hold,))
    holder.start()
    started.wait(10)
    waiter = loop.create_task(policy.acall(asyncio.sleep, 0))
    loop.run_until_complete(asyncio.sleep(0))
    assert engine.snapshot()["waiting"] == 1
    loop.close()
    release.set()
    holder.join(10)
    assert engine.snapshot()["live"] == 0
    assert policy.call(lambda: "free") == "free"
    waiter._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_waiting_thread_is_woken(engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = guarded(engine)
    order: list[int] = []
    woken: list[bool] = []
    started, release = threading.Event(), threading.Event()

    def park(_: tidegate.Engine, lock: Any, us: int) -> None:
        # Longer than `us`, after which a thread looks again without a wake.
        assert abs(us) < 30e6
        woken.append(lock.acquire(True, 30))

    def hold() -> None:
        started.set()
        release.wait(30)

    monkeypatch.setattr(tidegate.Engine, "park", park)
    threads = [threading.Thread(target=policy.call, args=(hold,))]
    threads[0].start()
    started.wait(10)
    for number in range(5):
        threads.append(threading.Thread(target=policy.call, args=(order.append, number)))
        threads[-1].start()
        while engine.snapshot()["waiting"] <= number:
            time.sleep(0.001)
    release.set()
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]
    assert len(woken) >= 5
    assert all(woken)


def test_a_queue_refuses_in_time(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=fake, bulkhead={"max_concurrency": 1, "max_queue": 1, "acquire_timeout": 7}
    )

    def inner() -> None:
        with pytest.raises(tidegate.BulkheadFull) as caught:
            other.call(int)
        assert caught.value.reason == "acquire_timeout"

    other = policy.at(route="default")
    thread = threading.Thread(target=inner)

    def hold() -> None:
        thread.start()
        thread.join(10)

    policy.call(hold)
    assert clock.now() == 7


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
@pytest.mark.parametrize("where", ["attempt", "backoff", "queue"])
def test_keyboard_interrupt_hands_the_permit_on(engine: tidegate.Engine, where: str) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    policy = guarded(engine, retry={"backoff": {"base": 60, "max": 60}})
    before = signal.signal(signal.SIGALRM, interrupt)
    stop = threading.Event()
    try:
        if where == "queue":
            started = threading.Event()
            holder = threading.Thread(target=policy.call, args=(lambda: (started.set(), stop.wait(10)),))
            holder.start()
            started.wait(10)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            policy.call({"attempt": lambda: time.sleep(10), "backoff": Flaky(9), "queue": int}[where])  # type: ignore[operator]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stop.set()
    if where == "queue":
        holder.join(10)
    assert engine.snapshot()["live"] == 0
    assert policy.call(lambda: "free") == "free"


# Nesting, forks.


def test_nested_policies_do_not_multiply(engine: tidegate.Engine) -> None:
    outer, inner = quick(engine), quick(engine)
    flaky = Flaky(99)
    with pytest.raises(ConnectionError):
        outer.call(inner.call, flaky)
    assert flaky.tries == 3

    flaky = Flaky(99)
    with pytest.raises(ConnectionError):
        asyncio.run(outer.acall(inner.acall, flaky.wait))
    assert flaky.tries == 3


def test_a_nested_call_after_an_inner_one_is_still_nested(engine: tidegate.Engine) -> None:
    outer, inner = quick(engine), quick(engine)
    flaky = Flaky(99)

    def twice() -> None:
        inner.call(int)
        inner.call(flaky)

    with pytest.raises(ConnectionError):
        outer.call(twice)
    assert flaky.tries == 3
    assert inner.call(Flaky(2)) == 3


def test_siblings_in_other_tasks_are_not_nested(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    async def main() -> None:
        assert await asyncio.gather(*(policy.acall(Flaky(2).wait) for _ in range(3))) == [3, 3, 3]

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_drops_calls_and_draws_anew() -> None:
    clock = FakeClock()
    engine = tidegate.Engine(seed=5, clock=clock)
    policy = guarded(engine, retry={"max_attempts": 2, "backoff": {"base": 10, "max": 10}})
    pipes = []

    def forking() -> None:
        for _ in range(2):
            read, write = os.pipe()
            if os.fork() == 0:
                try:
                    before = clock.now()
                    live = engine.snapshot()["live"]
                    policy.call(Flaky(1))
                    os.write(write, f"{live} {clock.now() - before}".encode())
                finally:
                    os._exit(0)
            os.close(write)
            pipes.append(read)

    policy.call(forking)
    said = [os.read(pipe, 100).decode().split() for pipe in pipes]
    for pipe in pipes:
        os.close(pipe)
        os.wait()
    assert [live for live, _ in said] == ["0", "0"]
    assert said[0][1] != said[1][1]
