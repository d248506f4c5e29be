"""Rate limit, bulkheads, breaker, throttle, send rate, forcing, kinds: end to end, in both colours."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest

import tidegate
from components import KINDS, Caller, assert_error, beside, calls
from tidegate.testing import FakeClock

__all__ = ["calls"]


# Rate limit.


def test_a_rate_limit_refuses_at_once_and_says_when_to_come_back(calls: Caller) -> None:
    policy = calls.policy(rate_limit=tidegate.RateLimit(permits=2, per=1.0))
    assert [calls.call(policy, n) for n in range(2)] == [0, 1]
    calls.refused(policy, "rate_limited", 0.5)
    calls.wait(0.5)
    assert calls.call(policy, "again") == "again"
    assert policy.snapshot()["routes"]["default"]["rate"] == {"tokens": 0, "waiting": 0, "limits": {}}


def test_a_rate_limit_may_wait(calls: Caller) -> None:
    limit = tidegate.RateLimit(permits=10, per=1.0, burst=1, wait=True, max_wait=0.25)
    policy = calls.policy(rate_limit=limit)
    moments = [calls.call(policy, calls.clock.now) for _ in range(4)]
    assert moments == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_waiters_for_tokens_go_in_turn_up_to_the_longest_wait(
    clock: FakeClock, fake: tidegate.Engine
) -> None:
    limit = tidegate.RateLimit(permits=1, per=1.0, wait=True, max_wait=2.5)
    policy = tidegate.Policy(rate_limit=limit, engine=fake)
    ends = beside([(policy, 0.0)] * 5, clock)
    assert ends[:3] == [None, None, None]
    for error in ends[3:]:
        assert_error(error, "rate_limited", policy, 3.0)


def test_waiting_threads_get_their_tokens() -> None:
    clock = FakeClock(auto=False)
    engine = tidegate.Engine(seed=1, clock=clock)
    limit = {"permits": 1, "per": 1.0, "wait": True, "max_wait": 60}
    policy = tidegate.Policy(rate_limit=limit, engine=engine)
    policy.call(int)
    done = threading.Event()
    thread = threading.Thread(target=lambda: (policy.call(int), done.set()))
    thread.start()
    while engine.snapshot()["waiting"] == 0:
        pass
    assert not done.is_set()
    assert policy.snapshot()["routes"]["default"]["rate"]["waiting"] == 1
    while not done.wait(0.01):
        clock.tick(0.5)
    thread.join()
    assert 1.0 <= clock.now() < 5


def test_a_call_may_cost_more(calls: Caller) -> None:
    policy = calls.policy(rate_limit={"permits": 5, "per": 1.0})
    calls.refused(policy.at(cost=6), "cost_above_burst")
    assert calls.call(policy.at(cost=4), "four") == "four"
    calls.refused(policy.at(cost=2), "rate_limited", 0.2)
    assert calls.call(policy, "one") == "one"
    assert calls.call(policy.at(cost=0), "free") == "free"


def test_a_rate_limit_by_attempt_ends_a_retry(calls: Caller) -> None:
    policy = calls.policy(
        rate_limit={"permits": 2, "per": 60.0, "unit": "attempt"},
        retry={"max_attempts": 5, "backoff": {"base": 0, "max": 0}},
    )
    error = ConnectionError("no")
    with pytest.raises(ConnectionError) as caught:
        calls.call(policy, error)
    assert caught.value is error
    assert policy.snapshot()["attempts"] == 2
    assert error.__notes__ == ["tidegate: not retried: the next attempt was refused a slot"]


# Bulkheads.


def test_a_full_queue_admits_a_critical_call_in_place_of_another(
    clock: FakeClock, fake: tidegate.Engine
) -> None:
    bulkhead = tidegate.Bulkhead(max_concurrency=1, max_queue=1, acquire_timeout=None, prioritized=True)
    policy = tidegate.Policy(bulkhead=bulkhead, engine=fake)
    order = [policy, policy.at(criticality="degraded"), policy.at(criticality="critical"), policy]
    ends = beside([(caller, 0.0) for caller in order], clock)
    assert ends[0] is ends[2] is None
    assert_error(ends[1], "displaced", policy)
    assert_error(ends[3], "queue_full", policy)
    assert (ends[1].max_concurrency, ends[1].max_queue, ends[1].acquire_timeout) == (1, 1, None)


def test_a_queue_that_stays_full_sheds_those_who_waited_too_long(
    clock: FakeClock, fake: tidegate.Engine
) -> None:
    bulkhead = tidegate.Bulkhead(
        max_concurrency=1, max_queue=50, acquire_timeout=None, queue_target=0.5, queue_interval=2.0
    )
    policy = tidegate.Policy(bulkhead=bulkhead, engine=fake)
    ends = beside([(policy, 0.0)] * 6, clock)
    # A call takes 1 s. After 2 s the queue is congested, and all who are in it have waited longer than 0.5 s.
    assert ends[:2] == [None, None]
    shed = [error for error in ends if error is not None]
    assert shed
    for error in shed:
        assert_error(error, "queue_shed", policy)


def test_aimd_follows_latency(clock: FakeClock, fake: tidegate.Engine) -> None:
    bulkhead = tidegate.Bulkhead(
        kind="aimd",
        max_concurrency=8,
        latency_threshold=0.5,
        backoff_ratio=0.5,
        cut_interval=0,
        max_queue=100,
    )
    policy = tidegate.Policy(bulkhead=bulkhead, engine=fake)

    def limit() -> int:
        found: int = policy.snapshot()["routes"]["default"]["pool"]["limit"]
        return found

    async def calls(count: int, seconds: float) -> None:
        for _ in range(count):
            task = asyncio.ensure_future(policy.acall(clock.sleep, seconds))
            await clock.advance(seconds)
            await task

    asyncio.run(calls(1, 0.1))
    assert limit() == 8
    asyncio.run(calls(2, 1.0))
    assert limit() == 2
    asyncio.run(calls(10, 0.1))
    assert 3 <= limit() <= 8


def test_gradient2_is_cut_when_calls_get_slow(clock: FakeClock, fake: tidegate.Engine) -> None:
    bulkhead = tidegate.Bulkhead(kind="gradient2", max_concurrency=40)
    policy = tidegate.Policy(bulkhead=bulkhead, engine=fake)

    async def rounds(count: int, seconds: float) -> int:
        limit = 0
        for _ in range(count):
            limit = (await calls(seconds))["limit"]
        return limit

    async def calls(seconds: float) -> dict[str, int]:
        tasks = [asyncio.ensure_future(policy.acall(clock.sleep, seconds)) for _ in range(15)]
        await clock.advance(seconds)
        await asyncio.gather(*tasks, return_exceptions=True)
        pool: dict[str, int] = policy.snapshot()["routes"]["default"]["pool"]
        return pool

    calm = asyncio.run(rounds(20, 0.1))
    slow = asyncio.run(rounds(10, 2.0))
    assert calm >= 20 > slow


# Breaker.


def test_a_breaker_opens_probes_and_closes(calls: Caller) -> None:
    breaker = tidegate.Breaker(
        failure_ratio=0.5, window=10, min_throughput=4, break_duration=5, break_factor=1
    )
    policy = calls.policy(breaker=breaker)

    def state() -> Any:
        breaker = policy.snapshot()["routes"]["default"]["breaker"]
        return {key: breaker[key] for key in ("state", "retry_in")}

    assert [calls.call(policy, n) for n in range(2)] == [0, 1]
    assert state() == {"state": "closed", "retry_in": None}
    calls.fails(policy, 2)
    assert state() == {"state": "open", "retry_in": 5.0}
    calls.wait(2)
    calls.refused(policy, "breaker_open", 3.0)
    calls.wait(3)
    calls.fails(policy)  # the probe
    calls.refused(policy, "breaker_open", 5.0)
    calls.wait(5)
    assert calls.call(policy, "back") == "back"
    assert state() == {"state": "closed", "retry_in": None}
    calls.fails(policy, 3)
    assert state()["state"] == "closed", "the window is a new one"


def test_one_probe_at_a_time(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(breaker={"consecutive": 1, "break_duration": 5, "break_factor": 1}, engine=fake)
    with pytest.raises(ConnectionError):
        policy.call(fail)
    clock.tick(5)
    ends = beside([(policy, 0.0), (policy, 0.0), (policy, 0.5), (policy, 1.0)], clock)
    assert ends[0] is ends[3] is None
    for error in ends[1:3]:
        assert isinstance(error, tidegate.BreakerOpen)


def fail() -> None:
    raise ConnectionError("no")


# Throttle.


def test_a_throttle_refuses_a_part_and_lets_a_probe_through(calls: Caller) -> None:
    policy = calls.policy(
        throttle=tidegate.Throttle(k=2, min_throughput=20, max_reject=1.0, probe_interval=1)
    )
    calls.fails(policy, 20)
    assert 0.9 < policy.snapshot()["routes"]["default"]["throttle"]["probability"] < 1
    ends: list[Any] = []
    for _ in range(40):
        try:
            ends.append(calls.call(policy, "ok"))
        except tidegate.Throttled as error:
            assert_error(error, "throttled", policy, 1.0)
            ends.append(None)
    assert ends.count(None) > 25
    calls.wait(1)
    assert calls.call(policy, "a probe") == "a probe"
    calls.wait(150)
    assert policy.snapshot()["routes"]["default"]["throttle"]["probability"] == 0


def test_all_defaults_are_a_throttle_beside_a_preset_too(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(preset="http", throttle={}, engine=fake)
    assert policy._setting("throttle.k") == 2
    assert tidegate.Policy(throttle=tidegate.Throttle(), engine=fake)._setting("throttle.k") == 2
    with pytest.raises(tidegate.PolicyError, match=r"rate_limit\.permits"):
        tidegate.Policy(preset="http", rate_limit={}, engine=fake)
    kept = tidegate.Policy(preset="aws_standard", retry={"budget": {}}, engine=fake)
    assert kept._setting("retry.budget.kind") == "quota", "what the preset says stays"


# Forced open.


def test_an_operator_refuses_all_calls_or_those_of_a_route(calls: Caller) -> None:
    policy = calls.policy(breaker={"consecutive": 1, "break_duration": 60})
    calls.fails(policy)
    policy.force_open()
    calls.refused(policy, "forced_open")
    calls.refused(policy.at(route="a"), "forced_open")
    assert policy.snapshot()["routes"]["a"]["forced"] is True
    policy.force_open(on=False)
    assert calls.call(policy, "clearing it resets the breaker") is not None
    policy.force_open("a")
    calls.refused(policy.at(route="a"), "forced_open")
    assert calls.call(policy, 1) == 1
    policy.force_open("a", on=False)
    assert calls.call(policy.at(route="a"), 2) == 2


def test_those_who_wait_are_refused_too(clock: FakeClock, fake: tidegate.Engine) -> None:
    bulkhead = {"max_concurrency": 1, "max_queue": 5, "acquire_timeout": None}
    policy = tidegate.Policy(bulkhead=bulkhead, engine=fake)

    async def main() -> list[Any]:
        tasks = [asyncio.ensure_future(policy.acall(clock.sleep, 1.0)) for _ in range(3)]
        await clock.advance(0.5)
        policy.force_open()
        await asyncio.sleep(0.01)
        assert [task.done() for task in tasks] == [False, True, True]
        await clock.advance(5)
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = asyncio.run(main())
    assert ends[0] is None
    assert_error(ends[1], "forced_open", policy)


# Kinds.


class QuotaSpent(Exception):
    pass


def by_kind(result: Any) -> Any:
    if isinstance(result, QuotaSpent):
        return "quota_spent"
    return tidegate.Outcome("stale_row", retry_after=0.5) if result == "stale" else None


def test_classify_may_answer_a_kind_of_ones_own(calls: Caller) -> None:
    retry = {"max_attempts": 3, "backoff": {"base": 0, "max": 1}, "retry_on": ["stale_row"]}
    policy = calls.policy(kinds=KINDS, retry=retry, classify=by_kind)
    assert policy.kinds == KINDS
    assert calls.call(policy, iter(["stale", "fresh"]).__next__) == "fresh"
    assert calls.clock.now() >= 0.5, "it said when to come back"
    calls.fails(policy, 1, QuotaSpent)
    calls.fails(policy, 1, ConnectionError)
    assert policy.snapshot()["attempts"] == 4, "only one kind is retried"


def test_a_kind_may_be_a_failure_to_the_breaker(calls: Caller) -> None:
    lists = {"failure_on": ["quota_spent"], "ignore_on": ["transient"]}
    breaker = {"consecutive": 2, "break_duration": 60, "break_factor": 1, **lists}
    policy = calls.policy(kinds=KINDS, breaker=breaker, classify=by_kind)
    calls.fails(policy, 5, ConnectionError)
    calls.fails(policy, 2, QuotaSpent)
    calls.refused(policy, "breaker_open", 60.0)


def test_a_kind_that_nobody_declared_is_told(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(kinds=KINDS, deadline=1, classify=lambda _: "quota_spend", engine=fake)
    told = r"'quota_spend' is no class, and no kind that the policy declares; there are ok, .*quota_spent"
    with pytest.warns(RuntimeWarning, match=told):
        assert policy.call(int) == 0
    plain = tidegate.Policy(deadline=1, classify=lambda _: "quota_spent", engine=fake)
    with pytest.warns(RuntimeWarning, match="'quota_spent' is no class"):
        assert plain.call(int) == 0


@pytest.mark.parametrize("kinds", [{"ok": "transient"}, {"Busy": "transient"}, {"busy": "overloaded"}, {}, 3])
def test_wrong_kinds_are_mistakes(fake: tidegate.Engine, kinds: Any) -> None:
    with pytest.raises(tidegate.PolicyError) as caught:
        tidegate.Policy(kinds=kinds, deadline=1, engine=fake)
    assert [key for key, _, _ in caught.value.mistakes] == ["kinds"]


# Send rate, presets.


def test_a_send_rate_paces_attempts_after_a_throttle(calls: Caller) -> None:
    policy = calls.policy(
        retry={"max_attempts": 1, "send_rate": "cubic"},
        classify=lambda it: "throttled" if it == 429 else None,
    )
    moments = []
    for answer in [429, 429, *range(6)]:
        calls.call(policy, lambda answer=answer: (moments.append(calls.clock.now()), answer)[1])
    assert moments[0] == 0
    assert moments[-1] > 1, "attempts wait for their turn"
    assert policy.snapshot()["routes"]["default"]["send"]["rate"] > 0


def test_nothing_warns(calls: Caller) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calls.call(calls.policy(preset="aws_adaptive"))
        calls.call(calls.policy(preset="graph"))
