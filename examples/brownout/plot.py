"""The picture: goodput and amplification over time. What it says about results is computed from the run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.ticker

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine

from report import BUCKET, SMOOTH, Run, amplification, figures, goodput, offered
from world import World

COLOURS = {"naive": "#D55E00", "none": "#7A7A7A", "tidegate": "#0072B2"}
"""From Okabe and Ito's palette: told apart with any kind of colour vision, and by lightness."""
WIDTHS = {"naive": 2.4, "none": 1.8, "tidegate": 2.6}
ORDER = {"none": 3, "naive": 4, "tidegate": 5}
INK = "#24292F"
FAINT = "#6E7781"
BAND = "#FFE7AD"
BAND_INK = "#8A5A00"
STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 11.5,
    "text.color": INK,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": "#AFB8C1",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
    "svg.hashsalt": "tidegate",
}


def draw(runs: Sequence[Run], world: World, directory: Path) -> None:
    """Writes brownout.png, 1200 pixels wide, and brownout.svg."""
    with plt.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12, hspace=0.04)
        figure, (upper, lower) = plt.subplots(
            2, 1, sharex=True, figsize=(10.0, 6.6), height_ratios=(3, 2), layout=layout
        )
        for axes in (upper, lower):
            axes.axvspan(world.brownout_from, world.brownout_until, color=BAND, linewidth=0, zorder=0.5)
            axes.grid(axis="y", color="#E4E8EC", linewidth=0.8)
            axes.tick_params(length=0)
        draw_goodput(upper, runs, world)
        draw_amplification(lower, runs, world)
        figure.savefig(directory / "brownout.png", dpi=120, facecolor="white")
        figure.savefig(directory / "brownout.svg", facecolor="white", metadata={"Date": None})
        plt.close(figure)


def draw_goodput(axes: Axes, runs: Sequence[Run], world: World) -> None:
    """Successful calls per second against what was offered, and when each client was back."""
    wanted = [count / BUCKET for count in offered(runs[0], world)]
    times = [(i + 0.5) * BUCKET for i in range(len(wanted))]
    axes.fill_between(times, wanted, color="#F1F3F5", linewidth=0, zorder=0)
    axes.plot(times, wanted, color=INK, linewidth=1.1, linestyle=(0, (3.5, 2.5)), zorder=6)
    top = 1.3 * max(wanted)
    lines = {run.key: [count / BUCKET for count in goodput(run, world)] for run in runs}
    back = {run.key: figures(run, world).recovered_after for run in runs}
    beside = 0.04 * world.end + max(
        crossing(times, lines[key], 0.6 * world.offered, world.brownout_until)
        for key, after in back.items()
        if after is not None or key == "tidegate"
    )
    for run in runs:
        line, after = lines[run.key], back[run.key]
        axes.plot(times, line, color=COLOURS[run.key], linewidth=WIDTHS[run.key], zorder=ORDER[run.key])
        if after is None:
            x = world.brownout_until + 0.36 * (world.end - world.brownout_until)
            axes.annotate(
                f"{run.title}: still down after {world.end - world.brownout_until:g} s",
                (x, line[int(x / BUCKET)]),
                xytext=(0, 9),
                textcoords="offset points",
                color=COLOURS[run.key],
                weight="bold",
            )
        else:
            level = (0.54 if run.key == "tidegate" else 0.34) * world.offered
            axes.annotate(
                f"{run.title}: back " + (f"after {after:.1f} s" if after >= 0.05 else "at once"),
                (crossing(times, line, level, world.brownout_until), level),
                xytext=(beside, level),
                va="center",
                color=COLOURS[run.key],
                weight="bold",
                arrowprops={"arrowstyle": "-", "color": COLOURS[run.key], "linewidth": 1.0, "shrinkB": 3},
                zorder=7,
            )
    said = f"dashed: offered, {world.offered:g}/s on average"
    middle = (world.brownout_from + world.brownout_until) / 2
    axes.text(
        middle,
        0.985 * top,
        f"brown-out\n{world.brownout_factor:g}× slower",
        ha="center",
        va="top",
        color=BAND_INK,
    )
    axes.text(world.brownout_until + 0.5, 0.985 * top, "server healthy again", va="top", color=FAINT)
    axes.text(world.end, 0.985 * top, said, ha="right", va="top", color=INK)
    axes.set_title("Goodput: successful calls per second")
    axes.set_xlim(0.0, world.end)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.set_ylim(-0.012 * top, top)


def draw_amplification(axes: Axes, runs: Sequence[Run], world: World) -> None:
    """Requests at the server per call, and the most that the server can do."""
    top = 1.15
    for run in runs:
        line = amplification(run, world, SMOOTH)
        times = [(i + 1.0) * BUCKET for i in range(len(line))]
        axes.plot(times, line, color=COLOURS[run.key], linewidth=WIDTHS[run.key], zorder=ORDER[run.key])
        top = max(top, *line)
    limit = world.capacity / world.offered
    axes.axhline(limit, color=INK, linewidth=1.1, linestyle=(0, (1, 2)), zorder=2)
    axes.text(
        world.brownout_until + 0.5,
        limit + 0.02 * top,
        f"above this line the healthy server's queue grows: {world.capacity:.0f}/s",
        va="bottom",
        color=INK,
    )
    place = 1.0
    for run in sorted(runs, key=lambda run: run.key != "none"):
        load = figures(run, world).load_last
        crowded = load / world.offered < limit
        axes.annotate(
            f"{run.title}: {load:.0f}/s at the end",
            ((place if crowded else 1.0) * world.end, load / world.offered),
            xytext=(0, 7 if crowded else -27),
            textcoords="offset points",
            ha="right",
            color=COLOURS[run.key],
            weight="bold",
        )
        place -= 0.28 if crowded else 0.0
    axes.set_title("Amplification: requests that reach the server, per call")
    axes.set_ylim(0.0, 1.1 * top)
    axes.yaxis.set_major_formatter(lambda value, _: f"×{value:g}")
    axes.yaxis.set_major_locator(matplotlib.ticker.MultipleLocator(1.0))
    axes.set_xlabel(f"seconds  (upper panel per {BUCKET:g} s, lower over the last {SMOOTH * BUCKET:g} s)")


def crossing(times: Sequence[float], line: Sequence[float], level: float, after: float) -> float:
    """Where `line` first rises through `level` after `after`; the end of the line if it does not."""
    for (t0, y0), (t1, y1) in pairwise(zip(times, line, strict=True)):
        if t1 >= after and y0 < level <= y1:
            return t0 + (t1 - t0) * (level - y0) / (y1 - y0)
    return times[-1]
