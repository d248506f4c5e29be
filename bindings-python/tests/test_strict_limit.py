"""Rule R12: a bulkhead counts attempts that are being stopped, until they have unwound."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest

import tidegate
import tidegate.httpx

LIMIT = 4
CALLS = 24
QUEUED = {"max_concurrency": LIMIT, "max_queue": None, "acquire_timeout": None}


class Crowd:
    """Attempts that take 30 ms to clean up once they are stopped, and how many of them there were at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.ran = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self.inside += 1
            self.ran += 1
            self.most = max(self.most, self.inside)

    def leave(self) -> None:
        with self._lock:
            self.inside -= 1

    async def __call__(self, *_: Any) -> Any:
        self.enter()
        try:
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.03)
            self.leave()

    def check(self, engine: tidegate.Engine) -> None:
        assert self.inside == 0
        assert self.ran >= CALLS
        assert self.most == LIMIT
        assert all(route["pool"]["in_flight"] == 0 for route in engine.snapshot()["routes"])


async def all_of(call: Callable[[], Any]) -> None:
    """Many calls at once; each ends with an error."""

    async def one() -> None:
        with pytest.raises((tidegate.TidegateError, httpx.TimeoutException)):
            await call()

    async with anyio.create_task_group() as group:
        for _ in range(CALLS):
            group.start_soon(one)


def hedged(engine: tidegate.Engine, **more: Any) -> tidegate.Policy:
    hedge = {"delay": 0.005, "budget": "none"}
    return tidegate.Policy(engine=engine, retry=None, hedge=hedge, bulkhead=QUEUED, **more)


SETTINGS: dict[str, dict[str, Any]] = {
    "the last attempt's timeout": {"attempt_timeout": 0.01, "retry": None},
    "attempts of their own": {
        "attempt_timeout": 0.01,
        "retry": {"max_attempts": 2, "backoff": {"base": 0.001, "max": 0.001}, "budget": None},
        "bulkhead": {**QUEUED, "unit": "attempt"},
    },
}


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_r12_an_attempt_keeps_its_permit_until_it_has_unwound(
    backend: str, how: str, engine: tidegate.Engine
) -> None:
    crowd = Crowd()
    policy = tidegate.Policy(engine=engine, **{"bulkhead": QUEUED, **SETTINGS[how]})
    anyio.run(all_of, lambda: policy.acall(crowd), backend=backend)
    crowd.check(engine)


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_r12_a_deadline_frees_no_permit_before_the_end(backend: str, engine: tidegate.Engine) -> None:
    crowd = Crowd()
    policy = tidegate.Policy(engine=engine, bulkhead=QUEUED, retry=None)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(CALLS // LIMIT):  # in waves, each of which finds the one before still cleaning up
                for _ in range(LIMIT):
                    group.start_soon(one)
                await anyio.sleep(0.025)

    async def one() -> None:
        with pytest.raises(tidegate.DeadlineExceeded):
            await policy.at(deadline=0.02).acall(crowd)

    anyio.run(main, backend=backend)
    assert crowd.inside == 0
    assert crowd.ran >= LIMIT
    assert crowd.most == LIMIT


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_r12_losers_of_a_race_and_callers_who_leave(backend: str, engine: tidegate.Engine) -> None:
    crowd = Crowd()
    policy = hedged(engine, attempt_timeout=0.02)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(CALLS):
                group.start_soon(one, number)

    async def one(number: int) -> None:
        if number % 2:
            with pytest.raises(tidegate.AttemptTimeout):
                await policy.acall(crowd)
        else:  # leaves while it waits, while it is inside, or after its attempt has ended
            with anyio.move_on_after(0.03 + number / 1000), suppress(tidegate.AttemptTimeout):
                await policy.acall(crowd)

    anyio.run(main, backend=backend)
    assert crowd.inside == 0
    assert crowd.most == LIMIT
    (route,) = engine.snapshot()["routes"]
    assert route["pool"]["in_flight"] == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_r12_bodies_of_a_loop_and_of_an_admission(backend: str, engine: tidegate.Engine) -> None:
    crowd = Crowd()
    policy = tidegate.Policy(engine=engine, bulkhead=QUEUED, attempt_timeout=0.01, retry=None)

    async def loop() -> None:
        async for attempt in policy.attempts():
            with attempt:
                await crowd()

    async def admission() -> None:
        async with policy.bulkhead():
            await crowd()

    async def main() -> None:
        await all_of(loop)
        await all_of(admission)

    anyio.run(main, backend=backend)
    crowd.check(engine)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_r12_requests_of_httpx(backend: str, engine: tidegate.Engine) -> None:
    crowd = Crowd()

    class Slow(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await crowd()
            raise AssertionError(request)

    policy = tidegate.Policy(engine=engine, bulkhead=QUEUED, attempt_timeout=0.01, retry=None)

    async def main() -> None:
        async with httpx.AsyncClient(transport=tidegate.httpx.AsyncTransport(Slow(), policy)) as client:
            await all_of(lambda: client.get("http://far.test/"))

    anyio.run(main, backend=backend)
    crowd.check(engine)


def test_r12_a_thread_that_cannot_be_stopped_keeps_its_permit(engine: tidegate.Engine) -> None:
    crowd, hang, policy = Crowd(), threading.Event(), hedged(engine)

    def work() -> str:
        crowd.enter()
        try:
            if crowd.ran % 2:
                assert hang.wait(10)
            return "done"
        finally:
            crowd.leave()

    assert policy.call(work) == "done"  # the hedge wins
    assert engine.snapshot()["routes"][0]["pool"]["in_flight"] == 1  # the loser goes on
    hang.set()
    for _ in range(1000):
        if engine.snapshot()["routes"][0]["pool"]["in_flight"] == 0:
            break
        threading.Event().wait(0.01)
    assert engine.snapshot()["routes"][0]["pool"]["in_flight"] == 0


def in_flight(engine: tidegate.Engine) -> int:
    return int(engine.snapshot()["routes"][0]["pool"]["in_flight"])


@pytest.mark.parametrize("limits", [{"attempt_timeout": 0.02}, {"deadline": 0.05}])
def test_r12_threads_that_ignore_the_time_they_are_told_keep_their_permits(
    engine: tidegate.Engine, limits: dict[str, Any]
) -> None:
    hang = threading.Event()
    policy = hedged(engine, **limits)
    caller = policy.at(pass_timeout="timeout")

    def ignores(timeout: float) -> None:
        assert hang.wait(60)

    made = 0
    while made == 0 or in_flight(engine) < LIMIT:
        made += 1
        assert made <= LIMIT, "each call leaves a permit out, or two"
        with pytest.raises(tidegate.TidegateError):  # the call ends in time; its thread still runs
            caller.call(ignores)
    assert in_flight(engine) == LIMIT, "the limit counts them"
    with pytest.raises(tidegate.TidegateError):
        policy.at(pass_timeout="timeout", deadline=0.02).call(lambda timeout: "let in beside them")
    hang.set()
    for _ in range(6_000):
        if in_flight(engine) == 0:
            break
        threading.Event().wait(0.01)
    assert in_flight(engine) == 0, "each gives its permit back when its function has returned"
    patient = tidegate.Policy(engine=engine, bulkhead=QUEUED)
    assert patient.call(lambda: "in") == "in"


def test_r12_an_attempt_that_shields_itself_is_waited_for(engine: tidegate.Engine) -> None:
    crowd = Crowd()
    policy = tidegate.Policy(engine=engine, bulkhead=QUEUED, attempt_timeout=0.01, retry=None)

    async def stubborn() -> None:
        crowd.enter()
        try:
            for _ in range(3):
                try:
                    await asyncio.sleep(0.02)
                except asyncio.CancelledError:
                    pass
        finally:
            crowd.leave()

    async def main() -> None:
        ends = await asyncio.gather(*(policy.acall(stubborn) for _ in range(CALLS)), return_exceptions=True)
        assert ends == [None] * CALLS  # an answer that a stopped attempt has all the same (R1)

    asyncio.run(main())
    crowd.check(engine)
