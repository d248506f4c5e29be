"""The figures of a run, as a table and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arms import NAMES, Chat
from providers import World


@dataclass
class Run:
    """What one arm did."""

    arm: str
    chats: list[Chat]
    counted: list[dict[str, Any]]
    """By provider, by its own count."""
    cpu: float = 0.0
    """Seconds that this process worked."""
    late: float = 0.0
    """By how many seconds the event loop was late, p99."""


def p99(values: list[float]) -> float:
    """The nearest rank; not a number without values."""
    ordered = sorted(values)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)] if ordered else float("nan")


def figures(run: Run, world: World) -> dict[str, float]:
    """Success, refused share, tokens per minute, dollars per million good tokens, p99 to the first token."""
    good = [chat for chat in run.chats if chat.whole]
    requests = sum(one["requests"] for one in run.counted)
    tokens = sum(chat.tokens for chat in good)
    dollars = sum(one["dollars"] for one in run.counted)
    return {
        "chats": len(run.chats),
        "success": len(good) / max(1, len(run.chats)),
        "refused": sum(one["refused"] for one in run.counted) / max(1, requests),
        "requests": requests / max(1, len(run.chats)),
        "tokens": tokens * 60 / world.span,
        "price": dollars * 1e6 / max(1, tokens),
        "cpu": run.cpu * 1e3 / max(1, len(run.chats)),
        "p99": p99([chat.first - chat.began for chat in good if chat.first is not None]),
    }


HEAD = ("", "chats", "success", "refused", "requests", "tokens", "price", "to first token", "CPU", "late")
UNITS = ("", "", "", "of requests", "per chat", "per minute", "$ per million", "p99", "per chat", "p99")


def table(runs: list[Run], world: World) -> str:
    """One row for each arm."""
    rows = [HEAD, UNITS]
    for run in runs:
        at = figures(run, world)
        rows.append(
            (
                NAMES[run.arm],
                f"{at['chats']:.0f}",
                f"{at['success']:.1%}",
                f"{at['refused']:.1%}",
                f"{at['requests']:.2f}",
                f"{at['tokens']:,.0f}",
                f"{at['price']:.2f}",
                f"{at['p99']:.2f} s",
                f"{at['cpu']:.0f} ms",
                f"{1e3 * run.late:.0f} ms",
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def draw(runs: list[Run], world: World, path: Path) -> None:
    """Answers that became whole, per second, with the three faults behind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for (begin, end), name in zip(
        (world.outage, world.cut, world.stalls), ("outage of 1", "cut of 2", "stalls of 3"), strict=True
    ):
        axes.axvspan(begin, end, color="0.92")
        axes.text(begin, 0, f" {name}", va="bottom", fontsize=8)
    for run in runs:
        seconds = range(int(world.span))
        ended = [int(chat.ended) for chat in run.chats if chat.whole and chat.ended is not None]
        axes.step(seconds, [ended.count(second) for second in seconds], where="post", label=NAMES[run.arm])
    axes.set_xlabel("seconds")
    axes.set_ylabel("whole answers per second")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
