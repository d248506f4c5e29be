"""Cooldown through a client and through functions (semantics 16); `core/tests/cooldown.rs` has the rules."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

import tidegate
from tidegate.httpx import Transport
from tidegate.testing import FakeClock

URL = "https://models.example/v1"


def cooling(engine: tidegate.Engine) -> Any:
    """The view of the only route's cooldown."""
    (route,) = engine.snapshot()["routes"]
    return route["cooldown"]


def test_one_429_keeps_everybody_away_16_3_1(fake: tidegate.Engine, clock: FakeClock) -> None:
    answers = [httpx.Response(429, headers={"retry-after": "10"})]
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        return answers.pop() if answers else httpx.Response(200)

    policy = tidegate.Policy("cooled", engine=fake, cooldown={"base": 1.0, "max": 60.0})
    with httpx.Client(transport=Transport(httpx.MockTransport(answer), policy, module=httpx)) as client:
        assert client.get(URL).status_code == 429
        with pytest.raises(tidegate.CoolingDown) as refused:
            client.get(URL)
        assert (refused.value.code, refused.value.http_status) == ("cooling_down", 429)
        assert refused.value.retry_in is not None and 10 <= refused.value.retry_in <= 11
        assert cooling(fake)["state"] == "closed" and len(sent) == 1
        clock.tick(11)
        assert client.get(URL).status_code == 200
        assert cooling(fake)["state"] == "open" and len(sent) == 2


class Limited(Exception):
    """What a service raises that has had too many requests."""


def test_attempts_come_back_gradually_16_5(fake: tidegate.Engine, clock: FakeClock) -> None:
    """Semantics 16.5.1, 16.5.2 and 16.5.4: one place, then one more for each good answer."""
    policy = tidegate.Policy(
        "slowly",
        engine=fake,
        classify=lambda error: "throttled" if isinstance(error, Limited) else None,
        cooldown={"base": 1.0, "max": 60.0},
        bulkhead={"kind": "fixed", "max_concurrency": 3},
    )

    def limited() -> None:
        raise Limited

    with pytest.raises(Limited):
        policy.call(limited)
    clock.tick(2)
    seen: list[Any] = []

    def beside() -> None:
        try:
            policy.call(lambda: seen.append("a second attempt"))
        except tidegate.CoolingDown as refused:
            seen.append(refused.reason)

    def alone() -> None:
        seen.append((cooling(fake)["state"], cooling(fake)["places"], cooling(fake)["taken"]))
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()

    policy.call(alone)
    assert seen == [("reopening", 1, 1), "cooldown"]
    assert cooling(fake)["places"] == 2
    policy.call(lambda: None)
    assert cooling(fake)["state"] == "open"


def test_a_mistake_is_told_16_1_2() -> None:
    with pytest.raises(tidegate.PolicyError, match=r"retry\.hold"):
        tidegate.Policy(cooldown={"base": 1.0, "max": 60.0}, retry={"hold": True})
