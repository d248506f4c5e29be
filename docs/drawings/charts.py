"""Charts of `docs/explanation`, drawn from the tables of `docs/explanation/experiments.md`. `draw.py` writes them."""

# ruff: noqa: E501 — a line of text in a drawing is one line here

from __future__ import annotations

import pathlib
import re
from typing import Protocol

EXPERIMENTS = pathlib.Path(__file__).parents[1] / "explanation/experiments.md"
LEFT, RIGHT, TOP, BOTTOM = 60, 500, 44, 280


class Canvas(Protocol):
    """What a chart needs of a drawing."""

    def text(self, x: int, y: int, words: str, kind: str = "ink", anchor: str = "start") -> None:
        """One line of text."""

    def line(self, path: str, kind: str = "line", ends: bool = True) -> None:
        """A line along an SVG path."""


def table(section: str, first: str) -> tuple[list[str], list[list[str]]]:
    """The first table of a section whose first column is called so: its headings and its rows."""
    text = EXPERIMENTS.read_text("utf-8").split(f"### {section} ")[1].split("\n### ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    return rows[0], rows[2:]


def number(cell: str) -> float:
    """Tidegate's figure of a cell; the published one is in brackets behind it."""
    return float(cell.split(" ")[0])


class Axes:
    """A plane with grid lines and labels."""

    def __init__(self, it: Canvas, title: str, xs: list[float], top: float, below: str) -> None:
        self.it, self.low, self.high, self.top = it, xs[0], xs[-1], top
        it.text(LEFT, 22, title, "ink bold")
        for x in xs:
            it.text(self.x(x), BOTTOM + 20, f"{x:g}", "grey small", "middle")
        it.text((LEFT + RIGHT) // 2, BOTTOM + 42, below, "grey small", "middle")

    def x(self, value: float) -> int:
        """The place of a value, in pixels from the left."""
        return round(LEFT + (value - self.low) / (self.high - self.low) * (RIGHT - LEFT))

    def y(self, value: float) -> int:
        """The place of a value, in pixels from the top."""
        return round(BOTTOM - value / self.top * (BOTTOM - TOP))

    def grid(self, *values: tuple[float, str]) -> None:
        """Lines at these values, with their labels."""
        for value, words in values:
            self.it.line(f"M{LEFT} {self.y(value)}H{RIGHT}", "thin dash" if value else "thin", ends=False)
            self.it.text(LEFT - 8, self.y(value) + 4, words, "grey small", "end")

    def curve(self, points: list[tuple[float, float]], label: str, place: int, kind: str) -> None:
        """A curve with its label at the right."""
        path = "L".join(f"{self.x(x)} {self.y(y)}" for x, y in points)
        self.it.line(f"M{path}", kind, ends=False)
        self.it.text(RIGHT + 12, place, label, "ink small")


def collapse(it: Canvas) -> None:
    """E6: the share of servers that stay down, by load."""
    heads, rows = table("E6", "policy")
    loads = [float(re.sub(r"\D", "", head)) for head in heads[1:6]]
    axes = Axes(
        it,
        "Servers that stay down after a pulse of load",
        loads,
        1.0,
        "calls a second, to a server that can answer 66.7 attempts a second",
    )
    axes.grid((0, "none"), (0.5, "half"), (1, "all"))
    # Labels beside the ends of the curves, moved so that they do not meet.
    labels = {
        "3 attempts": ("three attempts", -6, "line"),
        "3 attempts, jittered backoff": ("… with jittered backoff", 28, "line dash"),
        "http, window": ("a window of 20 % and 10/s", 14, "line dash"),
        "http": ("Tidegate's default budget", -8, "line good-line"),
        "no retry": ("no retry", 16, "line dash"),
    }
    for name, *cells in rows:
        if name in labels:
            label, shift, kind = labels[name]
            points = list(zip(loads, map(number, cells), strict=False))
            axes.curve(points, label, axes.y(points[-1][1]) + shift, kind)


def amplification(it: Canvas) -> None:
    """E1: attempts per call by the share of attempts that fail."""
    _, rows = table("E1", "p")
    ps = [number(row[0]) for row in rows]
    axes = Axes(it, "Attempts per call", [0, 0.1, 0.2, 0.3, 0.5, 0.75], 3.0, "share of attempts that fail")
    axes.grid((0, "0"), (1, "1"), (2, "2"), (3, "3"))
    for column, label, shift, kind in (
        (4, "three retries", 0, "line"),
        (8, "Tidegate's default budget", -4, "line good-line"),
        (2, "no retry", 12, "line dash"),
    ):
        points = [(p, number(row[column])) for p, row in zip(ps, rows, strict=True)]
        axes.curve(points, label, axes.y(points[-1][1]) + 4 + shift, kind)
