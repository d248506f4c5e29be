"""Puts the figures of the page into the texts that quote them, or says which texts quote other ones.

    python bench/quoted.py            writes the figures of docs/benchmarks/rows.tsv into the texts
    python bench/quoted.py --check    changes nothing, and fails if a text has another figure

`bench/quoted.toml` lists the texts. Each has a `file`, a `text` in which `{}` stands for a figure, and
`figures`, one for each `{}`: cells with ` | ` between them, of which the last says how the figure is written.

    Rust | through http_layer | http_layer | 1,234             the median of the row
    Rust | through http_layer | http_layer ÷ http_bare | 0.00  the median of the ratios of each run
    Rust | through http_layer | http_layer − http_bare | 1,234 the difference of the medians

A figure is written in thousands with commas (`1,234`), with as many decimals as the form has (`0.00`), with
three digits that mean something (`3 digits`) or rounded to tens (`1,230`). `/1000` after the form turns ns
into µs; `least` and `most` take the range of the runs in place of the median.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).parent / "quoted.toml"
ROWS = ROOT / "docs" / "benchmarks" / "rows.tsv"
FIGURE = r"[\d,]*\.?\d+"
FORM = re.compile(r"(1,234|1,230|0\.0+|3 digits)( /1000)?(?: (least|most))?")


def beside(name: str) -> ModuleType:
    """Another file of this folder, as a module."""
    spec = importlib.util.spec_from_file_location(
        f"tidegate_bench_{name}", Path(__file__).parent / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page = beside("page")
Measured = dict[tuple[str, str, str], list[float]]


class Wrong(NamedTuple):
    """A text that does not have the page's figures."""

    file: str
    why: str


def values(
    rows: dict[tuple[str, str, str], list[float]], language: str, group: str, what: str
) -> list[float]:
    """The figures of a row, or of what is computed of two, one for each run."""
    cells = re.split(" ([÷−]) ", what)
    of = [rows[language, group, row] for row in cells[::2]]
    match cells[1::2]:
        case []:
            return of[0]
        case ["÷"]:
            return [one / two for one, two in zip(*of, strict=False) if two > 0]
        case ["−"]:
            return [statistics.median(of[0]) - statistics.median(of[1])]
    raise SystemExit(f"{LIST.name}: `{what}` is neither a row nor two rows with ÷ or − between them")


def written(form: str, found: list[float]) -> str:
    """A figure in the form that the list asks for."""
    shape = FORM.fullmatch(form)
    if not shape:
        raise SystemExit(f"{LIST.name}: `{form}` is no form; forms are 1,234, 0.00, 3 digits and 1,230")
    pick: Callable[[list[float]], float] = {"least": min, "most": max}.get(shape[3], statistics.median)
    value = pick(found) / (1000 if shape[2] else 1)
    match shape[1]:
        case "1,234":
            return f"{value:,.0f}"
        case "1,230":
            return f"{round(value, -1):,.0f}"
        case "3 digits":
            return str(page.figure(value))
    return f"{value:.{len(shape[1]) - 2}f}"


def filled(root: Path, quotes: Path, rows: Path) -> Iterator[tuple[Path, str, list[Wrong]]]:
    """Each file that quotes figures, as it should be, and what is wrong with it as it is."""
    measured = {tuple(key): row.values for key, row in page.read(rows).rows.items()}
    by_file: dict[str, list[dict[str, list[str] | str]]] = {}
    for quote in tomllib.loads(quotes.read_text(encoding="utf-8"))["quote"]:
        by_file.setdefault(quote["file"], []).append(quote)
    for file, of_it in by_file.items():
        text, wrong = (root / file).read_text(encoding="utf-8"), []
        for quote in of_it:
            pattern = f"({FIGURE})".join(map(re.escape, str(quote["text"]).split("{}")))
            places = list(re.finditer(pattern, text))
            if len(places) != 1:
                wrong.append(Wrong(file, f"has this text {len(places)} times, not once: {quote['text']}"))
                continue
            place = places[0]
            figures = [cell.split(" | ") for cell in quote["figures"]]
            if len(figures) != len(place.groups()):
                raise SystemExit(f"{quotes.name}: {len(figures)} figures for {quote['text']!r}")
            start, parts = place.start(), []
            for number, (language, group, what, form) in enumerate(figures, 1):
                now = written(form, values(measured, language, group, what))
                if place[number] != now:
                    where = f"{language}, {group}, {what}"
                    wrong.append(Wrong(file, f"says {place[number]}, the page {now}: {where}"))
                parts += [text[start : place.start(number)], now]
                start = place.end(number)
            text = text[: place.start()] + "".join(parts) + text[start:]
        yield root / file, text, wrong


def main() -> None:
    """Writes or checks the texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, and fail if a figure differs")
    check = parser.parse_args().check
    found = list(filled(ROOT, LIST, ROWS))
    lost = [wrong for *_, of_it in found for wrong in of_it if check or wrong.why.startswith("has this text")]
    for wrong in lost:
        print(f"{wrong.file} {wrong.why}", file=sys.stderr)
    if lost:
        sys.exit(1)
    for path, text, _ in found:
        path.write_text(text, encoding="utf-8")
    print(f"{len(found)} files have the page's figures")


if __name__ == "__main__":
    main()
