"""Every error and every failed answer can say why, and misuse is told with its way out."""

from __future__ import annotations

import asyncio
import copy
import email.utils
import gc
import inspect
import pickle
import pydoc
import subprocess
import sys
import typing
import warnings
import weakref
from typing import Any

import httpx
import pytest

import tidegate
import tidegate.httpx
from tidegate.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(clock: FakeClock) -> tidegate.Engine:
    return tidegate.Engine(seed=1, clock=clock, logs=False)


def failing() -> None:
    raise ConnectionError("password=hunter2")


def test_an_error_explains_itself_by_default(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        "orders", retry={"max_attempts": 2, "backoff": {"base": 1, "jitter": "none"}}, engine=engine
    )
    with pytest.raises(ConnectionError) as raised:
        policy.call(failing)
    for told in (engine.explain(raised.value), tidegate.explain(raised.value)):
        assert told is not None
        assert (told.policy, told.attempts, told.reason) == ("orders", 2, "attempts")
        assert [record.type for record in told.story] == ["retry_scheduled", "gave_up", "call_done"]
        assert told.story[0].wait_s == 1.0
        assert "hunter2" not in str(told)


def test_an_error_that_is_not_retried_explains_itself(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", preset="http", engine=engine)
    with pytest.raises(ZeroDivisionError) as raised:
        policy.call(lambda: 1 // 0)
    told = engine.explain(raised.value)
    assert told is not None and (told.reason, told.attempts) == ("not_retryable", 1)


def test_a_refusal_explains_itself(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", rate_limit={"permits": 1, "per": 60}, engine=engine)
    policy.call(int)
    with pytest.raises(tidegate.RateLimited) as raised:
        policy.call(int)
    told = raised.value.explain()
    assert told is not None and told.reason == "rate_limited"
    assert "now: rate limit: 0 whole tokens there, 0 waiting" in told.numbers
    assert pickle.loads(pickle.dumps(raised.value)).explain() == told


@pytest.mark.parametrize("status", [503, 429])
def test_a_final_response_explains_itself(engine: tidegate.Engine, status: int) -> None:
    policy = tidegate.Policy("orders", preset="http", retry={"max_attempts": 2}, engine=engine)
    inner = httpx.MockTransport(lambda _: httpx.Response(status))
    with httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client:
        response = client.get("https://api.example/orders?token=hunter2")
    report = tidegate.report(response)
    assert (report["attempts"], report["reason"]) == (2, "attempts")
    for told in (engine.explain(response), engine.explain(report["call"]), tidegate.explain(response)):
        assert told is not None and told.attempts == 2 and told.reason == "attempts"
        assert "hunter2" not in str(told)


def test_history_is_bounded_and_off_on_request() -> None:
    def refuse(history: int) -> list[tidegate.TidegateError]:
        engine = tidegate.Engine(seed=1, clock=FakeClock(), logs=False, history=history)
        policy = tidegate.Policy("p", rate_limit={"permits": 1, "per": 60}, engine=engine)
        policy.call(int)
        errors = []
        for _ in range(20):
            try:
                policy.call(int)
            except tidegate.RateLimited as error:
                errors.append(error)
        return [error for error in errors if engine.explain(error) is not None]

    assert len(refuse(5)) == 5
    assert refuse(0) == []
    with pytest.raises(ValueError, match="history = -1: must be a whole number from 0 to 1000000"):
        tidegate.Engine(history=-1)


@pytest.mark.parametrize("wrong", ["call 7", None, True, 1.5])
def test_explaining_something_else_is_a_type_error(engine: tidegate.Engine, wrong: Any) -> None:
    with pytest.raises(TypeError, match="must be an exception, an HTTP response, or a call's number"):
        engine.explain(wrong)


def test_on_retry_is_given_the_error_the_attempt_the_wait_and_the_reason(engine: tidegate.Engine) -> None:
    told: list[tidegate.Retrying] = []
    retry = {"max_attempts": 3, "backoff": {"base": 1, "jitter": "none", "multiplier": 2}}
    policy = tidegate.Policy("orders", retry=retry, on_retry=told.append, engine=engine)
    other = tidegate.Policy("other", retry=retry, engine=engine)
    for each in (policy, other):
        with pytest.raises(ConnectionError) as raised:
            each.call(failing)
        if each is policy:
            last = raised.value
    assert [(it.attempt, it.wait, it.reason, it.policy) for it in told] == [
        (1, 1.0, "transient", "orders"),
        (2, 2.0, "transient", "orders"),
    ]
    assert all(isinstance(it.error, ConnectionError) and it.error is not last for it in told)
    assert policy.replace("twin")._on_retry is not None
    with pytest.raises(TypeError, match="on_retry = 5: must be a function"):
        tidegate.Policy(on_retry=5, engine=engine)  # type: ignore[arg-type]


def test_an_on_retry_that_raises_breaks_no_call(engine: tidegate.Engine) -> None:
    def broken(_: tidegate.Retrying) -> None:
        raise RuntimeError("mine")

    policy = tidegate.Policy("p", retry={"max_attempts": 2}, on_retry=broken, engine=engine)
    answers = iter([ConnectionError(), None])

    def work() -> str:
        if error := next(answers):
            raise error
        return "done"

    assert policy.call(work) == "done"


def test_an_on_retry_hears_of_all_calls_under_its_name(engine: tidegate.Engine) -> None:
    """As the docstring says: the engine knows a policy by its name, whichever object makes the call."""
    told: list[tuple[str, str]] = []
    retry: Any = {"max_attempts": 2, "backoff": {"base": 0, "max": 0, "jitter": "none"}, "budget": None}

    def listening(who: str, name: str) -> tidegate.Policy:
        return tidegate.Policy(
            name, retry=retry, on_retry=lambda it: told.append((who, it.policy)), engine=engine
        )

    first, second, other = listening("first", "a"), listening("second", "a"), listening("other", "b")
    for policy in (first, other):
        with pytest.raises(ConnectionError):
            policy.call(failing)
    assert told == [("first", "a"), ("second", "a"), ("other", "b")]
    del second
    with pytest.raises(ConnectionError):
        tidegate.Policy("a", retry=retry, engine=engine).call(failing)
    assert told[3:] == [("first", "a")]


def test_an_on_retry_goes_with_its_policy(engine: tidegate.Engine) -> None:
    before = len(engine.hooks._all)
    tidegate.Policy(deadline=5, on_retry=print, engine=engine).call(int)
    assert len(engine.hooks._all) == before


def test_a_report_of_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="must be a response that an adapter of Tidegate delivered"):
        tidegate.report(httpx.Response(200))


@pytest.mark.parametrize(
    ("span", "shown", "hint"),
    [
        ("5s", '"5s"', "in Python a span is a number of seconds or a timedelta: 5.0"),
        ("250ms", '"250ms"', "in Python a span is a number of seconds or a timedelta: 0.25"),
        ("soon", '"soon"', "in Python a span is a number of seconds or a timedelta"),
        (True, "True", "in Python a span is a number of seconds or a timedelta"),
        (float("nan"), "nan", "must be a span from 1us to 365 days"),
    ],
)
def test_a_span_of_another_kind_is_told_how_to_write_it(
    engine: tidegate.Engine, span: Any, shown: str, hint: str
) -> None:
    with pytest.raises(tidegate.PolicyError) as raised:
        tidegate.Policy("p", deadline=span, engine=engine)
    ((key, value, rule),) = raised.value.mistakes
    assert (key, value) == ("deadline", shown)
    assert hint in rule


def test_a_typo_in_the_only_component_is_one_mistake(engine: tidegate.Engine) -> None:
    with pytest.raises(tidegate.PolicyError) as raised:
        tidegate.Policy("p", bulkhead={"max_concurency": 3}, engine=engine)
    assert [key for key, _, _ in raised.value.mistakes] == ["bulkhead.max_concurency"]


def test_a_bulkhead_without_a_queue_is_warned_of(engine: tidegate.Engine) -> None:
    def warnings(**bulkhead: Any) -> list[str]:
        policy = tidegate.Policy(deadline=5, bulkhead=bulkhead, engine=engine)
        return [warning for warning in policy.explain().warnings if warning.startswith("max_queue 0")]

    assert len(warnings(max_concurrency=16)) == 1
    assert warnings(max_concurrency=16, max_queue=10) == []


def test_a_transport_of_the_other_kind_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="give AsyncTransport an AsyncHTTPTransport, or use Transport"):
        tidegate.httpx.AsyncTransport(httpx.HTTPTransport())
    with pytest.raises(TypeError, match="give Transport an HTTPTransport, or use AsyncTransport"):
        tidegate.httpx.Transport(httpx.AsyncHTTPTransport())
    with pytest.raises(TypeError, match=r"write Transport\(policy=...\)"):
        tidegate.httpx.Transport(tidegate.Policy("p", deadline=5))


def test_a_decorator_above_classmethod_is_told_to_go_below(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", deadline=5, engine=engine)
    for kind in (classmethod, staticmethod):
        with pytest.raises(TypeError, match=f"above @{kind.__name__}: put it below"):
            policy(kind(lambda: None))
    with pytest.raises(TypeError, match="5: must be a function"):
        policy(5)  # type: ignore[call-overload]

    class Orders:
        @classmethod
        @policy
        def place(cls) -> str:
            return cls.__name__

    assert Orders.place() == "Orders"


def test_a_coroutine_in_the_place_of_a_function_is_told(engine: tidegate.Engine) -> None:
    async def work() -> None:
        """Nothing."""

    policy = tidegate.Policy("orders", deadline=5, engine=engine)
    for call in (policy.call, policy.acall):
        with pytest.raises(TypeError, match=r"acall\(work, 1\), not acall\(work\(1\)\)"):
            call(work())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"5: must be a function$"):
            call(5)  # type: ignore[arg-type]
    assert engine.snapshot()["live"] == 0


def test_help_shows_what_call_does() -> None:
    page = pydoc.plain(pydoc.render_doc(tidegate.Policy))
    assert "Calls a function under the policy, in this thread." in page
    assert "Awaits an async function under the policy" in page


def test_dates_of_servers_are_measured_by_the_injected_wall_clock(
    clock: FakeClock, engine: tidegate.Engine
) -> None:
    clock.tick(3600)
    date = email.utils.formatdate(clock.wall() + 30, usegmt=True)
    answers = iter([httpx.Response(503, headers={"Retry-After": date}), httpx.Response(200)])
    policy = tidegate.Policy("orders", preset="http", deadline=120, engine=engine)
    inner = httpx.MockTransport(lambda _: next(answers))
    with httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client:
        assert client.get("https://api.example/").status_code == 200
    assert 3628 <= clock.now() <= 3634

    limited = tidegate.Policy("limited", rate_limit={"permits": 1, "per": 60}, engine=engine)
    limited.call(int)
    with pytest.raises(tidegate.RateLimited) as raised:
        limited.call(int)
    assert raised.value.retry_at is not None
    assert abs(raised.value.retry_at.timestamp() - clock.wall() - 60) < 1


def test_a_response_that_is_not_retried_names_the_one_cause(engine: tidegate.Engine) -> None:
    def note(response: httpx.Response, **more: Any) -> str | None:
        policy = tidegate.Policy(preset="http", engine=engine, **more)
        with httpx.Client(
            transport=tidegate.httpx.Transport(httpx.MockTransport(lambda _: response), policy)
        ) as it:
            return tidegate.report(it.get("https://api.example/"))["note"]

    assert note(httpx.Response(500)) == "tidegate: not retried: 500 is none of retry.statuses"
    no = httpx.Response(503, headers={"X-Should-Retry": "false"})
    assert note(no) == "tidegate: not retried: the server said not to (x-should-retry)"
    refuse = tidegate.Outcome("transient", "do_not")
    assert (
        note(httpx.Response(503), classify=lambda _: refuse) == "tidegate: not retried: classify said not to"
    )


def test_a_wait_that_blocks_an_event_loop_is_warned_of() -> None:
    policy = tidegate.Policy(
        "blocking", retry={"max_attempts": 2, "backoff": {"base": 0.002, "jitter": "none"}, "budget": None}
    )
    answers = iter([ConnectionError(), None] * 2)

    def work() -> None:
        if error := next(answers):
            raise error

    async def main() -> None:
        policy.call(work)

    with pytest.warns(
        RuntimeWarning, match="policy 'blocking' waits in an event loop and blocks it: use acall"
    ):
        asyncio.run(main())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.call(work)  # no loop runs here


def test_without_logging_nothing_is_written_to_stderr() -> None:
    script = """
import tidegate
policy = tidegate.Policy("p", breaker={"consecutive": 1, "break_duration": 5})
def broken(): raise ConnectionError
try: policy.call(broken)
except ConnectionError: pass
try: policy.call(broken)
except tidegate.BreakerOpen: print("open")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("open\n", "")


def test_a_decorated_function_is_a_native_object_that_looks_like_it(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", deadline=5, engine=engine)

    @policy
    def place(item: int, *, currency: str = "EUR") -> str:
        """Places an order."""
        return f"{item} {currency}"

    @policy
    async def place_async(item: int) -> str:
        return f"{item} async"

    assert type(place).__module__ == type(place_async).__module__ == "tidegate._native"
    assert str(inspect.signature(place)) == "(item: 'int', *, currency: 'str' = 'EUR') -> 'str'"
    assert (place.__name__, place.__doc__, place.__module__) == ("place", "Places an order.", __name__)
    assert typing.get_type_hints(place)["item"] is int
    assert inspect.unwrap(place) is place.__wrapped__ is not place
    assert inspect.iscoroutinefunction(place_async) and not inspect.iscoroutinefunction(place)
    assert "place under policy 'orders'" in repr(place)
    assert (place(1, currency="USD"), place(*(2,))) == ("1 USD", "2 EUR")
    assert asyncio.run(place_async(3)) == "3 async"
    with pytest.raises(TypeError, match="unexpected keyword argument 'curency'"):
        place(1, curency="USD")
    place.extra = "an attribute"  # type: ignore[attr-defined]
    assert vars(place)["extra"] == "an attribute"
    assert engine.snapshot()["policies"]["orders"]["ends"] == {"ok": 3, "not_retryable": 1}


def test_a_decorated_method_binds_and_can_be_collected(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", deadline=5, engine=engine)

    class Shop:
        name = "shop"

        @policy
        def place(self, item: int) -> str:
            return f"{self.name} {item}"

        @staticmethod
        @policy
        def price(item: int) -> int:
            return item * 2

    shop = Shop()
    assert (shop.place(1), Shop.place(shop, 2), Shop.price(3)) == ("shop 1", "shop 2", 6)
    assert shop.place.__self__ is shop

    def forgotten() -> weakref.ref[Any]:
        @policy
        def own() -> Any:
            return own  # a cycle

        return weakref.ref(own)

    dead = forgotten()
    gc.collect()
    assert dead() is None


@tidegate.Policy("by name", deadline=5)
def named() -> str:
    return "named"


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(named)) is named
    assert copy.deepcopy(named) is named


def test_a_route_that_no_call_used_is_not_listed(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", deadline=5, engine=engine)
    caller = policy.at(route="eu")
    assert policy.snapshot()["routes"] == {}
    with httpx.Client(
        transport=tidegate.httpx.Transport(httpx.MockTransport(lambda _: httpx.Response(200)), policy)
    ) as client:
        client.get("https://api.example/")
    assert list(policy.snapshot()["routes"]) == ["https://api.example:443"]
    caller.call(int)
    policy.call(int)
    asyncio.run(policy.at(route="us").acall(asyncio.sleep, 0))
    assert list(policy.snapshot()["routes"]) == ["https://api.example:443", "eu", "default", "us"]


def test_a_date_on_the_error_of_a_function_is_measured_by_the_injected_wall_clock(
    clock: FakeClock, engine: tidegate.Engine
) -> None:
    clock.tick(3600)
    date = email.utils.formatdate(clock.wall() + 30, usegmt=True)
    answers = iter([httpx.Response(503, headers={"Retry-After": date}), httpx.Response(200)])
    policy = tidegate.Policy("orders", preset="http", deadline=120, engine=engine)

    def get() -> int:
        response = next(answers)
        response.request = httpx.Request("GET", "https://api.example/")
        return response.raise_for_status().status_code

    assert policy.call(get) == 200
    assert 3628 <= clock.now() <= 3634
