"""What a call costs above a bare one: tidegate beside its peers, in one run, on one thread.

    pip install -r bench/python/requirements.txt      # the peers; those that are missing are named as not run
    python bench/python/happy_path.py [--calls 20000] [--repeats 9] [--markdown]

CPU time per call (`process_time`), median of the repeats, the bare call subtracted; beside each peer, how
many times the comparable row of tidegate it takes. Every row, the bare ones too, is one function without
arguments that makes the call: what that costs is in both and falls out. Absolute figures move from machine
to machine; the ratios, both sides in one run, are what is compared. Peers are set up to do what that row
does, as far as they can.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from keep import keep
from peers import found
from rows import GROUPS, Row, running

import tidegate

THREADS = "concurrent.futures.thread"


def timed_sync(fn: Callable[[], object], calls: int) -> float:
    """CPU ns per call."""
    rounds = range(calls)
    started = time.process_time_ns()
    for _ in rounds:
        fn()
    return (time.process_time_ns() - started) / calls


def timed_async(fn: Callable[[], Awaitable[object]], calls: int) -> float:
    """CPU ns per awaited call."""

    async def main() -> float:
        running[0] = asyncio.get_running_loop()
        rounds = range(calls)
        started = time.process_time_ns()
        for _ in rounds:
            await fn()
        return (time.process_time_ns() - started) / calls

    return asyncio.run(main())


def measured(
    title: str, awaited: bool, bare: Callable[[], Any], rows: list[Row], options: argparse.Namespace
) -> None:
    """Measures a group, its rows in turn, and prints it."""
    measure: Callable[[Any, int], float] = timed_async if awaited else timed_sync
    figures: dict[str, list[float]] = {name: [] for name, _, _ in rows}
    bares = []
    for _ in range(options.repeats):
        bares.append(measure(bare, options.calls))
        for name, fn, _ in rows:  # side by side: what disturbs one disturbs all
            few = options.calls if name.startswith("tidegate") else max(options.calls // 10, 100)
            figures[name].append(measure(fn, few))
    floor = statistics.median(bares)
    above = {name: statistics.median(values) - floor for name, values in figures.items()}
    header = f"{title} (bare: {floor:,.0f} ns)"
    print(f"\n| {header} | ns above | ÷ tidegate |\n|---|--:|--:|" if options.markdown else f"\n{header}")
    keep(title, "a bare call", "ns", floor)
    for name, _, against in rows:
        keep(title, name, "ns above", above[name], against)
        ratio = f"{above[name] / above[against]:.1f} ×" if against else ""
        if options.markdown:
            print(f"| {name} | {above[name]:,.0f} | {ratio} |")
        else:
            print(f"  {name:42} {above[name]:9,.0f} ns   {ratio}")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    options = parser.parse_args()
    print(f"Python {platform.python_version()} ({platform.machine()}), tidegate {tidegate.__version__}")
    print(f"CPU ns per call above the bare one, median of {options.repeats}")
    if THREADS not in sys.modules:
        # A call sets a context variable only in a program that has imported a thread pool, as most peers do.
        awaited, bare, rows = GROUPS["sync"]
        measured("sync, no thread pool imported", awaited, bare, list(rows), options)
    peers = found()
    print(f"\nbeside {peers}")
    keep("versions", f"Python {platform.python_version()}, tidegate {tidegate.__version__}; {peers}", "", 0)
    for title, (awaited, bare, rows) in GROUPS.items():
        measured(title, awaited, bare, rows, options)


if __name__ == "__main__":
    main()
