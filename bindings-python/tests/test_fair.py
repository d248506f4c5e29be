"""Queues in which keys and criticalities share a limit, with the typed options (spec 3.10)."""

from __future__ import annotations

import asyncio

import pytest

import tidegate
from tidegate.testing import FakeClock

CALL = {"tokens": 1_000}


def shared(engine: tidegate.Engine, max_waiters: int = 100) -> tidegate.Policy:
    """A policy whose pool has the tokens of one call a second, of which `acme` gets three shares."""
    limits = ["tpm: permits=60000 per=1m burst=1000 weight=tokens"]
    provider = tidegate.Pool(
        "provider",
        rate_limit=tidegate.RateLimit(limits=limits, fair_by="key", shares=["acme=3"], prioritized=True),
        engine=engine,
    )
    waits = tidegate.RateLimit(
        pool=provider, unit="attempt", wait=True, max_wait=60.0, max_waiters=max_waiters
    )
    return tidegate.Policy("shared", rate_limit=waits, engine=engine)


class Calls:
    """Calls that wait, and the names of those that were admitted, in order."""

    def __init__(self, policy: tidegate.Policy) -> None:
        self.policy = policy
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, key: str, criticality: str = "normal", count: int = 1) -> None:
        async def admitted() -> None:
            self.order.append(key if criticality == "normal" else f"{key}, {criticality}")

        caller = self.policy.at(route=key, criticality=criticality, weights=CALL)
        self.tasks += [asyncio.create_task(caller.acall(admitted)) for _ in range(count)]
        await asyncio.sleep(0)

    async def end(self, clock: FakeClock, seconds: int) -> list[BaseException]:
        """Moves the clock on, and returns the errors of all calls that have started."""
        for _ in range(seconds):
            await clock.advance(1)
        ends = await asyncio.gather(*self.tasks, return_exceptions=True)
        return [error for error in ends if error is not None]


def test_keys_get_tokens_by_their_shares(fake: tidegate.Engine, clock: FakeClock) -> None:
    """Spec 3.10.3 and 3.10.5."""

    async def main() -> None:
        calls = Calls(shared(fake))
        await calls.start("other", count=13)  # the first one takes the burst
        await calls.start("acme", count=12)
        for _ in range(12):
            await clock.advance(1)
        assert calls.order.pop(0) == "other"
        assert sorted(calls.order) == ["acme"] * 9 + ["other"] * 3, "by arrival it would be other alone"
        assert calls.order[:4].count("acme") == 3, "in turns, and not one key after the other"
        assert await calls.end(clock, 12) == []

    asyncio.run(main())


def test_critical_calls_get_four_tokens_to_one(fake: tidegate.Engine, clock: FakeClock) -> None:
    """Spec 3.10.2."""

    async def main() -> None:
        calls = Calls(shared(fake))
        await calls.start("other", count=6)  # the first one takes the burst
        await calls.start("other", criticality="critical", count=8)
        for _ in range(10):
            await clock.advance(1)
        assert calls.order.pop(0) == "other"
        assert sorted(calls.order) == ["other"] * 2 + ["other, critical"] * 8
        assert await calls.end(clock, 3) == []

    asyncio.run(main())


def test_a_full_queue_gives_a_place_of_the_longest_key_to_another(
    fake: tidegate.Engine, clock: FakeClock
) -> None:
    """Spec 3.10.11."""

    async def main() -> None:
        calls = Calls(shared(fake, max_waiters=8))
        await calls.start("other", count=7)
        await calls.start("acme", count=2)
        await calls.start("small")
        refused = await calls.end(clock, 8)
        assert [type(error) for error in refused] == [tidegate.RateLimited]
        assert refused[0].route == "other", "its last call has lost its place"
        assert sorted(calls.order) == ["acme"] * 2 + ["other"] * 6 + ["small"]

    asyncio.run(main())


def test_a_policys_own_limit_cannot_be_fair_by_key(fake: tidegate.Engine) -> None:
    """Spec 3.10.13."""
    limits = ["tpm: permits=60000 per=1m weight=tokens"]
    with pytest.raises(tidegate.PolicyError, match="fair_by"):
        tidegate.Policy(rate_limit=tidegate.RateLimit(limits=limits, fair_by="key"), engine=fake)
