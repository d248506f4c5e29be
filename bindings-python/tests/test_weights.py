"""Weights of calls, and what their attempts settle (spec 3.4 to 3.6)."""

from __future__ import annotations

import pickle
from typing import Any

import httpx
import pytest

import tidegate
from tidegate.httpx import Transport
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")

LIMITS = ["rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens"]


def metered(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    """Requests and tokens."""
    return tidegate.Policy("metered", engine=engine, rate_limit={"limits": LIMITS}, **rest)


def limit(engine: tidegate.Engine, name: str) -> Any:
    """A limit of the only route."""
    return engine.snapshot()["routes"][0]["rate"]["limits"][name]


def test_a_loop_reserves_and_settles(fake: tidegate.Engine) -> None:
    """Semantics 3.6.2 and 3.6.3."""
    policy = metered(fake)
    for attempt in policy.at(weights={"tokens": 4_000}).attempts():
        with attempt:
            assert limit(fake, "tpm")["tokens"] == 6_000
            assert attempt.settle(tokens=1_000)
            assert attempt.settle(tokens=5_500)
            assert limit(fake, "tpm")["tokens"] == 4_500
    assert not attempt.settle(tokens=9_000)
    assert limit(fake, "tpm") == {
        "weight": "tokens",
        "tokens": 4_500,
        "burst": 10_000,
        "reserved": 4_000,
        "settled": 5_500,
        "forgiven": 0,
    }
    assert limit(fake, "rpm")["tokens"] == 2


def test_calls_reserve_and_the_rest_waits(fake: tidegate.Engine, clock: FakeClock) -> None:
    """Semantics 3.4.3, 3.5.4 and 3.6.4."""
    caller = metered(fake).at(weights={"tokens": 6_000})
    assert caller.call(lambda: 7) == 7
    with pytest.raises(tidegate.RateLimited):
        caller.call(lambda: 7)
    clock.tick(2)
    assert caller.call(lambda: 7) == 7
    with pytest.raises(tidegate.CostAboveBurst):
        metered(fake).at(weights={"tokens": 10_001}).call(lambda: 7)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"token": 5}, 'weights = "token": no limit counts it; the weights are tokens'),
        (None, "weights: the rate limit counts tokens; give each call an amount, or the limit a default"),
    ],
)
def test_a_wrong_or_missing_weight_is_one_clear_error(
    fake: tidegate.Engine, weights: dict[str, int] | None, message: str
) -> None:
    """Semantics 3.5.3."""
    caller = metered(fake).at(weights=weights)
    with pytest.raises(ValueError, match="weights") as raised:
        caller.call(lambda: 7)
    assert str(raised.value) == message
    with pytest.raises(ValueError, match="weights") as raised:
        next(iter(caller.attempts()))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "weights", [{"tokens": -1}, {"tokens": 1.5}, {"tokens": True}, {"tokens": 1 << 53}, [1], {1: 1}]
)
def test_amounts_are_whole_numbers(fake: tidegate.Engine, weights: Any) -> None:
    """Semantics 3.5.2."""
    with pytest.raises(ValueError, match="must be a mapping of names to whole numbers from 0 to 2"):
        metered(fake).at(weights=weights)


def test_a_policy_without_weights_takes_none(fake: tidegate.Engine) -> None:
    """Semantics 3.5.3."""
    policy = tidegate.Policy("plain", engine=fake, deadline=5)
    with pytest.raises(ValueError, match="has no weights; leave weights out"):
        policy.at(weights={"tokens": 5}).call(lambda: 7)


def test_a_request_of_an_adapter_has_weights(fake: tidegate.Engine) -> None:
    """Semantics 3.5.1: the option `weights` of a request."""
    policy = metered(fake)
    inner = httpx.MockTransport(lambda request: httpx.Response(200))
    with httpx.Client(transport=Transport(inner, policy=policy)) as client:
        small = {"tidegate": {"weights": {"tokens": 2_500}}}
        assert client.get("https://api.example/", extensions=small).status_code == 200
        assert limit(fake, "tpm")["tokens"] == 7_500
        with pytest.raises(ValueError, match="weights: the rate limit counts tokens"):
            client.get("https://api.example/")


def test_a_document_declares_limits_in_tables(fake: tidegate.Engine) -> None:
    """Semantics 3.4.1."""
    document = """
        [policy.chat.rate_limit.limits]
        rpm = { permits = 60, per = "1m" }
        tpm = { permits = 60000, per = "1m", weight = "tokens", default = 500, max_debt = "none" }
    """
    policies = tidegate.loads(document, engine=fake)
    assert policies["chat"].call(lambda: 7) == 7
    assert limit(fake, "tpm")["tokens"] == 59_500


def test_a_refusal_names_the_limit_the_weight_and_the_amount(fake: tidegate.Engine) -> None:
    """Semantics 3.4.6 and 3.8.14."""
    policy = metered(fake)
    caller = policy.at(weights={"tokens": 6_000})
    caller.call(lambda: 7)
    with pytest.raises(tidegate.RateLimited) as refused:
        caller.call(lambda: 7)
    error = refused.value
    assert (error.limit, error.weight, error.amount) == ("tpm", "tokens", 6_000)
    assert str(error) == (
        "the rate limit is used up (policy 'metered', route 'default', limit tpm, 6000 tokens)"
    )
    assert vars(pickle.loads(pickle.dumps(error)))["limit"] == "tpm"
    with pytest.raises(tidegate.CostAboveBurst, match=r"limit tpm, 10001 tokens\)$") as large:
        policy.at(weights={"tokens": 10_001}).call(lambda: 7)
    assert (large.value.limit, large.value.weight, large.value.amount) == ("tpm", "tokens", 10_001)
    small = policy.at(weights={"tokens": 1})
    assert [small.call(lambda: 7) for _ in range(2)] == [7, 7]
    with pytest.raises(tidegate.RateLimited, match=r"limit rpm\)$") as counted:
        small.call(lambda: 7)
    assert (counted.value.limit, counted.value.weight, counted.value.amount) == ("rpm", None, None)


def test_an_adapters_refusal_names_the_limit_too(fake: tidegate.Engine) -> None:
    """Semantics 3.8.14."""
    inner = httpx.MockTransport(lambda request: httpx.Response(200))
    large = {"tidegate": {"weights": {"tokens": 6_000}}}
    with httpx.Client(transport=Transport(inner, policy=metered(fake))) as client:
        client.get("https://api.example/", extensions=large)
        with pytest.raises(tidegate.RateLimited, match="limit tpm, 6000 tokens") as refused:
            client.get("https://api.example/", extensions=large)
    assert (refused.value.limit, refused.value.weight, refused.value.amount) == ("tpm", "tokens", 6_000)


def test_a_plain_rate_names_no_limit(fake: tidegate.Engine) -> None:
    """Semantics 3.8.14."""
    policy = tidegate.Policy("plain", engine=fake, rate_limit={"permits": 1, "per": 60})
    policy.call(lambda: 7)
    with pytest.raises(tidegate.RateLimited, match=r"route 'default'\)$") as refused:
        policy.call(lambda: 7)
    assert (refused.value.limit, refused.value.weight, refused.value.amount) == (None, None, None)


def test_a_budget_comes_back_when_its_window_begins(fake: tidegate.Engine, clock: FakeClock) -> None:
    """Semantics 3.8.1, 3.8.4, 3.8.6 and 3.8.8."""
    limits = ["usd: permits=1000 per=24h weight=usd max_debt=none refill=window"]
    policy = tidegate.Policy("budget", engine=fake, rate_limit={"limits": limits})
    caller = policy.at(weights={"usd": 600})
    assert caller.call(lambda: 7) == 7
    with pytest.raises(tidegate.RateLimited) as refused:
        caller.call(lambda: 7)
    midnight = refused.value.retry_at
    assert midnight is not None
    # The native half's manual clock began some milliseconds before or after the clock of the test.
    day = round(midnight.timestamp()) % 86_400
    assert day in (0, 1, 86_399)
    left = midnight.timestamp() - fake.wall()
    assert 0 < left <= 86_400
    again = tidegate.Engine(seed=2, clock=clock)
    tidegate.Policy("budget", engine=again, rate_limit={"limits": limits})
    again.restore(fake.save())
    assert limit(again, "usd")["tokens"] == 400
    clock.tick(left + 5)
    assert caller.call(lambda: 7) == 7
    assert limit(fake, "usd")["tokens"] == 400
