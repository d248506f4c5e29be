"""What one part costs by itself: one acquire of a rate limit, one estimate, one breaker, beside its peers.

    pip install -r bench/python/requirements.txt      # the peers; those that are missing are named as not run
    python bench/python/parts.py [--calls 100000] [--repeats 9] [--markdown]

CPU ns per call (`process_time`), median of the repeats, the call of an empty function subtracted. The limits
never refuse: what is compared is the accounting. Our parts are handed `time.monotonic()`, since their peers
read a clock themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from keep import keep

import tidegate
from tidegate import parts

PER_SECOND = 1_000_000_000
now = time.monotonic

bucket = parts.TokenBucket(permits=PER_SECOND, per=1.0, now=now())
gcra = parts.Gcra(permits=PER_SECOND, per=1.0)
breaker = parts.CircuitBreaker(5.0, failure_ratio=0.5, window=10.0, min_throughput=10)
throttle = parts.AdaptiveThrottle(now=now())
aimd = parts.Aimd(100, latency_threshold=0.3)
quantile = parts.WindowedP2Quantile(0.95, 512)
sketch = parts.DDSketch()
limited = tidegate.Policy(
    rate_limit=tidegate.RateLimit(permits=PER_SECOND, per=1.0), engine=tidegate.Engine(seed=1)
)


running: list[Any] = [None, None]
"""The loop that the bench runs in, and the limiter that belongs to it."""


def nothing() -> None:
    """What is called: nothing."""


async def anothing() -> None:
    """What is awaited: nothing."""


def admitted() -> None:
    """One call through the breaker."""
    ticket = breaker.admit(now())
    if ticket is not None:
        breaker.record(ticket, "success", now())


def accepted() -> None:
    """One call through the throttle."""
    if throttle.admit(now()):
        throttle.record(True, now())


Row = tuple[str, Callable[[], Any], str]
BUCKET = "tidegate.parts: TokenBucket.try_take"
SYNC: list[Row] = [
    (BUCKET, lambda: bucket.try_take(now()), ""),
    ("tidegate.parts: Gcra.try_take", lambda: gcra.try_take(now()), ""),
    ("tidegate: a policy with a rate limit", lambda: limited.call(nothing), ""),
    ("tidegate.parts: CircuitBreaker.admit, record", admitted, ""),
    ("tidegate.parts: AdaptiveThrottle.admit, record", accepted, ""),
    ("tidegate.parts: Aimd.on_latency", lambda: aimd.on_latency(0.1, now()), ""),
    ("tidegate.parts: WindowedP2Quantile.observe", lambda: quantile.observe(0.1), ""),
    ("tidegate.parts: DDSketch.add", lambda: sketch.add(0.1), ""),
]
ASYNC: list[Row] = [("tidegate: a policy with a rate limit", lambda: limited.acall(anothing), "")]


def pyrate_limiter() -> None:
    """Its own default in memory, a log of calls, and its GCRA."""
    peer = import_module("pyrate_limiter")
    rate = peer.Rate(PER_SECOND, peer.Duration.SECOND)
    limiter = peer.Limiter(peer.StateBucket([rate], algorithm=peer.GCRA()))
    SYNC.append(("pyrate-limiter: GCRA, try_acquire", lambda: limiter.try_acquire("bench"), BUCKET))
    few = peer.Limiter(peer.Rate(100_000, 100))  # a log that holds what a tenth of a second brings
    SYNC.append(("pyrate-limiter: default (log), try_acquire", lambda: few.try_acquire("bench"), BUCKET))


def aiolimiter() -> None:
    """One acquire, and the same as a context."""
    peer = import_module("aiolimiter")

    def limiter() -> Any:
        if running[1] is None:
            running[1] = peer.AsyncLimiter(PER_SECOND, 1)
        return running[1]

    async def entered() -> None:
        async with limiter():
            pass

    ours = "tidegate: a policy with a rate limit"
    ASYNC.append(("aiolimiter: acquire", lambda: limiter().acquire(), ours))
    ASYNC.append(("aiolimiter: async with", entered, ours))


PEERS = {"pyrate-limiter": pyrate_limiter, "aiolimiter": aiolimiter}


def timed(fn: Callable[[], object], calls: int) -> float:
    """CPU ns per call."""
    started = time.process_time_ns()
    for _ in range(calls):
        fn()
    return (time.process_time_ns() - started) / calls


def atimed(fn: Callable[[], Awaitable[object]], calls: int) -> float:
    """CPU ns per awaited call."""

    async def main() -> float:
        running[:] = asyncio.get_running_loop(), None
        started = time.process_time_ns()
        for _ in range(calls):
            await fn()
        return (time.process_time_ns() - started) / calls

    return asyncio.run(main())


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    options = parser.parse_args()
    found = []
    for name, add in PEERS.items():
        try:
            add()
            found.append(f"{name} {version(name)}")
        except Exception as error:
            found.append(f"{name} NOT RUN ({type(error).__name__}: {error})")
    print(f"Python {platform.python_version()}, tidegate {tidegate.__version__}; " + "; ".join(found))
    groups: list[tuple[str, Any, Any, list[Row]]] = [
        ("one call of a part", timed, nothing, SYNC),
        ("one acquire, asyncio", atimed, anothing, ASYNC),
    ]
    for title, measure, bare, rows in groups:
        figures: dict[str, list[float]] = {name: [] for name, _, _ in rows}
        bares = []
        for _ in range(options.repeats):
            bares.append(measure(bare, options.calls))
            for name, fn, against in rows:
                figures[name].append(measure(fn, options.calls // 10 if against else options.calls))
        floor = statistics.median(bares)
        above = {name: statistics.median(values) - floor for name, values in figures.items()}
        header = f"{title} (an empty one: {floor:,.0f} ns)"
        print(f"\n| {header} | ns above | ÷ tidegate |\n|---|--:|--:|" if options.markdown else f"\n{header}")
        for name, _, against in rows:
            ratio = f"{above[name] / above[against]:.1f} ×" if against else ""
            keep(title, name, "ns above", above[name], against)
            line = f"| {name} | {above[name]:,.0f} | {ratio} |"
            print(line if options.markdown else f"  {name:48} {above[name]:9,.0f} ns   {ratio}")


if __name__ == "__main__":
    main()
