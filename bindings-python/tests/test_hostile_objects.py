"""Exceptions, answers and callbacks whose own code raises: the call ends as it would have without it."""

from __future__ import annotations

import importlib
from typing import Any

import anyio
import pytest

import tidegate
import tidegate.httpx

NOT_OURS = [RuntimeError, KeyError, type("Odd", (BaseException,), {})]
"""What the code of a user raises: exceptions, and one that is no `Exception`."""


def hostile(kind: type[BaseException], base: type[BaseException] = ConnectionError) -> type[BaseException]:
    """An exception every attribute of which raises, once it has been made."""

    class Hostile(base):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: object) -> None:
            raise kind(f"set {name}")

        def __getattr__(self, name: str) -> Any:
            raise kind(f"get {name}")

        def add_note(self, note: str) -> None:
            raise kind("note")

    return Hostile


def quick(engine: tidegate.Engine, **more: Any) -> tidegate.Policy:
    retry = {"max_attempts": 2, "backoff": {"base": 0, "max": 0}, "budget": None}
    return tidegate.Policy(engine=engine, **{"retry": retry, **more})


def outcome_of(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("kind", NOT_OURS)
@pytest.mark.parametrize("base", [ConnectionError, ValueError, tidegate.RateLimited])
@pytest.mark.parametrize("journal", [False, True])
def test_the_original_exception_stays(
    kind: type[BaseException], base: type[BaseException], journal: bool
) -> None:
    engine = tidegate.Engine(seed=1, journal=journal)
    policy, made = quick(engine), []

    def fails() -> None:
        error = hostile(kind, base).__new__(hostile(kind, base))
        made.append(error)
        raise error

    async def afails() -> None:
        fails()

    def loop() -> None:
        for attempt in policy.attempts():
            with attempt:
                fails()

    def admission() -> None:
        with policy.bulkhead():
            fails()

    with engine.on_event(lambda record: None):
        for call in (
            lambda: policy.call(fails),
            lambda: anyio.run(policy.acall, afails),
            lambda: anyio.run(policy.acall, afails, backend="trio"),
            loop,
            admission,
            lambda: list(policy(generator_of(fails))()),
        ):
            error = outcome_of(call)
            assert error is made[-1]
            assert engine.explain(error) is None
        error = outcome_of(lambda: policy.at(fallback=raiser(made), fallback_on=Exception).call(fails))
        assert error is made[-1]
    assert engine.snapshot()["live"] == 0


def generator_of(fails: Any) -> Any:
    def generator() -> Any:
        fails()
        yield 1

    return generator


def raiser(made: list[Any]) -> Any:
    """A fallback that raises a hostile exception of its own."""

    def fallback(error: BaseException) -> None:
        made.append(hostile(RuntimeError).__new__(hostile(RuntimeError)))
        raise made[-1]

    return fallback


def broken(kind: type[BaseException]) -> Any:
    def judge(*_: Any) -> Any:
        raise kind("secret words")

    return judge


class Shy:
    """A callable whose attributes raise."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __getattr__(self, name: str) -> Any:
        raise self.__dict__["kind"](name)

    def __call__(self, *_: Any) -> str:
        return "done"


@pytest.mark.usefixtures("both_paths")
@pytest.mark.filterwarnings("ignore:tidegate:RuntimeWarning")
@pytest.mark.parametrize("kind", NOT_OURS)
def test_no_callback_breaks_a_call(kind: type[BaseException], engine: tidegate.Engine) -> None:
    tries: list[int] = []

    def fails() -> None:
        tries.append(1)
        raise ConnectionError("original")

    policy = quick(engine, classify=broken(kind))
    with engine.on_event(broken(kind)), pytest.raises(ConnectionError, match="original"):
        policy.call(fails)
    assert len(tries) == 2
    assert policy.call(lambda: "good") == "good"
    with pytest.raises(ConnectionError, match="original"):
        policy.at(fallback="other", fallback_on=broken(kind)).call(fails)
    with engine.on_event(lambda record: None):
        assert quick(engine).call(Shy(RuntimeError)) == "done"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", NOT_OURS)
def test_the_warning_of_a_broken_callback_breaks_nothing_and_quotes_nothing(
    kind: type[BaseException], engine: tidegate.Engine
) -> None:
    policy = quick(engine, classify=broken(kind))  # the warning is an error here
    assert policy.call(lambda: "good") == "good"
    judge = broken(kind)
    with pytest.warns(RuntimeWarning, match="broken.<locals>.judge failed") as told:
        assert quick(engine, classify=judge).call(lambda: "good") == "good"
    assert all("secret" not in str(warning.message) for warning in told)


@pytest.mark.filterwarnings("ignore:tidegate:RuntimeWarning")
@pytest.mark.parametrize("kind", NOT_OURS)
@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_answers_and_predicates_of_an_adapter(
    name: str, kind: type[BaseException], engine: tidegate.Engine
) -> None:
    module = importlib.import_module(name)
    transport = tidegate.httpx.Transport(
        module.MockTransport(lambda request: module.Response(503)), quick(engine)
    )
    with module.Client(transport=transport) as client:
        answer = client.get("http://far.test/", extensions={"tidegate": {"predicate": broken(kind)}})
        assert (answer.status_code, answer.extensions["tidegate"]["attempts"]) == (503, 2)
    assert engine.snapshot()["live"] == 0
