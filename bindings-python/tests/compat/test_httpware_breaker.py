"""httpware's breakers and overall timeout (its later pages), by themselves and beside httpware's own."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

import tidegate
import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, Events, httpware, request
from compat.chain import resilience as theirs
from tidegate.testing import FakeClock


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param, door)


class Now:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def send(colour: Colour, breaker: Any, *answers: Any, url: str = "http://api.test/") -> list[Any]:
    """The ends of requests, one for each answer: a status, or an exception's name."""
    ends: list[Any] = []
    for answer in answers:
        try:
            ends.append(colour.call(breaker, request(url=url), Chain(answer)).status_code)
        except httpware.StatusError as error:
            ends.append(error.response.status_code)
        except Exception as error:
            ends.append(type(error).__name__)
    return ends


OPEN = "CircuitOpenError"


def test_it_opens_rejects_probes_and_closes(colour: Colour, caplog: pytest.LogCaptureFixture) -> None:
    now, events = Now(), Events(caplog)
    breaker = colour.make("CircuitBreaker", failure_threshold=3, reset_timeout=10.0, _now=now)
    assert send(colour, breaker, 500, 500, 404, 500, 500, 429) == [500, 500, 404, 500, 500, 429]
    assert breaker.state is door.CircuitState.CLOSED and events.names() == []
    assert send(colour, breaker, 500, 502, httpware.NetworkError("reset"), 200, 200) == [
        500, 502, "NetworkError", OPEN, OPEN,
    ]  # fmt: skip
    now.at += 9.8
    error: Any = colour.fails(breaker, request(), Chain())
    assert isinstance(error, (httpware.CircuitOpenError, tidegate.BreakerOpen))
    assert error.retry_after == pytest.approx(0.2) and str(error) == "circuit open (retry_after=0.200s)"
    assert events.last()["suppressed"] == 1
    now.at += 0.2
    assert breaker.state is door.CircuitState.OPEN, "looking changes nothing"
    assert send(colour, breaker, 503, 200) == [503, OPEN]
    now.at += 10
    assert send(colour, breaker, 404, 200) == [404, 200]
    assert breaker.state is door.CircuitState.CLOSED
    assert events.names() == [
        "circuit.opened", "circuit.rejected", "circuit.rejected", "circuit.half_open", "circuit.opened",
        "circuit.half_open", "circuit.closed",
    ], "of rejections at most one a second"  # fmt: skip
    assert events.last()["rejected"] == 4


def test_what_is_foreign_counts_neither_way(colour: Colour) -> None:
    now = Now()
    breaker = colour.make("CircuitBreaker", failure_threshold=1, reset_timeout=1.0, _now=now)
    assert send(colour, breaker, ValueError("bug"), httpware.TransportError("url")) == [
        "ValueError", "TransportError",
    ]  # fmt: skip
    assert breaker.state is door.CircuitState.CLOSED
    send(colour, breaker, 500)
    now.at += 1
    assert send(colour, breaker, ValueError("a probe that says nothing"), 200) == ["ValueError", 200]
    assert breaker.state is door.CircuitState.CLOSED


def test_a_test_can_switch_it_off(colour: Colour) -> None:
    now = Now()
    breaker = colour.make("CircuitBreaker", failure_threshold=1, reset_timeout=1.0, _now=now)
    send(colour, breaker, 500)
    with tidegate.testing.set_active(False):
        assert send(colour, breaker, 500, 500, 200) == [500, 500, 200]
        new = colour.make("CircuitBreaker", failure_threshold=1)
        assert (send(colour, new, 500, 200), new.state) == ([500, 200], door.CircuitState.CLOSED)
    assert send(colour, breaker, 500) == [OPEN]


class Foreign(Exception):
    """Another library's error, whose response is not as httpware's are."""

    def __init__(self, response: Any) -> None:
        super().__init__("of another library")
        self.answer = response

    @property
    def response(self) -> Any:
        if self.answer is None:
            raise RuntimeError("the response has not been set")
        return self.answer


@pytest.mark.parametrize(
    ("response", "attempts"),
    [
        (None, 1),
        (SimpleNamespace(status_code=503), 3),
        (SimpleNamespace(status_code=503, headers=[("Retry-After", "1")]), 3),
        (SimpleNamespace(status_code=503, headers={"Retry-After": 1}), 3),
    ],
)
def test_an_error_with_another_response_is_raised_itself(
    colour: Colour, response: Any, attempts: int
) -> None:
    now = Now()
    breaker = colour.make("CircuitBreaker", failure_threshold=1, reset_timeout=1.0, _now=now)
    for middleware in (colour.make("Retry"), breaker):
        error = Foreign(response)
        chain = Chain(*[error] * 3)
        assert colour.fails(middleware, request(), chain) is error
        assert len(chain.seen) == (1 if middleware is breaker else attempts)
    send(colour, breaker, 500)
    now.at += 1
    assert send(colour, breaker, Foreign(None), 200) == ["Foreign", 200], "a probe that says nothing"


def test_a_cancelled_probe_gives_its_place_up() -> None:
    now = Now()
    breaker = door.AsyncCircuitBreaker(failure_threshold=1, reset_timeout=1.0, _now=now)
    colour = Colour("async", door)
    send(colour, breaker, 500)
    now.at += 1

    async def main() -> None:
        async def for_ever(_: Any) -> None:
            await asyncio.Event().wait()

        probe = asyncio.ensure_future(breaker(request(), for_ever))
        await asyncio.sleep(0)
        with pytest.raises(door.CircuitOpenError) as refused:
            await colour.acall([breaker], request(), Chain())
        assert refused.value.retry_after is None
        assert str(refused.value) == "circuit open (a probe request is already in flight)"
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert (await colour.acall([breaker], request(), Chain())).status_code == 200

    asyncio.run(main())


def test_a_refused_budget_is_what_it_refused_over(colour: Colour) -> None:
    breaker = colour.make("CircuitBreaker", failure_threshold=1)
    broke = door.RetryBudget(min_retries_per_sec=0, percent_can_retry=0)
    stack = [breaker, colour.make("Retry", budget=broke)]
    assert isinstance(colour.fails(stack, request(), Chain(503)), door.RetryBudgetExhaustedError)
    assert breaker.state is door.CircuitState.OPEN


def test_each_key_has_a_circuit(colour: Colour, caplog: pytest.LogCaptureFixture) -> None:
    events = Events(caplog)
    breaker = colour.make("KeyedCircuitBreaker", failure_threshold=1)
    assert send(colour, breaker, 500, 200, url="http://u:p@a.test/1") == [500, OPEN]
    assert events.last()["circuit_key"] == "http://a.test"
    assert send(colour, breaker, 200, url="https://a.test/") == [200]
    assert send(colour, breaker, 200, url="http://a.test:8080/") == [200]
    assert send(colour, breaker, 200, url="http://b.test/") == [200]
    by_path = colour.make("KeyedCircuitBreaker", key=lambda asked: asked.url.path, failure_threshold=1)
    assert send(colour, by_path, 500, 200, url="http://a.test/x") == [500, OPEN]
    assert send(colour, by_path, 200, url="http://a.test/y") == [200]
    with pytest.raises(ValueError, match="key must be a function"):
        colour.make("KeyedCircuitBreaker", key="host")


def test_a_break_of_no_time_is_a_millisecond() -> None:
    now = Now()
    breaker = door.CircuitBreaker(failure_threshold=1, reset_timeout=0, _now=now)
    sync = Colour("sync", door)
    assert send(sync, breaker, 500, 200) == [500, OPEN]
    now.at += 0.001
    assert send(sync, breaker, 200) == [200]


SAID = (
    "event", "levelno", "suppressed", "rejected", "failures", "observed_calls", "failure_rate",
    "failure_rate_threshold", "window_seconds", "url",
)  # fmt: skip


@pytest.mark.parametrize("rate", [False, True])
@pytest.mark.parametrize("round_", range(4))
def test_it_does_what_httpwares_does(rate: bool, round_: int, caplog: pytest.LogCaptureFixture) -> None:
    seed = random.randrange(1 << 32)
    draw, now = random.Random(seed), Now()
    settings: dict[str, Any] = {"reset_timeout": 4.0, "success_threshold": round_ % 2 + 1, "_now": now}
    if rate:
        settings |= {"failure_rate_threshold": 0.5, "window_seconds": 10.0, "minimum_calls": 1}
    else:
        settings |= {"failure_threshold": 3}
    sync = Colour("sync", door)
    ours, reference = door.CircuitBreaker(**settings), theirs.CircuitBreaker(**settings)
    answers = [200, 200, 500, 503, 404, 429, httpware.TimeoutError("t"), ValueError("bug")]
    events, opened = Events(caplog), 0
    for breaker in (reference, ours):
        send(sync, breaker, 200)  # ours counts its slices from the first moment it sees
    for step in range(600):
        answer = draw.choice(answers if draw.random() < 0.5 else [500, 503])
        # With a rate, a success opens httpware's circuit where it makes the calls enough, or where older ones
        # have left the window; here only a failure does. So time passes before failures alone.
        if not rate or answer in (500, 503) or reference.state is not theirs.CircuitState.CLOSED:
            now.at += draw.choice([0.0, 0.25, 0.5, 2.0])
        told = []
        ends = []
        for breaker in (reference, ours):
            caplog.clear()
            ends.append(send(sync, breaker, answer))
            told.append([{key: r.__dict__.get(key) for key in SAID} for r in events._records()])
        where = f"seed {seed}, step {step}, {answer!r} at {now.at} s"
        assert ends[0] == ends[1], where
        assert told[0] == told[1], where
        assert reference.state.value == ours.state.value, where
        opened += ends[1] == [OPEN]
    assert opened, f"seed {seed}: nothing was refused"


def test_a_success_opens_nothing() -> None:
    settings = {"failure_rate_threshold": 0.5, "minimum_calls": 4}
    ours, reference = door.CircuitBreaker(**settings), theirs.CircuitBreaker(**settings)
    for breaker in (ours, reference):
        send(Colour("sync", door), breaker, 500, 500, 500, 200)
    assert (ours.state.value, reference.state.value) == ("closed", "open")
    assert send(Colour("sync", door), ours, 500, 200) == [500, OPEN]


def test_the_whole_has_its_time(
    fake: tidegate.Engine, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    events = Events(caplog)
    overall = door.AsyncTimeout(timeout=2.5, engine=fake)
    retry = door.AsyncRetry(engine=tidegate.Engine(clock=clock), max_attempts=9)
    colour = Colour("async", door)

    begun: list[Any] = []

    async def hangs(asked: Any, onward: Any) -> Any:
        begun.append(asked)
        await asyncio.Event().wait()

    async def main() -> None:
        call = asyncio.ensure_future(colour.acall([overall, retry, hangs], request(), Chain()))
        await clock.advance(2.4)
        assert not call.done() and len(begun) == 1
        await clock.advance(0.2)
        with pytest.raises(httpware.TimeoutError, match=r"^overall timeout of 2\.5s exceeded$") as over:
            await call
        assert isinstance(over.value, (tidegate.DeadlineExceeded, TimeoutError))

    asyncio.run(main())
    assert events.names() == ["timeout.exceeded"] and events.last()["timeout"] == 2.5


@pytest.mark.parametrize("same", [True, False], ids=["one engine", "two engines"])
def test_no_retry_is_waited_for_in_vain(fake: tidegate.Engine, clock: FakeClock, same: bool) -> None:
    inner = fake if same else tidegate.Engine(clock=clock)
    stack = [door.AsyncTimeout(timeout=2.5, engine=fake), door.AsyncRetry(engine=inner, max_attempts=9)]
    colour = Colour("async", door)

    async def main() -> None:
        call = asyncio.ensure_future(colour.acall(stack, request(), Chain(*[503] * 9, Retry_After="1")))
        await clock.advance(2.1)
        with pytest.raises(httpware.ServiceUnavailableError) as failed:
            await call
        (note,) = failed.value.__notes__
        assert note == "tidegate: not retried: the next wait (Retry-After 1 s) would outlive the deadline"

    asyncio.run(main())


@pytest.mark.parametrize("inner", [httpware.TimeoutError("read"), TimeoutError("mine"), ValueError("bug")])
def test_an_inner_timeout_is_passed_on(inner: Exception, caplog: pytest.LogCaptureFixture) -> None:
    colour = Colour("async", door)
    assert colour.fails(colour.make("Timeout", timeout=5.0), request(), Chain(inner)) is inner
    assert colour.call(colour.make("Timeout", timeout=5.0), request(), Chain()).status_code == 200
    assert Events(caplog).names() == []


def test_an_earlier_deadline_is_not_its_own(fake: tidegate.Engine, clock: FakeClock) -> None:
    overall = door.AsyncTimeout(timeout=5.0, engine=fake)

    async def main() -> None:
        async def slow(_: Any) -> None:
            await asyncio.Event().wait()

        async def inside() -> None:
            with tidegate.deadline(1.0):
                await overall(request(), slow)

        call = asyncio.ensure_future(inside())
        await clock.advance(1.1)
        with pytest.raises(tidegate.DeadlineExceeded) as over:
            await call
        assert not isinstance(over.value, door.OverallTimeoutError)

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan"), "5"])
def test_a_timeout_that_is_none(wrong: Any) -> None:
    with pytest.raises(ValueError, match="timeout must be a finite number > 0, got"):
        door.AsyncTimeout(timeout=wrong)
