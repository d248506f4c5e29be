"""httpware's "Resilience reference" (seed 000), sentence by sentence, through `tidegate.compat.httpware`.

 1  automatic retry of transient failures with full-jitter exponential backoff
 2  RetryBudget: safe to share across sync Client and AsyncClient in the same process
 3  Bulkhead / AsyncBulkhead: concurrency limiter with bounded acquire-wait
 4  AsyncBulkhead outside AsyncRetry so one slot covers all retry attempts of a single call
 5  max_attempts 3: total tries (including the first)
 6  1 disables retries entirely
 7  <1 raises ValueError
 8  base_delay 0.1: floor for the full-jitter exponential backoff
 9  max_delay 5.0: ceiling for backoff
10  retry_status_codes 408, 429, 502, 503, 504
11  retry_methods GET, HEAD, OPTIONS, PUT, DELETE; POST excluded
12  pass an explicit frozenset including "POST" to retry it
13  Retry-After on a retryable status: sleep for the header value instead of the jittered backoff
14  exceeds max_delay: gives up and re-raises the StatusError with a note
15  set max_delay higher (or respect_retry_after=False) to opt out
16  budget: RetryBudget(), default-configured
17  pass a shared RetryBudget to apply one budget across multiple clients
18  httpware does not own a structured-cancellation timeout knob
19  integer seconds
20  HTTP-date: sleep until that absolute time, floored at 0
21  "clamped to max_delay" (differs: 14 holds, since a shorter wait than asked for is none)
22  negative integer values are clamped to 0
23  malformed values are ignored, falling back to the jittered backoff
24  async-iterable body: refuses to retry; the original exception is re-raised with a note
25  the same refusal note at the non-idempotent early-exit sites
26  the event retry.streaming_refused fires only at the retryable-failure-path site
27  on exhaustion re-raises the last exception observed, preserving the original class
28  a note is added: gave up after N attempts
29  the budget refusing: RetryBudgetExhaustedError, with last_response / last_exception / attempts
30  each request deposits a token; each retry attempts to withdraw one
31  bounded by percent_can_retry of recent deposits, plus a min_retries_per_sec * ttl floor
32  ttl 10.0: sliding window over which deposits and withdrawals count
33  min_retries_per_sec 10.0: permitted regardless of deposit rate
34  percent_can_retry 0.2
35  ceiling = int(deposits * percent_can_retry) + int(min_retries_per_sec * ttl)
36  a withdrawal fails when withdrawn >= ceiling
37  without the floor the very first retry would be refused
38  high-traffic clients are dominated by the percent term
39  pass the same RetryBudget instance to multiple AsyncClients: one joint budget covers them all
40  RetryBudget is thread-safe and asyncio-safe
41  acquires a slot before each request, bounded by acquire_timeout
42  success: slot released after the response returns
43  exception: slot released before the exception propagates
44  cancellation: slot released as the CancelledError propagates
45  max_concurrent REQUIRED; <1 raises ValueError
46  acquire_timeout 1.0; None waits forever; 0 fails fast; <0 raises ValueError
47  the slot cannot leak
48  one instance, many clients: combined in-flight is capped
49  BulkheadFullError carries the configured max_concurrent and acquire_timeout
50  the bulkhead.rejected event fires at the same site
51  flipping the order: each retry attempt grabs a fresh slot
52  per-call state outside AsyncRetry: all attempts of one call share one ID
53  the sync flavors mirror the async ones: same parameter set, same defaults
54  Retry uses time.sleep between attempts (differs: it waits in the engine, in the caller's thread)
55  Retry-After, streaming refusal, exhaustion and RetryBudgetExhaustedError are identical to AsyncRetry
56  interrupt-style exceptions release the slot
57  a single Bulkhead cannot enforce a joint cap across sync and async: create both (and `twin()` can)
58  composition with sync Client
59  write your own middleware against the same protocol
60  RetryBudgetExhaustedError, BulkheadFullError are in the exception tree
61  the four operational events
"""

from __future__ import annotations

import asyncio
import copy
import email.utils
import inspect
import pickle
import threading
import time
from typing import Any

import pytest

import tidegate
import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, Events, httpware, httpx2, notes, request
from compat.pages import page_of
from tidegate.testing import FakeClock

PAGE = page_of(__doc__)
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
def test_waits_are_drawn_from_zero_to_a_doubling_ceiling(colour: Colour) -> None:
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


@says(31, 35, 36)
@pytest.mark.parametrize(
    ("deposits", "percent", "per_second", "ttl", "granted"),
    [(0, 0, 10, 10, 100), (1000, 0.2, 10, 10, 300), (4, 0.2, 1, 10, 10), (5, 0.2, 1, 10, 11),
     (9, 0.5, 0, 1, 4), (10, 0.5, 0, 1, 5), (3, 0.2, 0.7, 9, 6)],
)  # fmt: skip
def test_the_formula(deposits: int, percent: float, per_second: float, ttl: float, granted: int) -> None:
    assert granted == int(deposits * percent) + int(per_second * ttl)
    budget = door.RetryBudget(
        ttl=ttl, min_retries_per_sec=per_second, percent_can_retry=percent, _now=lambda: 0.0
    )
    for _ in range(deposits):
        budget.deposit()
    assert [budget.try_withdraw() for _ in range(granted + 2)] == [True] * granted + [False] * 2


@says(35)
def test_the_share_is_rounded_up_for_who_asks() -> None:
    up = door.RetryBudget(min_retries_per_sec=0, percent_can_retry=0.2, rounding="ceil")
    up.deposit()
    assert (up.try_withdraw(), up.try_withdraw()) == (True, False)


@says(32)
def test_the_window_slides() -> None:
    now = [0.0]
    budget = door.RetryBudget(ttl=10.0, min_retries_per_sec=0, percent_can_retry=1.0, _now=lambda: now[0])
    budget.deposit()
    now[0] = 5.0
    budget.deposit()
    assert (budget.try_withdraw(), budget.try_withdraw()) == (True, True)
    now[0] = 10.0
    assert not budget.try_withdraw(), "one deposit is left, and two withdrawals"
    now[0] = 15.0
    assert not budget.try_withdraw()
    budget.deposit()
    assert budget.try_withdraw()


@says(31, 32, 33, 34)
@pytest.mark.parametrize(
    ("wrong", "says_so"),
    [
        ({"ttl": 0}, "ttl must be a finite number > 0, got 0"),
        ({"ttl": float("inf")}, "ttl must be a finite number > 0, got inf"),
        ({"min_retries_per_sec": -1}, "min_retries_per_sec must be a finite number >= 0, got -1"),
        ({"percent_can_retry": float("nan")}, "percent_can_retry must be a finite number >= 0, got nan"),
        ({"rounding": "up"}, 'rounding = "up": must be one of'),
    ],
)
def test_what_is_wrong_with_a_budget(wrong: dict[str, Any], says_so: str) -> None:
    with pytest.raises(ValueError, match=says_so):
        door.RetryBudget(**wrong)


@says(37, 38)
def test_the_floor_matters_while_there_is_little_traffic() -> None:
    without = door.RetryBudget(min_retries_per_sec=0)
    without.deposit()
    assert not without.try_withdraw(), "without a floor the first retry of all is refused"
    quiet = door.RetryBudget()
    quiet.deposit()
    assert quiet.try_withdraw()
    busy, floorless = (
        door.RetryBudget(_now=lambda: 0.0),
        door.RetryBudget(min_retries_per_sec=0, _now=lambda: 0.0),
    )
    for budget in (busy, floorless):
        for _ in range(50_000):
            budget.deposit()
    granted = [sum(budget.try_withdraw() for _ in range(20_000)) for budget in (busy, floorless)]
    assert granted == [10_100, 10_000]


@says(40)
def test_a_budget_under_threads_and_loops_grants_what_it_has() -> None:
    budget = door.RetryBudget(min_retries_per_sec=0, percent_can_retry=0.5, ttl=3600)
    granted = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(250):
            budget.deposit()

    def spend() -> None:
        granted.append(sum(budget.try_withdraw() for _ in range(500)))

    async def spend_in_tasks() -> None:
        async def one() -> None:
            granted.append(int(budget.try_withdraw()))

        await asyncio.gather(*(one() for _ in range(300)))

    for target in (work, spend):
        threads = [threading.Thread(target=target) for _ in range(8)]
        for thread in threads:
            thread.start()
        if target is spend:
            asyncio.run(spend_in_tasks())
        for thread in threads:
            thread.join()
    assert sum(granted) == 1000


@says(3, 41, 45, 46, 49, 50, 61)
def test_a_full_bulkhead_refuses_with_its_limits(colour: Colour, events: Events) -> None:
    bulkhead = colour.make("Bulkhead", max_concurrent=1, acquire_timeout=0)
    refused: list[Any] = []

    def hold(asked: Any) -> Any:
        async def inner() -> Any:
            with pytest.raises(door.BulkheadFullError) as full:
                await colour.acall([bulkhead], asked, Chain())
            refused.append(full.value)
            return "held"

        if colour.is_async:
            return inner()
        refused.append(colour.fails(bulkhead, asked, Chain()))
        return "held"

    assert colour.call(bulkhead, request(), Chain(hold)) == "held"
    (error,) = refused
    assert (error.max_concurrent, error.acquire_timeout) == (1, 0)
    assert str(error) == "bulkhead full (max_concurrent=1, acquire_timeout=0)"
    assert events.names() == ["bulkhead.rejected"]
    said = events.last()
    assert (said["name"], said["max_concurrent"], said["acquire_timeout"]) == ("httpware.bulkhead", 1, 0)
    assert colour.call(bulkhead, request(), Chain()).status_code == 200, "and the slot is free again"
    with pytest.raises(TypeError, match="max_concurrent"):
        colour.make("Bulkhead")


@says(41, 46)
@pytest.mark.parametrize(("patience", "outcome"), [({}, 1.0), ({"acquire_timeout": 0.25}, 0.25)])
def test_patience_is_a_second_unless_it_is_said(
    patience: dict[str, float], outcome: float, fake: tidegate.Engine, clock: FakeClock
) -> None:
    bulkhead = door.AsyncBulkhead(max_concurrent=1, engine=fake, **patience)

    async def main() -> None:
        gate = asyncio.Event()

        async def slow(_: Any) -> str:
            await gate.wait()
            return "ok"

        first = asyncio.ensure_future(bulkhead(request(), slow))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(bulkhead(request(), slow))
        await clock.advance(outcome - 0.001)
        assert not second.done()
        await clock.advance(0.001)
        with pytest.raises(door.BulkheadFullError):
            await second
        gate.set()
        assert await first == "ok"

    asyncio.run(main())


@says(46)
def test_without_a_timeout_it_waits_for_ever(fake: tidegate.Engine, clock: FakeClock) -> None:
    bulkhead = door.AsyncBulkhead(max_concurrent=1, acquire_timeout=None, engine=fake)

    async def main() -> None:
        gate = asyncio.Event()

        async def slow(_: Any) -> str:
            await gate.wait()
            return "ok"

        tasks = [asyncio.ensure_future(bulkhead(request(), slow)) for _ in range(2)]
        await clock.advance(600)
        assert not tasks[1].done()
        gate.set()
        assert await asyncio.gather(*tasks) == ["ok", "ok"]

    asyncio.run(main())


@says(3, 47, 48)
def test_one_bulkhead_for_two_clients_caps_both() -> None:
    shared = door.AsyncBulkhead(max_concurrent=3)
    running = most = 0

    async def handler(_: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return httpx2.Response(200)

    async def main() -> None:
        def client() -> Any:
            inner = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
            return httpware.AsyncClient(httpx2_client=inner, middleware=[shared, door.AsyncRetry()])

        async with client() as a, client() as b:
            await asyncio.gather(*(c.get("http://api.test/") for c in [a, b] * 10))

    asyncio.run(main())
    assert most == 3


@says(42, 43, 47, 56)
@pytest.mark.parametrize("ending", [200, 404, ValueError("bug")])
def test_however_a_request_ends_its_slot_is_free(colour: Colour, ending: Any) -> None:
    bulkhead = colour.make("Bulkhead", max_concurrent=1, acquire_timeout=0)
    for _ in range(3):
        if ending == 200:
            assert colour.call(bulkhead, request(), Chain(ending)).status_code == 200
        else:
            error = colour.fails(bulkhead, request(), Chain(ending))
            assert error is ending or isinstance(error, httpware.NotFoundError)
    assert colour.call(bulkhead, request(), Chain()).status_code == 200


@says(47, 56)
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_an_interrupt_frees_the_slot(interrupt: BaseException) -> None:
    bulkhead = door.Bulkhead(max_concurrent=1, acquire_timeout=0)
    sync = Colour("sync", door)
    for _ in range(3):
        assert sync.fails(bulkhead, request(), Chain(interrupt)) is interrupt
    assert sync.call(bulkhead, request(), Chain()).status_code == 200


@says(44, 47)
def test_a_cancelled_holder_and_a_cancelled_waiter_leave_no_hold() -> None:
    bulkhead = door.AsyncBulkhead(max_concurrent=1, acquire_timeout=None)

    async def main() -> None:
        async def for_ever(_: Any) -> None:
            await asyncio.Event().wait()

        async def answer(_: Any) -> str:
            return "ok"

        holder = asyncio.ensure_future(bulkhead(request(), for_ever))
        await asyncio.sleep(0)
        waiters = [asyncio.ensure_future(bulkhead(request(), answer)) for _ in range(2)]
        await asyncio.sleep(0.01)
        waiters[0].cancel()
        holder.cancel()
        for task in (waiters[0], holder):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await waiters[1] == "ok"
        assert await bulkhead(request(), answer) == "ok"

    asyncio.run(main())


@says(4, 51)
@pytest.mark.parametrize(("order", "slots"), [("bulkhead outside", 1), ("retry outside", 3)])
def test_one_slot_for_all_attempts_or_one_for_each(colour: Colour, order: str, slots: int) -> None:
    taken = []

    class Counting:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __call__(self, asked: Any, following: Any) -> Any:
            taken.append(1)
            return self.inner(asked, following)

    bulkhead = Counting(colour.make("Bulkhead", max_concurrent=1))
    retry = colour.make("Retry")
    stack = [bulkhead, retry] if order == "bulkhead outside" else [retry, bulkhead]
    assert colour.call(stack, request(), Chain(503, 503, 200)).status_code == 200
    assert len(taken) == slots


@says(4)
def test_the_slot_is_kept_during_backoff(fake: tidegate.Engine, clock: FakeClock) -> None:
    bulkhead = door.AsyncBulkhead(max_concurrent=1, acquire_timeout=0, engine=fake)
    retry = door.AsyncRetry(engine=fake, base_delay=5, max_delay=60)
    colour = Colour("async", door)

    async def main() -> None:
        chain = Chain(503, 200, Retry_After="4")
        first = asyncio.ensure_future(colour.acall([bulkhead, retry], request(), chain))
        await clock.advance(3.9)
        with pytest.raises(door.BulkheadFullError):
            await colour.acall([bulkhead], request(), Chain())
        await clock.advance(0.2)
        assert (await first).status_code == 200

    asyncio.run(main())


@says(52, 59)
def test_middlewares_of_ones_own_stand_beside_ours(colour: Colour) -> None:
    made = []

    def stamp(asked: Any, following: Any) -> Any:
        made.append(1)
        asked.headers["X-Request-Id"] = str(len(made))
        return following(asked)

    chain = Chain(503, 503, 200)
    colour.call([stamp, colour.make("Retry")], request(), chain)
    assert [asked.headers["X-Request-Id"] for asked in chain.seen] == ["1", "1", "1"]
    protocol = httpware.AsyncMiddleware if colour.is_async else httpware.Middleware
    for kind, settings in (("Retry", {}), ("Bulkhead", {"max_concurrent": 1})):
        assert isinstance(colour.make(kind, **settings), protocol)


@says(53)
def test_both_colours_have_the_same_parameters_and_defaults_as_httpware() -> None:
    from httpware.middleware import resilience as theirs

    def parameters(kind: Any) -> dict[str, Any]:
        found = inspect.signature(kind).parameters
        return {name: found[name].default for name in found if name not in ("engine", "_sleep", "rounding")}

    for kind in ("Retry", "Bulkhead", "CircuitBreaker"):
        ours = parameters(getattr(door, kind))
        assert ours == parameters(getattr(door, f"Async{kind}")) == parameters(getattr(theirs, kind))
    assert parameters(door.RetryBudget) == parameters(theirs.RetryBudget)


@says(54)
def test_waits_of_the_sync_retry_block_its_own_thread(fake: tidegate.Engine, clock: FakeClock) -> None:
    retry = door.Retry(engine=fake)
    chain = Chain(503, 503, Retry_After="5")
    assert retry(request(), chain._answer).status_code == 200
    assert clock.now() == 10.0


@says(57)
def test_a_cap_for_both_colours_is_made_of_two() -> None:
    sync, both = door.Bulkhead(max_concurrent=1), door.AsyncBulkhead(max_concurrent=1)

    async def main() -> None:
        async def inside(_: Any) -> Any:
            return sync(request(), Chain()._answer)

        assert (await both(request(), inside)).status_code == 200, "they do not know of one another"

    asyncio.run(main())


@says(57)
def test_twins_are_one_cap_for_both_colours() -> None:
    sync = door.Bulkhead(max_concurrent=1, acquire_timeout=0)
    twin = sync.twin()
    assert isinstance(twin, door.AsyncBulkhead) and isinstance(twin.twin(), door.Bulkhead)

    async def main() -> None:
        async def inside(_: Any) -> Any:
            with pytest.raises(door.BulkheadFullError):
                sync(request(), Chain()._answer)
            return "one"

        assert await twin(request(), inside) == "one"

    asyncio.run(main())


@says(58)
def test_composition_with_the_sync_client(origin: Any) -> None:
    origin.sequence(503, 200)
    with httpware.Client(
        base_url=origin.url, middleware=[door.Bulkhead(max_concurrent=10), door.Retry(base_delay=0.001)]
    ) as client:
        assert client.get("/x").status_code == 200
    assert len(origin.log()) == 2


@says(60)
def test_the_errors_are_httpwares_and_ours_and_survive_pickling() -> None:
    full = Colour("sync", door)
    bulkhead = door.Bulkhead(max_concurrent=1, acquire_timeout=0)
    inner: list[BaseException] = []
    bulkhead(request(), lambda asked: inner.append(full.fails(bulkhead, asked, Chain())))
    spent = full.fails(full.make("Retry", budget=broke()), request(), Chain(503))
    for error, theirs, ours in (
        (inner[0], httpware.BulkheadFullError, tidegate.BulkheadFull),
        (spent, httpware.RetryBudgetExhaustedError, tidegate.TidegateError),
    ):
        assert isinstance(error, theirs) and isinstance(error, httpware.ClientError)
        assert isinstance(error, ours) and type(error).__name__ == theirs.__name__
        error.__notes__ = ["kept"]
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert isinstance(same, theirs) and str(same) == str(error) and notes(same) == ["kept"]
    assert pickle.loads(pickle.dumps(inner[0])).max_concurrent == 1


@says(61)
def test_a_listener_that_fails_breaks_no_call(colour: Colour, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    def broken(_: logging.LogRecord) -> bool:
        raise RuntimeError("a broken filter")

    logger = logging.getLogger("httpware.retry")
    logger.addFilter(broken)
    try:
        error = colour.fails(colour.make("Retry"), request(), Chain(503, 503, 503))
    finally:
        logger.removeFilter(broken)
    assert notes(error) == ["httpware: gave up after 3 attempts"]


def test_no_sentence_is_missing() -> None:
    assert len(PAGE.sentences) == 61
    assert PAGE.unshown() == {}
