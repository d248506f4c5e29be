"""Open-loop load: a schedule drawn beforehand, and a driver that keeps to it whatever the answers do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

OK = "ok"

Do = Callable[[], Awaitable[str]]
"""Makes one call; returns OK or, in a word, why it failed."""


class Call(NamedTuple):
    """What became of one call. Times are seconds since the start of the experiment."""

    due: float
    """When the schedule wanted it. Latencies count from here, so a late driver cannot hide anything."""
    started: float
    ended: float
    outcome: str


def poisson(rate: float, end: float, seed: int) -> list[float]:
    """Arrival times in [0, end) of a Poisson process of `rate` per second; the same seed, the same times."""
    rng = random.Random(seed)
    times: list[float] = []
    t = rng.expovariate(rate)
    while t < end:
        times.append(t)
        t += rng.expovariate(rate)
    return times


class Driver:
    """Starts every call at its time, as a task of its own, and records its end."""

    def __init__(self, schedule: Sequence[float], do: Do) -> None:
        self.calls: list[Call] = []
        """The calls that have ended, in the order of their ends."""
        self.started = 0
        self._schedule = schedule
        self._do = do
        self._zero = 0.0

    @property
    def now(self) -> float:
        """Seconds since the start of the experiment."""
        return time.perf_counter() - self._zero

    async def run(self, zero: float) -> None:
        """Plays the schedule from `zero`, a `time.perf_counter`, and waits until the last call has ended."""
        self._zero = zero
        tasks: list[asyncio.Task[None]] = []
        for due in self._schedule:
            await asyncio.sleep(max(0.0, due - self.now))
            tasks.append(asyncio.create_task(self._one(due)))
        await asyncio.gather(*tasks)

    async def _one(self, due: float) -> None:
        started = self.now
        self.started += 1
        outcome = await self._do()
        self.calls.append(Call(due, started, self.now, outcome))
