"""Memory per call in flight, above a task that awaits the same without anything around it.

    python bench/python/memory.py [--calls 20000] [--repeats 3] [--markdown]

Each row in a process of its own: so many tasks, each of them inside one call that waits; what the process has
grown by from before the first task to when all wait (`/proc/self/statm`, so Linux), per call, the median of
the repeats. It counts what Python's own counters do not see: the engine's memory.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from keep import keep

ROWS: dict[str, Callable[[Callable[[], Awaitable[Any]]], Callable[[], Any]]] = {}


def row(name: str) -> Callable[[Any], Any]:
    """A way to put something around an async function."""

    def add(make: Any) -> Any:
        ROWS[name] = make
        return make

    return add


@row("bare task")
def bare(fn: Any) -> Any:
    """Nothing around it."""
    return fn


@row("tidegate: retry")
def retry(fn: Any) -> Any:
    """Retry alone."""
    import tidegate

    policy = tidegate.Policy(retry=tidegate.Retry(), engine=tidegate.Engine(seed=1))
    return lambda: policy.acall(fn)


@row("tidegate: retry, bulkhead, deadline, attempt_timeout")
def full(fn: Any) -> Any:
    """Everything there is."""
    import tidegate

    policy = tidegate.Policy(
        retry=tidegate.Retry(),
        bulkhead=tidegate.Bulkhead(max_concurrency=10**6),
        deadline=600,
        attempt_timeout=500,
        engine=tidegate.Engine(seed=1),
    )
    return lambda: policy.acall(fn)


@row("tenacity: retry")
def tenacity(fn: Any) -> Any:
    """Retry alone."""
    import tenacity as peer

    retrying = peer.AsyncRetrying(stop=peer.stop_after_attempt(3))
    return lambda: retrying(fn)


@row("stamina: retry")
def stamina(fn: Any) -> Any:
    """Retry alone."""
    import stamina as peer

    retrying = peer.AsyncRetryingCaller(attempts=3).on(ConnectionError)
    return lambda: retrying(fn)


@row("backoff: retry")
def backoff(fn: Any) -> Any:
    """Retry alone."""
    import backoff as peer

    return peer.on_exception(peer.constant, ConnectionError, max_tries=3, interval=0, logger=None)(fn)


@row("hyx: retry, bulkhead, timeout")
def hyx(fn: Any) -> Any:
    """Three of its parts; they want a running loop when they are made, which there is."""
    from hyx.bulkhead import bulkhead
    from hyx.retry import retry as retrying
    from hyx.timeout import timeout

    limited = bulkhead(max_concurrency=10**6, max_capacity=10**6 + 1)(timeout(500.0)(fn))
    return retrying(on=ConnectionError, attempts=3, backoff=0)(limited)


@row("httpware: retry, bulkhead, timeout")
def httpware(fn: Any) -> Any:
    """Its middleware around a terminal that waits."""
    import httpware as peer
    import httpx2
    from httpware.middleware import chain

    request, response = httpx2.Request("GET", "http://bench/"), httpx2.Response(200)

    async def waits(_: object) -> object:
        await fn()
        return response

    parts = (peer.AsyncBulkhead(max_concurrent=10**6), peer.AsyncRetry(), peer.AsyncTimeout(timeout=500.0))
    through = chain.compose_async(parts, waits)
    return lambda: through(request)


@row("pyresilience: retry, bulkhead, timeout")
def pyresilience(fn: Any) -> Any:
    """Three of its parts."""
    import pyresilience as peer

    return peer.resilient(
        retry=peer.RetryConfig(max_attempts=3),
        bulkhead=peer.BulkheadConfig(max_concurrent=10**6),
        timeout=peer.TimeoutConfig(seconds=500, per_attempt=True),
    )(fn)


def grown(name: str, calls: int) -> float:
    """Bytes per call in flight."""

    async def main() -> float:
        gate = asyncio.Event()

        async def waits() -> None:
            await gate.wait()

        call = ROWS[name](waits)
        for _ in range(50):  # what is imported and made once
            task = asyncio.ensure_future(call())
            await asyncio.sleep(0)
            gate.set()
            await task
            gate.clear()
        gc.collect()
        before = resident()
        tasks = [asyncio.ensure_future(call()) for _ in range(calls)]
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        after = resident()
        gate.set()
        await asyncio.gather(*tasks)
        return (after - before) / calls

    return asyncio.run(main())


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/performance.md")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(grown(options.row, options.calls))
        return
    if not Path("/proc/self/statm").exists():
        print("memory per call in flight: NOT RUN (no /proc/self/statm)")
        return
    if options.markdown:
        print("\n| memory per call in flight | bytes above a bare task |\n|---|--:|")
    floor = None
    for name in ROWS:
        again = [sys.executable, __file__, "--calls", str(options.calls), "--row", name]
        runs = [
            subprocess.run(again, capture_output=True, text=True, check=False) for _ in range(options.repeats)
        ]
        if any(run.returncode for run in runs):
            print(f"  {name} NOT RUN ({runs[0].stderr.strip().splitlines()[-1]})")
            continue
        size = statistics.median(float(run.stdout) for run in runs)
        floor = size if floor is None else floor
        keep("memory of a call in flight", name, "bytes above a task", size - floor)
        cells = (f"{name} (itself {size:,.0f})" if size == floor else name), f"{size - floor:,.0f}"
        print("| {} | {} |".format(*cells) if options.markdown else "  {:60} {:>8}".format(*cells))


if __name__ == "__main__":
    main()
