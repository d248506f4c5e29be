"""What the tests of the components share: calls in either colour, and what an error must tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import tidegate
from tidegate.testing import FakeClock

ERRORS = {
    "rate_limited": (tidegate.RateLimited, 429),
    "queue_full": (tidegate.BulkheadFull, 503),
    "acquire_timeout": (tidegate.BulkheadFull, 503),
    "queue_shed": (tidegate.BulkheadFull, 503),
    "displaced": (tidegate.BulkheadFull, 503),
    "breaker_open": (tidegate.BreakerOpen, 503),
    "throttled": (tidegate.Throttled, 429),
    "forced_open": (tidegate.ForcedOpen, 503),
    "hold_full": (tidegate.HoldFull, 503),
    "cost_above_burst": (tidegate.CostAboveBurst, 503),
}


def assert_error(
    error: BaseException | None, reason: str, policy: tidegate.Policy, retry_in: float | None = None
) -> None:
    """Semantics 7.6: code, reason, when to come back, policy, route, and what a server says."""
    kind, status = ERRORS[reason]
    assert isinstance(error, kind)
    assert (error.reason, error.policy, error.http_status) == (reason, policy.name, status)
    assert isinstance(error, tidegate.Rejected) == (reason != "cost_above_burst")
    assert error.code == ("bulkhead_full" if kind is tidegate.BulkheadFull else reason)
    assert error.route in ("default", "a", "http://api:80")
    if retry_in is None:
        assert error.retry_in is error.retry_at is None
    else:
        assert error.retry_in == pytest.approx(retry_in, abs=0.002)
        assert error.retry_at is not None
        off = error.retry_at - datetime.now(timezone.utc) - timedelta(seconds=retry_in)
        assert abs(off) < timedelta(seconds=5)


class Caller:
    """Calls in one colour, one after the other; a wait moves the clock."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.clock = FakeClock(autojump=colour == "async")
        self.engine = tidegate.Engine(seed=1, clock=self.clock)
        self.loop = asyncio.new_event_loop() if colour == "async" else None

    def policy(self, **settings: Any) -> tidegate.Policy:
        return tidegate.Policy(engine=self.engine, **settings)

    def call(self, policy: tidegate.Caller, answer: Any = None) -> Any:
        def sync() -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer() if callable(answer) else answer

        async def awaiting() -> Any:
            return sync()

        if self.loop is None:
            return policy.call(sync)
        return self.loop.run_until_complete(policy.acall(awaiting))

    def refused(self, policy: tidegate.Caller, reason: str, retry_in: float | None = None) -> None:
        with pytest.raises(ERRORS[reason][0]) as caught:
            self.call(policy, lambda: pytest.fail("it was called"))
        assert_error(caught.value, reason, policy._policy, retry_in)

    def fails(
        self, policy: tidegate.Caller, times: int = 1, error: type[Exception] = ConnectionError
    ) -> None:
        for _ in range(times):
            with pytest.raises(error):
                self.call(policy, error("no"))

    def wait(self, seconds: float) -> None:
        self.clock.tick(seconds)


@pytest.fixture(params=["sync", "async"])
def calls(request: pytest.FixtureRequest) -> Iterator[Caller]:
    caller = Caller(request.param)
    yield caller
    if caller.loop is not None:
        caller.loop.close()


def beside(policies: list[tuple[tidegate.Caller, float]], clock: FakeClock, seconds: float = 60) -> list[Any]:
    """Calls of 1 s that begin in this order, so many seconds after the one before: their results."""

    async def main() -> list[Any]:
        tasks = []
        for caller, gap in policies:
            await clock.advance(gap)
            tasks.append(asyncio.ensure_future(caller.acall(clock.sleep, 1.0)))
            await asyncio.sleep(0)
        await clock.advance(seconds)
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(main())


KINDS = {"quota_spent": "throttled", "stale_row": "conflict"}
"""Kinds of failure that a policy may declare."""
