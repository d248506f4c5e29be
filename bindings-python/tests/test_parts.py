"""`tidegate.parts`: the engine's parts on their own."""

from __future__ import annotations

import copy
import doctest
import importlib
import inspect
import json
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate import parts
from tidegate._engine.options import TABLE

MODULES = [importlib.import_module(f"{parts.__name__}.{info.name}") for info in iter_modules(parts.__path__)]
PUBLISHED = Path(__file__).parents[2] / "tests/vectors/published"


def published(name: str) -> Any:
    return json.loads((PUBLISHED / name).read_text(encoding="utf-8"))


def test_the_examples_are_true() -> None:
    """One in every class and function that is no plain record."""
    flags = doctest.IGNORE_EXCEPTION_DETAIL
    ran = [doctest.testmod(module, optionflags=flags) for module in MODULES]
    assert sum(result.failed for result in ran) == 0
    assert sum(result.attempted for result in ran) > 70
    for name in set(parts.__all__) - {"ErrorInfo", "RetryError", "RetryToken", "Ticket"}:
        assert ">>>" in (inspect.getdoc(getattr(parts, name)) or ""), name


def test_everything_public_is_documented() -> None:
    for name in parts.__all__:
        part = getattr(parts, name)
        assert inspect.getdoc(part), name
        for attribute, value in (
            vars(part).items() if inspect.isclass(part) and part is not parts.ErrorInfo else ()
        ):
            assert attribute.startswith("_") or inspect.getdoc(value), f"{name}.{attribute}"


def test_importing_tidegate_does_not_import_parts() -> None:
    code = "import sys, tidegate; sys.exit('tidegate.parts' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: parts.Backoff(base=-1), "base = -1s: must be a span from 0s to 365 days"),
        (lambda: parts.Backoff(base=6), "max = 5s: must be at least base (6s)"),
        (lambda: parts.Backoff(base=float("nan")), "base = nan: must be a span from 0s to 365 days"),
        (lambda: parts.Backoff(multiplier=0.5), "multiplier = 0.5: must be a finite number from 1 to 1000"),
        (lambda: parts.Backoff(multiplier=float("inf")), "multiplier = inf: must be a finite number"),
        (lambda: parts.Backoff("polynomial"), "exponent = (absent): is required where kind is polynomial"),
        (lambda: parts.Backoff("polynomial", exponent=9), "exponent = 9: must be a whole number from 1 to 8"),
        (lambda: parts.Backoff("wild"), "must be one of exponential, constant, linear, polynomial"),  # type: ignore[arg-type]
        (
            lambda: parts.Backoff(jitter="bounded", jitter_ratio=2),
            "jitter_ratio = 2: must be a finite number",
        ),
        (lambda: parts.Backoff().delay(0), "n = 0: must be a whole number from 1 to 255"),
        (lambda: parts.Backoff().ceiling(256), "n = 256: must be a whole number from 1 to 255"),
        (lambda: parts.Backoff().delay(True), "n = True: must be a whole number"),
        (lambda: parts.Backoff().delay(1, -1), "call = -1: must be a whole number"),
        (lambda: parts.RetryBudget(ttl=0), "ttl = 0s: must be a span from 10us"),
        (
            lambda: parts.RetryBudget(percent_can_retry=-0.1),
            "percent_can_retry = -0.1: must be a finite number",
        ),
        (lambda: parts.RetryBudget().deposit(float("nan")), "now = NaN: must be a finite number of seconds"),
        (lambda: parts.RetryBudget().balance(float("inf")), "now = inf: must be a finite number of seconds"),
        (lambda: parts.RatioBudget(0), "ratio = 0: must be a finite number from 0.000001 to 1"),
        (lambda: parts.RatioBudget(0.1, -1), "min_throughput = -1: must be a whole number from 0"),
        (lambda: parts.ShareBudget(min_retries=2.5), "min_retries = 2.5: must be a whole number"),  # type: ignore[arg-type]
        (lambda: parts.ShareBudget().try_acquire(-1), "calls = -1: must be a whole number from 0"),
        (lambda: parts.TokenBudget(0, 0.1), "max = 0: must be a whole number from 1 to 1000"),
        (lambda: parts.RetryQuota(capacity=0), "capacity = 0: must be a whole number from 1"),
        (
            lambda: parts.RetryQuota().on_success(1 << 16),
            "cost = 65536: must be a whole number from 0 to 65535",
        ),
        (lambda: parts.RetryQuota().try_acquire("odd"), 'kind = "odd": must be one of transient, timeout'),  # type: ignore[arg-type]
        (lambda: parts.CubicRate(2e12), "now = 2000000000000: must be a finite number of seconds"),
        (lambda: parts.RetryStrategy(0), "max_attempts = 0: must be a whole number from 1 to 255"),
        (lambda: refreshed(-1), "retry_after = -1: must be seconds or a timedelta, 0 or more"),
        (lambda: parts.parse_retry_after("1", -1), "now = -1: must be seconds since 1970"),
        (lambda: parts.parse_retry_after("1", float("nan")), "now = nan: must be seconds since 1970"),
        (lambda: parts.parse_retry_after("1", datetime(2026, 1, 1)), "must have a time zone"),
    ],
)
def test_bad_numbers_are_told_by_key_value_and_rule(make: Any, told: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what is looked at
        make()
    assert told in str(caught.value)
    assert "retry." not in str(caught.value)


def refreshed(retry_after: Any) -> parts.RetryToken:
    strategy = parts.RetryStrategy()
    error = parts.ErrorInfo(is_retry_safe=True, retry_after=retry_after)
    return strategy.refresh_retry_token_for_retry(strategy.acquire_initial_retry_token(), error)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(tidegate.PolicyError) as caught:
        parts.RetryQuota(capacity=0, cost=0)
    assert [key for key, _, _ in caught.value.mistakes] == ["capacity", "cost"]


@pytest.mark.parametrize(
    ("name", "key", "default", "told"),
    [
        ("Backoff", "retry.backoff.base", "100ms", "0.1 s by default."),
        ("Backoff", "retry.backoff.jitter", "full_floor", '`"full_floor"` (default)'),
        ("Backoff", "retry.backoff.exponent", "", 'required with kind `"polynomial"`.'),
        ("RetryQuota", "retry.budget.throttled_cost", "retry.budget.cost", "`cost` by default."),
        ("TokenBucket", "rate_limit.burst", "rate_limit.permits", "`permits` by default."),
        ("Gradient2", "bulkhead.variant", "steady", '`"steady"` (default)'),
        ("AdaptiveThrottle", "throttle.max_reject", "0.9", '0 to 1, or `"none"`; 0.9 by default.'),
        ("RetryStrategy", "retry.max_attempts", "3", "3 by default."),
    ],
)
def test_the_documented_defaults_are_those_of_the_table(name: str, key: str, default: str, told: str) -> None:
    """Docstrings are made of the table."""
    assert TABLE[key][1] == default
    _, args = (inspect.getdoc(getattr(parts, name)) or "").split("Args:")
    _, about = f" {' '.join(args.split())}".split(f" {key.rpartition('.')[2]}: ", 1)
    assert told in about[:250]


def test_retry_after_follows_the_published_cases() -> None:
    vector = published("retry_after.json")
    for case in vector["cases"]:
        wait = parts.parse_retry_after(case["value"], vector["wall_clock_now_unix_s"])
        assert wait == ((2**53 - 1) / 1e6 if case["delay_s"] == "saturated" else case["delay_s"]), case


def test_retry_after_takes_both_kinds_of_text_and_of_time() -> None:
    now = datetime(1994, 11, 6, 8, 49, 30, tzinfo=timezone.utc)
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    assert parts.parse_retry_after(date, now) == parts.parse_retry_after(date.encode(), now.timestamp()) == 7
    assert parts.parse_retry_after(date) == 0
    assert parts.parse_retry_after("١٢") is parts.parse_retry_after("\ud800") is None
    assert parts.parse_retry_after("9" * 100) == (2**53 - 1) / 1e6


@given(st.one_of(st.text(), st.binary()), st.floats(0, 9e9))
def test_no_retry_after_breaks_the_reader(value: str | bytes, now: float) -> None:
    wait = parts.parse_retry_after(value, now)
    assert wait is None or wait >= 0


def test_backoff_grows_is_capped_and_spread() -> None:
    graph = parts.Backoff("polynomial", base=3, max=180, exponent=2, jitter="none")
    assert [graph.ceiling(n) for n in range(1, 11)] == [3, 12, 27, 48, 75, 108, 147, 180, 180, 180]
    assert [graph.delay(n) for n in (1, 10, 255)] == [3, 180, 180]
    linear = parts.Backoff("linear", base=timedelta(milliseconds=500), max=1.6, jitter="none")
    assert [linear.delay(n) for n in range(1, 5)] == [0.5, 1, 1.5, 1.6]
    for jitter, low, high in [("full", 0, 1), ("full_floor", 0.1, 1), ("equal", 0.5, 1)]:
        delays = [parts.Backoff("constant", 1, jitter=jitter, seed=seed).delay(1) for seed in range(200)]  # type: ignore[arg-type]
        assert low <= min(delays) < max(delays) <= high


def test_backoff_draws_anew_unless_it_is_told_the_call() -> None:
    def draws(backoff: parts.Backoff) -> list[float]:
        return [backoff.delay(1) for _ in range(5)]

    one, other = parts.Backoff(seed=1), parts.Backoff(seed=1)
    assert (drawn := draws(one)) == draws(other) and len(set(drawn)) == 5
    assert one.delay(1, call=0) == one.delay(1, call=0) == drawn[0]
    assert draws(parts.Backoff()) != draws(parts.Backoff())
    chained = parts.Backoff(base=0.05, max=2, jitter="decorrelated", seed=9)
    previous = 0.05
    for n in range(1, 20):
        delay = chained.delay(n, call=3)
        assert 0.05 <= delay <= min(2, 3 * previous) + 1e-9
        previous = delay


def test_the_window_follows_the_published_vector() -> None:
    budget, checked = parts.RetryBudget(), 0
    for step in published("budget_window.json")["steps"]:
        times = step.get("times", 1)
        if step["op"] == "deposit":
            for _ in range(times):
                budget.deposit(5)
            continue
        checked += 1
        if step["op"] == "balance":
            assert budget.balance(5) == step["expect"]
        else:
            assert sum(budget.try_withdraw(5) for _ in range(times)) == step["granted"]
    assert checked


@pytest.mark.parametrize("origin", [0, -1e6, 1.7e9, -5])
def test_the_origin_of_the_clock_does_not_matter(origin: float) -> None:
    budget = parts.RetryBudget(ttl=10, min_retries_per_sec=0, percent_can_retry=1)
    budget.deposit(origin)
    assert budget.try_withdraw(origin + 1) and not budget.try_withdraw(origin + 1)
    budget.refund(origin + 1, origin + 2)
    assert budget.balance(origin + 8.9) == 1
    assert budget.balance(origin + 10) == 0, "the deposit has left the window"
    rate = parts.CubicRate(origin)
    rate.on_response(True, origin + 1)
    wait = rate.acquire(origin + 1)
    assert wait > 0 and rate.acquire(origin + 1 + wait) == 0


def test_a_clock_that_runs_back_breaks_nothing() -> None:
    budget, rate = parts.RetryBudget(), parts.CubicRate(5)
    for now in (5.0, -100.0, 1e12, -1e12):
        budget.deposit(now)
        budget.balance(now)
        rate.on_response(True, now)
        assert rate.acquire(now) >= 0


def test_earned_keeps_what_the_calls_of_14_seconds_could_earn() -> None:
    budget = parts.EarnedBudget()
    assert [budget.try_withdraw(0.0) for _ in range(3)] == [True, True, False], "its start"
    for _ in range(100):
        budget.on_call(0.0)
        budget.on_answer(0.0)
    assert [budget.balance(now) for now in (0.0, 12.0, 14.0)] == [18, 18, 4]
    other = copy.copy(budget)
    assert all(other.try_withdraw(14.0) for _ in range(4)) and not other.try_withdraw(14.0)
    other.refund(14.0)
    assert (other.balance(14.0), budget.balance(14.0)) == (1, 4)
    with pytest.raises(tidegate.PolicyError, match="ratio = 2: must be a finite number"):
        parts.EarnedBudget(ratio=2)
    with pytest.raises(ValueError, match="now = NaN: must be"):
        budget.on_call(float("nan"))


def test_ratio_share_and_tokens() -> None:
    ratio = parts.RatioBudget(0.1, min_throughput=0)
    taken = []
    for _ in range(20):
        ratio.on_call()
        taken.append(ratio.try_withdraw())
    assert [place + 1 for place, yes in enumerate(taken) if yes] == [10, 20]
    ratio.refund()
    assert ratio.balance == 1 and not ratio.is_free
    assert parts.RatioBudget(0.1, 5).is_free
    share = parts.ShareBudget()
    assert [share.try_acquire(1) for _ in range(4)] == [True, True, True, False]
    assert (share.balance(100), share.in_flight) == (17, 3)
    share.on_end()
    assert share.try_acquire(1)
    vector = published("grpc_defaults.json")["tokens"]
    tokens = parts.TokenBudget(vector["max"], vector["ratio"])
    for failures in range(1, 21):
        tokens.on_failure()
        assert tokens.allows == (max(vector["max"] - failures, 0) > vector["retry_allowed_above"])
    assert tokens.balance == 0


def test_the_quota_follows_the_sdks() -> None:
    quota = parts.RetryQuota(cost=14)
    costs = [quota.try_acquire() for _ in range(3)]
    assert (costs, quota.available) == ([14, 14, 14], 458)
    quota.on_success(14)
    quota.on_success()
    assert quota.available == 473
    assert quota.try_acquire("throttled") == 14, "the cost, by default"
    quota.refund(14)
    assert quota.available == 473
    small = parts.RetryQuota(capacity=4)
    assert small.try_acquire() is None


def test_the_strategys_pinned_cases() -> None:
    safe = parts.ErrorInfo(is_retry_safe=True)
    for capacity, statuses, left in [
        (500, [500, 500, 200], 486), (500, [502, 502, 502], 472), (14, [500, 502], 0), (20, [500, 502], 6),
    ]:  # fmt: skip
        strategy = parts.RetryStrategy(3, quota=parts.RetryQuota(capacity, cost=14))
        token = strategy.acquire_initial_retry_token()
        for status in statuses:
            if status == 200:
                strategy.record_success(token)
                continue
            try:
                token = strategy.refresh_retry_token_for_retry(token, safe)
            except parts.RetryError:
                pass
        assert strategy.available() == left


def test_the_strategys_refusals_scopes_and_waits() -> None:
    backoff = parts.Backoff(base=0.025, jitter="none")
    strategy = parts.RetryStrategy(3, backoff, parts.RetryQuota(14, cost=14, throttled_cost=5))
    token = strategy.acquire_initial_retry_token(scope="a")
    for error in (parts.ErrorInfo(), parts.ErrorInfo(is_retry_safe=False)):
        with pytest.raises(parts.RetryError) as caught:
            strategy.refresh_retry_token_for_retry(token, error)
        assert (caught.value.reason, caught.value.retry_delay) == ("not_safe", None)
    asked = parts.ErrorInfo(is_retry_safe=True, retry_after=timedelta(seconds=3))
    token = strategy.refresh_retry_token_for_retry(token, asked)
    assert (token.retry_count, token.retry_delay) == (1, 3)
    with pytest.raises(parts.RetryError) as caught:
        strategy.refresh_retry_token_for_retry(token, asked)
    assert (caught.value.reason, caught.value.retry_delay) == ("quota", 3)
    assert (strategy.available(scope="a"), strategy.available(scope="b")) == (0, 14)
    throttled = parts.ErrorInfo(is_retry_safe=True, is_throttling_error=True)
    other = strategy.acquire_initial_retry_token(scope="b")
    strategy.refresh_retry_token_for_retry(other, throttled)
    assert strategy.available(scope="b") == 9
    free = parts.RetryStrategy(quota=None, retry_unknown=True)
    free.refresh_retry_token_for_retry(free.acquire_initial_retry_token(), parts.ErrorInfo())
    assert free.available() is None


def test_parts_are_shared_by_threads() -> None:
    quota = parts.RetryQuota(capacity=100_000, cost=1)

    def spend() -> None:
        for _ in range(5_000):
            quota.try_acquire()

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert quota.available == 80_000
