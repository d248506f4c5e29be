"""From the raw record of a run to figures and a table. Pure: no clock, no input or output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from load import OK, Call
from world import World

BUCKET = 1.0
"""Seconds per point of the series."""
SMOOTH = 3
"""Buckets over which the plot of the amplification averages, backwards: calls come in Poisson clumps."""
WINDOW = 2.0
"""Goodput has to hold for this many seconds to count as recovered."""
HEALTHY = 0.95
"""The share of the offered calls that has to succeed."""


@dataclass(frozen=True)
class Run:
    """The raw record of one arm."""

    key: str
    title: str
    logic: str
    calls: Sequence[Call]
    attempts_sent: int
    """Attempts that left the client."""
    server: dict[str, Any]
    """The origin's own counts."""
    series: Sequence[dict[str, Any]]
    """The origin's own series, in buckets of `BUCKET` seconds."""
    cpu: float
    """CPU seconds of the client's process per second of the run."""


@dataclass(frozen=True)
class Figures:
    """One column of the table. Shares are of 1, times in seconds, rates per second."""

    success: float
    success_before: float
    success_during: float
    success_after: float
    attempts_per_call: float
    ok_p50: float
    ok_p99: float
    all_p50: float
    all_p99: float
    recovered_after: float | None
    load_peak: float
    load_last: float
    wasted: float
    lag_p99: float
    lag_max: float
    cpu: float


def succeeded(call: Call, world: World) -> bool:
    """Answered well, and in time."""
    return call.outcome == OK and call.ended - call.due <= world.deadline


def share(calls: Iterable[Call], world: World) -> float:
    """The share of `calls` that succeeded; NaN if there are none."""
    good = [succeeded(call, world) for call in calls]
    return sum(good) / len(good) if good else math.nan


def percentile(values: Iterable[float], q: float) -> float:
    """The nearest-rank `q`-quantile, an actual member of `values`; NaN if there are none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan


def between(calls: Iterable[Call], start: float, end: float) -> list[Call]:
    """The calls that were due in [start, end)."""
    return [call for call in calls if start <= call.due < end]


def recovery(calls: Sequence[Call], world: World, step: float = 0.1) -> float | None:
    """Seconds from the end of the brown-out to the first `WINDOW` in which `HEALTHY` of the calls succeed.

    None if no such window lies wholly within the run.
    """
    after = between(calls, world.brownout_until, world.end)
    steps = int((world.end - world.brownout_until - WINDOW) / step + 1e-9)
    for i in range(steps + 1):
        start = world.brownout_until + i * step
        # NaN, an empty window, is not healthy.
        if share(between(after, start, start + WINDOW), world) >= HEALTHY:
            return round(i * step, 6)
    return None


def per_bucket(times: Iterable[float], end: float, width: float = BUCKET) -> list[int]:
    """How many of `times` fall into each bucket of [0, end)."""
    counts = [0] * math.ceil(end / width - 1e-9)
    for t in times:
        if 0.0 <= t < end:
            counts[int(t / width)] += 1
    return counts


def offered(run: Run, world: World) -> list[int]:
    """Calls due per bucket; the same for every arm."""
    return per_bucket((call.due for call in run.calls), world.end)


def goodput(run: Run, world: World) -> list[int]:
    """Calls per bucket *of their due time* that succeeded: what became of those who called then."""
    return per_bucket((call.due for call in run.calls if succeeded(call, world)), world.end)


def arrivals(run: Run, world: World) -> list[int]:
    """Requests that reached the server, per bucket, by its own count."""
    seen = [int(bucket["arrivals"]) for bucket in run.series]
    length = len(offered(run, world))
    return (seen + [0] * length)[:length]


def amplification(run: Run, world: World, over: int = 1) -> list[float]:
    """Requests that reached the server per call due, in each bucket and the `over - 1` before it."""
    seen, due = arrivals(run, world), offered(run, world)
    spans = [slice(max(0, i + 1 - over), i + 1) for i in range(len(due))]
    return [sum(seen[span]) / sum(due[span]) if any(due[span]) else math.nan for span in spans]


def figures(run: Run, world: World) -> Figures:
    """All figures of one arm."""
    good = [call.ended - call.due for call in run.calls if succeeded(call, world)]
    every = [call.ended - call.due for call in run.calls]
    lag = [call.started - call.due for call in run.calls]
    load = arrivals(run, world)
    last = max(1, round(len(load) / 6))
    abandoned = int(run.server["abandoned"])
    worked = abandoned + int(run.server["by_status"].get("200", 0))
    return Figures(
        success=share(run.calls, world),
        success_before=share(between(run.calls, 0.0, world.brownout_from), world),
        success_during=share(between(run.calls, world.brownout_from, world.brownout_until), world),
        success_after=share(between(run.calls, world.brownout_until, world.end), world),
        attempts_per_call=int(run.server["requests"]) / len(run.calls),
        ok_p50=percentile(good, 0.5),
        ok_p99=percentile(good, 0.99),
        all_p50=percentile(every, 0.5),
        all_p99=percentile(every, 0.99),
        recovered_after=recovery(run.calls, world),
        load_peak=max(load) / BUCKET,
        load_last=sum(load[-last:]) / (last * BUCKET),
        wasted=abandoned / worked if worked else math.nan,
        lag_p99=percentile(lag, 0.99),
        lag_max=max(lag),
        cpu=run.cpu,
    )


def outcomes(run: Run) -> dict[str, int]:
    """How the calls ended, most frequent first."""
    counts: dict[str, int] = {}
    for call in run.calls:
        counts[call.outcome] = counts.get(call.outcome, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f} %"


def _ms(value: float) -> str:
    return "-" if math.isnan(value) else f"{1000.0 * value:.0f} ms"


def _recovered(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"


def table(runs: Sequence[Run], world: World) -> str:
    """The table, ready to print."""
    columns = [figures(run, world) for run in runs]
    rows: list[tuple[str, list[str]]] = [
        ("success, whole run", [_percent(f.success) for f in columns]),
        ("    before the brown-out", [_percent(f.success_before) for f in columns]),
        ("    during it", [_percent(f.success_during) for f in columns]),
        ("    after it", [_percent(f.success_after) for f in columns]),
        ("time to recover", [_recovered(f.recovered_after) for f in columns]),
        ("attempts per call", [f"{f.attempts_per_call:.2f}" for f in columns]),
        ("load on the server, peak", [f"{f.load_peak:.0f}/s" for f in columns]),
        ("    at the end", [f"{f.load_last:.0f}/s" for f in columns]),
        ("    done for callers who had left", [_percent(f.wasted) for f in columns]),
        ("p50 of successful calls", [_ms(f.ok_p50) for f in columns]),
        ("p99 of successful calls", [_ms(f.ok_p99) for f in columns]),
        ("p50 of all calls, failed ones too", [_ms(f.all_p50) for f in columns]),
        ("p99 of all calls, failed ones too", [_ms(f.all_p99) for f in columns]),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [" " * width + "".join(f"{run.title:>17}" for run in runs)]
    lines += [name.ljust(width) + "".join(f"{cell:>17}" for cell in cells) for name, cells in rows]
    return "\n".join(lines)


def record(runs: Sequence[Run], world: World) -> dict[str, Any]:
    """Everything measured, for `result.json`."""
    return {
        "world": {**asdict(world), "capacity": world.capacity, "script": world.script()},
        "definitions": {
            "success": "a 2xx within the deadline, counted from the scheduled time of the call",
            "goodput": "successful calls per second, by the scheduled time of the call",
            "amplification": "requests that reached the server, by its own count, per call due then",
            "recovered_after": f"from its end to the first {WINDOW:g} s with {HEALTHY:.0%} successful",
            "wasted": "requests whose client left before the answer, of all that were worked on",
            "call": "[due, started, ended, outcome], seconds",
        },
        "arms": {
            run.key: {
                "title": run.title,
                "logic": run.logic,
                "figures": {key: _plain(value) for key, value in asdict(figures(run, world)).items()},
                "outcomes": outcomes(run),
                "attempts_sent": run.attempts_sent,
                "per_bucket": {
                    "seconds": BUCKET,
                    "offered": offered(run, world),
                    "goodput": goodput(run, world),
                    "arrivals": arrivals(run, world),
                    "amplification": [_plain(value) for value in amplification(run, world)],
                },
                "server": run.server,
                "server_series": list(run.series),
                "calls": [[*(round(t, 4) for t in call[:3]), call.outcome] for call in run.calls],
            }
            for run in runs
        },
    }


def _plain(value: float | None) -> float | None:
    """JSON has no NaN."""
    return None if value is None or math.isnan(value) else round(value, 4)
