"""The demo's figures, and a short run of it."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path

import pytest

from arms import Chat
from demo import perform
from providers import World, running
from report import Run, draw, figures, p99, table

COUNTED = [{"requests": 3, "refused": 1, "dollars": 0.002}, {"requests": 1, "refused": 0, "dollars": 0.001}]


def test_figures_are_of_whole_answers() -> None:
    chats = [
        Chat(0.0, 0.5, 1.0, 10, True),
        Chat(1.0, 3.0, 4.0, 20, True),
        Chat(2.0, 2.5, None, 7),
        Chat(3.0),
    ]
    at = figures(Run("tidegate", chats, COUNTED), World(span=30.0))
    assert (at["success"], at["refused"], at["requests"]) == (0.5, 0.25, 1.0)
    assert (at["tokens"], at["p99"]) == (60.0, 2.0)
    assert at["price"] == pytest.approx(100.0)


def test_a_run_without_chats_has_no_percentile() -> None:
    assert math.isnan(p99([])) and p99([3.0, 1.0]) == 3.0
    assert "nan s" in table([Run("sdk", [], COUNTED)], World())


def test_the_faults_follow_each_other() -> None:
    world = World()
    edges = [*world.outage, *world.cut, *world.stalls, world.span]
    assert edges == sorted(edges)
    assert 2 * world.per_second > world.chats / (world.think + 0.8), "two providers can carry the load"


def test_a_short_run(tmp_path: Path) -> None:
    program = os.environ.get("TIDEGATE_ORIGIN")
    if not program:
        pytest.skip("TIDEGATE_ORIGIN names no binary (cargo build -p tidegate-origin)")
    world = World(chats=8, span=2.0, think=0.5)
    with running(Path(program)) as providers:
        runs = [asyncio.run(perform(name, providers, world)) for name in ("careful", "tidegate")]
    for run in runs:
        at = figures(run, world)
        assert at["chats"] >= 8 and at["success"] > 0.5
        assert sum(one["requests"] for one in run.counted) >= 8
    draw(runs, world, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000
