"""What holds of the parts for any numbers: nothing is minted, merging is union, mistakes are told."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidegate
from tidegate import parts

PERMITS, BURSTS = st.integers(1, 1000), st.integers(1, 50)
SPANS = st.floats(1e-4, 100)
STEPS = st.lists(st.tuples(st.floats(-5, 20), st.integers(0, 60)), max_size=60)


@given(PERMITS, SPANS, BURSTS, STEPS, st.sampled_from([0.0, -1e6, 1.7e9]))
@example(1, 1.0, 1, [(0.0, 0), (-1.0, 1), (1.0, 1)], 0.0)
def test_a_rate_never_mints(permits: int, per: float, burst: int, steps: Any, origin: float) -> None:
    """Whatever the clock does: no more than the burst, and what the time that has passed earned."""
    bucket = parts.TokenBucket(permits, per, burst, now=origin)
    limit = parts.Gcra(permits, per, burst)
    now = latest = origin
    first, costless = origin, True  # a Gcra's time begins with its first call that costs something
    granted = {bucket: 0, limit: 0}
    for gap, cost in steps:
        now += gap
        latest = max(latest, now)
        if costless:
            first, costless = min(first, now), cost == 0
        for part in granted:
            granted[part] += cost * part.try_take(now, cost)
            earned = (latest - first + 1e-5) * permits / per
            assert granted[part] <= burst + earned * (1 + 1e-2) + 1e-6
        assert 0 <= bucket.level(now) <= burst


@given(PERMITS, SPANS, BURSTS, STEPS)
def test_a_refusal_is_over_when_it_says(permits: int, per: float, burst: int, steps: Any) -> None:
    bucket, now = parts.TokenBucket(permits, per, burst, now=0), 0.0
    for gap, cost in steps:
        now += abs(gap)
        wait = bucket.acquire(now, cost)
        assert (wait == math.inf) is (cost > burst)
        if 0 < wait < math.inf:
            # A microsecond for what the seconds are rounded to on their way.
            assert not bucket.try_take(now + wait - 3e-6, cost)
            now += wait + 1e-6
            assert bucket.try_take(now, cost)


LATENCIES = st.floats(1e-6, 1e4) | st.just(0.0)

# At 0.001 a sketch has bins for five octaves only: what lies below them shares one.


@given(
    st.lists(LATENCIES, max_size=200), st.lists(LATENCIES, max_size=200), st.sampled_from([0.001, 0.01, 0.25])
)
def test_merged_sketches_are_the_sketch_of_all(here: Any, there: Any, alpha: float) -> None:
    one, two, both = (parts.DDSketch(alpha) for _ in range(3))
    for x in here:
        one.add(x)
    for x in there:
        two.add(x)
    for x in here + there:
        both.add(x)
    before = two.to_words()
    one.merge(two)
    assert two.to_words() == before
    assert one.count == both.count and (one.min, one.max) == (both.min, both.max)
    assert one.sum == pytest.approx(both.sum)
    quantiles = [one.quantile(q / 20) for q in range(21)]
    assert quantiles == [both.quantile(q / 20) for q in range(21)]
    if here + there and alpha > 0.001:
        assert quantiles == sorted(quantiles)
        truth = sorted(here + there)
        for q, found in enumerate(quantiles):
            true = truth[int(q / 20 * (len(truth) - 1))]
            assert abs(found - true) <= alpha * true * (1 + 1e-9) + 1e-300


@given(st.lists(LATENCIES, max_size=50))
def test_a_sketch_survives_words_pickles_and_copies(values: Any) -> None:
    sketch = parts.DDSketch()
    for x in values:
        sketch.add(x)
    twins = [parts.DDSketch.from_words(sketch.to_words()), pickle.loads(pickle.dumps(sketch))]
    twins += [copy.copy(sketch), copy.deepcopy(sketch)]
    assert all(twin == sketch for twin in twins)
    twins[2].add(7)
    assert twins[2] != sketch and sketch.count == len(values)
    sketch.clear()
    assert sketch == parts.DDSketch() and sketch != "a sketch"


@given(st.lists(st.floats(), max_size=100), st.sampled_from([0.05, 0.5, 0.95]))
def test_estimates_lie_among_the_values(values: Any, p: float) -> None:
    for it in (parts.P2Quantile(p), parts.WindowedP2Quantile(p, 10)):
        seen = []
        for x in values:
            it.observe(x)
            seen += [x] if math.isfinite(x) else []
            assert (it.estimate is None) is (not seen)
            assert it.estimate is None or min(seen) <= it.estimate <= max(seen)
        assert it.count <= len(seen)


RESULTS = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from(["success", "failure", "neutral"])), max_size=80
)


@given(RESULTS, st.integers(1, 4))
def test_a_breaker_lets_no_more_through_than_it_says(results: Any, probes: int) -> None:
    breaker = parts.CircuitBreaker(1.0, consecutive=2, half_open_max_calls=probes, seed=1)
    now, out = 0.0, []
    for gap, evidence in results:
        now += gap
        wait = breaker.refuses(now)
        ticket = breaker.admit(now)
        assert (ticket is None) is (wait is not None)
        if ticket is None:
            assert 0 < wait <= 11
            assert breaker.admit(now + wait / 2) is None
            continue
        assert ticket.probe is (breaker.state == "half_open")
        change = breaker.record(ticket, evidence, now)
        assert change is None or change[1] == breaker.state
        out.append(breaker.open_until)
        assert (out[-1] is not None) is (breaker.state == "open")


@given(st.lists(st.tuples(st.floats(0, 2), st.booleans()), max_size=80))
def test_a_throttle_refuses_at_most_what_it_may(calls: Any) -> None:
    throttle, now = parts.AdaptiveThrottle(max_reject=0.7, min_throughput=5, now=0, seed=3), 0.0
    for gap, accepted in calls:
        now += gap
        assert 0 <= throttle.probability(now) <= 0.7
        requests, accepts = throttle.requests(now), throttle.accepts(now)
        assert 0 <= accepts <= requests
        if requests < 5:
            assert throttle.probability(now) == 0
        if throttle.admit(now):
            throttle.record(accepted, now)


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from([0.05, 0.5, 5.0])), max_size=80))
def test_limits_stay_within_their_range(samples: Any) -> None:
    aimd = parts.Aimd(30, 0.1, min_concurrency=3)
    gradients = [parts.Gradient2(30, 3, variant=v) for v in ("steady", "guarded", "plain", "netflix")]  # type: ignore[arg-type]
    now = 0.0
    for gap, latency in samples:
        now += gap
        aimd.on_latency(latency, now)
        aimd.on_failure(timedelta(seconds=latency), now)
        for limit in gradients:
            limit.on_latency(latency, now - latency, 20, now)
            limit.on_drop(now - latency, 20, now)
        assert all(3 <= limit.exact <= 30 and limit.limit == int(limit.exact) for limit in [aimd, *gradients])


def all_parts() -> list[Any]:
    return [
        parts.TokenBucket(1, 1.0, now=0), parts.Gcra(1, 1.0), parts.CubicRate(0), parts.Aimd(9, 1.0),
        parts.Gradient2(9), parts.CoDel(0.005, now=0), parts.CircuitBreaker(1.0, consecutive=1),
        parts.AdaptiveThrottle(now=0), parts.P2Quantile(0.5), parts.WindowedP2Quantile(0.5, 10),
        parts.DDSketch(), parts.Backoff(), parts.EarnedBudget(), parts.RetryBudget(),
        parts.RatioBudget(0.5), parts.ShareBudget(),
        parts.TokenBudget(4, 0.1), parts.RetryQuota(), parts.RetryStrategy(),
    ]  # fmt: skip


def test_all_parts_are_here() -> None:
    rest = {"ErrorInfo", "RetryError", "RetryToken", "Ticket", "parse_retry_after"}
    assert {type(part).__name__ for part in all_parts()} == set(parts.__all__) - rest


@pytest.mark.parametrize("part", all_parts(), ids=lambda part: type(part).__name__)
def test_copies_go_their_own_ways_and_state_is_not_pickled(part: Any) -> None:
    twin = copy.deepcopy(part)
    assert type(twin) is type(part) and twin._native is not part._native
    if isinstance(part, parts.DDSketch):
        return
    with pytest.raises(TypeError, match=f"a {type(part).__name__} is not pickled: its state belongs to this"):
        pickle.dumps(part)


def test_a_copy_has_the_state_and_what_comes_after_is_its_own() -> None:
    quota = parts.RetryQuota(capacity=10)
    quota.try_acquire()
    twin = copy.copy(quota)
    twin.try_acquire()
    assert (quota.available, twin.available) == (5, 0)
    throttle = parts.AdaptiveThrottle(now=0, seed=5)
    for _ in range(50):
        throttle.record(False, 0)
    twins = [copy.copy(throttle) for _ in range(2)]
    drawn = [[twin.admit(0) for _ in range(50)] for twin in twins]
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 2, "the same draws from here on"
    assert (throttle.requests(0), throttle.accepts(0)) == (50, 0)


def test_tickets_are_values() -> None:
    ticket = parts.Ticket(3, probe=True)
    assert ticket == parts.Ticket(3, True) != parts.Ticket(3)
    assert pickle.loads(pickle.dumps(ticket)) == ticket and len({ticket, parts.Ticket(3, True)}) == 1
    assert repr(ticket) == "Ticket(3, probe=True)"


def test_a_seed_gives_the_same_breaks() -> None:
    def breaks(seed: int | None) -> list[float | None]:
        breaker, ends = parts.CircuitBreaker(1.0, consecutive=1, seed=seed), []
        for now in range(0, 200, 20):
            ticket = breaker.admit(now)
            assert ticket is not None
            breaker.record(ticket, "failure", now)
            ends.append(breaker.open_until)
        return ends

    assert breaks(4) == breaks(4) != breaks(5)
    assert breaks(None) != breaks(None)
    assert all(end is not None and 1 <= end - 20 * n <= 11 for n, end in enumerate(breaks(4)))


def test_settings_change_under_way() -> None:
    bucket = parts.TokenBucket(1, 10.0, 4, now=0)
    assert bucket.try_take(0, 4) and bucket.level(20) == 2
    bucket.retune(20, permits=1, per=timedelta(seconds=1), burst=3)
    assert bucket.level(30) == 3 and bucket.is_fresh(30)
    limit = parts.Aimd(10, 0.1)
    limit.retune(max_concurrency=30, latency_threshold=0.1)
    assert limit.limit == 30 and limit.is_fresh(0)
    gradient = parts.Gradient2(200)
    gradient.retune(max_concurrency=12)
    assert (gradient.limit, gradient.baseline, gradient.is_fresh) == (12, None, True)
    queue = parts.CoDel(0.005, now=0)
    queue.retune(queue_target=0.02, queue_interval=0.2)
    assert (queue.allowance(0), queue.allowance(0.2)) == (0.2, 0.02)
    breaker = parts.CircuitBreaker(100.0, consecutive=1, break_factor=1)
    breaker.record(parts.Ticket(1), "failure", 0)
    breaker.retune(1, break_duration=5.0, consecutive=1, break_factor=1)
    assert breaker.open_until == 6
    with pytest.raises(tidegate.PolicyError) as caught:
        breaker.retune(1, break_duration=5.0, consecutive=1, probs=1)  # type: ignore[call-arg]
    assert [key for key, _, _ in caught.value.mistakes] == ["probs"]
    assert breaker.open_until == 6


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: parts.TokenBucket(0, 1.0, now=0),
            "permits = 0: must be a whole number from 1 to 1000000000",
        ),
        (lambda: parts.TokenBucket(1, 0, now=0), "per = 0s: must be a span from 1us to 365 days"),
        (lambda: parts.Gcra(1, 1.0, 0), "burst = 0: must be a whole number from 1 to 1000000000"),
        (lambda: parts.TokenBucket(1, 1.0, now=math.nan), "now = NaN: must be a finite number of seconds"),
        (
            lambda: parts.Gcra(1, 1.0).try_take(2e12),
            "now = 2000000000000: must be a finite number of seconds",
        ),
        (
            lambda: parts.Gcra(1, 1.0).try_take(0, -1),
            "cost = -1: must be a whole number from 0 to 4294967295",
        ),
        (
            lambda: parts.Gcra(1, 1.0).acquire(0, 1.5),  # type: ignore[arg-type]
            "cost = 1.5: must be a whole number",
        ),
        (lambda: parts.TokenBucket(1, 1.0, now=0).acquire(0, 2**32), "cost = 4294967296: must be a whole"),
        (lambda: parts.TokenBucket(1, 1.0, now=0).wait_for(0, -3), "tokens = -3: must be a whole number"),
        (lambda: parts.Aimd(5, 1.0, min_concurrency=6), "max_concurrency = 5: must be at least"),
        (lambda: parts.Aimd(5, 1.0, backoff_ratio=1), "backoff_ratio = 1: must be a finite number from 0.01"),
        (
            lambda: parts.Aimd(5, 1.0, latency_quantile=1),
            "latency_quantile = 1: must be a finite number from",
        ),
        (
            lambda: parts.Aimd(5, 1.0).on_latency(-1.0, 0),
            "latency = -1: must be a number of seconds, 0 or more",
        ),
        (lambda: parts.Aimd(5, 1.0).on_failure(math.nan, 0), "latency = NaN: must be a number of seconds"),
        (
            lambda: parts.Gradient2(5, variant="wild"),  # type: ignore[arg-type]
            "variant = \"wild\": must be one of steady, guarded",
        ),
        (lambda: parts.Gradient2(5).on_latency(-0.1, 0, 1, 0), "rtt = -0.1: must be a number of seconds"),
        (lambda: parts.Gradient2(5).on_latency(1, math.inf, 1, 0), "started = inf: must be a finite number"),
        (lambda: parts.Gradient2(5).on_drop(0, -1, 0), "in_flight = -1: must be a whole number from 0"),
        (lambda: parts.CoDel(0.2, now=0), "queue_target = 200ms: must be"),
        (
            lambda: parts.CoDel(0.005, codel="odd", now=0),  # type: ignore[arg-type]
            "codel = \"odd\": must be one of facebook, rfc8289",
        ),
        (
            lambda: parts.CoDel(0.005, now=0).should_shed(1, 0, 0),
            "scale = 0: must be a number from 0.01 to 100",
        ),
        (lambda: parts.CoDel(0.005, now=0).should_shed(-1, 0), "sojourn = -1: must be a number of seconds"),
        (lambda: parts.P2Quantile(1), "p = 1: must be a number from 0.001 to 0.999"),
        (lambda: parts.P2Quantile(True), "p = True: must be a number"),
        (
            lambda: parts.WindowedP2Quantile(0.5, 9),
            "window = 9: must be a whole number from 10 to 4294967295",
        ),
        (lambda: parts.DDSketch(0.5), "alpha = 0.5: must be a number from 0.001 to 0.25"),
        (lambda: parts.DDSketch().quantile(1.5), "q = 1.5: must be a number from 0.0 to 1.0"),
        (lambda: parts.DDSketch(0.01).merge(parts.DDSketch(0.02)), "other: sketches of accuracy 0.00986"),
        (lambda: parts.DDSketch.from_words([1]), "words: a sketch has at least five words"),
        (lambda: parts.DDSketch.from_words([1, -1]), "words[1] = -1: must be a whole number from 0"),
        (lambda: parts.CircuitBreaker(1.0), "failure_ratio = (absent): is required where there is a breaker"),
        (
            lambda: parts.CircuitBreaker(1.0, 0.5),
            "window = (absent): is required where there is failure_ratio",
        ),
        (lambda: parts.CircuitBreaker(0, consecutive=1), "break_duration = 0s: must be a span from 1ms"),
        (lambda: parts.CircuitBreaker(1.0, consecutive=1, probe_lease=0), "probe_lease = 0: must be seconds"),
        (
            lambda: parts.CircuitBreaker(1.0, consecutive=1).record(parts.Ticket(1), "odd", 0),  # type: ignore[arg-type]
            "evidence = \"odd\"",
        ),
        (
            lambda: parts.CircuitBreaker(1.0, consecutive=1).record(parts.Ticket(1), "neutral", 0, -1),
            "bits = -1:",
        ),
        (
            lambda: parts.CircuitBreaker(1.0, consecutive=1).evidence_of("odd"),
            "kind = \"odd\": must be one of ok, transient",
        ),
        (lambda: parts.AdaptiveThrottle(0.5, now=0), "k = 0.5: must be a finite number from 1 to 1000000"),
        (
            lambda: parts.AdaptiveThrottle(now=0).admit(0, 2**64),
            "bits = 18446744073709551616: must be a whole",
        ),
        (
            lambda: parts.AdaptiveThrottle(now=0).accepted("odd"),
            "kind = \"odd\": must be one of ok, transient",
        ),
    ],
)  # fmt: skip
def test_bad_numbers_are_told_by_key_value_and_rule(make: Any, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what is looked at
        make()
    message = str(caught.value)
    assert told in message
    assert not any(table in message for table in ("rate_limit.", "bulkhead.", "breaker.", "throttle."))


def test_the_ends_of_the_ranges_are_taken() -> None:
    """Core takes anything and bounds it: what is let through here is not changed there."""
    assert [parts.DDSketch(alpha).alpha <= alpha for alpha in (0.001, 0.25)] == [True, True]
    for p in (0.001, 0.999):
        parts.P2Quantile(p).observe(1)
    window = parts.WindowedP2Quantile(0.5, 10)
    for n in range(100):
        window.observe(n)
        assert window.count <= 10


def test_threads_take_no_more_tokens_than_there_are() -> None:
    bucket, taken = parts.TokenBucket(1, 1000.0, 5_000, now=0), []

    def take() -> None:
        taken.append(sum(bucket.try_take(0) for _ in range(2_500)))

    one, other = parts.DDSketch(), parts.DDSketch()

    def merge() -> None:
        for _ in range(15):
            one.merge(other)
            other.merge(one)

    one.add(1)
    threads = [threading.Thread(target=target) for target in (take, take, take, take, merge, merge)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sum(taken) == 5_000 and max(taken) <= 2_500
    assert one.count > 0
