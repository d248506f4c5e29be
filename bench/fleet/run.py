"""A rate limit that processes share: Tidegate's beside its peers', on one Redis of its own (README.md).

    cargo xtask bench fleet [--only leased] [--rounds 3] [--markdown]

builds the packages and calls this with a worker for each language.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from crew import Load, Result, Server, perform, serving

PLENTY = 10_000_000
"""A rate at which nothing is refused."""
RATES = (2000, 420)
SHARED = 2000
"""The rate that several processes share."""
AT_ONCE = 32
PAUSE = 1000
"""Microseconds that a caller waits after a refusal."""
SCALED = ("leased", "strict", "fixed window", "moving window", "pyrate-limiter", "rate-limiter-flexible")
"""Words of those that are run by several processes; of Python's the synchronous ones."""

Row = list[str]


def settings() -> argparse.Namespace:
    """What the program is told."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--redis-server", default="redis-server")
    parser.add_argument(
        "--worker", action="append", required=True, metavar="COMMAND", help="one for each language"
    )
    parser.add_argument("--only", action="append", help="contenders with this in their names")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each alone; the median counts")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each run counts")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4, 8, 16])
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    parser.add_argument("--out", type=Path, help="a file for all figures")
    parser.add_argument(
        "--check", action="store_true", help="ours alone, briefly; fails where a promise is broken"
    )
    return parser.parse_args()


class Bench:
    """The contenders, and a server."""

    def __init__(self, args: argparse.Namespace, server: Server) -> None:
        self.args = args
        self.server = server
        self.commands: dict[str, list[str]] = {}
        self.versions: dict[str, str | None] = {"Redis": server.info()["redis_version"]}
        self.kept: list[dict[str, object]] = []
        for worker in args.worker:
            command = shlex.split(worker)
            told = json.loads(
                subprocess.run([*command, "--list"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            )
            self.versions |= told["versions"]
            self.commands |= {name: [*command, "--contender", name] for name in told["contenders"]}
        if args.only:
            wanted = {name for name in self.commands for word in args.only if word in name}
            self.commands = {name: command for name, command in self.commands.items() if name in wanted}

    def run(self, name: str, load: Load, processes: int = 1) -> Result | None:
        """So many processes of one contender; None, and a line that says why, where that failed."""
        try:
            result = perform(self.server, [self.commands[name]] * processes, load)
        except RuntimeError as error:
            print(f"{name}, {processes} processes: NOT RUN, {error}", file=sys.stderr)
            return None
        if lost := result.sum("lost") if "tidegate" in name else 0:
            print(f"{name}, {processes} processes: {lost:.0f} decisions or commands without the store")
        self.kept.append(
            {"contender": name, "load": vars(load), "spent": result.spent, "lines": result.lines}
        )
        return result

    def show(self, title: str, columns: Row, rows: list[Row]) -> None:
        """A table."""
        if self.args.markdown:
            print(f"\n| {title} | {' | '.join(columns)} |\n|---|{'--:|' * len(columns)}")
            print("\n".join(f"| {' | '.join(row)} |" for row in rows))
            return
        print(f"\n{title:52}" + "".join(f"{column:>22}" for column in columns))
        for name, *cells in rows:
            print(f"  {name:50}" + "".join(f"{cell:>22}" for cell in cells))


def alone(bench: Bench) -> None:
    """One process, one call after the other, and nothing is refused."""
    load = Load(PLENTY, bench.args.seconds, bench.args.seconds / 2)
    many = Load(PLENTY, bench.args.seconds, at_once=AT_ONCE)
    found: dict[str, list[Result]] = {}
    crowd: dict[str, list[float]] = {}
    for _ in range(bench.args.rounds):
        for name in bench.commands:
            if result := bench.run(name, load):
                found.setdefault(name, []).append(result)
            if not name.startswith("sync") and (result := bench.run(name, many)):
                crowd.setdefault(name, []).append(result.per_second)
    rows = []
    for name, results in found.items():
        per_second = statistics.median(result.per_second for result in results)
        trips, commands, client, server, p50, p99 = (
            statistics.median(values) for values in zip(*(figures(result) for result in results), strict=True)
        )
        at_once = f"{statistics.median(crowd[name]):,.0f}" if name in crowd else ""
        rows.append(
            [
                name,
                f"{per_second:,.0f}",
                f"{p50:,.1f}",
                f"{p99:,.1f}",
                per_call(trips),
                per_call(commands),
                f"{client:,.1f}",
                per_call(server),
                at_once,
            ]
        )
    columns = ["calls/s", "p50 µs", "p99 µs", "round trips a call", "commands a call"]
    bench.show(
        "nothing refused", [*columns, "CPU µs", "server's CPU µs", f"calls/s, {AT_ONCE} at once"], rows
    )


def figures(result: Result) -> tuple[float, ...]:
    """Of one call: round trips, commands, CPU µs here and at the server, and both latencies."""
    [line] = result.lines
    each = result.decisions
    spent = result.spent
    cpu = (line["cpu_s"] or 0) * 1e6 / each
    latencies = (line["p50_ns"] / 1e3, line["p99_ns"] / 1e3)
    return spent.trips / each, spent.commands / each, cpu, spent.cpu * 1e6 / each, *latencies


def per_call(figure: float) -> str:
    """With as many places as a small figure needs."""
    return f"{figure:.2f}" if figure >= 0.1 else f"{figure:.4f}" if figure >= 0.0001 else f"{figure:.0e}"


def limited(bench: Bench) -> None:
    """One process that wants more than the rate, and waits a little after each refusal."""
    for rate in RATES:
        rows = []
        for name in bench.commands:
            if "INCR" in name:
                continue
            if result := bench.run(name, Load(rate, 2 * bench.args.seconds, pause=PAUSE)):
                admitted = result.sum("admitted")
                rows.append(
                    [
                        name,
                        f"{admitted / result.declared:.3f}",
                        f"{result.worst_second / rate:.2f}",
                        per_call(result.spent.trips / result.decisions),
                        per_call(result.spent.trips / admitted),
                        f"{(result.lines[0]['cpu_s'] or 0) * 1e6 / result.decisions:,.1f}",
                    ]
                )
        columns = ["admitted ÷ declared", "worst second ÷ rate", "round trips a call", "… an admitted one"]
        bench.show(f"{rate:,} a second", [*columns, "CPU µs a call"], rows)


def scaled(bench: Bench) -> None:
    """From one process to many: as fast as they can, and under a rate that they share."""
    names = [
        name
        for name in bench.commands
        if not name.startswith("asyncio") and any(word in name for word in SCALED)
    ]
    columns = [f"{processes} processes" for processes in bench.args.processes]
    speed, trips, granted, asked = ([] for _ in range(4))
    for name in names:
        free = [bench.run(name, Load(PLENTY, bench.args.seconds), many) for many in bench.args.processes]
        bound = [
            bench.run(name, Load(SHARED, 2 * bench.args.seconds, pause=PAUSE), many)
            for many in bench.args.processes
        ]
        speed.append([name, *(f"{it.per_second:,.0f}" if it else "–" for it in free)])
        trips.append([name, *(f"{it.spent.trips / it.load.seconds:,.0f}" if it else "–" for it in free)])
        granted.append([name, *(f"{it.sum('admitted') / it.declared:.3f}" if it else "–" for it in bound)])
        asked.append([name, *(f"{it.spent.trips / it.load.seconds:,.0f}" if it else "–" for it in bound)])
    bench.show("calls/s in all, nothing refused", columns, speed)
    bench.show("… and round trips/s at the server", columns, trips)
    bench.show(f"admitted ÷ declared, {SHARED:,} a second", columns, granted)
    bench.show("… and round trips/s at the server", columns, asked)


def check(bench: Bench) -> int:
    """Ours, briefly: what is promised at any speed. The number of broken promises."""
    wrong = []
    names = [name for name in bench.commands if "leased" in name or "strict" in name]
    for name in names:
        for load, processes in ((Load(420, 1.0, 0.1), 1), (Load(420, 1.0, pause=PAUSE), 2)):
            result = bench.run(name, load, processes)
            if result is None:
                wrong.append(f"{name}, {processes} processes: failed")
                continue
            admitted, trips = result.sum("admitted"), result.spent.trips / result.decisions
            # What was leased by the last call is no more than a lease for each.
            if not 0.8 * load.rate <= admitted <= result.declared * 1.01 + 21 * processes:
                wrong.append(
                    f"{name}, {processes} processes: {admitted:.0f} of {result.declared:.0f} admitted"
                )
            if "leased" in name and trips >= 0.05:
                wrong.append(f"{name}, {processes} processes: {trips:.3f} round trips a call, 0.05 promised")
            # Commands that come together are read together.
            if "strict" in name and not 0.9 / processes <= trips <= 1.1:
                wrong.append(f"{name}, {processes} processes: {trips:.3f} round trips a call, and not one")
            if lost := result.sum("lost"):
                wrong.append(f"{name}, {processes} processes: {lost:.0f} without the store")
    for line in wrong or [f"{len(names)} contenders, one process and two: as promised"]:
        print(line)
    return len(wrong) + (not names)


def main() -> None:
    """Runs everything, or the check."""
    args = settings()
    with serving(args.redis_server) as server:
        bench = Bench(args, server)
        versions = "; ".join(f"{name} {version or 'NOT HERE'}" for name, version in bench.versions.items())
        print(f"{versions}; {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
        if args.check:
            sys.exit(check(bench))
        alone(bench)
        limited(bench)
        scaled(bench)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    if args.out:
        args.out.write_text(json.dumps({"versions": bench.versions, "runs": bench.kept}))


if __name__ == "__main__":
    main()
