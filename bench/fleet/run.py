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
import subprocess
import sys
from pathlib import Path

from crew import Load, Result, Server, perform, serving

PLENTY = 10_000_000
"""A rate at which nothing is refused."""
RATES = (2000, 420)
SHARED = 2000
"""The rate that several processes share."""
LANGUAGES = {"sync": "Python", "js": "JavaScript", "rust": "Rust"}
"""Contenders' languages, as the page of `bench/page.py` names them."""
AT_ONCE = 32
PAUSE = 1000
"""Microseconds that a caller waits after a refusal."""
SCALED = ("leased", "strict", "fixed window", "moving window", "pyrate-limiter", "rate-limiter-flexible")
"""Words of those that are run by several processes; of Python's the synchronous ones."""

Row = list[str]


def settings() -> argparse.Namespace:
    """The arguments of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--redis-server", default="redis-server")
    parser.add_argument(
        "--worker", action="append", required=True, metavar="COMMAND", help="one for each language"
    )
    parser.add_argument("--only", action="append", help="contenders with this in their names")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each alone; the best counts")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long each run counts")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument(
        "--alone", action="store_true", help="only what one process pays where nothing is refused"
    )
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
            listed = json.loads(
                subprocess.run([*command, "--list"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            )
            self.versions |= listed["versions"]
            self.commands |= {name: [*command, "--contender", name] for name in listed["contenders"]}
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
        print(f"\n{title:54}" + "".join(f"{column:>21}" for column in columns))
        for name, *cells in rows:
            print(f"  {name:52}" + "".join(f"{cell:>21}" for cell in cells))


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
        # What is less than another run took was not disturbed as much.
        least = [min(values) for values in zip(*(figures(result) for result in results), strict=True)]
        most = max(result.per_second for result in results)
        at_once = f"{max(crowd[name]):,.0f}" if name in crowd else ""
        keep(name, "nothing refused", "µs", least[0])
        keep(name, "the server's CPU of a call", "µs of the server", least[5])
        keep(name, "calls a second, one after the other", "calls/s", most)
        if at_once:
            keep(name, f"calls a second, {AT_ONCE} at once", "calls/s", max(crowd[name]))
        rows.append([name, f"{most:,.0f}", *(few(figure) for figure in least), at_once])
    columns = ["calls/s", "p50 µs", "p99 µs", "round trips", "commands", "CPU µs", "server's CPU µs"]
    bench.show("nothing refused, of a call", [*columns, f"calls/s, {AT_ONCE} at once"], rows)


def figures(result: Result) -> tuple[float, ...]:
    """Of one call: both latencies, round trips, commands, and CPU µs here and at the server."""
    [line] = result.lines
    each, spent = result.decisions, result.spent
    cpu = (line["cpu_s"] or 0) * 1e6 / each
    latencies = (line["p50_ns"] / 1e3, line["p99_ns"] / 1e3)
    return *latencies, spent.trips / each, spent.commands / each, cpu, spent.cpu * 1e6 / each


def keep_versions(text: str) -> None:
    """Appends what ran to the file that `TIDEGATE_BENCH_ROWS` names."""
    if path := os.environ.get("TIDEGATE_BENCH_ROWS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"Fleet\tversions\t{text}\t\t0\t\n")


def keep(name: str, what: str, unit: str, value: float) -> None:
    """Appends a figure to the file that `TIDEGATE_BENCH_ROWS` names (`bench/page.py` reads it)."""
    if path := os.environ.get("TIDEGATE_BENCH_ROWS"):
        language, _, row = name.partition(": ")
        language = LANGUAGES.get(language, language)
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"Fleet\t{language}, {what}\t{row}\t{unit}\t{value!r}\t\n")


def keep_columns(group: str, name: str, found: dict[str, float]) -> None:
    """Appends figures that stand side by side in one table of the page."""
    if path := os.environ.get("TIDEGATE_BENCH_ROWS"):
        with open(path, "a", encoding="utf-8") as file:
            for column, value in found.items():
                unit = "×" if "÷" in group + column else ""
                file.write(f"Fleet\t{group}\t{name} → {column}\t{unit}\t{value!r}\t\n")


def counted(many: int) -> str:
    """So many processes."""
    return "1 process" if many == 1 else f"{many} processes"


def share(what: str, value: float) -> str:
    """A figure: a share with three places, because a thousandth of it counts."""
    return f"{value:.3f}" if "÷" in what else few(value)


def few(figure: float) -> str:
    """A figure with as many places as mean something."""
    if figure >= 100:
        return f"{figure:,.0f}"
    if figure >= 10:
        return f"{figure:.1f}"
    return f"{figure:.2f}" if figure >= 0.1 else f"{figure:.4f}" if figure >= 0.0001 else "< 0.0001"


def limited(bench: Bench) -> None:
    """One process that wants more than the rate, and waits a little after each refusal."""
    for rate in RATES:
        rows = []
        found: dict[str, float] = {}
        for name in bench.commands:
            if "INCR" in name:
                continue
            if result := bench.run(name, Load(rate, 2 * bench.args.seconds, pause=PAUSE)):
                admitted = result.sum("admitted")
                found = {
                    "admitted ÷ declared": admitted / result.declared,
                    "worst second ÷ rate": result.worst_second / rate,
                    "round trips a call": result.spent.trips / result.decisions,
                    "… admitted": result.spent.trips / admitted,
                    "CPU µs a call": (result.lines[0]["cpu_s"] or 0) * 1e6 / result.decisions,
                }
                keep_columns(f"one process that wants more than {rate:,} a second", name, found)
                rows.append([name, *(share(what, value) for what, value in found.items())])
        bench.show(f"{rate:,} a second", list(found), rows)


def scaled(bench: Bench) -> None:
    """From one process to many: as fast as they can, and under a rate that they share."""
    names = [
        name
        for name in bench.commands
        if not name.startswith("asyncio") and any(word in name for word in SCALED)
    ]
    columns = [counted(many) for many in bench.args.processes]
    loads = {
        "nothing refused": Load(PLENTY, bench.args.seconds),
        f"{SHARED:,} a second": Load(SHARED, 2 * bench.args.seconds, pause=PAUSE),
    }
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        for many, column in zip(bench.args.processes, columns, strict=True):
            for what, load in loads.items():
                if result := bench.run(name, load, many):
                    found = {f"round trips/s at the server, {what}": result.spent.trips / load.seconds}
                    if load.pause:
                        admitted = result.sum("admitted") / result.declared
                        found[f"admitted ÷ declared of all processes, {what}"] = admitted
                    else:
                        found[f"calls/s of all processes, {what}"] = result.per_second
                    for title, value in found.items():
                        tables.setdefault(title, {}).setdefault(name, {})[column] = value
                        keep_columns(title, name, {column: value})
    for title, table in tables.items():
        rows = [
            [name, *(share(title, line[column]) if column in line else "–" for column in columns)]
            for name, line in table.items()
        ]
        bench.show(title, columns, rows)


def check(bench: Bench) -> int:
    """Ours, briefly: what is promised at any speed. The number of broken promises."""
    wrong = []
    names = [name for name in bench.commands if "leased" in name or "strict" in name]
    for name in names:
        for processes in (1, 2):
            result = bench.run(name, Load(420, 1.0, 0.1, pause=PAUSE), processes)
            broken_rules = broken(result, "strict" in name) if result else ["failed"]
            wrong += [f"{name}, {processes} processes: {what}" for what in broken_rules]
    for line in wrong or [f"{len(names)} contenders, one process and two: as promised"]:
        print(line)
    return len(wrong) + (not names)


def broken(result: Result, strict: bool) -> list[str]:
    """What does not hold of a run of ours at 420 a second, where a lease is 21 tokens."""
    rate, processes = result.load.rate, result.processes
    decisions, admitted, trips = result.decisions, result.sum("admitted"), result.spent.trips
    wrong = []
    # Nothing is refused below the rate, but for tokens under way; above it there may be a lease for each.
    if not 0.8 * min(decisions, rate) <= admitted <= result.declared * 1.01 + 21 * processes:
        wrong.append(f"{admitted:.0f} admitted of {decisions:.0f}, declared {result.declared:.0f}")
    if strict and not 0.9 * decisions <= trips <= 1.1 * decisions:
        wrong.append(f"{trips} round trips for {decisions:.0f} calls")
    # One in twenty calls; who makes fewer than that asks every 50 ms, and for the first burst.
    few_calls = 1.5 * (processes * 20 * result.load.seconds + rate / 21)
    if not strict and trips > max(0.05 * decisions, few_calls):
        wrong.append(f"{trips} round trips for {decisions:.0f} calls, 5 % promised")
    if lost := result.sum("lost"):
        wrong.append(f"{lost:.0f} commands or decisions without the store")
    return wrong


def main() -> None:
    """Runs everything, or the check."""
    args = settings()
    with serving(args.redis_server) as server:
        bench = Bench(args, server)
        versions = "; ".join(f"{name} {version or 'NOT HERE'}" for name, version in bench.versions.items())
        keep_versions(versions)
        print(f"{versions}; {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}")
        if args.check:
            sys.exit(check(bench))
        alone(bench)
        if not args.alone:
            limited(bench)
            scaled(bench)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")
    if args.out:
        args.out.write_text(json.dumps({"versions": bench.versions, "runs": bench.kept}))


if __name__ == "__main__":
    main()
