"""CPU time of a JVM's first engine, policy and call above an empty program, beside resilience4j's.

    cargo xtask bench jvm                     builds what this needs, and runs it too
    python bench/jvm/start.py [--runs 40] [--java java] [-- java's options]

Each round starts three processes in turn. Prints medians and quartiles in milliseconds: of the empty program,
the others, and the differences. Writes rows for `bench/page.py` where `TIDEGATE_BENCH_ROWS` says.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import zipfile
from pathlib import Path

BUILT = Path(__file__).parent / "target"
GROUP = "start: a first engine, policy and call, CPU above an empty program"
PROGRAMS = {
    "tidegate": ("dev.tidegate.bench.Start", ["tidegate", "kotlin-stdlib", "kotlinx-coroutines-core"]),
    "resilience4j": ("dev.tidegate.bench.StartPeer", ["resilience4j", "slf4j", "kotlin-stdlib"]),
}
"""A program's class, and how the names of the jars begin that it needs; its class path has no others."""


def cpu(command: list[str]) -> float:
    """User and system time of a process, in milliseconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} has ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def class_path(beginnings: list[str]) -> str:
    """The programs of this folder, and those of the jars built with them that one needs."""
    try:
        with zipfile.ZipFile(BUILT / "benchmarks.jar") as jar:
            manifest = jar.read("META-INF/MANIFEST.MF").decode().replace("\r\n ", "")
    except FileNotFoundError as error:
        raise SystemExit(f"{error}: run `cargo xtask bench jvm`") from error
    jars = manifest.partition("Class-Path: ")[2].splitlines()[0].split()
    needed = [jar for jar in jars if jar.removeprefix("lib/").startswith(tuple(beginnings))]
    return os.pathsep.join(str(BUILT / part) for part in ["classes", *needed])


def main() -> None:
    """Runs the programs in turn and prints what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--java", default="java")
    parser.add_argument("options", nargs="*", help="options of java")
    given = parser.parse_args()
    commands = {}
    for name, (program, jars) in PROGRAMS.items():
        commands[name] = [given.java, *given.options, "-cp", class_path(jars), program]
    rounds = []
    for _ in range(given.runs):
        rounds.append(
            {
                "empty": cpu([*commands["tidegate"], "empty"]),
                **{name: cpu(run) for name, run in commands.items()},
            }
        )
    columns = {name: [one[name] for one in rounds] for name in ["empty", *commands]}
    for name in commands:
        columns[f"{name}, above"] = [one[name] - one["empty"] for one in rounds]
    for name, all_of in columns.items():
        low, middle, high = statistics.quantiles(all_of, n=4)
        print(f"{name:22}{middle:8.1f} ms   ({low:.1f} … {high:.1f}, least {min(all_of):.1f})")
    rows = os.environ.get("TIDEGATE_BENCH_ROWS")
    if rows:
        with open(rows, "a", encoding="utf-8") as file:
            for name in commands:
                above = statistics.median(columns[f"{name}, above"])
                file.write(f"JVM\t{GROUP}\t{name}\tms\t{above:.1f}\t\n")


if __name__ == "__main__":
    main()
