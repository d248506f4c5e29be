"""The device's link (semantics 2.22): retries wait until it is back."""

from __future__ import annotations

import asyncio

import pytest

import tidegate
from tidegate.testing import FakeClock


def test_a_retry_waits_until_the_link_is_back_and_starts_within_a_second() -> None:
    clock = FakeClock(auto=False)
    engine = tidegate.Engine(seed=7, clock=clock)
    policy = tidegate.Policy(engine=engine, deadline=60, retry={"backoff": {"base": 0}})
    began: list[float] = []

    async def work() -> str:
        began.append(clock.now())
        if len(began) == 1:
            raise ConnectionResetError
        return "there"

    async def story() -> None:
        engine.set_link("offline")
        call = asyncio.create_task(policy.acall(work))
        await clock.advance(20)
        assert len(began) == 1
        engine.set_link("ok")
        await clock.advance(1)
        assert await call == "there"

    asyncio.run(story())
    assert 20 <= began[1] - began[0] <= 21


def test_a_call_that_waits_for_the_link_ends_by_its_deadline_with_the_failure() -> None:
    clock = FakeClock()
    engine = tidegate.Engine(seed=7, clock=clock)
    policy = tidegate.Policy(engine=engine, deadline=5, retry={"backoff": {"base": 0}})
    engine.set_link("offline")
    start = clock.now()

    def work() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError) as failed:
        policy.call(work)
    assert clock.now() - start == pytest.approx(5)
    assert "the deadline passed while waiting for the next attempt" in str(failed.value.__notes__)


def test_without_a_deadline_the_note_says_that_the_device_was_offline() -> None:
    clock = FakeClock()
    engine = tidegate.Engine(seed=7, clock=clock)
    policy = tidegate.Policy(engine=engine, retry={"backoff": {"base": 0}, "max_retry_after": 4})
    engine.set_link("offline")

    def work() -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError) as failed:
        policy.call(work)
    assert "the device was offline for longer than a retry may wait" in str(failed.value.__notes__)


def test_a_state_that_there_is_not_is_told() -> None:
    engine = tidegate.Engine(seed=7)
    with pytest.raises(ValueError, match="state = 'slow': must be one of ok, metered, offline"):
        engine.set_link("slow")  # type: ignore[arg-type]
