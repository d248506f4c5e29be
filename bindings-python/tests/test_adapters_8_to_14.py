"""The rules for adapters (`docs/python/http.md`) about what is held, 8 to 14, each for every adapter.

1 to 7 are in `test_adapters_1_to_7.py`; `test_adapters_matrix.py` sees to it that no cell of that table is
missing.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

import tidegate
from adapters import Adapter, Aiohttp, dripping, ends, http, live
from conftest import Origin, quick
from tidegate.testing import FakeClock

__all__ = ["http"]

# Rule 8: slots and deadlines span the body.


def test_8_a_slot_is_kept_until_the_body_has_been_read(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"body_bytes": 1_000_000})
    client = http.open(quick(engine, bulkhead={"max_concurrency": 1, "acquire_timeout": 0}))
    response = client.stream("GET", origin.url + "/x")
    assert live(engine) == 1
    with pytest.raises(tidegate.BulkheadFull):
        client.request("GET", origin.url + "/x")
    assert len(client.read(response)) == 1_000_000
    assert live(engine) == 0
    assert client.request("GET", origin.url + "/x").status == 200


def test_8_until_headers_gives_the_slot_back_at_once(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"body_bytes": 1_000_000})
    client = http.open(quick(engine, slot_until="headers"))
    response = client.stream("GET", origin.url + "/x")
    assert live(engine) == 0
    assert len(client.read(response)) == 1_000_000


def test_8_closing_early_gives_the_slot_back(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"body_bytes": 1_000_000})
    client = http.open(quick(engine))
    response = client.stream("GET", origin.url + "/x")
    assert live(engine) == 1
    client.close_stream(response)
    assert live(engine) == 0
    assert ends(engine) == {"ok": 1}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_8_a_response_thrown_away_gives_the_slot_back(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"body_bytes": 1_000_000})
    # aiohttp holds on to an answer while its connection may bring more of it: there the deadline ends it.
    held = isinstance(http, Aiohttp)
    client = http.open(quick(engine, deadline=0.2 if held else None))
    http.may_lose = True
    response = client.stream("GET", origin.url + "/x")
    assert live(engine) == 1
    del response
    gc.collect()
    if held:
        http.run(asyncio.sleep(0.25))
    assert live(engine) == 0


@pytest.mark.parametrize("fault", ["truncate", "reset_after_headers"])
def test_8_a_body_that_fails_is_recorded(
    http: Adapter, origin: Origin, engine: tidegate.Engine, fault: str
) -> None:
    origin.sequence({"fault": fault, "body_bytes": 100_000})
    with pytest.raises(http.error):
        http.open(quick(engine)).request("GET", origin.url + "/x")
    assert ends(engine) == {"not_retryable": 1}


def test_8_the_deadline_ends_a_slow_body(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(dripping(200, size=1000))
    started = time.monotonic()
    with pytest.raises(http.timeout_error) as caught:
        http.open(quick(engine, deadline=0.2)).request("GET", origin.url + "/x")
    assert isinstance(caught.value, tidegate.DeadlineExceeded)
    assert 0.19 < time.monotonic() - started < 15  # the body takes a minute


def test_8_the_attempt_timeout_ends_at_the_headers(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "slow_body", "body_bytes": 2, "chunk_bytes": 1, "chunk_every": 400})
    answer = http.open(quick(engine, attempt_timeout=0.15, deadline=5.0)).request("GET", origin.url + "/x")
    assert len(answer.body) == 2


# Rule 9: nested policies do not multiply.


def test_9_a_client_inside_a_retried_function_makes_one_attempt(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503)
    outer = quick(engine)
    client = http.open(quick(engine))
    answers = []

    async def one_async() -> None:
        answers.append(await client.send("GET", origin.url + "/x"))
        raise ConnectionError("and the outer one fails")

    def one() -> None:
        answers.append(client.send("GET", origin.url + "/x"))
        raise ConnectionError("and the outer one fails")

    with pytest.raises(ConnectionError):
        http.run(outer.acall(one_async)) if http.is_async else outer.call(one)
    assert len(origin.log()) == 3
    assert answers[0].info["reason"] == "nested"


# Rule 10: clocks.


def test_10_a_fake_clock_drives_every_wait(http: Adapter, origin: Origin) -> None:
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=3, clock=clock)
    backoff = {"base": 120, "max": 120, "jitter": "none"}
    retry = {"max_attempts": 11, "backoff": backoff, "budget": None}
    origin.sequence(*[503] * 10, 200)
    started = time.monotonic()
    answer = http.open(tidegate.Policy(retry=retry, engine=engine)).request("GET", origin.url + "/x")
    assert (answer.status, answer.info["attempts"]) == (200, 11)
    assert clock.now() >= 1200
    assert time.monotonic() - started < 60


# Rule 11: headers out.


@pytest.mark.parametrize("switch", ["on", "off", "off by request"])
def test_11_repeats_carry_their_number(
    http: Adapter, origin: Origin, engine: tidegate.Engine, switch: str
) -> None:
    origin.sequence(503, 503, 200)
    client = http.open(quick(engine), retry_header=switch != "off")
    tg = {"retry_header": False} if "by" in switch else {}
    client.request("PUT", origin.url + "/x", body=b"x", tg=tg)
    seen = [entry["headers"] for entry in origin.log()]
    told = [headers.pop("retry-attempt", None) for headers in seen]
    assert told == ([None, "1", "2"] if switch == "on" else [None] * 3)
    assert seen[0] == seen[1] == seen[2]


# Rule 12: on by default, finite, safe.


def test_12_the_default_policy_is_the_preset(http: Adapter, origin: Origin) -> None:
    origin.sequence(503, 200)
    answer = http.open().request("GET", origin.url + "/x")
    assert (answer.status, answer.info["attempts"]) == (200, 2)


# Rule 13: every suppressed retry has a reason.


@pytest.mark.parametrize(
    ("reason", "first", "settings", "tg"),
    [
        ("attempts", 503, {"retry": {"max_attempts": 1}}, {}),
        ("opinion", 500, {}, {}),
        ("opinion", 503, {}, {"predicate": lambda response: False}),
        ("retry_after_too_long", {"status": 503, "retry_after": "120"}, {}, {}),
        ("would_outlive_deadline", {"status": 503, "retry_after": "30"}, {"deadline": 5.0}, {}),
        (
            "time_limit",
            {"status": 503, "retry_after": "30"},
            {"retry": {"retry_time_limit": 5.0, "max_retry_after": 60}},
            {},
        ),
        ("budget", 503, {"retry": {"budget": {"min_retries_per_sec": 0, "percent_can_retry": 0}}}, {}),
    ],
)
def test_13_a_retry_that_is_held_back_says_why(
    http: Adapter, origin: Origin, engine: tidegate.Engine, reason: str, first: Any, settings: Any, tg: Any
) -> None:
    origin.sequence(first, 200)
    answer = http.open(quick(engine, **settings)).request("GET", origin.url + "/x", tg=tg)
    assert answer.info["reason"] == reason
    assert ends(engine) == {reason: 1}
    assert len(origin.log()) == 1


# Rule 14: leaks.


def test_14_a_client_that_is_closed_leaves_no_connection(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(
        503, {"status": 503, "body_bytes": 300_000}, 200, {"fault": "hang"}, {"fault": "reset"}, 200
    )
    client = http.open(quick(engine, attempt_timeout=0.6))
    for _ in range(2):
        assert client.request("GET", origin.url + "/x").status == 200
    assert len(origin.log()) == 6
    client.close()
    gc.collect()
    until = time.monotonic() + 5
    while origin.stats()["connections_open"] and time.monotonic() < until:
        time.sleep(0.02)
    assert origin.stats()["connections_open"] == 0
    http.loop = None
    http.close = lambda: None  # type: ignore[method-assign]
