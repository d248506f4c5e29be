"""The same scripts through httpware's own middlewares and through ours: what a caller sees is the same.

Where it is not, the scenario says so in `DIFFERS`, and why:

- **the stream's note**: the document's words; releases since 0.19 say "because the request body is".
- **a stream with POST**: the document's note; releases since 0.8.3 leave it out.
- **Retry-After in digits that are not ASCII's**: no number (RFC 9110), so that the backoff stands.
- **Retry-After 0**: releases call their sleep with 0; nothing is slept here.
- **a Retry-After beyond 2^53 µs**: told as that.
- **a window's slices** begin with the first entry, not at the clock's 0: no decision hangs on its origin.
- **a budget's share**: rounded down, as the document has it; `rounding="ceil"` is what releases do.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, Events, httpware, httpx2, notes, request
from compat.chain import resilience as theirs
from tidegate.compat.httpware._events import redacted


def seen(
    colour: Colour, kind: str, settings: dict[str, Any], asked: Any, chain: Chain, events: Events
) -> Any:
    """What a caller sees of a call: its end, its notes, its attempts, its waits, its events."""
    middleware = colour.make(kind, **settings)
    try:
        end: Any = colour.call(middleware, asked, chain).status_code
        told = []
    except Exception as error:
        cause = error.__cause__
        fields = ("attempts", "max_concurrent", "acquire_timeout", "retry_after")
        end = [type(error).__name__, str(error), type(cause).__name__]
        end += [getattr(error, field, None) for field in fields]
        told = notes(error)
    waits = [wait if chain.headers and wait >= 1 else "jitter" for wait in colour.sleeps]
    records = [
        {
            key: value
            for key, value in record.__dict__.items()
            if key in ("event", "name", "levelno", "attempts", "last_status", "last_exception_type", "reason",
                       "retry_after", "max_delay", "method", "url", "max_concurrent", "acquire_timeout")
        }
        for record in events._records()
    ]  # fmt: skip
    return {"end": end, "notes": told, "attempts": len(chain.seen), "waits": waits, "events": records}


RETRIES: dict[str, Any] = {
    "first answer": ({}, "GET", [200], {}),
    "second answer": ({}, "GET", [503, 200], {}),
    "never": ({}, "GET", [503, 503, 503], {}),
    "never, of many": ({"max_attempts": 7}, "DELETE", [502, 504, 429, 408, 503, 502, 503], {}),
    "not retried": ({}, "GET", [404], {}),
    "500 is not retried": ({}, "GET", [500], {}),
    "listed": ({"retry_status_codes": {404, 500}}, "GET", [404, 500, 200], {}),
    "an end among retries": ({}, "GET", [503, 400], {}),
    "POST": ({}, "POST", [503], {}),
    "POST, listed": ({"retry_methods": frozenset({"POST"})}, "POST", [503, 200], {}),
    "lower case": ({"retry_methods": frozenset({"post"})}, "POST", [503, 200], {}),
    "one attempt": ({"max_attempts": 1}, "GET", [503], {}),
    "one attempt, POST": ({"max_attempts": 1}, "POST", [503], {}),
    "one attempt, network, POST": ({"max_attempts": 1}, "POST", [httpware.NetworkError("reset")], {}),
    "one attempt and a long wait": ({"max_attempts": 1}, "GET", [503], {"Retry_After": "99"}),
    "wait": ({}, "GET", [503, 200], {"Retry_After": "2"}),
    "wait, the longest": ({"max_delay": 2.0}, "GET", [503, 200], {"Retry_After": "2"}),
    "wait, too long": ({}, "GET", [429, 200], {"Retry_After": "9999"}),
    "wait, too long in whole numbers": ({"max_delay": 5}, "GET", [429, 200], {"Retry_After": "6"}),
    "wait, huge": ({}, "GET", [429, 200], {"Retry_After": "9" * 40}),
    "wait, malformed": ({}, "GET", [503, 200], {"Retry_After": "in a while"}),
    "wait, not respected": ({"respect_retry_after": False}, "GET", [503, 200], {"Retry_After": "4"}),
    "wait of a status that is not retried": ({}, "GET", [404], {"Retry_After": "4"}),
    "network": ({}, "GET", [httpware.NetworkError("reset"), 200], {}),
    "network, never": ({}, "GET", [httpware.NetworkError("reset")] * 3, {}),
    "network, POST": ({}, "POST", [httpware.NetworkError("reset")], {}),
    "timeout": ({}, "PUT", [httpware.TimeoutError("read"), 200], {}),
    "transport": ({}, "GET", [httpware.TransportError("bad url")], {}),
    "a bug": ({}, "GET", [ValueError("bug")], {}),
    "a full bulkhead inside": (
        {}, "GET", [httpware.BulkheadFullError(max_concurrent=1, acquire_timeout=0)], {},
    ),
    "no jitter": ({"base_delay": 0}, "GET", [503, 503, 200], {}),
    "the base above the most": ({"base_delay": float("inf"), "max_delay": 0.5}, "GET", [503, 200], {}),
    "Retry-After in Arabic digits": ({}, "GET", [503, 200], {"Retry_After": "٣"}),
    "Retry-After 0": ({}, "GET", [503, 200], {"Retry_After": "0"}),
    "a date that ends in UTC": ({}, "GET", [503, 200], {"Retry_After": "Wed, 21 Oct 2099 07:28:00 UTC"}),
    "a date that ends in +0000": ({}, "GET", [503, 200], {"Retry_After": "Wed, 21 Oct 2099 07:28:00 +0000"}),
}  # fmt: skip

DIFFERS = {
    "Retry-After in Arabic digits": {"waits"},
    "Retry-After 0": {"waits"},
    "no jitter": {"waits"},
    "wait, huge": {"notes", "events"},
    # httpware reads these dates and gives up.
    "a date that ends in UTC": {"end", "attempts", "waits", "notes", "events"},
    "a date that ends in +0000": {"end", "attempts", "waits", "notes", "events"},
}


@pytest.mark.parametrize("name", ["sync", "async"])
@pytest.mark.parametrize("scenario", RETRIES)
def test_a_retry_is_seen_alike(name: str, scenario: str, caplog: pytest.LogCaptureFixture) -> None:
    settings, method, answers, headers = RETRIES[scenario]
    both = []
    for which in (theirs, door):
        caplog.clear()
        asked = httpx2.Request(method, "http://u:p@api.test/a?token=x&b#frag")
        own = [copy.copy(answer) for answer in answers]
        chain = Chain(*own, **{key: value.encode() for key, value in headers.items()})
        both.append(seen(Colour(name, which), "Retry", settings, asked, chain, Events(caplog)))
    reference, ours = both
    differs = {key for key in reference if reference[key] != ours[key]}
    assert differs == DIFFERS.get(scenario, set()), (reference, ours)


@pytest.mark.parametrize("name", ["sync", "async"])
@pytest.mark.parametrize(("method", "note"), [("PUT", "differs"), ("POST", "ours only")])
@pytest.mark.parametrize("settings", [{}, {"max_attempts": 1}])
def test_a_stream_differs_in_its_note_alone(
    name: str, method: str, note: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    both = []
    for which in (theirs, door):
        caplog.clear()
        asked = request(method, extensions={"httpware.streaming_body": True})
        both.append(seen(Colour(name, which), "Retry", settings, asked, Chain(503), Events(caplog)))
    ours = both[1].pop("notes")
    assert ours == ["httpware: not retrying — request body is a stream that cannot replay across attempts"]
    expected = [ours[0].replace("— request", "because the request")] if note == "differs" else []
    assert both[0].pop("notes") == expected
    assert both[0] == both[1]


@pytest.mark.parametrize("name", ["sync", "async"])
@pytest.mark.parametrize(("floor", "share", "calls"), [(0, 0, 1), (0.3, 0, 3), (0, 0.3, 9), (0.1, 0.5, 7)])
def test_a_budget_refuses_the_same_retries(
    name: str, floor: float, share: float, calls: int, caplog: pytest.LogCaptureFixture
) -> None:
    both = []
    for which, more in ((theirs, {}), (door, {"rounding": "ceil"})):
        caplog.clear()
        budget = which.RetryBudget(min_retries_per_sec=floor, percent_can_retry=share, **more)
        colour = Colour(name, which)
        ends = []
        for _ in range(calls):
            chain = Chain(503, 503, 503)
            ends.append(seen(colour, "Retry", {"budget": budget}, request(), chain, Events(caplog)))
        both.append(ends)
    assert both[0] == both[1]
    assert any(end["end"][0] == "RetryBudgetExhaustedError" for end in both[0])


def test_the_budgets_agree_in_a_random_hour() -> None:
    import random

    seed = random.randrange(1 << 32)
    draw, now = random.Random(seed), [0.0]
    settings: dict[str, Any] = {"ttl": 10.0, "min_retries_per_sec": 0.5, "percent_can_retry": 0.2}
    ours = door.RetryBudget(**settings, rounding="ceil", _now=lambda: now[0])
    reference = theirs.RetryBudget(**settings, _now=lambda: now[0])
    for budget in (ours, reference):
        budget.deposit()  # ours counts its slices from here, httpware's from the clock's 0
    answers = []
    for step in range(5_000):
        now[0] += draw.choice([0, 0, 0.03125, 0.25, 0.75, 15]) if step % 50 == 0 else draw.choice([0, 0.0625])
        if draw.random() < 0.6:
            ours.deposit()
            reference.deposit()
        else:
            answers.append(ours.try_withdraw())
            assert answers[-1] == reference.try_withdraw(), f"seed {seed}, step {step}, at {now[0]} s"
    assert {True, False} == set(answers), f"seed {seed}"


@pytest.mark.parametrize("name", ["sync", "async"])
def test_a_full_bulkhead_is_seen_alike(name: str, caplog: pytest.LogCaptureFixture) -> None:
    both = []
    for which in (theirs, door):
        caplog.clear()
        colour = Colour(name, which)
        bulkhead = colour.make("Bulkhead", max_concurrent=1, acquire_timeout=0)
        events = Events(caplog)
        inner: list[Any] = []

        def hold(asked: Any, colour: Any = colour, bulkhead: Any = bulkhead, inner: Any = inner) -> Any:
            async def held() -> Any:
                with pytest.raises(httpware.BulkheadFullError) as full:
                    await colour.acall([bulkhead], asked, Chain())
                inner.append(full.value)
                return 204

            if colour.is_async:
                return held()
            inner.append(colour.fails(bulkhead, asked, Chain()))
            return 204

        assert colour.call(bulkhead, request(), Chain(hold)) in (204, httpx2.Response(204)) or name == "sync"
        error = inner[0]
        cause = type(error.__cause__)
        both.append([str(error), error.max_concurrent, error.acquire_timeout, cause, events.names()])
    assert both[0] == both[1]


def test_an_overall_timeout_is_seen_alike(caplog: pytest.LogCaptureFixture) -> None:
    both = []
    for which in (theirs, door):
        caplog.clear()
        colour = Colour("async", which)
        slow = Chain(lambda asked: asyncio.sleep(3600))
        with pytest.raises(httpware.TimeoutError) as caught:
            colour.call(which.AsyncTimeout(timeout=0.01), request(), slow)
        error = caught.value
        causes = [type(error.__cause__), type(error.__cause__ and error.__cause__.__cause__)]
        both.append([str(error), causes, Events(caplog).names()])
    assert both[0] == both[1]
    assert both[0][1] == [TimeoutError, asyncio.CancelledError]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("Retry", {"max_attempts": 0}), ("Retry", {"base_delay": -0.1}),
        ("Retry", {"max_delay": float("nan")}),
        ("RetryBudget", {"ttl": 0}), ("RetryBudget", {"min_retries_per_sec": -1}),
        ("RetryBudget", {"percent_can_retry": float("inf")}), ("Bulkhead", {"max_concurrent": 0}),
        ("Bulkhead", {"max_concurrent": 1, "acquire_timeout": -1}), ("AsyncTimeout", {"timeout": 0}),
        ("CircuitBreaker", {"failure_threshold": 0}), ("CircuitBreaker", {"reset_timeout": -1}),
        ("CircuitBreaker", {"success_threshold": 0}), ("CircuitBreaker", {"failure_rate_threshold": 1.5}),
        ("CircuitBreaker", {"window_seconds": 0, "failure_rate_threshold": 0.5}),
        ("KeyedCircuitBreaker", {"minimum_calls": 0}),
    ],
)  # fmt: skip
def test_a_mistake_has_the_same_words_and_the_value_besides(kind: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be") as reference:
        getattr(theirs, kind)(**wrong)
    with pytest.raises(ValueError, match="must be") as ours:
        getattr(door, kind)(**wrong)
    key, _, rule = str(reference.value).partition(" must be ")
    assert str(ours.value).startswith(f"{key} must be ") and "got" in str(ours.value)
    assert rule.replace("a finite number ", "") in str(ours.value).replace("a finite number ", "")


@pytest.mark.parametrize(
    "url",
    [
        "http://api.test/a", "http://user:pw@api.test/a?k=v&l=w#x=y", "http://api.test?k",
        "http://api.test/#part",
        "http://api.test/a=b?k=a=b&&l=", "http://u@[::1]:80/?q=1", "mailto:a@b",
        "/relative?k=v", "", "?a=1#b=2",
        "http://api.test/p@q?k=v", "http://api.test/?k=u@v",
    ],
)  # fmt: skip
def test_urls_are_redacted_alike(url: str) -> None:
    from httpware._internal.redaction import redact_url

    assert redacted(url) == redact_url(url)
