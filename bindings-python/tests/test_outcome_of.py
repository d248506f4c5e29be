"""`Policy.outcome_of`: the outcome of an HTTP answer, for a classifier of one's own (semantics 1.4.10)."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import http
import re
import textwrap
from typing import Any

import httpx
import multidict
import pytest
import requests

import tidegate
import tidegate.httpx
from tidegate import Outcome
from tidegate._call.policy import Policy
from tidegate.testing import FakeClock


@pytest.fixture
def shop(fake: tidegate.Engine) -> Policy:
    return tidegate.Policy("shop", preset="http", engine=fake)


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (200, None, Outcome("ok")),
        (302, {"Retry-After": "9"}, Outcome("ok")),
        (404, None, Outcome("permanent")),
        (408, None, Outcome("transient")),
        (429, None, Outcome("throttled")),
        (429, {"Retry-After": "2"}, Outcome("throttled", retry_after=2.0)),
        (429, {b"retry-after": b"2"}, Outcome("throttled", retry_after=2.0)),
        (429, [("RETRY-AFTER", b"2"), (b"x", "y")], Outcome("throttled", retry_after=2.0)),
        (429, {"retry-after-ms": "2007"}, Outcome("throttled", retry_after=2.007)),
        (429, {"Retry-After": "soon"}, Outcome("throttled")),
        (500, None, Outcome("transient", "do_not")),
        (500, {"x-should-retry": "true"}, Outcome("transient", "retry")),
        (503, {"x-should-retry": ["false"]}, Outcome("transient", "do_not")),
        (http.HTTPStatus.BAD_GATEWAY, (), Outcome("transient")),
        (999, None, Outcome("transient", "do_not")),
    ],
)
def test_an_answer_has_the_outcome_that_the_policy_gives_it(
    shop: Policy, status: int, headers: Any, outcome: Outcome
) -> None:
    """Semantics 1.4.10."""
    assert shop.outcome_of(status, headers) == outcome


@pytest.mark.parametrize(
    "kind", [httpx.Headers, requests.structures.CaseInsensitiveDict, multidict.CIMultiDict, iter]
)
def test_the_headers_of_clients_are_read(shop: Policy, kind: Any) -> None:
    assert shop.outcome_of(503, kind([("Retry-After", "3")])) == Outcome("transient", retry_after=3.0)


def test_a_date_is_measured_by_the_engines_wall_clock(clock: FakeClock, shop: Policy) -> None:
    clock.tick(3600)
    date = email.utils.formatdate(clock.wall() + 30, usegmt=True)
    outcome = shop.outcome_of(503, {"Retry-After": date})
    assert outcome.kind == "transient"
    assert outcome.retry_after == pytest.approx(30, abs=1)


def test_lists_of_statuses_and_kinds_of_the_policy_count(fake: tidegate.Engine) -> None:
    own = tidegate.Policy(
        "own",
        retry={"statuses": [409, 500], "throttled_statuses": [503]},
        kinds={"busy": "throttled"},
        engine=fake,
    )
    kinds = [own.outcome_of(status) for status in (409, 429, 500, 502, 503)]
    assert kinds == [
        Outcome("conflict"),
        Outcome("transient", "do_not"),
        Outcome("transient"),
        Outcome("transient", "do_not"),
        Outcome("throttled", "do_not"),
    ]
    reads = tidegate.Policy("reads", retry={"read_errors": True}, engine=fake)
    assert reads.outcome_of(401) == Outcome("unauthorized")
    own.retune(retry={"statuses": [502]})
    assert own.outcome_of(502) == Outcome("transient")


class Refused(Exception):
    """The error of a client that has no adapter."""

    def __init__(self, code: int, headers: dict[str, str]) -> None:
        self.code_of_answer, self.headers_of_answer = code, headers


@pytest.mark.parametrize("by", ["outcome", "status"])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_classifier_may_return_it(by: str, colour: str) -> None:
    """It means what the status and the headers would mean, to the millisecond."""
    clock = FakeClock(autojump=True)

    def classify(it: Any) -> Any:
        if not isinstance(it, Refused):
            return None
        answer = it.code_of_answer, it.headers_of_answer
        return answer if by == "status" else policy.outcome_of(*answer)

    policy = tidegate.Policy(
        "mine",
        retry={"retry_after": "exact", "backoff": {"max": 60}},
        classify=classify,
        engine=tidegate.Engine(seed=1, clock=clock),
    )
    starts: list[float] = []

    def work() -> str:
        starts.append(clock.now())
        if len(starts) == 1:
            raise Refused(429, {"retry-after-ms": "2007"})
        return "done"

    async def awork() -> str:
        return work()

    assert (asyncio.run(policy.acall(awork)) if colour == "async" else policy.call(work)) == "done"
    assert starts[1] - starts[0] == pytest.approx(2.007, abs=1e-9)


@pytest.mark.parametrize("by", ["outcome", "status"])
def test_a_status_above_599_is_a_failure_that_no_list_repeats(fake: tidegate.Engine, by: str) -> None:
    """Some servers send 999."""

    def classify(_: object) -> Any:
        return 999 if by == "status" else policy.outcome_of(999)

    policy = tidegate.Policy(preset="http", classify=classify, engine=fake)
    policy.call(int)
    assert policy.snapshot()["ends"] == {"opinion": 1}


def test_an_answer_means_the_same_to_an_adapter(clock: FakeClock, fake: tidegate.Engine) -> None:
    for status in (400, 404, 408, 409, 425, 429, 500, 501, 502, 503, 504, 599):
        policy = tidegate.Policy(f"p{status}", preset="http", engine=fake)
        inner = httpx.MockTransport(lambda _, status=status: httpx.Response(status))  # type: ignore[misc]
        with httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client:
            attempts = tidegate.report(client.get("https://api.example/"))["attempts"]
        outcome = policy.outcome_of(status)
        repeated = outcome.kind in ("transient", "throttled", "conflict") and outcome.opinion is None
        assert (attempts > 1) == repeated, status


def test_the_wait_of_an_outcome_is_a_span(fake: tidegate.Engine) -> None:
    outcome = Outcome("throttled", retry_after=datetime.timedelta(minutes=2, milliseconds=7))
    assert outcome == Outcome("throttled", retry_after=120.007)
    policy = tidegate.Policy(retry={"max_retry_after": 30}, classify=lambda _: outcome, engine=fake)
    policy.call(int)
    assert policy.snapshot()["ends"] == {"retry_after_too_long": 1}, "it waits for no two minutes"


@pytest.mark.parametrize("wait", ["2", True, [2], datetime.date(2026, 1, 1)])
def test_a_wait_that_is_none_is_an_error(wait: Any) -> None:
    text = f"retry_after = {wait!r}: must be a number of seconds or a timedelta"
    with pytest.raises(TypeError, match=re.escape(text)):
        Outcome("throttled", retry_after=wait)


@pytest.mark.parametrize("status", ["429", 429.0, True, None])
def test_a_status_of_another_type_is_an_error(shop: Policy, status: Any) -> None:
    with pytest.raises(
        TypeError, match=re.escape(f"status = {status!r}: must be a whole number from 100 to 999")
    ):
        shop.outcome_of(status)


@pytest.mark.parametrize("status", [-1, 0, 99, 1000, 2**70])
def test_a_status_that_no_answer_has_is_an_error(shop: Policy, status: int) -> None:
    with pytest.raises(ValueError, match=f"status = {status}: must be a whole number from 100 to 999"):
        shop.outcome_of(status)


@pytest.mark.parametrize(
    "headers",
    ["Retry-After: 2", b"Retry-After: 2", 7, ["a"], [("a", "b", "c")], {"a": 1}, {"a": None}, [(1, "b")]],
)
@pytest.mark.parametrize("status", [200, 429])
def test_headers_that_are_none_are_an_error(shop: Policy, headers: Any, status: int) -> None:
    """Whatever the status is, so that a mistake shows before the first failure. The values stay secret."""
    with pytest.raises(TypeError) as raised:
        shop.outcome_of(status, headers)
    assert str(raised.value) == (
        f"headers of type {type(headers).__name__}: must be a mapping or an iterable of pairs, with "
        "names and values of str or bytes, or None"
    )


def test_the_example_in_its_docstring_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    example = re.search(r"```python\n(.*?)```", Policy.outcome_of.__doc__ or "", re.DOTALL)
    assert example is not None
    engine = tidegate.Engine(seed=1)
    monkeypatch.setattr("tidegate._engine.engine._default", [engine])
    exec(textwrap.dedent(example[1]), {"tidegate": tidegate})
