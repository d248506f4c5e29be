"""A brown-out, three ways: a naive retry loop, no retries, Tidegate.

Three identical servers get the same calls at the same moments, each from a client with other retry logic.
For a few seconds the servers are slow; then they are healthy again. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from arms import ARMS
from plot import draw
from report import Run, figures, record, table
from stage import ArmFailed, Tick, perform
from world import World

PREFACE = """\
server            {w.workers} workers, {w.service_ms:g} ms a request on average, so {w.capacity:g} requests/s;
                  queue of {w.queue}, 503 when it is full; 503 for {w.error_rate:.0%} of requests at any time;
                  as most servers do, it works on for clients that have left
brown-out         requests take {w.brownout_factor:g} times as long from {w.brownout_from:g} s to \
{w.brownout_until:g} s; nothing else changes
load              {w.offered:g} calls/s for {w.end:g} s, open loop, seed {w.seed}; the same calls for all
clients           httpx; {w.attempt_timeout:g} s for an attempt; a 2xx within {w.deadline:g} s is a success
{clients}
                  bulkhead of {w.max_concurrency}, {w.max_queue} more may wait {w.acquire_timeout:g} s; \
deadline {w.deadline:g} s
"""

VERDICT = """\
law      {w.tries} tries x {w.offered:g}/s = {naive:g}/s is more than the healthy server's {w.capacity:g}/s:
         once all calls fail, the naive loop alone keeps its queue full;
         the retry budget allows {budgeted:g}/s, and less the longer nothing is answered
driver   99 % of calls started within {late:.1f} ms of their time, the last within {worst:.0f} ms;
         the three clients used {cpu} of a core"""

TOO_BUSY = """
WARNING  this machine was too busy to start the calls in time: do not trust the figures"""

BUDGET_RATIO = 0.18
"""The retry budget of the preset `http`: retries that an answered call earns."""


class Progress:
    """One line that is rewritten on a terminal; elsewhere, and in CI, a plain line every five seconds."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._live = sys.stdout.isatty() and not os.environ.get("CI")
        self._latest: dict[str, Tick] = {}
        self._printed = 0.0

    def on_tick(self, key: str, tick: Tick) -> None:
        """Takes in what an arm reports."""
        self._latest[key] = tick
        if len(self._latest) < len(ARMS) or key != list(ARMS)[-1]:
            return
        if self._live:
            room = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + self._line(tick.t)[:room], end="", flush=True)
        elif tick.t - self._printed >= 5.0:
            self._printed = tick.t
            print(self._line(tick.t), flush=True)

    def end(self) -> None:
        """Leaves the rewritten line."""
        if self._live:
            print()

    def _line(self, t: float) -> str:
        if t < self._world.brownout_from:
            phase = "healthy"
        elif t < self._world.brownout_until:
            phase = "BROWN-OUT"
        else:
            phase = "healthy again" if t < self._world.end else "last answers"
        cells = [
            f"{ARMS[key].title}: {tick.ok:2d} ok/s x{tick.attempts / max(1, tick.calls):.1f}"
            for key, tick in sorted(self._latest.items(), key=lambda item: list(ARMS).index(item[0]))
        ]
        return f"{t:4.1f} s  {phase:<13}  " + " | ".join(cells)


def preface(world: World) -> str:
    """What is about to happen, with every setting."""
    clients = "\n".join(f"  {arm.title:<16}{arm.logic}" for arm in ARMS.values())
    return PREFACE.format(w=world, clients=clients)


def verdict(runs: list[Run], world: World) -> str:
    """The law with this world's numbers, and whether the load generator was good enough to show it."""
    columns = [figures(run, world) for run in runs]
    late = max(f.lag_p99 for f in columns)
    text = VERDICT.format(
        w=world,
        naive=world.tries * world.offered,
        budgeted=(1 + BUDGET_RATIO) * world.offered,
        late=1000 * late,
        worst=1000 * max(f.lag_max for f in columns),
        cpu=", ".join(f"{f.cpu:.0%}" for f in columns),
    )
    return text + (TOO_BUSY if late > world.attempt_timeout / 10 else "")


def main() -> int:
    """Runs the demo; the exit status tells whether it could be run, not what came out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--origin", type=Path, required=True, help="path of the tidegate-origin binary")
    parser.add_argument("--out", type=Path, required=True, help="directory for result.json and the plots")
    parser.add_argument("--seed", type=int, default=1, help="seed of arrivals and service times (default 1)")
    parser.add_argument("--quick", action="store_true", help="20 seconds instead of 54")
    options = parser.parse_args()
    world = World.quick(options.seed) if options.quick else replace(World(), seed=options.seed)

    began = time.perf_counter()
    print(preface(world), flush=True)
    progress = Progress(world)
    try:
        runs = perform(list(ARMS), options.origin.resolve(), world, progress.on_tick)
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    except ArmFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    progress.end()
    print(f"\n{table(runs, world)}\n\n{verdict(runs, world)}")

    options.out.mkdir(parents=True, exist_ok=True)
    result = {
        "versions": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            **{name: version(name) for name in ("tidegate", "httpx", "httpcore")},
        },
        **record(runs, world),
    }
    (options.out / "result.json").write_text(json.dumps(result) + "\n", encoding="utf-8")
    draw(runs, world, options.out)
    seconds = time.perf_counter() - began
    print(f"\n{seconds:.0f} s in all; in {options.out}: result.json, brownout.png, brownout.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
