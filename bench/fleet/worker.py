"""One process of the fleet's bench, in Python: decisions of one contender, as fast as it makes them.

Takes the arguments that every worker takes, and answers in the lines that README.md describes. `--list`
names the contenders that are installed here, and their versions.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from contenders import Args, Make, Watched, contenders, installed

BIN = 0.1
"""Seconds: admitted calls are counted in slices of this length."""
LONG = 0.001
"""Seconds between two looks at the clock, about: one a call would be a fifth of the shortest calls."""
WARM = 0.2
"""Seconds of decisions before any are counted."""
MOST = 200_000
"""Latencies that are kept."""


class Tally:
    """What all loops of a process have counted."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self.decisions = self.admitted = 0
        self.admits = [0] * (round(args.seconds / BIN) + 1)
        self.start = 0.0

    def note(self, decisions: int, admitted: int, now: float) -> None:
        """So many since the last look at the clock."""
        self.decisions += decisions
        self.admitted += admitted
        self.admits[min(int((now - self.start) / BIN), len(self.admits) - 1)] += admitted


def next_length(length: int, took: float) -> int:
    """How many calls to make before the next look at the clock."""
    return min(length * 2, 4096) if took < LONG / 2 else max(length // 2, 1) if took > LONG else length


def count(decide: Callable[[], bool], tally: Tally) -> None:
    """Decisions until the time is up."""
    pause, now, length = tally.args.pause / 1e6, tally.start, 1
    while now - tally.start < tally.args.seconds:
        admitted = 0
        for _ in range(length):
            if decide():
                admitted += 1
            elif pause:
                time.sleep(pause)
        before, now = now, time.perf_counter()
        tally.note(length, admitted, now)
        length = next_length(length, now - before)


async def acount(decide: Callable[[], Any], tally: Tally) -> None:
    """The same; the loop gets its turn where the clock is looked at."""
    pause, now, length = tally.args.pause / 1e6, tally.start, 1
    while now - tally.start < tally.args.seconds:
        admitted = 0
        for _ in range(length):
            if await decide():
                admitted += 1
            elif pause:
                await asyncio.sleep(pause)
        await asyncio.sleep(0)
        before, now = now, time.perf_counter()
        tally.note(length, admitted, now)
        length = next_length(length, now - before)


def sample(decide: Callable[[], bool], seconds: float) -> list[int]:
    """Nanoseconds of each of a number of decisions."""
    taken: list[int] = []
    now = time.perf_counter_ns()
    until = now + int(seconds * 1e9)
    while now < until and len(taken) < MOST:
        decide()
        before, now = now, time.perf_counter_ns()
        taken.append(now - before)
    return taken


async def asample(decide: Callable[[], Any], seconds: float) -> list[int]:
    """The same, awaited."""
    taken: list[int] = []
    now = time.perf_counter_ns()
    until = now + int(seconds * 1e9)
    while now < until and len(taken) < MOST:
        await decide()
        before, now = now, time.perf_counter_ns()
        taken.append(now - before)
        if len(taken) % 100 == 0:
            await asyncio.sleep(0)
            now = time.perf_counter_ns()
    return taken


def summary(tally: Tally, cpu: float, wall: float, taken: list[int]) -> str:
    """The last line."""
    taken.sort()
    quantile = {"p50_ns": 0.5, "p99_ns": 0.99}
    return json.dumps(
        {
            "decisions": tally.decisions,
            "admitted": tally.admitted,
            "admits": tally.admits,
            "cpu_s": cpu,
            "wall_s": wall,
            **{name: taken[int(len(taken) * part)] if taken else None for name, part in quantile.items()},
            "lost": Watched.lost,
        }
    )


def speak(line: str) -> None:
    """One line to whoever has started this."""
    print(line, flush=True)


def begin(args: Args) -> Tally:
    """Says that all is warm, and waits for the start."""
    speak("ready")
    start = sys.stdin.readline()
    tally = Tally(args)
    wait = int(start) / 1000 - time.time()
    if wait < 0:
        sys.exit(f"start {start.strip()}: has passed, {-wait:.3f} s ago")
    time.sleep(wait)
    tally.start = time.perf_counter()
    return tally


def threaded(make: Make, args: Args) -> None:
    """A synchronous contender."""
    decide = make(args)
    sample(decide, WARM)
    tally = begin(args)
    cpu = time.process_time()
    count(decide, tally)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - tally.start
    speak("counted")
    sys.stdin.readline()
    speak(summary(tally, cpu, wall, sample(decide, args.sample)))


async def awaited(make: Make, args: Args) -> None:
    """One for asyncio, with so many calls at once."""
    decide = make(args)
    if inspect.isawaitable(decide):
        decide = await decide
    await asample(decide, WARM)
    tally = await asyncio.to_thread(begin, args)
    cpu = time.process_time()
    await asyncio.gather(*(acount(decide, tally) for _ in range(args.at_once)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - tally.start
    speak("counted")
    await asyncio.to_thread(sys.stdin.readline)
    speak(summary(tally, cpu, wall, await asample(decide, args.sample)))


def main() -> None:
    """Lists, or runs one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--list", action="store_true")
    for name in ("redis", "contender"):
        parser.add_argument(f"--{name}")
    for name in ("rate", "at-once", "pause"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("seconds", "sample"):
        parser.add_argument(f"--{name}", type=float)
    args = parser.parse_args()
    known = contenders()
    if args.list:
        names = ("tidegate", "redis", "limits", "pyrate-limiter")
        found = {name.replace("redis", "redis-py"): installed(name) for name in names}
        versions = {"Python": sys.version.split()[0], **found}
        speak(json.dumps({"versions": versions, "contenders": list(known)}))
    elif args.contender not in known:
        sys.exit(f"--contender {args.contender}: there is none; --list names them")
    elif args.contender.startswith("asyncio"):
        asyncio.run(awaited(known[args.contender], args))
    else:
        threaded(known[args.contender], args)


main()
