"""CPU time of a JVM's first engine and call above that of an empty program: pairs of processes, in turn.

    cd bindings-uniffi/kotlin
    mvn -q -Pbench -DskipTests -pl :tidegate-bench -am package dependency:build-classpath -Dmdep.outputFile=…
    python bench/jvm/start.py --class-path "$(cat …)" [--runs 40] [-- java's options]

Prints medians and quartiles in milliseconds: of the empty program, the other, and the pairs' differences.
"""

import argparse
import os
import statistics
import subprocess


def cpu(command: list[str]) -> float:
    """User and system time of a process, in milliseconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} has ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    """Runs the pairs and prints what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--class-path", required=True)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("options", nargs="*", help="options of java")
    given = parser.parse_args()
    java = ["java", *given.options, "-cp", given.class_path, "dev.tidegate.bench.Start"]
    pairs = [(cpu([*java, "empty"]), cpu(java)) for _ in range(given.runs)]
    columns = {
        "empty": [empty for empty, _ in pairs],
        "first call": [ours for _, ours in pairs],
        "difference": [ours - empty for empty, ours in pairs],
    }
    for name, all_of in columns.items():
        low, middle, high = statistics.quantiles(all_of, n=4)
        print(f"{name:12}{middle:8.1f} ms   ({low:.1f} … {high:.1f}, least {min(all_of):.1f})")


if __name__ == "__main__":
    main()
