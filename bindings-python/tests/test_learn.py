"""Limits that learn from what answers say is left of the service's quota (semantics 3.7)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import tidegate
from tidegate.httpx import Transport

pytestmark = pytest.mark.usefixtures("both_paths")

LIMITS = ["rpm: permits=500 per=1m"]
LEFT = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-remaining-tokens": "nothing to read"}


def left_after(engine: tidegate.Engine, status: int, **rate: Any) -> int:
    """Returns the requests that the limit has after one answer."""
    policy = tidegate.Policy("chat", engine=engine, rate_limit={"limits": LIMITS, **rate})
    inner = httpx.MockTransport(lambda request: httpx.Response(status, headers=LEFT))
    with httpx.Client(transport=Transport(inner, policy=policy)) as client:
        assert client.get("https://api.example/").status_code == status
    rate_view: Any = engine.snapshot()["routes"][0]["rate"]
    return int(rate_view["limits"]["rpm"]["tokens"])


@pytest.mark.parametrize("status", [200, 404, 429])
def test_an_answer_of_any_status_lowers_the_limit(fake: tidegate.Engine, status: int) -> None:
    """Semantics 3.7.1 and 3.7.6."""
    assert left_after(fake, status, learn="down") == 3


@pytest.mark.parametrize("rate", [{}, {"learn": "none"}])
def test_without_learn_a_limit_counts_its_own_calls(fake: tidegate.Engine, rate: dict[str, str]) -> None:
    assert left_after(fake, 200, **rate) == 499


def test_the_preset_for_language_models_learns(fake: tidegate.Engine) -> None:
    """Semantics 0.7.12 and 0.7.13."""
    chat = tidegate.Policy("chat", preset="llm", engine=fake, rate_limit={"limits": LIMITS})
    assert chat._learns and chat._setting("own rate_limit.learn") is None
    assert not tidegate.Policy("other", preset="llm", engine=fake)._learns


def test_a_pool_that_is_retuned_to_learn_learns_from_the_next_answer(fake: tidegate.Engine) -> None:
    pool = tidegate.Pool("shared", rate_limit={"limits": LIMITS}, engine=fake)
    policy = tidegate.Policy("chat", engine=fake, rate_limit={"pool": "shared"})
    inner = httpx.MockTransport(lambda request: httpx.Response(200, headers=LEFT))
    left: list[Any] = []
    with httpx.Client(transport=Transport(inner, policy=policy)) as client:
        for learn in ("none", "down", "none"):
            pool.retune(rate_limit={"limits": LIMITS, "learn": learn})
            client.get("https://api.example/")
            view: Any = pool.snapshot()
            left.append(int(view["rate"]["limits"]["rpm"]["tokens"]))
    assert left == [499, 3, 2]
