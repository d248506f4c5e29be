"""The pure parts: the schedule, the percentiles, the recovery time, the series."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import pytest

from load import OK, Call, poisson
from report import (
    Run,
    amplification,
    arrivals,
    figures,
    goodput,
    offered,
    per_bucket,
    percentile,
    record,
    recovery,
    share,
    table,
)
from world import World

WORLD = World(brownout_from=5.0, brownout_until=10.0, end=30.0)


def steady(world: World, failed: tuple[float, float] = (0.0, 0.0), every: float = 0.05) -> list[Call]:
    """A call every `every` seconds, answered after 10 ms; those due in [failed) fail after half a second."""
    calls = []
    for i in range(round(world.end / every)):
        due = i * every
        bad = failed[0] <= due < failed[1]
        calls.append(Call(due, due + 0.001, due + (0.5 if bad else 0.01), "timeout" if bad else OK))
    return calls


def run_of(
    calls: list[Call], world: World = WORLD, per_second: int = 20, served: int = 600, left: int = 0
) -> Run:
    return Run(
        key="none",
        title="no retries",
        logic="one try",
        calls=calls,
        attempts_sent=len(calls),
        server={"requests": served + left, "abandoned": left, "by_status": {"200": served}},
        series=[{"t": float(t), "arrivals": per_second} for t in range(int(world.end))],
        cpu=0.1,
    )


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert poisson(60.0, 54.0, seed=1) == poisson(60.0, 54.0, seed=1)
    assert poisson(60.0, 54.0, seed=1) != poisson(60.0, 54.0, seed=2)


def test_a_longer_schedule_begins_like_a_shorter_one() -> None:
    short = poisson(60.0, 10.0, seed=3)
    assert poisson(60.0, 20.0, seed=3)[: len(short)] == short


@pytest.mark.parametrize("seed", range(10))
def test_the_schedule_has_the_rate_it_was_asked_for(seed: int) -> None:
    times = poisson(60.0, 100.0, seed)
    assert times == sorted(times)
    assert times[0] >= 0.0 and times[-1] < 100.0
    assert abs(len(times) - 6000) < 5 * math.sqrt(6000)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert deviation / mean == pytest.approx(1.0, abs=0.1)  # exponential gaps: their deviation is their mean


def test_percentiles_are_members_by_nearest_rank() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([1.0, 2.0, 3.0], 0.0) == 1.0
    assert math.isnan(percentile([], 0.5))


def test_a_run_that_never_suffered_recovers_at_once() -> None:
    assert recovery(steady(WORLD), WORLD) == 0.0


def test_recovery_is_the_beginning_of_the_first_good_window() -> None:
    # Failures end at 13.0; the first 2 s with at most 5 % of them (2 of 40 calls) begin two calls earlier.
    assert recovery(steady(WORLD, failed=(5.0, 13.0)), WORLD) == pytest.approx(2.9)


def test_a_run_that_stays_dead_never_recovers() -> None:
    assert recovery(steady(WORLD, failed=(5.0, 30.0)), WORLD) is None


def test_a_recovery_too_late_to_be_held_for_the_window_does_not_count() -> None:
    assert recovery(steady(WORLD, failed=(5.0, 28.2)), WORLD) is None
    assert recovery(steady(WORLD, failed=(5.0, 28.0)), WORLD) == pytest.approx(17.9)


def test_silence_is_not_recovery() -> None:
    before = [call for call in steady(WORLD) if call.due < WORLD.brownout_until]
    assert recovery(before, WORLD) is None


def test_everyday_errors_do_not_hide_a_recovery() -> None:
    calls = [
        call._replace(outcome="503") if i % 40 == 0 else call
        for i, call in enumerate(steady(WORLD, failed=(5.0, 12.0)))
    ]
    assert recovery(calls, WORLD) == pytest.approx(2.0, abs=0.11)


def test_an_answer_after_the_deadline_is_no_success() -> None:
    world = replace(WORLD, deadline=2.0)
    calls = [Call(0.0, 0.0, 2.0, OK), Call(0.0, 0.0, 2.001, OK), Call(0.0, 0.0, 0.1, "503")]
    assert share(calls, world) == pytest.approx(1 / 3)
    assert math.isnan(share([], world))


def test_latency_counts_from_the_schedule_not_from_a_late_start() -> None:
    assert share([Call(due=0.0, started=1.5, ended=2.1, outcome=OK)], replace(WORLD, deadline=2.0)) == 0.0


def test_buckets_take_each_time_once() -> None:
    assert per_bucket([0.0, 0.999, 1.0, 2.5, 3.0, -0.1], end=3.0) == [2, 1, 1]
    assert per_bucket([2.4], end=2.5) == [0, 0, 1]


def test_goodput_belongs_to_the_second_of_the_call_not_of_its_answer() -> None:
    run = run_of([Call(0.9, 0.9, 1.5, OK), Call(1.1, 1.1, 1.6, "timeout")])
    assert goodput(run, WORLD)[:2] == [1, 0]
    assert offered(run, WORLD)[:2] == [1, 1]


def test_amplification_divides_what_the_server_saw_by_what_was_due() -> None:
    run = run_of(steady(WORLD), per_second=50)
    assert amplification(run, WORLD) == pytest.approx([2.5] * 30)
    assert amplification(run, WORLD, over=3) == pytest.approx([2.5] * 30)
    assert math.isnan(amplification(run_of([]), WORLD)[0])


def test_the_servers_series_is_cut_and_filled_to_the_run() -> None:
    run = run_of(steady(WORLD))
    assert len(arrivals(replace(run, series=[*run.series, {"arrivals": 9}]), WORLD)) == 30
    assert arrivals(replace(run, series=run.series[:29]), WORLD)[-1] == 0


def test_figures_of_a_known_run() -> None:
    f = figures(run_of(steady(WORLD, failed=(5.0, 13.0)), served=440, left=160), WORLD)
    assert f.success == pytest.approx(440 / 600)
    assert (f.success_before, f.success_during) == (1.0, 0.0)
    assert f.success_after == pytest.approx(17 / 20)
    assert f.attempts_per_call == pytest.approx(1.0)
    assert f.wasted == pytest.approx(160 / 600)
    assert f.ok_p99 == pytest.approx(0.01)
    assert f.all_p99 == pytest.approx(0.5)
    assert (f.load_peak, f.load_last) == (20.0, 20.0)
    assert f.lag_p99 == pytest.approx(0.001)


def test_a_run_without_any_success_has_a_table_and_valid_json() -> None:
    run = run_of(steady(WORLD, failed=(0.0, 30.0)), served=0, left=600)
    assert "never" in table([run], WORLD)
    text = json.dumps(record([run], WORLD), allow_nan=False)
    assert json.loads(text)["arms"]["none"]["figures"]["ok_p50"] is None
