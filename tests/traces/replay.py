"""Replays journals by the public `Engine.replay`, and writes what the engine says to each line.

Usage: replay.py <folder>. For each file `<n>.journals` in the folder it writes `<n>.answers`. A trace is
a name, a journal and an empty line (`core/examples/traces`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate import Engine


def main(folder: str) -> None:
    """Writes each trace's name, and an answer a line."""
    for journals in sorted(Path(folder).glob("*.journals")):
        with journals.with_suffix(".answers").open("w", encoding="utf-8", newline="\n") as out:
            for trace in journals.read_text("utf-8").split("\n\n"):
                if trace:
                    name, journal = trace.split("\n", 1)
                    print(name, *Engine.replay(journal).answers, sep="\n", file=out)


if __name__ == "__main__":
    main(sys.argv[1])
