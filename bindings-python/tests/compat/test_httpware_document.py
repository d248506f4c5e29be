"""httpware's "Resilience reference" through the door: retries. Its sentences stand in `httpware_page.py`."""

from __future__ import annotations

import asyncio
import email.utils
import pathlib
import re
import time
from typing import Any

import pytest

import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, Events, httpware, httpx2, notes, request
from compat.httpware_page import PAGE

says = PAGE.says


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param, door)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    return Events(caplog)


def broke() -> door.RetryBudget:
    return door.RetryBudget(min_retries_per_sec=0, percent_can_retry=0)


@says(1, 8, 9)
def test_waits_are_drawn_from_zero_to_a_doubling_ceiling(
    colour: Colour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._engine.engine.draw_seed", lambda: 7)
    plenty = door.RetryBudget(min_retries_per_sec=1_000_000)
    retry = colour.make("Retry", max_attempts=9, max_delay=1.6, budget=plenty)
    for _ in range(100):
        assert colour.call(retry, request(), Chain(*[503] * 8)).status_code == 200
    rounds = [colour.sleeps[n::8] for n in range(8)]
    for n, drawn in enumerate(rounds):
        ceiling = min(0.1 * 2**n, 1.6)
        assert 0 <= min(drawn) < 0.2 * ceiling, "full jitter comes near 0"
        assert 0.8 * ceiling < max(drawn) <= ceiling, "and near the ceiling, not above"


@says(1, 53)
@pytest.mark.parametrize(
    "failure", [httpware.NetworkError("reset"), httpware.TimeoutError("read"), httpx2.ReadError("raw")]
)
def test_network_errors_and_timeouts_are_transient(colour: Colour, failure: Exception) -> None:
    chain = Chain(failure, 200)
    assert colour.call(colour.make("Retry"), request(), chain).status_code == 200
    assert len(chain.seen) == 2
    post = Chain(failure)
    assert colour.fails(colour.make("Retry"), request("POST"), post) is failure
    assert len(post.seen) == 1


@says(1)
@pytest.mark.parametrize("failure", [ValueError("bug"), TimeoutError("somebody's"), OSError(5, "io")])
def test_anything_else_is_passed_on_untouched(colour: Colour, events: Events, failure: Exception) -> None:
    chain = Chain(failure)
    assert colour.fails(colour.make("Retry"), request(), chain) is failure
    assert (len(chain.seen), notes(failure), events.names()) == (1, [], [])


@says(5, 27, 28, 55, 61)
def test_three_tries_then_the_last_failure_as_it_was(colour: Colour, events: Events) -> None:
    chain = Chain(503, 502, 503)
    error = colour.fails(colour.make("Retry"), request(), chain)
    assert type(error) is httpware.ServiceUnavailableError
    assert error.response.request is chain.seen[2] and len(chain.seen) == 3 and len(colour.sleeps) == 2
    assert notes(error) == ["httpware: gave up after 3 attempts"]
    assert events.names() == ["retry.giving_up"]
    said = events.last()
    expected = {
        "name": "httpware.retry", "levelname": "WARNING", "attempts": 3, "last_status": 503,
        "last_exception_type": "ServiceUnavailableError", "reason": "max_attempts", "method": "GET",
        "url": "http://api.test/a?token=REDACTED",
    }  # fmt: skip
    assert {key: said[key] for key in expected} == expected


@says(6)
def test_one_attempt_disables_retries(colour: Colour) -> None:
    chain = Chain(503)
    error = colour.fails(colour.make("Retry", max_attempts=1), request(), chain)
    assert len(chain.seen) == 1 and notes(error) == ["httpware: gave up after 1 attempts"]


@says(7, 45, 46)
@pytest.mark.parametrize(
    ("kind", "wrong", "says_so"),
    [
        ("Retry", {"max_attempts": 0}, "max_attempts must be >= 1, got 0"),
        ("Retry", {"max_attempts": 2.5}, "max_attempts must be a whole number >= 1, got 2.5"),
        ("Retry", {"max_attempts": 256}, "retry.max_attempts = 256: must be a whole number from 1 to 255"),
        ("Retry", {"base_delay": -1}, "base_delay must be >= 0, got -1"),
        ("Retry", {"base_delay": float("nan")}, "base_delay must be >= 0, got nan"),
        ("Retry", {"max_delay": float("inf")}, "max_delay must be a finite number >= 0, got inf"),
        (
            "Retry",
            {"retry_methods": "POST"},
            "retry_methods must be a collection of method names, got 'POST'",
        ),
        (
            "Retry",
            {"retry_status_codes": {99}},
            "retry_status_codes must be statuses from 100 to 599, got 99",
        ),
        ("Retry", {"budget": 3}, "budget must have deposit"),
        ("Bulkhead", {"max_concurrent": 0}, "max_concurrent must be >= 1, got 0"),
        ("Bulkhead", {"max_concurrent": 1.5}, "max_concurrent must be a whole number >= 1, got 1.5"),
        ("Bulkhead", {"max_concurrent": 1, "acquire_timeout": -1}, "acquire_timeout must be >= 0, got -1"),
        ("Bulkhead", {"max_concurrent": 1, "acquire_timeout": float("nan")}, "acquire_timeout must be >= 0"),
    ],
)
def test_what_is_wrong_is_named(colour: Colour, kind: str, wrong: dict[str, Any], says_so: str) -> None:
    with pytest.raises(ValueError, match=says_so):
        colour.make(kind, **wrong)


@says(10)
def test_these_statuses_are_retried_and_no_others(colour: Colour) -> None:
    retried = set()
    for status in range(400, 600):
        chain = Chain(status)
        retry = colour.make("Retry", max_attempts=2, base_delay=0)
        try:
            colour.call(retry, request(), chain)
        except httpware.StatusError:
            continue
        retried.add(status)
    assert retried == {408, 429, 502, 503, 504}
    chain = Chain(404)
    assert colour.call(colour.make("Retry", retry_status_codes={404}), request(), chain).status_code == 200


@says(11, 12)
def test_idempotent_methods_are_retried_and_those_that_are_listed(colour: Colour) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"):
        assert colour.call(colour.make("Retry"), request(method), Chain(503)).status_code == 200
    for method in ("POST", "PATCH", "TRACE"):
        chain = Chain(503)
        error = colour.fails(colour.make("Retry"), request(method), chain)
        assert (len(chain.seen), notes(error)) == (1, [])
    listed = colour.make("Retry", retry_methods=frozenset({"post", "PURGE"}))
    for method in ("POST", "PURGE"):
        assert colour.call(listed, request(method), Chain(503)).status_code == 200
    chain = Chain(503)
    colour.fails(listed, request("GET"), chain)
    assert len(chain.seen) == 1


@says(13, 19, 22, 55)
@pytest.mark.parametrize(
    ("value", "slept"), [("2", [2.0]), ("5", [5.0]), ("0", []), ("-3", []), (" 4 ", [4.0])]
)
def test_the_servers_wait_stands_for_the_backoff(colour: Colour, value: str, slept: list[float]) -> None:
    chain = Chain(429, Retry_After=value)
    assert colour.call(colour.make("Retry"), request(), chain).status_code == 200
    assert colour.sleeps == slept, "to the letter; no wait at all is none"


@says(20)
def test_a_date_is_waited_for_and_a_past_one_is_now(colour: Colour) -> None:
    soon = email.utils.formatdate(time.time() + 3, usegmt=True)
    colour.call(colour.make("Retry"), request(), Chain(503, Retry_After=soon))
    assert len(colour.sleeps) == 1 and 1.5 < colour.sleeps[0] <= 3
    colour.call(colour.make("Retry"), request(), Chain(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"))
    assert len(colour.sleeps) == 1


@says(14, 21, 55, 61)
def test_a_wait_above_max_delay_ends_it(colour: Colour, events: Events) -> None:
    chain = Chain(503, Retry_After="7")
    budget = door.RetryBudget(min_retries_per_sec=0, percent_can_retry=1)
    error = colour.fails(colour.make("Retry", budget=budget), request(), chain)
    assert type(error) is httpware.ServiceUnavailableError and len(chain.seen) == 1 and not colour.sleeps
    assert notes(error) == ["httpware: Retry-After (7.0s) exceeded max_delay (5.0s); giving up"]
    assert budget.try_withdraw(), "it cost nothing"
    said = events.last()
    assert (said["event"], said["reason"]) == ("retry.giving_up", "retry_after_exceeds_max_delay")
    assert (said["attempts"], said["retry_after"], said["max_delay"]) == (1, 7.0, 5.0)


@says(15)
def test_opting_out_of_giving_up(colour: Colour) -> None:
    colour.call(colour.make("Retry", max_delay=10.0), request(), Chain(503, Retry_After="7"))
    assert colour.sleeps == [7.0]
    colour.call(colour.make("Retry", respect_retry_after=False), request(), Chain(503, Retry_After="7"))
    assert colour.sleeps[1] <= 0.1


def test_no_budget_but_the_given_one_refuses(colour: Colour) -> None:
    plenty = door.RetryBudget(min_retries_per_sec=1_000_000)
    retry = colour.make("Retry", base_delay=0, budget=plenty)
    for _ in range(300):  # in no time
        assert colour.call(retry, request(), Chain(503, 503)).status_code == 200


@says(16, 33, 34)
def test_the_default_budget_is_ones_own(colour: Colour) -> None:
    first, second = colour.make("Retry"), colour.make("Retry")
    assert isinstance(first.budget, door.RetryBudget) and first.budget is not second.budget
    granted = sum(first.budget.try_withdraw() for _ in range(200))
    assert granted == 100, "10 a second for 10 seconds, whatever the traffic"


@says(2, 17, 39)
def test_one_budget_for_clients_of_both_colours(origin: Any) -> None:
    shared = door.RetryBudget(min_retries_per_sec=0.3, percent_can_retry=0)  # 3 retries
    origin.sequence(*[503] * 8)
    with (
        httpware.Client(
            base_url=origin.url, middleware=[door.Retry(budget=shared, _sleep=lambda _: None, max_attempts=2)]
        ) as client,
        pytest.raises(httpware.ServiceUnavailableError),
    ):
        client.get("/x")

    async def nap(seconds: float) -> None:
        assert seconds >= 0

    async def main() -> None:
        async with (
            httpware.AsyncClient(
                base_url=origin.url, middleware=[door.AsyncRetry(budget=shared, _sleep=nap, max_attempts=2)]
            ) as users,
            httpware.AsyncClient(
                base_url=origin.url, middleware=[door.AsyncRetry(budget=shared, _sleep=nap, max_attempts=2)]
            ) as orders,
        ):
            for client in (users, orders):
                with pytest.raises(httpware.ServiceUnavailableError):
                    await client.get("/x")
            with pytest.raises(door.RetryBudgetExhaustedError):
                await users.get("/x")

    asyncio.run(main())
    assert len(origin.log()) == 7


@says(18)
def test_there_is_no_timeout_knob(colour: Colour) -> None:
    with pytest.raises(TypeError, match="timeout"):
        colour.make("Retry", timeout=1.0)


@says(23)
@pytest.mark.parametrize("value", ["soon", "1.5", "5s", "1e3", "", "31,120", "2026-10-21T07:28:00Z"])
def test_a_malformed_wait_is_ignored(colour: Colour, value: str) -> None:
    colour.call(colour.make("Retry"), request(), Chain(503, Retry_After=value))
    assert len(colour.sleeps) == 1 and colour.sleeps[0] <= 0.1


def stream(colour: Colour) -> Any:
    async def chunks() -> Any:
        yield b"part"

    return chunks() if colour.is_async else iter([b"part"])


STREAMING = "httpware: not retrying — request body is a stream that cannot replay across attempts"


@says(24, 26, 55, 61)
def test_a_stream_is_sent_once(colour: Colour, events: Events) -> None:
    chain = Chain(503)
    budget = door.RetryBudget(min_retries_per_sec=0, percent_can_retry=1)
    retry = colour.make("Retry", budget=budget)
    error = colour.fails(retry, request("PUT", content=stream(colour)), chain)
    assert type(error) is httpware.ServiceUnavailableError and notes(error) == [STREAMING]
    assert (len(chain.seen), colour.sleeps, events.names()) == (1, [], ["retry.streaming_refused"])
    assert events.last()["last_exception_type"] == "ServiceUnavailableError"
    assert budget.try_withdraw(), "it cost nothing"
    marked = request("PUT", extensions={"httpware.streaming_body": True})
    assert notes(colour.fails(retry, marked, Chain(503))) == [STREAMING]


@says(24)
@pytest.mark.parametrize(
    "body", [{"content": b"bytes"}, {"json": {}}, {"data": {"a": "b"}}, {"files": {"f": b"x"}}, {}]
)
def test_what_is_in_memory_is_sent_again(colour: Colour, body: dict[str, Any]) -> None:
    assert colour.call(colour.make("Retry"), request("PUT", **body), Chain(503)).status_code == 200


@says(25, 26)
def test_a_stream_with_a_method_that_is_not_retried(colour: Colour, events: Events) -> None:
    error = colour.fails(colour.make("Retry"), request("POST", content=stream(colour)), Chain(503))
    assert notes(error) == [STREAMING] and events.names() == []


@says(29, 55, 61)
def test_a_budget_that_refuses(colour: Colour, events: Events) -> None:
    error: Any = colour.fails(colour.make("Retry", budget=broke()), request(), Chain(503))
    assert isinstance(error, door.RetryBudgetExhaustedError)
    assert error.last_response.status_code == 503 and error.attempts == 1
    assert error.last_exception is error.__cause__ and notes(error.__cause__) == []
    assert isinstance(error.last_exception, httpware.ServiceUnavailableError)
    assert str(error) == "retry budget exhausted after 1 attempt(s)" and colour.sleeps == []
    assert events.names() == ["retry.budget_refused"]
    assert (events.last()["attempts"], events.last()["last_status"]) == (1, 503)
    network: Any = colour.fails(
        colour.make("Retry", budget=broke()), request(), Chain(httpware.NetworkError("reset"))
    )
    assert network.last_response is None and isinstance(network.last_exception, httpware.NetworkError)


@says(30)
def test_a_request_deposits_once_and_a_retry_withdraws(colour: Colour) -> None:
    class Counting:
        deposits = withdrawals = 0

        def deposit(self) -> None:
            self.deposits += 1

        def try_withdraw(self) -> bool:
            self.withdrawals += 1
            return True

    budget = Counting()
    colour.fails(colour.make("Retry", budget=budget), request(), Chain(503, 503, 503))
    assert (budget.deposits, budget.withdrawals) == (1, 2)


def test_no_sentence_is_missing() -> None:
    files = pathlib.Path(__file__).parent.glob("test_httpware_document*.py")
    text = "".join(file.read_text("utf-8") for file in files)
    marks = re.findall(r"^@says\(([\d, ]+)\)", text, re.MULTILINE)
    shown = {int(number) for mark in marks for number in mark.split(",")}
    assert len(PAGE.sentences) == 61
    assert set(PAGE.sentences) - shown == set()
