"""What callers get in the place of an error (semantics 7.4)."""

from __future__ import annotations

import asyncio
import functools
import pickle
from typing import Any

import httpx
import pytest

import tidegate
import tidegate.httpx
from conftest import quick

pytestmark = pytest.mark.usefixtures("both_paths")


def failing(error: BaseException) -> Any:
    def fails() -> Any:
        raise error

    return fails


def both(caller: tidegate.Caller, error: BaseException) -> list[Any]:
    """What a thread gets, and what an event loop gets."""

    async def fails() -> Any:
        raise error

    return [caller.call(failing(error)), asyncio.run(caller.acall(fails))]


def test_a_value_stands_in_for_a_failure_after_all_attempts(engine: tidegate.Engine) -> None:
    policy = quick(engine, fallback="cached")
    assert both(policy, ConnectionError("no")) == ["cached", "cached"]
    assert policy.snapshot()["attempts"] == 6
    assert policy.call(lambda: "good") == "good"


def test_a_callable_is_given_the_final_error(engine: tidegate.Engine) -> None:
    error, seen = ConnectionError("no"), []

    def instead(given: Exception) -> str:
        seen.append((given, list(given.__notes__)))
        return "instead"

    assert quick(engine, fallback=instead).call(failing(error)) == "instead"
    assert seen == [(error, ["tidegate: gave up after 3 attempts"])]


def test_an_async_fallback_is_awaited(engine: tidegate.Engine) -> None:
    async def instead(error: Exception) -> str:
        await asyncio.sleep(0)
        return type(error).__name__

    async def fails() -> str:
        raise ConnectionError

    policy = quick(engine, fallback=instead)
    assert asyncio.run(policy.acall(fails)) == "ConnectionError"
    with pytest.raises(TypeError, match="given an async function") as caught:
        policy.call(failing(ConnectionError("no")))
    assert isinstance(caught.value.__cause__, OSError)


def test_a_bug_is_not_hidden_and_neither_is_a_cancellation(engine: tidegate.Engine) -> None:
    policy = quick(engine, fallback="cached")
    for error in (ValueError("a bug"), KeyboardInterrupt(), asyncio.CancelledError()):
        with pytest.raises(type(error)):
            policy.call(failing(error))

    async def main() -> None:
        task = asyncio.ensure_future(policy.acall(asyncio.sleep, 10))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_our_refusals_have_it_too(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=engine, rate_limit={"permits": 1, "per": 3600}, fallback="cached")
    assert [policy.call(lambda: "first"), policy.call(lambda: "second")] == ["first", "cached"]
    with tidegate.deadline(0):
        assert policy.call(int) == "cached"
    late = tidegate.Policy(engine=engine, attempt_timeout=0.001, fallback="cached")
    assert asyncio.run(late.acall(asyncio.sleep, 10)) == "cached"
    with pytest.raises(tidegate.CostAboveBurst):  # which is a mistake in the call
        policy.at(cost=9).call(int)


def test_what_classify_calls_a_failure(engine: tidegate.Engine) -> None:
    told = {KeyError: "permanent", LookupError: "ignored", ValueError: "gone", IndexError: "cancelled"}
    policy = quick(
        engine, fallback="cached", kinds={"gone": "conflict"}, classify=lambda it: told.get(type(it))
    )
    assert both(policy, KeyError("k")) == ["cached", "cached"]
    assert both(policy, ValueError("v")) == ["cached", "cached"]
    for error in (LookupError("l"), IndexError("i"), TypeError("a bug")):
        with pytest.raises(type(error)):
            policy.call(failing(error))


@pytest.mark.parametrize(
    "on",
    [KeyError, (KeyError, IndexError), lambda error: isinstance(error, KeyError)],
    ids=["type", "types", "predicate"],
)
def test_fallback_on_says_which(engine: tidegate.Engine, on: Any) -> None:
    policy = quick(engine, fallback="cached", fallback_on=on)
    assert both(policy, KeyError("k")) == ["cached", "cached"]
    with pytest.raises(OSError, match="no"):
        policy.call(failing(ConnectionError("no")))


async def never(value: object) -> bool:
    return False


@pytest.mark.parametrize("where", ["fallback_on", "classify", "predicate"])
def test_an_async_hook_changes_nothing_and_is_warned_of(engine: tidegate.Engine, where: str) -> None:
    """What it returns is true, whatever it would say if somebody awaited it."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200)

    hook = functools.partial(never)  # a new one: each is warned of once
    own: Any = {} if where == "predicate" else {where: hook}
    fallback = {"fallback": "old"} if where == "fallback_on" else {}
    policy = tidegate.Policy(retry={}, engine=engine, **fallback, **own)

    def ask() -> object:
        if where == "predicate":
            transport = tidegate.httpx.Transport(httpx.MockTransport(answer), policy)
            with httpx.Client(transport=transport) as client:
                client.get("http://h/", extensions={"tidegate": {"predicate": hook}})
            return len(asked)
        try:
            return policy.call(int, "1" if where == "classify" else "one")
        except ValueError:
            return 1

    with pytest.warns(RuntimeWarning, match=f"{where}=.*Unknown: it is async, and nothing awaits it"):
        assert ask() == 1, "no further attempt, no failure, no fallback"


def test_a_broken_predicate_breaks_no_call(engine: tidegate.Engine) -> None:
    policy = quick(engine, fallback="cached", fallback_on=lambda error: 1 // 0)
    with (
        pytest.warns(RuntimeWarning, match="fallback_on=.*ZeroDivisionError"),
        pytest.raises(OSError, match="no"),
    ):
        policy.call(failing(ConnectionError("no")))


def test_each_broken_predicate_is_warned_of_also_where_an_earlier_one_stood(engine: tidegate.Engine) -> None:
    for _ in range(20):
        policy = quick(engine, fallback="cached", fallback_on=lambda error: 1 // 0)
        with pytest.warns(RuntimeWarning, match="ZeroDivisionError"), pytest.raises(OSError, match="no"):
            policy.call(failing(ConnectionError("no")))
        with pytest.raises(OSError, match="no"):  # once of each
            policy.call(failing(ConnectionError("no")))
        del policy


@pytest.mark.parametrize("on", ["transient", 5, (KeyError, 5), ()])
def test_a_wrong_fallback_on_is_named(engine: tidegate.Engine, on: Any) -> None:
    with pytest.raises(ValueError, match=r"fallback_on = .*: must be an exception class"):
        quick(engine, fallback="cached", fallback_on=on)
    with pytest.raises(ValueError, match="no fallback says what"):
        quick(engine, fallback_on=KeyError)


def test_its_own_failure_keeps_the_first_one(engine: tidegate.Engine) -> None:
    def broken(error: Exception) -> Any:
        raise ZeroDivisionError

    first = ConnectionError("no")
    with pytest.raises(ZeroDivisionError) as caught:
        both(quick(engine, fallback=broken), first)
    assert caught.value.__cause__ is first


def test_at_says_otherwise(engine: tidegate.Engine) -> None:
    policy = quick(engine, fallback="cached")
    assert policy.at(route="eu").call(failing(ConnectionError("no"))) == "cached"
    assert policy.at(fallback="other").call(failing(ConnectionError("no"))) == "other"
    with pytest.raises(OSError, match="no"):
        policy.at(fallback=None).call(failing(ConnectionError("no")))


def test_decorated_functions_have_it_and_hedged_calls(engine: tidegate.Engine) -> None:
    @quick(engine, fallback="cached")
    def work() -> str:
        raise ConnectionError

    assert work() == "cached"
    hedged = quick(engine, fallback="cached", hedge={"delay": 0})
    assert both(hedged, ConnectionError("no")) == ["cached", "cached"]


def test_it_runs_outside_the_call(engine: tidegate.Engine) -> None:
    policy = quick(engine, bulkhead={"max_concurrency": 1})
    inner = policy.at(fallback=lambda error: policy.call(lambda: "with the slot that is free again"))
    assert inner.call(failing(ConnectionError("no"))) == "with the slot that is free again"


def test_pickled_with_its_policy(engine: tidegate.Engine) -> None:
    twin = pickle.loads(pickle.dumps(quick(engine, fallback="cached", fallback_on=KeyError)))
    assert twin.call(failing(KeyError("k"))) == "cached"
    assert twin.replace(fallback="newer").call(failing(KeyError("k"))) == "newer"
