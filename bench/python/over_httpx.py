"""What a request costs above a bare client: the transport over one in memory, in one run, on one thread.

    python bench/python/over_httpx.py [--calls 200] [--repeats 75] [--markdown]

CPU time per request (`process_time`), median of the repeats, the bare client's subtracted pair by pair: both
sides of a pair are measured one after the other, so that what disturbs one disturbs both.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import httpx
from keep import keep

import tidegate
import tidegate.httpx

try:
    import httpx_retries
except ImportError:
    httpx_retries = None

engine = tidegate.Engine(seed=1)
bulkhead = tidegate.Bulkhead(max_concurrency=100)
POLICIES = {
    "retry": tidegate.Policy(retry=tidegate.Retry(), engine=engine),
    'preset="http", bulkhead': tidegate.Policy(preset="http", bulkhead=bulkhead, engine=engine),
}
URL = "http://bench.test/"
PEER = "httpx-retries: RetryTransport"


def handler(request: httpx.Request) -> httpx.Response:
    """Answers at once."""
    return httpx.Response(200, content=b"ok")


def sync_once(client: httpx.Client, calls: int) -> float:
    """CPU ns per request."""
    started = time.process_time_ns()
    for _ in range(calls):
        client.get(URL)
    return (time.process_time_ns() - started) / calls


async def async_once(client: httpx.AsyncClient, calls: int) -> float:
    """CPU ns per request."""
    started = time.process_time_ns()
    for _ in range(calls):
        await client.get(URL)
    return (time.process_time_ns() - started) / calls


def pairs(
    bare: Callable[[], float], guarded: dict[str, Callable[[], float]], repeats: int
) -> tuple[float, dict[str, float]]:
    """The bare figure, and what each row adds to it."""
    floors: list[float] = []
    above: dict[str, list[float]] = {name: [] for name in guarded}
    for _ in range(repeats):
        for name, row in guarded.items():
            floor = bare()
            floors.append(floor)
            above[name].append(row() - floor)
    return statistics.median(floors), {name: statistics.median(values) for name, values in above.items()}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=75)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/performance.md")
    options = parser.parse_args()
    peer = "NOT RUN (it is not installed)" if httpx_retries is None else version("httpx-retries")
    versions = f"httpx {httpx.__version__}, tidegate {tidegate.__version__}; httpx-retries {peer}"
    print(f"Python {platform.python_version()}, {versions}")

    def mock() -> httpx.MockTransport:
        return httpx.MockTransport(handler)

    def one(client: httpx.Client) -> Callable[[], float]:
        return lambda: sync_once(client, options.calls)

    rows = {
        f"tidegate: {name}": one(httpx.Client(transport=tidegate.httpx.Transport(mock(), policy)))
        for name, policy in POLICIES.items()
    }
    if httpx_retries is not None:
        rows[PEER] = one(httpx.Client(transport=httpx_retries.RetryTransport(mock())))
    sync = pairs(one(httpx.Client(transport=mock())), rows, options.repeats)

    loop = asyncio.new_event_loop()

    def aone(client: httpx.AsyncClient) -> Callable[[], float]:
        return lambda: loop.run_until_complete(async_once(client, options.calls))

    rows = {
        f"tidegate: {name}": aone(httpx.AsyncClient(transport=tidegate.httpx.AsyncTransport(mock(), policy)))
        for name, policy in POLICIES.items()
    }
    if httpx_retries is not None:
        rows[PEER] = aone(httpx.AsyncClient(transport=httpx_retries.RetryTransport(mock())))
    awaited = pairs(aone(httpx.AsyncClient(transport=mock())), rows, options.repeats)

    if options.markdown:
        print("\n| over httpx | bare, µs | added, µs |\n|---|--:|--:|")
    for colour, (floor, above) in (("sync", sync), ("asyncio", awaited)):
        keep(f"over httpx, {colour}", "a bare client", "µs", floor / 1000)
        for name, added in above.items():
            keep(f"over httpx, {colour}", name, "µs above", added / 1000)
            cells = f"{colour}: {name}", f"{floor / 1000:.1f}", f"{added / 1000:.1f}"
            print(
                "| {} | {} | {} |".format(*cells)
                if options.markdown
                else "  {:40} {:>8} {:>8}".format(*cells)
            )


if __name__ == "__main__":
    main()
