"""The door beside smithy-core itself: the same script, the same tokens, errors and quota.

Where they differ, the door follows the design:

- smithy-core's simple strategy ignores `retry_after`, and its standard one cuts it off 5 s above the computed
  delay; the design says that the delay should be at least as long.
- Its decorrelated jitter is one state for all requests, and draws from [b, b + 3·previous]; the design says
  that a backoff strategy is stateless, and its own docstring has [b, 3·previous].
- Its delays overflow from retry 1,025 on.
- Its scopes do nothing.
- It asks for an attribute `is_timeout_error` that the design's protocol does not have.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tidegate.compat import smithy

pytest.importorskip("smithy_core", reason="smithy-core needs Python 3.12")
from smithy_core import exceptions as their_exceptions
from smithy_core import retries as their_retries
from smithy_core.aio import retries as theirs


def backoff(module: Any, scale: float) -> Any:
    kind = module.ExponentialBackoffJitterType
    return module.ExponentialRetryBackoffStrategy(
        backoff_scale_value=scale, max_backoff=20, jitter_type=kind.NONE
    )


def pair(kind: str, most: int, capacity: int) -> tuple[Any, Any]:
    if kind == "simple":
        return (
            theirs.SimpleRetryStrategy(backoff_strategy=backoff(their_retries, 2), max_attempts=most),
            smithy.aio.SimpleRetryStrategy(backoff_strategy=backoff(smithy, 2), max_attempts=most),
        )
    return tuple(
        strategy.StandardRetryStrategy(
            backoff_strategy=backoff(module, 0.05),
            throttling_backoff_strategy=backoff(module, 1),
            max_attempts=most,
            retry_quota=module.StandardRetryQuota(capacity),
        )
        for strategy, module in ((theirs, their_retries), (smithy.aio, smithy))
    )  # type: ignore[return-value]


async def play(strategy: Any, script: list[list[Any]]) -> list[Any]:
    """Operations, each a list of outcomes: an exception, or None for a success."""
    seen: list[Any] = []
    for outcomes in script:
        token = await strategy.acquire_initial_retry_token()
        for outcome in outcomes:
            if outcome is None:
                await strategy.record_success(token=token)
                break
            try:
                token = await strategy.refresh_retry_token_for_retry(token_to_renew=token, error=outcome)
            except Exception as error:
                seen.append((type(error).__name__, str(error), getattr(error, "retry_after", None)))
                break
            seen.append((token.retry_count, token.retry_delay))
        quota = getattr(strategy, "_retry_quota", None) or getattr(strategy, "retry_quota", None)
        seen.append(None if quota is None else quota.available_capacity)
    return seen


def outcome(rng: random.Random, kind: str) -> Any:
    draw = rng.random()
    if draw < 0.3:
        return None
    if draw < 0.35:
        return ValueError("a bug")
    asked = kind == "standard" and rng.random() < 0.3
    return their_exceptions.CallError(
        "reset",
        is_retry_safe=rng.choice([True, True, True, True, False, None]),
        is_throttling_error=rng.random() < 0.3,
        retry_after=rng.choice([0.01, 0.5, 3.0]) if asked else None,
    )


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("kind", ["simple", "standard"])
def test_the_same_script_is_decided_alike(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    most, capacity = rng.choice([0, 1, 2, 3, 5]), rng.choice([0, 14, 30, 60, 500])
    script = [[outcome(rng, kind) for _ in range(rng.randrange(1, 6))] for _ in range(20)]
    one, other = pair(kind, most, capacity)
    want, have = asyncio.run(play(one, script)), asyncio.run(play(other, script))
    assert have == [
        tuple(pytest.approx(part) if isinstance(part, float) else part for part in entry)
        if isinstance(entry, tuple)
        else entry
        for entry in want
    ], f"seed {seed}"


@pytest.mark.parametrize("jitter", ["NONE", "FULL", "DEFAULT"])
def test_the_same_draws_are_the_same_delays(jitter: str) -> None:
    for scale, most in ((0.025, 20), (2, 20), (1, 0.5), (0, 20)):
        delays = []
        for module in (their_retries, smithy):
            strategy = module.ExponentialRetryBackoffStrategy(
                backoff_scale_value=scale,
                max_backoff=most,
                jitter_type=module.ExponentialBackoffJitterType[jitter],
                random=random.Random(5).random,
            )
            delays.append([strategy.compute_next_backoff_delay(n) for n in range(40)])
        assert delays[1] == pytest.approx(delays[0], abs=1e-6)


def test_the_differences_are_still_there() -> None:
    slow = their_exceptions.CallError("slow down", is_retry_safe=True, retry_after=100.0)
    for kind, want in (("simple", 2.0), ("standard", 5.05)):
        one, other = pair(kind, 3, 500)
        assert asyncio.run(play(one, [[slow]]))[0][1] == pytest.approx(want)
        assert asyncio.run(play(other, [[slow]]))[0][1] == 100.0
    theirs_late = their_retries.ExponentialRetryBackoffStrategy()
    with pytest.raises(OverflowError):
        theirs_late.compute_next_backoff_delay(1025)
    assert smithy.ExponentialRetryBackoffStrategy().compute_next_backoff_delay(1025) > 0


def test_their_resolver_takes_our_strategies() -> None:
    ours = smithy.aio.StandardRetryStrategy()
    found = asyncio.run(theirs.RetryStrategyResolver().resolve_retry_strategy(retry_strategy=ours))
    assert found is ours


def test_their_clients_catch_our_end_of_retries() -> None:
    strategy = smithy.StandardRetryStrategy()
    token = strategy.acquire_initial_retry_token()
    with pytest.raises(their_exceptions.RetryError):
        strategy.refresh_retry_token_for_retry(token_to_renew=token, error=ValueError("a bug"))
