"""The rest of `test_smithy.py`: backoff, resolvers, the async twins; and no sentence is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from compat import test_smithy
from compat.smithy_page import NONE, PAGE, Clock, failure, plain, says
from tidegate.compat import smithy
from tidegate.compat.smithy import (
    ExponentialBackoffJitterType,
    ExponentialRetryBackoffStrategy,
    RetryError,
    aio,
)


def test_every_sentence_is_shown() -> None:
    assert test_smithy.__name__
    assert PAGE.unshown() == {}


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
        ({"backoff_scale_value": float("nan")}, "backoff_scale_value = nan"),
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
    waited = sum(clock.slept)
    asyncio.run(strategy.acquire_initial_retry_token())
    assert sum(clock.slept) > waited, "first attempts too"
