"""The door beside forze itself: the same script, the same attempts and failures.

Where they differ, the door follows the page, or what is safe:

- forze takes any `TimeoutError` for its own timeout; the door for the call's own failure.
- forze waits exactly `retry_after`, the door up to a tenth more.
- In forze a call that an open breaker refuses has taken a token of the rate limit; here it costs nothing.
- forze's windows tumble, its late failures prolong a break, and its throttle has no probes.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from compat.forze_page import OnClock
from tidegate.compat import forze

pytest.importorskip("forze", reason="forze needs Python 3.13")
from forze.application.contracts import resilience as their_contracts
from forze.application.execution.resilience import InProcessResilienceExecutor
from forze.base.exceptions import CoreException as TheirException
from forze.base.exceptions import ExceptionKind as TheirKind

KINDS = ["infrastructure", "throttled", "concurrency", "conflict", "validation", "timeout", "internal"]
TINY = timedelta(microseconds=1)


def strategies(module: Any, kinds: Any, rng: random.Random) -> list[Any]:
    """Some strategies, the same for the same draws."""
    made: list[Any] = []
    if rng.random() < 0.4:
        made.append(
            module.RateLimitStrategy(
                permits=rng.randrange(1, 12), per=timedelta(days=1), burst=rng.choice([None, 9])
            )
        )
    if rng.random() < 0.4:
        made.append(module.BulkheadStrategy(max_concurrency=rng.randrange(1, 3)))
    if rng.random() < 0.5:
        made.append(
            module.CircuitBreakerStrategy(
                failure_ratio=rng.choice([0.5, 1.0]),
                sampling_window=timedelta(hours=1),
                min_throughput=rng.randrange(1, 6),
                break_duration=timedelta(hours=1),
                failure_on=frozenset(
                    kinds(kind) for kind in rng.choice([["infrastructure", "timeout"], ["conflict"]])
                ),
                ignore_on=frozenset(kinds(kind) for kind in rng.choice([["throttled", "concurrency"], []])),
            )
        )
    if rng.random() < 0.7:
        budget = rng.choice([None, 0.5, 1.0])
        made.append(
            module.RetryStrategy(
                max_attempts=rng.randrange(1, 5),
                backoff=module.BackoffStrategy(base=TINY, max=TINY, jitter="none"),
                retry_on=frozenset(kinds(kind) for kind in rng.sample(KINDS[:3], rng.randrange(1, 4))),
                budget=None if budget is None else module.RetryBudget(ratio=budget),
            )
        )
    if rng.random() < 0.3 or not made:
        made.append(module.TimeoutStrategy(timeout=timedelta(seconds=60)))
    kinds_made = [type(each).__name__ for each in made]
    if {"RateLimitStrategy", "CircuitBreakerStrategy"} <= set(kinds_made):
        del made[kinds_made.index("RateLimitStrategy")]  # see above: a difference
    return made


async def play(executor: Any, error: Any, script: list[list[str]]) -> list[Any]:
    """Calls, each a list of what its attempts come to: how they end, and after how many attempts."""
    seen: list[Any] = []
    for outcomes in script:
        starts = 0

        async def fn(outcomes: list[str] = outcomes) -> str:
            nonlocal starts
            starts += 1
            outcome = outcomes[min(starts, len(outcomes)) - 1]
            if outcome == "bug":
                raise RuntimeError("bug")
            if outcome != "ok":
                raise error(outcome)
            return outcome

        try:
            seen.append((await executor.run(fn, policy="p"), starts))
        except Exception as failure:
            kind = str(getattr(failure, "kind", ""))
            code, summary = getattr(failure, "code", ""), getattr(failure, "summary", str(failure))
            seen.append((kind, code, summary, starts))
    return seen


@pytest.mark.parametrize("seed", range(150))
def test_the_same_script_is_decided_alike(seed: int) -> None:
    rng = random.Random(seed)
    words = ["ok"] * 4 + KINDS + ["infrastructure", "bug"]
    script = [[rng.choice(words) for _ in range(4)] for _ in range(25)]
    draws = rng.random()
    theirs = their_contracts.ResiliencePolicy(
        name="p", strategies=tuple(strategies(their_contracts, TheirKind, random.Random(draws)))
    )
    ours = forze.ResiliencePolicy(
        name="p", strategies=tuple(strategies(forze, forze.ExceptionKind, random.Random(draws)))
    )
    want = asyncio.run(
        play(
            InProcessResilienceExecutor(policies={"p": theirs}),
            lambda kind: TheirException.of(TheirKind(kind), f"of {kind}"),
            script,
        )
    )
    have = asyncio.run(
        play(
            OnClock().executor(ours),
            lambda kind: forze.CoreException(forze.ExceptionKind(kind), f"of {kind}"),
            script,
        )
    )
    assert have == want, f"seed {seed}: {ours}"


@pytest.mark.parametrize("module", [their_contracts, forze])
def test_the_differences_are_still_there(module: Any) -> None:
    """A breaker that is open from the first call on, and tokens that only forze spends on refusals."""
    kinds: Any = TheirKind if module is their_contracts else forze.ExceptionKind
    hour = timedelta(hours=1)
    policy = module.ResiliencePolicy(
        name="p",
        strategies=(
            module.RateLimitStrategy(permits=3, per=hour),
            module.CircuitBreakerStrategy(
                failure_ratio=1.0, sampling_window=hour, min_throughput=1, break_duration=hour
            ),
        ),
    )
    executor: Any
    if module is their_contracts:
        executor = InProcessResilienceExecutor(policies={"p": policy})
    else:
        executor = OnClock().executor(policy)
    made = TheirException if module is their_contracts else forze.CoreException
    seen = asyncio.run(play(executor, lambda kind: made(kinds(kind), "", code="x"), [["infrastructure"]] * 5))
    codes = [entry[1] for entry in seen]
    refused = "rate_limited" if module is their_contracts else "core.infrastructure"
    assert codes == ["x", "core.infrastructure", "core.infrastructure", refused, refused]


def test_their_exceptions_are_understood() -> None:
    on = OnClock()
    answers: list[Any] = [TheirException.of(TheirKind.CONCURRENCY, "stale"), "done"]
    assert on.outcomes(on.executor(), "occ", answers) == ["done"]
    assert on.starts == 2


@pytest.mark.parametrize(
    "strategy", ["AdaptiveThrottleStrategy", "GradientBulkheadStrategy", "BackoffStrategy"]
)
def test_defaults_are_theirs(strategy: str) -> None:
    given: dict[str, Any] = {
        "AdaptiveThrottleStrategy": {},
        "GradientBulkheadStrategy": {"max_concurrency": 4},
        "BackoffStrategy": {"base": TINY, "max": TINY},
    }[strategy]
    theirs, ours = getattr(their_contracts, strategy)(**given), getattr(forze, strategy)(**given)
    for name in theirs.__slots__:
        if not name.startswith("_"):
            assert getattr(ours, name) == getattr(theirs, name), name


def test_builtin_policies_are_theirs() -> None:
    from forze.application.execution.resilience import builtin_default_policies

    for name, policy in builtin_default_policies().items():
        mine = forze.builtin_default_policies()[str(name)]
        for one, other in zip(mine.strategies, policy.strategies, strict=True):
            assert type(one).__name__ == type(other).__name__
            for field in ("max_attempts", "timeout"):
                assert getattr(one, field, None) == getattr(other, field, None)
            if isinstance(one, forze.RetryStrategy):
                assert {str(kind) for kind in one.retry_on} == {str(kind) for kind in other.retry_on}
                assert (one.backoff.base, one.backoff.max) == (other.backoff.base, other.backoff.max)
