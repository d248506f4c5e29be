"""Prints the public interface of Swift modules from the compiler's symbol graphs: `python swift.py Tidegate.symbols.json …`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Prints one line for each symbol: its path and its declaration."""
    lines = set()
    for file in sys.argv[1:]:
        for symbol in json.loads(Path(file).read_text("utf-8"))["symbols"]:
            declaration = "".join(part["spelling"] for part in symbol["declarationFragments"])
            lines.add(f"{'.'.join(symbol['pathComponents'])}: {' '.join(declaration.split())}")
    sys.stdout.write("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
