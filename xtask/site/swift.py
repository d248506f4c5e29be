"""Writes the page of Swift's API from the symbol graph of the compiler: `python swift.py Tidegate.symbols.json … > page.md`."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

HEAD = """# Swift

All public symbols of the module `Tidegate`, from the compiler's symbol graph. [The guide](../swift.md) shows them at work.
"""
ORDER = ["class", "struct", "enum", "protocol", "typealias", "func"]


def declaration(symbol: dict[str, Any]) -> str:
    return "".join(part["spelling"] for part in symbol["declarationFragments"])


def comment(symbol: dict[str, Any], indent: str = "") -> str:
    """The documentation comment, with its lists apart from its paragraphs, as Markdown in MkDocs wants them."""
    lines: list[str] = []
    code = False
    for line in (line["text"] for line in symbol.get("docComment", {}).get("lines", [])):
        code ^= line.strip().startswith("```")
        if not code and line.startswith("- ") and lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        lines.append(line)
    return "\n".join(indent + line if line else "" for line in lines)


def page(paths: list[pathlib.Path]) -> str:
    symbols = [symbol for path in paths for symbol in json.loads(path.read_text("utf-8"))["symbols"]]
    tops: dict[str, list[dict[str, Any]]] = {}
    for symbol in symbols:
        tops.setdefault(symbol["pathComponents"][0], []).append(symbol)

    def rank(name: str) -> tuple[int, str]:
        kinds = [it["kind"]["identifier"].removeprefix("swift.") for it in tops[name] if len(it["pathComponents"]) == 1]
        return (ORDER.index(kinds[0]) if kinds and kinds[0] in ORDER else len(ORDER), name.lower())

    text = [HEAD]
    for name in sorted(tops, key=rank):
        text.append(f"\n## {name}\n")
        members = sorted(tops[name], key=lambda it: (len(it["pathComponents"]) > 1, place(it)))
        for symbol in members:
            if len(symbol["pathComponents"]) == 1:
                text.append(f"```swift\n{declaration(symbol)}\n```\n\n{comment(symbol)}\n")
            else:
                inner = ".".join(symbol["pathComponents"][1:-1])
                within = f" in `{inner}`" if inner else ""
                # Four spaces make the comment part of the list's entry.
                text.append(f"- `{declaration(symbol)}`{within}\n\n{comment(symbol, '    ')}\n")
    return "\n".join(text)


def place(symbol: dict[str, Any]) -> tuple[str, int]:
    location = symbol.get("location", {})
    return (location.get("uri", ""), location.get("position", {}).get("line", 0))


if __name__ == "__main__":
    sys.stdout.write(page([pathlib.Path(path) for path in sys.argv[1:]]))
