"""What a call costs above a bare one: tidegate beside tenacity, in one run, on one thread.

    python bench/python/happy_path.py [--calls 20000] [--repeats 9]

CPU time per call (`process_time`), median of the repeats, the bare call subtracted. Absolute figures move
from machine to machine; the ratios, both sides in one run, are what is compared.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version

import tenacity

import tidegate

FULL = {
    "retry": tidegate.Retry(max_attempts=3),
    "bulkhead": tidegate.Bulkhead(max_concurrency=100),
    "deadline": 30.0,
}
NO_WAIT = {"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}

engine = tidegate.Engine(seed=1)
plain = tidegate.Policy(retry=FULL["retry"], bulkhead=FULL["bulkhead"], engine=engine)
full = tidegate.Policy(**FULL, engine=engine)
timed = tidegate.Policy(**FULL, attempt_timeout=5.0, engine=engine)
again = tidegate.Policy(retry=NO_WAIT, engine=engine)
retrying = tenacity.Retrying(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none())
retrying_async = tenacity.AsyncRetrying(stop=tenacity.stop_after_attempt(3), wait=tenacity.wait_none())

calls_made = itertools.count()


def work() -> int:
    """What is called."""
    return 1


async def awork() -> int:
    """What is awaited."""
    return 1


def fails_once() -> int:
    """Fails every other time."""
    if next(calls_made) % 2 == 0:
        raise ConnectionError
    return 1


async def afails_once() -> int:
    """Fails every other time."""
    return fails_once()


def bare_retry() -> int:
    """The least that one retry can cost."""
    try:
        return fails_once()
    except ConnectionError:
        return fails_once()


async def bare_aretry() -> int:
    """The least that one retry can cost."""
    return bare_retry()


def sync(fn: Callable[[], object], calls: int) -> float:
    """CPU ns per call."""
    loop = range(calls)
    started = time.process_time_ns()
    for _ in loop:
        fn()
    return (time.process_time_ns() - started) / calls


def awaited(fn: Callable[[], Awaitable[object]], calls: int) -> float:
    """CPU ns per awaited call."""

    async def main() -> float:
        loop = range(calls)
        started = time.process_time_ns()
        for _ in loop:
            await fn()
        return (time.process_time_ns() - started) / calls

    return asyncio.run(main())


Case = tuple[str, Callable[[], float], bool]


def cases(calls: int) -> list[tuple[str, list[Case]]]:
    """Groups of cases: the first of each is the bare one; the flag marks peers."""
    few = max(calls // 10, 100)
    return [
        (
            "sync",
            [
                ("bare call", lambda: sync(work, calls), False),
                ("tidegate  retry + bulkhead", lambda: sync(lambda: plain.call(work), calls), False),
                (
                    "tidegate  retry + bulkhead + deadline",
                    lambda: sync(lambda: full.call(work), calls),
                    False,
                ),
                ("tenacity  retry", lambda: sync(lambda: retrying(work), few), True),
            ],
        ),
        (
            "asyncio",
            [
                ("bare await", lambda: awaited(awork, calls), False),
                ("tidegate  retry + bulkhead", lambda: awaited(lambda: plain.acall(awork), calls), False),
                (
                    "tidegate  retry + bulkhead + deadline",
                    lambda: awaited(lambda: full.acall(awork), calls),
                    False,
                ),
                ("tidegate  … + attempt_timeout", lambda: awaited(lambda: timed.acall(awork), calls), False),
                ("tenacity  retry", lambda: awaited(lambda: retrying_async(awork), few), True),
            ],
        ),
        (
            "one retry without a wait, sync",
            [
                ("bare try twice", lambda: sync(bare_retry, calls), False),
                ("tidegate  retry", lambda: sync(lambda: again.call(fails_once), few), False),
                ("tenacity  retry", lambda: sync(lambda: retrying(fails_once), few), True),
            ],
        ),
        (
            "one retry without a wait, asyncio",
            [
                ("bare try twice", lambda: awaited(bare_aretry, calls), False),
                ("tidegate  retry", lambda: awaited(lambda: again.acall(afails_once), few), False),
                ("tenacity  retry", lambda: awaited(lambda: retrying_async(afails_once), few), True),
            ],
        ),
    ]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()} ({platform.machine()}), tidegate {tidegate.__version__}, "
        f"tenacity {version('tenacity')}; CPU ns per call above the bare one, median of {options.repeats}"
    )
    for title, group in cases(options.calls):
        figures: dict[str, list[float]] = {name: [] for name, _, _ in group}
        for _ in range(options.repeats):
            for name, run, _ in group:  # side by side: what disturbs one disturbs all
                figures[name].append(run())
        medians = {name: statistics.median(values) for name, values in figures.items()}
        bare = next(iter(medians.values()))
        peer = next(medians[name] - bare for name, _, is_peer in group if is_peer)
        print(f"\n{title}")
        for name, _, _ in group:
            above = medians[name] - bare
            if above > 0:
                print(f"  {name:42} {above:9,.0f} ns   {peer / above:6.1f} × faster than tenacity")
            else:
                print(f"  {name:42} {medians[name]:9,.0f} ns   (itself)")


if __name__ == "__main__":
    main()
