"""More of `test_forze.py`: bulkheads of every kind, and their queues."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from compat.forze_page import OnClock, policy, says
from tidegate.compat import forze
from tidegate.compat.forze import (
    AdaptiveBulkheadStrategy,
    BulkheadStrategy,
    CoreException,
    Criticality,
    ExceptionKind,
    GradientBulkheadStrategy,
    bind_criticality,
    exc,
)

K = ExceptionKind


def ms(count: float) -> timedelta:
    return timedelta(milliseconds=count)


@pytest.fixture
def on() -> OnClock:
    return OnClock()


@says(3, 20)
def test_a_fixed_bulkhead_runs_queues_and_rejects(on: OnClock) -> None:
    run = on.executor(policy("p", BulkheadStrategy(max_concurrency=2, max_queue=1)))

    async def main() -> list[Any]:
        gate = asyncio.Event()

        async def held() -> str:
            await gate.wait()
            return "done"

        calls = [asyncio.ensure_future(run.run(held, policy="p")) for _ in range(4)]
        await asyncio.sleep(0)
        (state,) = run.inspect(policy="p")
        assert (state.concurrency_limit, state.in_use, state.waiting) == (2, 2, 1)
        gate.set()
        return list(await asyncio.gather(*calls, return_exceptions=True))

    *done, refused = on.run(main())
    assert done == ["done"] * 3
    assert (refused.kind, refused.summary) == (K.INFRASTRUCTURE, "Bulkhead full for policy 'p'")
    assert on.events == [("bulkhead_reject", "p", None)]


@says(21, 22, 23, 24)
def test_latency_sets_an_adaptive_limit(on: OnClock) -> None:
    strategy = AdaptiveBulkheadStrategy(
        latency_threshold=ms(300), max_concurrency=16, backoff_ratio=0.5, cooldown=ms(1000)
    )
    run = on.executor(policy("p", strategy))
    assert on.limit(run, "p", 0.1) == 16, "it starts at max_concurrency"
    assert on.limit(run, "p", 0.4) == 8
    assert on.limit(run, "p", 0.4) == 8, "at most once per cooldown"
    on.clock.tick(1)
    for _ in range(8):
        on.limit(run, "p", 0.1)
    grown = on.limit(run, "p", 0.1)
    assert 8.9 <= grown <= 9.2, "about one slot per limit successes"
    for _ in range(5):
        on.outcomes(run, "p", exc.infrastructure("fast failure"))
    assert on.limit(run, "p", 0.1) >= grown, "errors do not shrink the limit"


@says(25)
def test_a_quantile_is_not_moved_by_an_outlier(on: OnClock) -> None:
    strategy = AdaptiveBulkheadStrategy(
        latency_threshold=ms(300),
        max_concurrency=16,
        backoff_ratio=0.5,
        cooldown=ms(0),
        latency_quantile=0.95,
    )
    run = on.executor(policy("p", strategy))
    for _ in range(30):
        on.limit(run, "p", 0.1)
    assert on.limit(run, "p", 10) == 16, "one cold query"
    limits = [on.limit(run, "p", 10) for _ in range(10)]
    assert limits[-1] < 16, "a distribution that has shifted"
    assert limits.count(8) >= 5, "and the next cut needs five new samples"


def test_a_quantile_counts_from_20_calls_on_and_a_call_of_no_time_lets_the_limit_grow(on: OnClock) -> None:
    """Differences that the page names (D2): forze counts from 5 on."""
    strategy = AdaptiveBulkheadStrategy(
        latency_threshold=ms(300), max_concurrency=16, backoff_ratio=0.5, latency_quantile=0.95
    )
    every = AdaptiveBulkheadStrategy(latency_threshold=ms(300), max_concurrency=16, backoff_ratio=0.5)
    run = on.executor(policy("p", strategy), policy("every", every))
    assert [on.limit(run, "p", 10) for _ in range(20)] == [16] * 19 + [8]
    assert on.limit(run, "every", 10) == 8
    assert [on.limit(run, "every", 0) for _ in range(9)] == [8] * 8 + [9]


@says(26)
def test_a_gradient_bulkhead_needs_no_threshold(on: OnClock) -> None:
    run = on.executor(policy("p", GradientBulkheadStrategy(max_concurrency=16)))
    assert on.outcomes(run, "p", "fine") == ["fine"]
    assert on.limit(run, "p", 0.1) == 16
    with pytest.raises(CoreException, match=r"smoothing can only be 0\.2 here, got 0\.5"):
        GradientBulkheadStrategy(max_concurrency=16, smoothing=0.5)


@says(27)
def test_bulkheads_exclude_each_other() -> None:
    with pytest.raises(CoreException, match="cannot combine Bulkhead / AdaptiveBulkhead / GradientBulkhead"):
        policy("p", BulkheadStrategy(max_concurrency=1), GradientBulkheadStrategy(max_concurrency=1))


@says(28)
def test_a_stale_waiter_is_shed_under_congestion(on: OnClock) -> None:
    strategy = BulkheadStrategy(max_concurrency=1, max_queue=3, queue_target=ms(10))
    run = on.executor(policy("p", strategy))
    order = on.run(on.queue(run, "p", [(0, 0.2), (0, 0.05), (0.195, 0.05)]))
    assert order == [0, "1 infrastructure:bulkhead_queue_shed", 2]
    assert on.events == [("bulkhead_shed", "p", None)]


@says(29)
@pytest.mark.parametrize(("held", "order"), [(0.2, [0, 2, 1]), (0.05, [0, 1, 2])])
def test_the_newest_goes_first_while_congested(on: OnClock, held: float, order: list[int]) -> None:
    strategy = BulkheadStrategy(max_concurrency=1, max_queue=2, queue_adaptive_lifo=True)
    run = on.executor(policy("p", strategy))
    assert on.run(on.queue(run, "p", [(0, held), (0, 0), (0.01, 0)])) == order


@says(30)
def test_a_full_queue_sheds_who_matters_least(on: OnClock) -> None:
    strategy = BulkheadStrategy(max_concurrency=1, max_queue=1, prioritized=True)
    run = on.executor(policy("p", strategy))
    calls = [(0, 1.0), (0, 0, Criticality.BEST_EFFORT), (0.1, 0, Criticality.CRITICAL), (0.2, 0, None)]
    order = on.run(on.queue(run, "p", calls))
    refused = "infrastructure:"
    assert order == [f"1 {refused}bulkhead_queue_shed", f"3 {refused}core.infrastructure", 0, 2]


@says(30)
def test_criticality_is_the_tasks_and_normal_by_default() -> None:
    assert forze.current_criticality() is Criticality.NORMAL
    with bind_criticality(Criticality.BEST_EFFORT):
        assert forze.current_criticality() is Criticality.BEST_EFFORT
        with bind_criticality(None):
            assert forze.current_criticality() is Criticality.BEST_EFFORT
    assert forze.current_criticality() is Criticality.NORMAL
    assert sorted(Criticality) == [
        Criticality.BEST_EFFORT, Criticality.DEGRADED, Criticality.NORMAL, Criticality.CRITICAL,
    ]  # fmt: skip
