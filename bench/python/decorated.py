"""What a decorated function costs beside `policy.call` and `policy.acall` of the same function.

    python bench/python/decorated.py [--pairs 31] [--calls 20000]

CPU ns per call (`process_time`) in interleaved pairs, on one thread; the ratio is the median of the pairs'.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from keep import keep

import tidegate

policy = tidegate.Policy("bench", preset="http")


def work(value: int) -> int:
    """Does nothing."""
    return value


async def work_async(value: int) -> int:
    """Does nothing."""
    return value


def sync_ns(calls: int, fn: Callable[..., Any], *args: Any) -> float:
    """Returns the CPU ns of a call."""
    start = time.process_time_ns()
    for _ in range(calls):
        fn(*args)
    return (time.process_time_ns() - start) / calls


async def async_ns(calls: int, fn: Callable[..., Awaitable[Any]], *args: Any) -> float:
    """Returns the CPU ns of an awaited call."""
    start = time.process_time_ns()
    for _ in range(calls):
        await fn(*args)
    return (time.process_time_ns() - start) / calls


def show(name: str, pairs: list[tuple[float, float]]) -> None:
    """Prints the medians of both, and of their ratio."""
    one, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(decorated / called for called, decorated in pairs)
    keep(f"decorated, {name}", "tidegate: policy.call", "ns", one)
    keep(f"decorated, {name}", "tidegate: decorated", "ns", other)
    print(f"| {name} | {one:.0f} | {other:.0f} | {ratio:.2f} |")


def main() -> None:
    """Measures both colours."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--calls", type=int, default=20_000)
    given, _ = parser.parse_known_args()  # `cargo xtask bench` gives all scripts the same arguments
    pairs, calls = given.pairs, given.calls
    decorated, decorated_async = policy(work), policy(work_async)
    print("| | call | decorated | ratio |\n|---|--:|--:|--:|")
    show(
        "sync",
        [(sync_ns(calls, policy.call, work, 1), sync_ns(calls, decorated, 1)) for _ in range(pairs)],
    )

    async def measured() -> list[tuple[float, float]]:
        return [
            (await async_ns(calls, policy.acall, work_async, 1), await async_ns(calls, decorated_async, 1))
            for _ in range(pairs)
        ]

    show("asyncio", asyncio.run(measured()))


if __name__ == "__main__":
    main()
