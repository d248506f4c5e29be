"""The picture: what the whole fleet sent beside what it had declared, and the breaker of each process."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

BUCKET = 0.05
SMOOTH = 20
STATES = {0: "#009E73", 1: "#D55E00", 2: "#E69F00"}
"""Closed, open, half-open; from Okabe and Ito's palette."""


def draw(lines: list[dict[str, Any]], gone: tuple[float, float], args: argparse.Namespace, out: Path) -> None:
    """Writes fleet.png and fleet.svg."""
    plt.rcParams.update({"svg.hashsalt": "tidegate", "axes.spines.top": False, "axes.spines.right": False})
    figure, (upper, lower) = plt.subplots(
        2, 1, sharex=True, figsize=(10, 6.2), height_ratios=(3, 2), layout="constrained"
    )
    starts = [sum(counts) for counts in zip(*(line["starts"] for line in lines), strict=True)]
    # The mean of the second that ends here.
    means = [
        sum(starts[max(0, at - SMOOTH) : at]) / (min(at, SMOOTH) * BUCKET) for at in range(1, len(starts))
    ]
    moments = [at * BUCKET for at in range(1, len(starts))]
    for axes in (upper, lower):
        axes.axvspan(*gone, color="#FFE7AD", linewidth=0, zorder=0.5)
    upper.text(sum(gone) / 2, max(means), "no Redis", ha="center", color="#8A5A00")
    upper.axhline(args.rate, color="#6E7781", linestyle="--", label=f"declared: {args.rate}/s")
    offered = args.load * len(lines)
    upper.plot(moments, means, color="#0072B2", linewidth=2.2, label=f"sent, of {offered}/s that were wanted")
    upper.set(ylim=(0, max(means) * 1.1), ylabel="attempts/s, whole fleet, mean of 1 s")
    upper.set_title("Eight processes, one rate limit", loc="left", weight="bold")
    upper.legend(loc="lower right", frameon=False)
    for row, line in enumerate(lines):
        changes = [(0.0, 0), *((at / 1e6, to) for at, to in line["breaker"]), (args.seconds, 0)]
        for (since, state), (until, _) in pairwise(changes):
            lower.broken_barh([(since, until - since)], (row - 0.4, 0.8), color=STATES[state], linewidth=0)
    lower.set_yticks(range(len(lines)), [line["language"] for line in lines])
    lower.invert_yaxis()
    lower.set(xlabel="seconds", xlim=(0, args.seconds))
    lower.set_title("and one breaker: closed, half-open, open", loc="left", weight="bold")
    for kind in ("png", "svg"):
        figure.savefig(out / f"fleet.{kind}", dpi=120, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)
