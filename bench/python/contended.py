"""What a call costs while other threads make calls through the same object: tidegate beside its peers.

    pip install -r bench/python/requirements.txt      # the peers; those that are missing are named as not run
    python bench/python/contended.py [--calls 20000] [--repeats 7] [--threads 8] [--markdown]

Wall time per call above the bare call, all threads together (so with a GIL about the CPU time of one call and
what the threads take from each other), median of the repeats, with one thread and with many, side by side in
one run. Every thread makes the same calls through one shared object; a call in flight asks for nothing, so
that what is measured is the object's own lock and accounting.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import threading
import time
from collections.abc import Callable

from keep import keep
from peers import found
from rows import GROUPS

import tidegate


def timed(fn: Callable[[], object], calls: int, threads: int) -> float:
    """Wall ns per call: so many threads share so many calls."""
    start = threading.Barrier(threads + 1)
    each = calls // threads

    def run() -> None:
        start.wait()
        for _ in range(each):
            fn()

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    started = time.perf_counter_ns()
    for worker in workers:
        worker.join()
    return (time.perf_counter_ns() - started) / (each * threads)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--markdown", action="store_true", help="print a table for docs/performance.md")
    options = parser.parse_args()
    peers = found()
    gil = "with" if getattr(sys, "_is_gil_enabled", lambda: True)() else "without"
    print(f"Python {platform.python_version()} {gil} a GIL, tidegate {tidegate.__version__}; {peers}")
    _, bare, rows = GROUPS["sync"]
    rows = [row for row in rows if "as a loop" not in row[0]]
    many, figures = options.threads, {}
    for _ in range(options.repeats):
        for threads in (1, many):
            figures.setdefault(("bare", threads), []).append(timed(bare, options.calls, threads))
            for name, fn, against in rows:
                few = options.calls // 5 if against else options.calls
                figures.setdefault((name, threads), []).append(timed(fn, few, threads))
    median = {key: statistics.median(values) for key, values in figures.items()}
    above = {(name, threads): median[name, threads] - median["bare", threads] for name, threads in median}
    floor = f"{median['bare', 1]:,.0f} ns, {median['bare', many]:,.0f} ns"
    header = f"sync, one object shared (bare: {floor})"
    columns = f"1 thread | {many} threads | {many} ÷ 1 | ÷ tidegate at {many}"
    print(
        f"\n| {header} | {columns} |\n|---|--:|--:|--:|--:|" if options.markdown else f"\n{header}: {columns}"
    )
    for name, _, against in rows:
        one, all_of_them = above[name, 1], above[name, many]
        keep(f"one object, {many} threads", name, "ns above", all_of_them, against)
        ratio = f"{all_of_them / above[against, many]:.1f} ×" if against else ""
        line = f"{name} | {one:,.0f} | {all_of_them:,.0f} | {all_of_them / one:.2f} | {ratio}"
        print(f"| {line} |" if options.markdown else f"  {line}")


if __name__ == "__main__":
    main()
