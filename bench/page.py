"""Makes one page, with plots, of the rows that the benches of `cargo xtask bench` have written.

    python bench/page.py target/bench/runs.tsv --kept docs/benchmarks --out target/bench

Rows are lines `language, group, row, unit, value, against`, one for each run. Of several runs the page shows the
median and the range. A ratio is to the first row of Tidegate in the group, or to the one that `against` names; both
are of one run, and the page shows the median of the runs' ratios. Gates (`bench/gates.tsv`) are ratios too. `--kept`
is the folder of the page in the tree.
"""

# ruff: noqa: E501 — a line of the page or of a drawing is one line here

from __future__ import annotations

import argparse
import datetime
import math
import os
import platform
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

GATES = Path(__file__).parent / "gates.tsv"
WHY = "../performance.md"
"""The page that explains what is missed."""
TITLES = {"JVM": "Kotlin and the JVM", "Fleet": "A rate limit that processes share (Redis)"}
VERSIONS = "versions"
"""The group of the lines that say what ran."""
RATE = "calls/s"
"""The unit of which more is better."""
GROWTH = "beside many others"
"""The group whose rows are `what: how many`: the same call beside more and more others."""
SIDE_BY_SIDE = " → "
"""In the rows of a group that is a table of many columns: between the row's name and the column's."""
SHARE = "×"
"""The unit of shares, of which a thousandth counts."""
WORSE = 1.1
"""A ratio that grew by more than this is listed as slower."""


class Key(NamedTuple):
    """What names a row."""

    language: str
    group: str
    row: str


class Row(NamedTuple):
    """A row's figures, one for each run."""

    unit: str
    values: list[float]
    against: str

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return statistics.median(self.values)


Rows = dict[Key, Row]


class Run(NamedTuple):
    """What a file of rows holds."""

    rows: Rows
    loads: list[float]
    """Before and after each run."""
    versions: dict[str, list[str]]
    """By language: what ran, in the words of its benches."""


def read(path: Path) -> Run:
    """The rows of all runs."""
    rows: Rows = {}
    loads = []
    versions: dict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = line.split("\t")
        if len(cells) != 6:
            raise SystemExit(f"{path}:{number}: {len(cells)} cells instead of 6: {line!r}")
        language, group, row, unit, value, against = cells
        if not language:
            loads.append(float(value))
            continue
        if group == VERSIONS:
            if row not in versions[language]:
                versions[language].append(row)
            continue
        rows.setdefault(Key(language, group, row), Row(unit, [], against)).values.append(float(value))
    return Run(rows, loads, dict(versions))


def processor() -> str:
    """The name of this machine's processor, or of its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def reference(rows: Rows, key: Key) -> Key | None:
    """The row of Tidegate with which a row is compared; none for that row itself."""
    row = rows[key]
    if row.against:
        other = key._replace(row=row.against)
        return other if other in rows else None
    for other in rows:
        if other[:2] == key[:2] and other.row.startswith("tidegate") and rows[other].unit == row.unit:
            return other if other != key else None
    return None


def ratio(rows: Rows, key: Key, other: Key) -> float | None:
    """How many times the other's figure a row's is, run by run; the median of the runs."""
    pairs = zip(rows[key].values, rows[other].values, strict=False)
    found = [one / two for one, two in pairs if two > 0]
    return statistics.median(found) if found else None


def figure(value: float) -> str:
    """A figure with three digits that mean something."""
    if value and abs(value) < 100:
        return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return f"{value:,.0f}"


def table(rows: Rows, keys: list[Key]) -> Iterable[str]:
    """A group as a table."""
    many = max(len(rows[key].values) for key in keys) > 1
    yield f"| {keys[0].group} | | " + ("range | " if many else "") + "÷ tidegate |"
    yield "|---|--:|" + ("--:|" if many else "") + "--:|"
    for key in keys:
        row, other = rows[key], reference(rows, key)
        times = ratio(rows, key, other) if other else None
        name = f"**{key.row}**" if key.row.startswith("tidegate") else key.row
        span = f"{figure(min(row.values))} to {figure(max(row.values))} | " if many else ""
        yield f"| {name} | {figure(row.median)} {row.unit} | {span}{f'{times:.2f} ×' if times else ''} |"


def cell(row: Row) -> str:
    """A figure in a table of many columns."""
    if row.unit == SHARE:
        return f"{row.median:.3f}"
    return "< 0.0001" if 0 < row.median < 0.0001 else figure(row.median)


def wide_table(rows: Rows, keys: list[Key]) -> Iterable[str]:
    """A group whose rows have many columns. Only the first run measures these."""
    lines: dict[str, dict[str, Row]] = defaultdict(dict)
    for key in keys:
        name, _, column = key.row.partition(SIDE_BY_SIDE)
        lines[name][column] = rows[key]
    columns = list(dict.fromkeys(column for line in lines.values() for column in line))
    yield f"| {keys[0].group} | {' | '.join(columns)} |"
    yield "|---|" + "--:|" * len(columns)
    for name, line in lines.items():
        shown = f"**{name}**" if "tidegate" in name else name
        yield f"| {shown} | {' | '.join(cell(line[at]) if at in line else '–' for at in columns)} |"


STYLE = """
svg{color:#1a7f5a}text{font:13px system-ui,sans-serif;fill:#1f2328}.grey{fill:#59636e}.line{stroke:#d1d9e0}.ours{fill:#1a7f5a}.peer{fill:#9a6700}
@media(prefers-color-scheme:dark){svg{color:#3fb68b}text{fill:#e6edf3}.grey{fill:#9aa4af}.line{stroke:#30363d}.ours{fill:#3fb68b}.peer{fill:#d4a72c}}
"""


def plot(rows: Rows, groups: dict[str, list[Key]], title: str) -> str:
    """The groups of a language: a dot for each row on a scale of powers of ten, and a line for the range of the runs."""
    left, width, step = 330, 720, 20
    shown = {
        name: [key for key in keys if rows[key].median > 0 and not rows[key].unit.startswith("bytes")]
        for name, keys in groups.items()
    }
    shown = {name: keys for name, keys in shown.items() if len(keys) > 1}
    values = [value for keys in shown.values() for key in keys for value in rows[key].values if value > 0]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)

    def x(value: float) -> float:
        return left + (math.log10(max(value, 10**low)) - low) / (high - low) * (width - left - 20)

    y, parts = 44, []
    for name, keys in shown.items():
        parts.append(
            f'<text x="8" y="{y}" font-weight="600">{escape(name)}, {escape(rows[keys[0]].unit)}</text>'
        )
        for key in keys:
            y += step
            row = rows[key]
            kind = "ours" if "tidegate" in key.row else "peer"
            label = key.row if len(key.row) <= 48 else key.row[:47] + "…"
            ends = x(min(row.values)), x(max(row.values))
            parts.append(
                f'<text class="grey" x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(label)}</text>'
            )
            parts.append(
                f'<rect class="{kind}" x="{ends[0]:.1f}" y="{y - 1}" width="{max(ends[1] - ends[0], 1):.1f}" height="2"/>'
            )
            parts.append(f'<circle class="{kind}" cx="{x(row.median):.1f}" cy="{y}" r="4"/>')
        y += 2 * step
    grid = []
    for power in range(low, high + 1):
        at = x(10.0**power)
        grid.append(f'<line class="line" x1="{at:.1f}" x2="{at:.1f}" y1="26" y2="{y - step}"/>')
        grid.append(f'<text class="grey" x="{at:.1f}" y="18" text-anchor="middle">{10.0**power:,g}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>{''.join(grid)}{''.join(parts)}</svg>\n"
    )


class Growth(NamedTuple):
    """How a call's cost grows with what is there."""

    sizes: list[int]
    of: dict[str, dict[int, Row]]
    """By what there is many of, and by how many."""


def growth(rows: Rows, keys: list[Key]) -> Growth:
    """The rows of that group."""
    of: dict[str, dict[int, Row]] = defaultdict(dict)
    for key in keys:
        what, _, size = key.row.rpartition(": ")
        of[what][int(size)] = rows[key]
    return Growth(sorted({size for row in of.values() for size in row}), dict(of))


def growth_table(found: Growth) -> Iterable[str]:
    """A line for each thing there may be many of, a column for each number of them."""
    yield f"| {GROWTH}, ns | " + " | ".join(f"{size:,}" for size in found.sizes) + " |"
    yield "|---|" + "--:|" * len(found.sizes)
    for what, by_size in found.of.items():
        cells = (figure(by_size[size].median) if size in by_size else "" for size in found.sizes)
        yield f"| {what} | " + " | ".join(cells) + " |"


def growth_plot(found: Growth, title: str) -> str:
    """A curve for each thing, named at its end; both scales are of powers of ten."""
    left, right, top, width, height = 64, 390, 30, 900, 420
    medians = [row.median for by_size in found.of.values() for row in by_size.values()]
    low, high = math.floor(math.log10(min(medians))), math.ceil(math.log10(max(medians)))
    high = max(high, low + 1)
    first, last = (math.log10(size) for size in (found.sizes[0], found.sizes[-1]))

    def x(size: float) -> float:
        return left + (math.log10(size) - first) / max(last - first, 1) * (width - left - right)

    def y(ns: float) -> float:
        return height - 30 - (math.log10(ns) - low) / (high - low) * (height - 30 - top)

    parts = ['<text class="grey" x="4" y="16">ns for a call</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="line" x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="grey" x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>'
        )
    for size in found.sizes:
        parts.append(
            f'<text class="grey" x="{x(size):.1f}" y="{height - 10}" text-anchor="middle">{size:,}</text>'
        )
    free = float(top)
    for what, by_size in sorted(found.of.items(), key=lambda it: -list(it[1].values())[-1].median):
        dots = [(x(size), y(row.median)) for size, row in sorted(by_size.items())]
        points = " ".join(f"{across:.1f},{up:.1f}" for across, up in dots)
        parts.append(f'<polyline class="ours" style="fill:none;stroke:currentColor" points="{points}"/>')
        parts += [f'<circle class="ours" cx="{across:.1f}" cy="{up:.1f}" r="3"/>' for across, up in dots]
        label = max(dots[-1][1], free)
        free = label + 17
        end = width - right
        parts.append(
            f'<line class="line" x1="{end + 5}" x2="{end + 22}" y1="{dots[-1][1]:.1f}" y2="{label:.1f}"/>'
        )
        parts.append(f'<text x="{end + 26}" y="{label + 4:.1f}">{escape(what)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def gates(rows: Rows) -> Iterable[str]:
    """The gates as a table. A row that was not measured in this run is named as such."""
    yield "| Gate | Beside | At most | Goal | Measured | |"
    yield "|---|---|--:|--:|--:|---|"
    for line in GATES.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        language, group, row, beside, most, goal, why = line.split("\t")
        key, other = Key(language, group, row), Key(language, group, beside)
        times = ratio(rows, key, other) if key in rows and other in rows else None
        verdict = "not measured"
        if times is not None:
            verdict = (
                "goal"
                if times <= float(goal)
                else "met"
                if times <= float(most)
                else f"missed: [why]({WHY}#{why})"
            )
        measured = "" if times is None else f"{times:.3g} ×"
        yield f"| {language}, {group}: {row} | {beside} | {most} × | {goal} × | {measured} | {verdict} |"


def changes(rows: Rows, before: Rows) -> list[str]:
    """Rows of ours whose ratio to the first peer of their group has changed by more than a tenth, and those that are gone."""
    found = []
    for key in before:
        if not key.row.startswith("tidegate"):
            continue
        if key not in rows:
            if any(other.language == key.language for other in rows):
                found.append(f"- {key.language}, {key.group}: `{key.row}` was not measured this time")
            continue
        peer = next(
            (
                other
                for other in before
                if other[:2] == key[:2]
                and other in rows
                and not other.row.startswith(("tidegate", "…", "the same", "a bare"))
                and before[other].unit == before[key].unit
            ),
            None,
        )
        if peer is None:
            continue
        now, then = ratio(rows, key, peer), ratio(before, key, peer)
        if now and then and not 1 / WORSE <= now / then <= WORSE:
            word = "slower" if (now > then) is not (rows[key].unit == RATE) else "faster"
            found.append(
                f"- {key.language}, {key.group}: `{key.row}` is {now:.2f} × of {peer.row}, was {then:.2f} ×: {word}"
            )
    return found


def page(run: Run, before: Rows, drawn: dict[str, str]) -> str:
    """The whole page."""
    rows, loads, versions = run
    runs = max((len(row.values) for row in rows.values()), default=0)
    load = f"at a load of {min(loads):.1f} to {max(loads):.1f}" if loads else "at an unknown load"
    lines = [
        "# Benchmarks of one run",
        "",
        "<!-- Written by `cargo xtask bench --keep` (bench/page.py). Do not edit. -->",
        "",
        f"{'Median of ' + str(runs) + ' runs' if runs > 1 else 'One run'} of {datetime.date.today():%d %B %Y}, {os.cpu_count()} cores"
        f" ({processor()}, {platform.system()}), {load}. Each ratio compares two rows of the same run. A range is over the runs."
        " [Performance](../performance.md) says what the rows are, and where the time goes.",
        "",
        "## Gates",
        "",
        "A gate is a ratio to a row beside it, so that another machine or a busy hour changes little."
        " A reason is given for each gate that is missed.",
        "",
        *gates(rows),
        "",
    ]
    if before:
        changed = changes(rows, before)
        lines += [
            "## Since the last page",
            "",
            *(changed or ["No ratio to a peer has changed by more than a tenth."]),
            "",
        ]
    languages: dict[str, dict[str, list[Key]]] = defaultdict(lambda: defaultdict(list))
    for key in rows:
        languages[key.language][key.group].append(key)
    for language, groups in languages.items():
        title = TITLES.get(language, language)
        lines += [f"## {title}", ""]
        for version in versions.get(language, []):
            lines += [f"{version}.", ""]
        grown = groups.pop(GROWTH, None)
        wide = [group for group, keys in groups.items() if SIDE_BY_SIDE in keys[0].row]
        side_by_side = [groups.pop(group) for group in wide]
        if drawing := plot(rows, groups, f"{title}: what a call costs"):
            name = re.sub(r"\W+", "-", language.lower()) + ".svg"
            drawn[name] = drawing
            lines += [
                f"![A dot for each row, on a scale of powers of ten; a line for the range of the runs.]({name})",
                "",
            ]
        for keys in groups.values():
            lines += [*table(rows, keys), ""]
        for keys in side_by_side:
            lines += [*wide_table(rows, keys), ""]
        if grown:
            found = growth(rows, grown)
            drawn["growth.svg"] = growth_plot(found, "What a call costs beside many others")
            shows = "A curve for each thing that there may be many of; both scales are of powers of ten."
            lines += [f"![{shows}](growth.svg)", "", *growth_table(found), ""]
    return "\n".join(lines)


def main() -> None:
    """Writes the page, its plots and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--kept", type=Path, required=True, help="the folder of the last page that was kept")
    parser.add_argument("--out", type=Path, required=True, help="the folder of this one")
    options = parser.parse_args()
    run = read(options.rows)
    if not run.rows:
        sys.exit(f"{options.rows} has no rows: no bench has run")
    last = options.kept / "rows.tsv"
    before = read(last).rows if last.is_file() else {}
    drawn: dict[str, str] = {}
    text = page(run, before, drawn)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "README.md": text,
        "rows.tsv": options.rows.read_text(encoding="utf-8"),
        **drawn,
    }.items():
        (options.out / name).write_text(content, encoding="utf-8")
    print(f"{len(run.rows)} rows, {len(drawn)} plots")


if __name__ == "__main__":
    main()
