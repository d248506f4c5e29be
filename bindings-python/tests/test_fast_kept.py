"""The native happy path: nothing is left behind, and many at once."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tidegate
from fast import guarded, suspend
from tidegate._call.deadline import current
from tidegate._native import awaitable_type

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
    monkeypatch.setattr("tidegate._call.caller.FAST", fast)
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

    # Before Python 3.13 `logging` keeps its lock if it is interrupted where it finds a logger or a level for
    # the first time; whoever logs on another thread then waits for ever.
    assert policy.call(work, [1]) == 1
    gc.collect()
    gc.freeze()  # else an interrupt may strike a finaliser of what other tests have left
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
        gc.unfreeze()
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

    def all_three_permits(pool: ThreadPoolExecutor) -> None:
        """Three calls wait for each other inside: fewer permits would end in a broken barrier."""
        barrier = threading.Barrier(3, timeout=60)
        calls = [pool.submit(policy.call, barrier.wait) for _ in range(3)]
        assert sorted(call.result(60) for call in calls) == [0, 1, 2]

    with ThreadPoolExecutor(8) as pool:
        all_three_permits(pool)
        jobs = [pool.submit(sync if at % 2 else loop, at * 400) for at in range(8)]
        total = sum(job.result(60) for job in jobs)
        all_three_permits(pool)
    assert total == sum(range(3200))
    assert peak <= 3
    ends = engine.snapshot()["policies"][policy.name]
    assert ends["ends"] == {"ok": 3206}
    assert ends["attempts"] == 3206 + len(failed)


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
    monkeypatch.setattr("tidegate._call.caller.FAST", fast)
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
    assert times[1] - times[0] < 0.9  # its next look would be a second later


def until(true: Any) -> None:
    while not true():
        time.sleep(0.001)
