"""`tidegate.compat.smithy` against the sentences of the Smithy retry design, one test or more for each.

The numbers are those of `PAGE`; `test_every_sentence_is_shown` fails while one has no test.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest

from compat.pages import Page
from tidegate.compat import smithy
from tidegate.compat.smithy import (
    CallError,
    ExponentialBackoffJitterType,
    ExponentialRetryBackoffStrategy,
    RetryError,
    SimpleRetryStrategy,
    StandardRetryQuota,
    StandardRetryStrategy,
    aio,
)

PAGE = Page(
    {
        1: "Implementations of the RetryStrategy will produce RetryTokens that carry metadata",
        2: "… the number of attempts that have occurred and the amount of time that must pass",
        3: "Passing state through tokens … allows the RetryStrategy itself to be isolated",
        4: "retry_count: Retry count is the total number of attempts minus the initial attempt",
        5: "retry_delay: Delay in seconds to wait before the retry attempt",
        6: "backoff_strategy: The strategy used by returned tokens to compute delay duration values",
        7: "max_attempts: Upper limit on total attempt count (initial attempt plus retries)",
        8: "acquire: Called before any retries (for the first attempt at the operation)",
        9: "token_scope: An arbitrary string … to separate tokens into scopes",
        10: "acquire raises RetryError: If the retry strategy has no available tokens",
        11: "refresh: Replace an existing retry token from a failed attempt with a new token",
        12: "refresh raises RetryError: If no further retry attempts are allowed",
        13: "record_success: Return token after successful completion of an operation",
        14: "exceptions may implement the ErrorRetryInfo and/or HasFault protocols",
        15: "is_retry_safe: True does not mean a retry will occur, but … is allowed to occur",
        16: "is_retry_safe: None indicates that there is not enough information",
        17: "retry_after: The amount of time that should pass before a retry",
        18: "is_throttling_error: Whether the error is a throttling error",
        19: "fault: Whether the client or server is at fault; None: not enough information",
        20: "MUST raise a RetryError if … is_retry_safe is False",
        21: "SHOULD raise a RetryError if it is None",
        22: "SHOULD use a delay that is at least as long as retry_after but MAY choose to wait longer",
        23: "Each RetryStrategy has a configurable RetryBackoffStrategy",
        24: "stateless class that computes the next backoff delay based solely on the number",
        25: "compute_next_backoff_delay(self, retry_attempt: int) -> float",
        26: "ExponentialRetryBackoffStrategy … uses exponential backoff with configurable jitter",
        27: "could use a token bucket to limit retries client-wide",
        28: "Example usage: no token: send once",
        29: "Example usage: sleep, send, refresh on failure, raise retry_error from e, record success",
    }
)
says = PAGE.says

SAFE = {"is_retry_safe": True}
NONE = ExponentialBackoffJitterType.NONE


def failure(**said: Any) -> CallError:
    return CallError("reset", **{**SAFE, **said})


def plain(scale: float = 1.0, most: float = 20.0) -> ExponentialRetryBackoffStrategy:
    return ExponentialRetryBackoffStrategy(backoff_scale_value=scale, max_backoff=most, jitter_type=NONE)


@pytest.fixture(params=[SimpleRetryStrategy, StandardRetryStrategy])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_every_sentence_is_shown() -> None:
    assert PAGE.unshown() == {}


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


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


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


@says(24)
@pytest.mark.parametrize("jitter", list(ExponentialBackoffJitterType))
def test_delays_do_not_depend_on_what_was_asked_before(jitter: ExponentialBackoffJitterType) -> None:
    half = ExponentialRetryBackoffStrategy(
        backoff_scale_value=2, max_backoff=20, jitter_type=jitter, random=lambda: 0.5
    )
    fresh = [half.compute_next_backoff_delay(n) for n in range(7)]
    assert [half.compute_next_backoff_delay(n) for n in reversed(range(7))] == fresh[::-1]


@says(25, 26)
@pytest.mark.parametrize(
    ("jitter", "delays"),
    [
        ("NONE", [0, 2, 4, 8, 16, 20, 20]),
        ("FULL", [0, 1, 2, 4, 8, 10, 10]),
        ("DEFAULT", [0, 1.5, 3, 6, 12, 15, 15]),
        ("DECORRELATED", [0, 4, 7, 11.5, 18.25, 20, 20]),
    ],
)
def test_the_published_delays_at_random_one_half(jitter: str, delays: list[float]) -> None:
    half = ExponentialRetryBackoffStrategy(
        backoff_scale_value=2,
        max_backoff=20,
        jitter_type=ExponentialBackoffJitterType[jitter],
        random=lambda: 0.5,
    )
    assert [half.compute_next_backoff_delay(n) for n in range(7)] == delays


@says(26)
def test_jitter_stays_in_its_bounds_and_a_seed_repeats_it() -> None:
    bounds = {"NONE": (20, 20), "FULL": (0, 20), "DEFAULT": (10, 20), "DECORRELATED": (2, 20)}
    for name, (low, high) in bounds.items():
        jitter = ExponentialBackoffJitterType[name]

        def made(jitter: ExponentialBackoffJitterType = jitter) -> list[float]:
            strategy = ExponentialRetryBackoffStrategy(
                backoff_scale_value=2, max_backoff=20, jitter_type=jitter, seed=9
            )
            return [strategy.compute_next_backoff_delay(6) for _ in range(200)]

        delays = made()
        assert min(delays) >= low and max(delays) <= high
        assert delays == made()
        assert name == "NONE" or len(set(delays)) > 100


@says(26)
def test_no_retry_is_too_late_to_compute() -> None:
    strategy = ExponentialRetryBackoffStrategy(jitter_type=NONE)
    assert [strategy.compute_next_backoff_delay(n) for n in (255, 1025, 10**9)] == [20.0] * 3
    assert plain(30, 20).compute_next_backoff_delay(1) == 20.0, "a scale above the cap is the cap"
    assert plain(0, 0).compute_next_backoff_delay(9) == 0.0


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"backoff_scale_value": -1}, "backoff_scale_value = -"),
        ({"backoff_scale_value": float("nan")}, "backoff_scale_value = NaN"),
        ({"backoff_scale_value": "1s"}, "backoff_scale_value"),
        ({"max_backoff": float("inf")}, "max_backoff"),
        ({"jitter_type": "full"}, "jitter_type = 'full'"),
    ],
)
def test_a_backoff_out_of_range_says_which(wrong: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        ExponentialRetryBackoffStrategy(**wrong)
    assert "backoff.base" not in str(caught.value)


@pytest.mark.parametrize("wrong", [-1, 1.0, True, None])
def test_a_retry_attempt_is_a_count(wrong: Any) -> None:
    with pytest.raises(ValueError, match="retry_attempt"):
        plain().compute_next_backoff_delay(wrong)


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


@pytest.mark.parametrize("module", [smithy, aio])
def test_options_make_strategies_once(module: Any) -> None:
    resolver = module.RetryStrategyResolver()

    def resolve(**said: Any) -> Any:
        found = resolver.resolve_retry_strategy(**said)
        return asyncio.run(found) if module is aio else found

    standard = resolve()
    assert type(standard) is module.StandardRetryStrategy and standard.max_attempts == 3
    assert resolve() is standard
    assert resolve(retry_mode="standard") is standard
    assert resolve(max_attempts=4) is not standard
    assert type(resolve(retry_mode="simple")) is module.SimpleRetryStrategy
    adaptive = resolve(retry_strategy=smithy.RetryStrategyOptions(retry_mode="adaptive", max_attempts=7))
    assert type(adaptive) is module.AdaptiveRetryStrategy and adaptive.max_attempts == 7
    assert resolve(retry_strategy=adaptive) is adaptive
    with pytest.raises(ValueError, match="Unknown retry mode: legacy"):
        resolve(retry_mode="legacy")
    with pytest.raises(TypeError, match="must be RetryStrategy, RetryStrategyOptions, or None, got str"):
        resolve(retry_strategy="standard")


@pytest.mark.parametrize("name", ["SimpleRetryStrategy", "StandardRetryStrategy", "AdaptiveRetryStrategy"])
def test_the_async_twins_decide_alike(name: str) -> None:
    clock = Clock()
    more = {"_now": clock, "_sleep": clock.asleep} if name.startswith("Adaptive") else {}
    strategy = getattr(aio, name)(backoff_strategy=plain(), max_attempts=3, **more)
    assert isinstance(strategy, aio.RetryStrategy)

    async def calls() -> list[tuple[int, float]]:
        token = await strategy.acquire_initial_retry_token(token_scope="a")
        seen = [(token.retry_count, token.retry_delay)]
        for _ in range(2):
            token = await strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
            seen.append((token.retry_count, token.retry_delay))
        with pytest.raises(RetryError, match="allowed attempts: 3"):
            await strategy.refresh_retry_token_for_retry(token_to_renew=token, error=failure())
        await strategy.record_success(token=token)
        return seen

    assert asyncio.run(calls()) == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_the_async_twin_waits_for_sends_too() -> None:
    clock = Clock()
    strategy = aio.AdaptiveRetryStrategy(_now=clock, _sleep=clock.asleep, max_attempts=255)

    async def calls() -> None:
        token = await strategy.acquire_initial_retry_token()
        for _ in range(8):
            token = await strategy.refresh_retry_token_for_retry(
                token_to_renew=token, error=failure(is_throttling_error=True)
            )

    asyncio.run(calls())
    assert clock.slept
