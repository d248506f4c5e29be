"""`tidegate.compat.smithy` against the sentences of the Smithy retry design, one test or more for each.

The numbers are those of `PAGE` in `smithy_page.py`; `test_every_sentence_is_shown` (in `test_smithy_rest.py`)
fails while one has no test.
"""

from __future__ import annotations

import copy
import pickle
import sys
import types
from typing import Any

import pytest

from compat.smithy_page import Clock, failure, plain, says
from tidegate.compat import smithy
from tidegate.compat.smithy import (
    CallError,
    RetryError,
    SimpleRetryStrategy,
    StandardRetryQuota,
    StandardRetryStrategy,
)


@pytest.fixture(params=[SimpleRetryStrategy, StandardRetryStrategy])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@says(1, 2, 4, 5, 8)
def test_the_first_token_counts_no_retry_and_asks_for_no_wait(kind: Any) -> None:
    token = kind().acquire_initial_retry_token()
    assert (token.retry_count, token.retry_delay, token.attempt_count) == (0, 0.0, 1)


@says(1, 2, 4, 5, 11)
def test_a_renewed_token_counts_and_carries_the_delay(kind: Any) -> None:
    strategy = kind(backoff_strategy=plain(), max_attempts=5)
    token = strategy.acquire_initial_retry_token()
    seen = []
    for _ in range(4):
        token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
        seen.append((token.retry_count, token.retry_delay))
    assert seen == [(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0)]


@says(3)
def test_requests_that_share_a_strategy_do_not_see_each_other(kind: Any) -> None:
    strategy = kind(backoff_strategy=plain(), max_attempts=3)
    first, second = strategy.acquire_initial_retry_token(), strategy.acquire_initial_retry_token()
    first = strategy.refresh_retry_token_for_retry(token_to_renew=first, error=failure())
    first = strategy.refresh_retry_token_for_retry(token_to_renew=first, error=failure())
    second = strategy.refresh_retry_token_for_retry(token_to_renew=second, error=failure())
    assert (first.retry_count, second.retry_count) == (2, 1)
    assert (first.retry_delay, second.retry_delay) == (2.0, 1.0)


@says(3)
def test_an_old_token_can_be_renewed_again(kind: Any) -> None:
    strategy = kind(max_attempts=3)
    token = strategy.acquire_initial_retry_token()
    for _ in range(5):
        again = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
        assert again.retry_count == 1


class Counting:
    """A backoff strategy of somebody's own."""

    def compute_next_backoff_delay(self, retry_attempt: int) -> float:
        return 100.0 + retry_attempt if retry_attempt else 7.0


@says(6, 23)
def test_a_backoff_strategy_of_ones_own_computes_every_delay(kind: Any) -> None:
    own = Counting()
    strategy = kind(backoff_strategy=own)
    assert strategy.backoff_strategy is own
    token = strategy.acquire_initial_retry_token()
    assert token.retry_delay == 7.0
    token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
    assert token.retry_delay == 101.0


@says(7, 12)
@pytest.mark.parametrize("most", [1, 2, 3, 5, 255])
def test_max_attempts_counts_the_first_one(kind: Any, most: int) -> None:
    strategy = kind(max_attempts=most, **({"retry_quota": StandardRetryQuota(10**6)} if kind is
                                          StandardRetryStrategy else {}))  # fmt: skip
    assert strategy.max_attempts == most
    token, attempts = strategy.acquire_initial_retry_token(), 1
    while attempts < most:
        token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
        attempts += 1
    last = failure()
    with pytest.raises(RetryError, match=f"Reached maximum number of allowed attempts: {most}") as caught:
        strategy.refresh_retry_token_for_retry(token_to_renew=token, error=last)
    assert caught.value.__cause__ is last
    assert caught.value.retry_after is None


@says(7)
def test_defaults() -> None:
    assert (SimpleRetryStrategy().max_attempts, StandardRetryStrategy().max_attempts) == (5, 3)


@says(7)
@pytest.mark.parametrize("wrong", [-1, 1.5, True, "3", None])
def test_max_attempts_out_of_range(kind: Any, wrong: Any) -> None:
    with pytest.raises(ValueError, match="max_attempts must be a non-negative integer, got "):
        kind(max_attempts=wrong)
    with pytest.raises(ValueError, match="max_attempts must be at most 255, got 256"):
        kind(max_attempts=256)


@says(7)
def test_no_attempts_is_no_retries(kind: Any) -> None:
    strategy = kind(max_attempts=0)
    with pytest.raises(RetryError, match="allowed attempts: 0"):
        strategy.refresh_retry_token_for_retry(
            token_to_renew=strategy.acquire_initial_retry_token(), error=failure()
        )


@says(9, 13, 27)
def test_a_scope_has_a_quota_of_its_own() -> None:
    strategy = StandardRetryStrategy(retry_quota=StandardRetryQuota(14))
    spent = strategy.acquire_initial_retry_token(token_scope="a")
    spent = strategy.refresh_retry_token_for_retry(token_to_renew=spent, error=failure())
    other = strategy.acquire_initial_retry_token(token_scope="a")
    with pytest.raises(RetryError, match="Retry quota exceeded"):
        strategy.refresh_retry_token_for_retry(token_to_renew=other, error=failure())
    elsewhere = strategy.acquire_initial_retry_token(token_scope="b")
    assert strategy.refresh_retry_token_for_retry(token_to_renew=elsewhere, error=failure()).retry_count == 1
    nowhere = strategy.acquire_initial_retry_token()
    assert strategy.refresh_retry_token_for_retry(token_to_renew=nowhere, error=failure()).retry_count == 1
    strategy.record_success(token=spent)
    assert strategy.refresh_retry_token_for_retry(token_to_renew=other, error=failure()).retry_count == 1
    assert [strategy.retry_quota.available_in(scope) for scope in ("a", "b", None)] == [0, 0, 0]


@says(10, 18)
def test_an_adaptive_strategy_waits_for_sends_after_a_throttle_and_refuses_where_that_takes_too_long() -> (
    None
):
    clock = Clock()
    strategy = smithy.AdaptiveRetryStrategy(_now=clock, _sleep=clock.sleep, max_attempts=255)
    token = strategy.acquire_initial_retry_token()
    assert clock.slept == []
    slow = failure(is_throttling_error=True)
    for _ in range(8):
        token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=slow)
    assert clock.slept, "sends wait"
    waited = sum(clock.slept)
    strategy.acquire_initial_retry_token()
    assert sum(clock.slept) > waited, "first attempts too"
    for _ in range(200):
        clock.now += 1
        strategy.record_success(token=token)
    before = len(clock.slept)
    strategy.acquire_initial_retry_token()
    assert len(clock.slept) == before, "it has recovered"

    class Stuck:
        def acquire(self, now: float) -> float:
            return 31.0

    strategy._rate = Stuck()  # type: ignore[assignment]
    with pytest.raises(RetryError, match="No send within 30 s") as caught:
        strategy.acquire_initial_retry_token()
    assert caught.value.retry_after == 31.0


def test_a_standard_strategy_is_not_slowed_down() -> None:
    clock = Clock()
    strategy = smithy.AdaptiveRetryStrategy(_now=clock, _sleep=clock.sleep)
    token = strategy.acquire_initial_retry_token()
    strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
    assert clock.slept == [], "nothing throttled, nothing waited"


@says(12, 27)
def test_a_spent_quota_tells_the_wait_that_there_would_have_been() -> None:
    strategy = StandardRetryStrategy(backoff_strategy=plain(), retry_quota=StandardRetryQuota(13))
    token = strategy.acquire_initial_retry_token()
    error = failure()
    with pytest.raises(RetryError) as caught:
        strategy.refresh_retry_token_for_retry(token_to_renew=token, error=error)
    assert (caught.value.retry_after, caught.value.__cause__) == (1.0, error)
    assert strategy.retry_quota.available_capacity == 13


def operation(strategy: StandardRetryStrategy, *statuses: int) -> None:
    """One operation, as the SDKs' shared tests script it."""
    token = strategy.acquire_initial_retry_token()
    for status in statuses:
        if status == 200:
            strategy.record_success(token=token)
            return
        try:
            token = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
        except RetryError:
            return


@says(13, 27)
@pytest.mark.parametrize(
    ("capacity", "operations", "left"),
    [
        (500, [(500, 500, 200)], 486),
        (500, [(502, 502, 502)], 472),
        (14, [(500, 502)], 0),
        (0, [(500,)], 0),
        (20, [(500, 502)], 6),
        (30, [(500, 502, 200)], 16),
        (30, [(500, 502, 200), (500, 200)], 16),
        (500, [(500, 500, 200), (200,)], 487),
        (500, [(200,)], 500),
    ],
)
def test_retries_cost_and_a_success_gives_the_last_one_back(
    capacity: int, operations: list[tuple[int, ...]], left: int
) -> None:
    strategy = StandardRetryStrategy(retry_quota=StandardRetryQuota(capacity))
    for statuses in operations:
        operation(strategy, *statuses)
    assert strategy.retry_quota.available_capacity == left


@says(13)
def test_a_success_is_nothing_to_a_simple_strategy() -> None:
    strategy = SimpleRetryStrategy()
    assert strategy.record_success(token=strategy.acquire_initial_retry_token()) is None  # type: ignore[func-returns-value]


@says(13, 18)
def test_a_throttling_error_costs_less_and_waits_longer() -> None:
    strategy = StandardRetryStrategy(
        backoff_strategy=plain(0.05), throttling_backoff_strategy=plain(1), retry_quota=StandardRetryQuota(28)
    )
    token = strategy.acquire_initial_retry_token()
    slow = strategy.refresh_retry_token_for_retry(
        token_to_renew=token, error=failure(is_throttling_error=True)
    )
    assert (slow.retry_delay, strategy.retry_quota.available_capacity) == (1.0, 23)
    quick = strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
    assert (quick.retry_delay, strategy.retry_quota.available_capacity) == (0.05, 9)


@says(27)
def test_strategies_can_share_a_quota_and_copies_do() -> None:
    quota = StandardRetryQuota(20)
    one, two = StandardRetryStrategy(retry_quota=quota), StandardRetryStrategy(retry_quota=quota)
    operation(one, 500, 500)
    assert quota.available_capacity == 6
    operation(two, 500)
    assert quota.available_capacity == 6
    assert copy.deepcopy(one) is one


@pytest.mark.parametrize("wrong", [-1, 1.0, True, 10**9 + 1])
def test_a_capacity_out_of_range(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match=r"initial_capacity = .*: must be a whole number from 0 to 1000000000"
    ):
        StandardRetryQuota(wrong)


@says(14, 19)
def test_call_errors_speak_both_protocols() -> None:
    error = CallError("no", fault="server", is_retry_safe=True, retry_after=2.0, is_throttling_error=True)
    assert isinstance(error, smithy.ErrorRetryInfo)
    assert isinstance(error, smithy.HasFault)
    assert (error.fault, CallError("?").fault) == ("server", None)
    assert not isinstance(ValueError("no"), smithy.ErrorRetryInfo)
    late = smithy.ClientTimeoutError("late")
    assert (late.fault, late.is_retry_safe, late.is_timeout_error) == ("client", True, True)
    again = pickle.loads(pickle.dumps(error))
    assert (again.fault, again.retry_after, str(again)) == ("server", 2.0, "no")
    refused = pickle.loads(pickle.dumps(RetryError("quota", retry_after=1.0)))
    assert (str(refused), refused.retry_after) == ("quota", 1.0)


@says(14, 15)
def test_any_exception_may_say_these_things(kind: Any) -> None:
    class Mine(Exception):
        is_retry_safe = True
        retry_after = None
        is_throttling_error = False

    strategy = kind()
    token = strategy.acquire_initial_retry_token()
    assert strategy.refresh_retry_token_for_retry(token_to_renew=token, error=Mine()).retry_count == 1


@says(15)
def test_what_is_safe_need_not_be_retried(kind: Any) -> None:
    strategy = kind(max_attempts=1)
    with pytest.raises(RetryError):
        strategy.refresh_retry_token_for_retry(
            token_to_renew=strategy.acquire_initial_retry_token(), error=failure()
        )


@says(16, 20, 21)
@pytest.mark.parametrize("error", [CallError("no", is_retry_safe=False), CallError("no"), ValueError("no")])
def test_what_is_not_known_to_be_safe_is_not_retried(kind: Any, error: Exception) -> None:
    strategy = kind()
    token = strategy.acquire_initial_retry_token()
    with pytest.raises(RetryError, match="Error is not retryable: no") as caught:
        strategy.refresh_retry_token_for_retry(token_to_renew=token, error=error)
    assert caught.value.__cause__ is error


def test_an_error_that_cannot_say_is_unknown(kind: Any) -> None:
    class Broken(Exception):
        @property
        def is_retry_safe(self) -> bool:
            raise RuntimeError("a bug")

    strategy = kind()
    with pytest.raises(RetryError, match="not retryable"):
        strategy.refresh_retry_token_for_retry(
            token_to_renew=strategy.acquire_initial_retry_token(), error=Broken()
        )


@says(17, 22)
@pytest.mark.parametrize(
    ("retry_after", "delay"),
    [
        (3.0, 3.0),
        (0.5, 1.0),
        (0, 1.0),
        (100.0, 100.0),
        (None, 1.0),
        (-5.0, 1.0),
        (float("nan"), 1.0),
        ("5", 1.0),
    ],
)
def test_the_wait_is_never_shorter_than_asked_for(kind: Any, retry_after: Any, delay: float) -> None:
    strategy = kind(backoff_strategy=plain())
    token = strategy.acquire_initial_retry_token()
    token = strategy.refresh_retry_token_for_retry(
        token_to_renew=token, error=failure(retry_after=retry_after)
    )
    assert token.retry_delay == delay


def request(strategy: Any, send: Any, sleep: Any) -> Any:
    """The page's example, as it stands there."""
    try:
        retry_token = strategy.acquire_initial_retry_token()
    except RetryError:
        return send()
    while True:
        sleep(retry_token.retry_delay)
        try:
            response = send()
        except Exception as e:
            response = e
        if isinstance(response, Exception):
            try:
                retry_token = strategy.refresh_retry_token_for_retry(
                    token_to_renew=retry_token, error=response
                )
                continue
            except RetryError as retry_error:
                raise retry_error from response
        strategy.record_success(token=retry_token)
        return response


def sender(*answers: Any) -> Any:
    left = iter(answers)

    def send() -> Any:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return send


@says(29)
def test_the_example_retries_and_succeeds(kind: Any) -> None:
    clock = Clock()
    send = sender(failure(), failure(retry_after=9.0), "done")
    assert request(kind(backoff_strategy=plain()), send, clock.sleep) == "done"
    assert clock.slept == [0.0, 1.0, 9.0]


@says(29)
def test_the_example_gives_up(kind: Any) -> None:
    last = failure()
    with pytest.raises(RetryError) as caught:
        request(kind(max_attempts=2), sender(failure(), last), lambda seconds: None)
    assert caught.value.__cause__ is last


@says(10, 28)
def test_the_example_sends_once_without_a_token() -> None:
    class Out(SimpleRetryStrategy):
        def acquire_initial_retry_token(self, *, token_scope: str | None = None) -> Any:
            raise RetryError("no tokens")

    assert request(Out(), sender("done"), None) == "done"


def test_a_token_of_somebody_else_is_a_type_error() -> None:
    foreign = SimpleRetryStrategy().acquire_initial_retry_token()
    with pytest.raises(TypeError, match="StandardRetryStrategy requires a StandardRetryToken"):
        StandardRetryStrategy().refresh_retry_token_for_retry(token_to_renew=foreign, error=failure())
    made_up = smithy.StandardRetryToken(retry_count=0, retry_delay=0.0)
    with pytest.raises(TypeError, match="that it made"):
        StandardRetryStrategy().record_success(token=made_up)


def test_an_end_is_also_the_error_that_smithy_core_s_clients_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    class TheirError(Exception):
        pass

    module = types.ModuleType("smithy_core.exceptions")
    module.RetryError = type("RetryError", (TheirError,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "smithy_core.exceptions", module)
    strategy = StandardRetryStrategy()
    token = strategy.acquire_initial_retry_token()
    with pytest.raises(TheirError) as caught:
        strategy.refresh_retry_token_for_retry(token_to_renew=token, error=ValueError("a bug"))
    assert isinstance(caught.value, RetryError) and isinstance(caught.value.__cause__, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, TheirError) and str(again) == "Error is not retryable: a bug"
