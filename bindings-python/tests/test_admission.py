"""`policy.bulkhead()`, `policy.replace` and `tidegate.criticality`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import tidegate
from conftest import quick
from fast import guarded
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")


def one(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    """One slot, no queue, three attempts for those who retry."""
    return quick(engine, bulkhead={"max_concurrency": 1}, **rest)


def test_a_body_has_a_slot_while_it_runs(engine: tidegate.Engine) -> None:
    policy = one(engine)

    def other() -> None:
        with pytest.raises(tidegate.BulkheadFull), policy.bulkhead():
            raise AssertionError

    with policy.bulkhead() as attempt:
        assert (attempt.num, attempt.remaining) == (1, None)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    with policy.bulkhead():
        pass
    assert policy.snapshot()["ends"] == {"ok": 2, "queue_full": 1}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_an_event_loop_it_waits_its_turn(engine: tidegate.Engine, backend: str) -> None:
    policy, active, most = guarded(engine), [0], [0]

    async def work() -> None:
        async with policy.bulkhead():
            active[0] += 1
            most[0] = max(most[0], active[0])
            await anyio.lowlevel.checkpoint()
            active[0] -= 1

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(work)

    anyio.run(main, backend=backend)
    assert most == [1]
    assert policy.snapshot()["ends"] == {"ok": 20}


def test_what_the_body_raises_goes_on_as_it_is_and_counts_by_its_class(engine: tidegate.Engine) -> None:
    breaker = {"consecutive": 2, "break_duration": 60}
    policy = one(engine, breaker=breaker)
    bug = ValueError("a bug counts as an answer")
    for error in (ConnectionError("a"), bug, ConnectionError("b"), ConnectionError("c")):
        with pytest.raises(type(error)) as caught, policy.bulkhead():
            raise error
        assert caught.value is error
        assert not hasattr(error, "__notes__")
    assert policy.snapshot()["attempts"] == 4
    with pytest.raises(tidegate.BreakerOpen), policy.bulkhead():
        raise AssertionError


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_attempt_timeout_and_a_deadline_cancel_the_body(backend: str) -> None:
    clock = FakeClock(autojump=True)
    policy = quick(tidegate.Engine(seed=1, clock=clock), attempt_timeout=5, deadline=60)

    async def main() -> None:
        with pytest.raises(tidegate.AttemptTimeout):
            async with policy.bulkhead():
                await clock.sleep(100)
        with pytest.raises(tidegate.DeadlineExceeded), tidegate.deadline(2):
            async with policy.bulkhead():
                await clock.sleep(100)

    anyio.run(main, backend=backend)
    assert clock.now() == 7


def test_a_thread_cannot_be_interrupted(engine: tidegate.Engine) -> None:
    policy = one(engine, attempt_timeout=5)
    with pytest.raises(TypeError, match="blocking code cannot be interrupted"), policy.bulkhead():
        raise AssertionError
    with policy.at(pass_timeout="remaining").bulkhead() as attempt:
        assert 4 < (attempt.remaining or 0) <= 5


def test_classify_is_shown_the_result(engine: tidegate.Engine) -> None:
    seen: list[Any] = []
    policy = one(engine, classify=seen.append)
    with policy.bulkhead() as attempt:
        attempt.result("rows")
    assert seen == ["rows"]


def test_cancelled_it_gives_its_slot_back(engine: tidegate.Engine) -> None:
    policy = one(engine)

    async def work() -> None:
        async with policy.bulkhead():
            await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert policy.snapshot()["ends"] == {"cancelled": 1}


def test_as_a_decorator_each_call_is_admitted_once(engine: tidegate.Engine) -> None:
    policy, tries = one(engine), []

    @policy.bulkhead()
    def work(fails: bool) -> str:
        tries.append(1)
        if fails:
            raise ConnectionError
        return "done"

    @policy.at(route="async").bulkhead()
    async def awork() -> str:
        return "awaited"

    with pytest.raises(ConnectionError) as caught:
        work(True)
    assert not hasattr(caught.value, "__notes__")
    assert (work(False), asyncio.run(awork()), len(tries)) == ("done", "awaited", 2)


def test_one_at_a_time(engine: tidegate.Engine) -> None:
    slot = guarded(engine, limit=2).bulkhead()
    with slot, pytest.raises(RuntimeError, match="has been entered"), slot:
        raise AssertionError
    with slot:
        pass


def test_calls_inside_share_the_slot(engine: tidegate.Engine) -> None:
    policy = one(engine)
    with policy.bulkhead():
        assert policy.call(lambda: "inside") == "inside"


# Replace.


def test_replace_keeps_what_is_not_given(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("base", deadline=5, retry={"max_attempts": 2}, classify=str, engine=engine)
    twin = policy.replace("twin", deadline=9)
    assert (twin.name, twin.engine) == ("twin", engine)
    assert (twin._setting("deadline"), twin._setting("retry.max_attempts")) == (9_000_000, 2)
    assert twin._classify_by is str
    assert policy._setting("deadline") == 5_000_000
    assert policy.replace(retry=None).name != "base"
    assert policy.replace(retry=None)._setting("retry.max_attempts") is None
    with pytest.raises(TypeError, match="dedline"):
        policy.replace(dedline=1)
    with pytest.raises(tidegate.PolicyError):
        policy.replace("base", deadline=9)


# Criticality.


def who_is_displaced(policy: tidegate.Policy, engine: tidegate.Engine, *callers: Any) -> list[str]:
    """Calls in turn, with one slot taken and one place in the queue: how each ends."""

    async def main() -> list[str]:
        go = asyncio.Event()
        holder = asyncio.ensure_future(policy.acall(go.wait))
        await asyncio.sleep(0)
        tasks = []
        for call in callers:
            tasks.append(asyncio.ensure_future(call()))
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        go.set()
        await holder
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        return [end if isinstance(end, str) else getattr(end, "reason", repr(end)) for end in ends]

    return asyncio.run(main())


def test_it_holds_for_calls_inside_unless_they_say_so_themselves(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        engine=engine, bulkhead={"max_concurrency": 1, "max_queue": 1, "prioritized": True}
    )

    async def answer() -> str:
        return "served"

    async def plain() -> str:
        return await policy.acall(answer)

    async def critical() -> str:
        with tidegate.deadline(30), tidegate.criticality("critical"), tidegate.deadline(20):
            return await policy.acall(answer)

    async def told() -> str:
        with tidegate.criticality("critical"):
            return await policy.at(criticality="best_effort").acall(answer)

    async def innermost() -> str:
        with tidegate.criticality("critical"), tidegate.criticality("degraded"):
            return await policy.acall(answer)

    assert who_is_displaced(policy, engine, plain, critical) == ["displaced", "served"]
    assert who_is_displaced(policy, engine, plain, told) == ["served", "queue_full"]
    assert who_is_displaced(policy, engine, plain, innermost) == ["served", "queue_full"]


def test_a_deadline_goes_on_through_it(engine: tidegate.Engine) -> None:
    policy = one(engine)
    with tidegate.deadline(0), tidegate.criticality("critical"), pytest.raises(tidegate.DeadlineExceeded):
        policy.call(int)
    with tidegate.criticality("critical"):
        assert policy.call(int) == 0


@pytest.mark.parametrize("wrong", ["urgent", 3, None, ["critical"]])
def test_an_unknown_one_is_named(engine: tidegate.Engine, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"criticality = .*: must be one of best_effort"):
        tidegate.criticality(wrong)
    if wrong is not None:
        with pytest.raises(ValueError, match=r"criticality = .*: must be one of best_effort"):
            one(engine).at(criticality=wrong)
