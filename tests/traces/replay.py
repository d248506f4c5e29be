"""Replays journals by the public `Engine.replay`, and writes what the engine says to each line.

Usage: replay.py <journals> <answers>. A trace is a name, a journal and an empty line
(`core/examples/traces`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate import Engine


def main(journals: str, answers: str) -> None:
    """Writes each trace's name, and an answer a line."""
    with Path(answers).open("w", encoding="utf-8", newline="\n") as out:
        for trace in Path(journals).read_text("utf-8").split("\n\n"):
            if trace:
                name, journal = trace.split("\n", 1)
                print(name, *Engine.replay(journal).answers, sep="\n", file=out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
