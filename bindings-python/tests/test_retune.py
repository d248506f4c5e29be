"""Other settings for a policy in use."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from typing import Any

import pytest

import tidegate
from conftest import Client, quick

pytestmark = pytest.mark.usefixtures("both_paths")


class Failing:
    def __init__(self) -> None:
        self.tries = 0

    def __call__(self) -> None:
        self.tries += 1
        raise ConnectionError


def tries(caller: tidegate.Caller) -> int:
    failing = Failing()
    with pytest.raises(ConnectionError):
        caller.call(failing)
    return failing.tries


NO_WAIT = {"base": 0, "max": 0}


def test_the_next_call_goes_by_the_new_settings(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        "p", engine=engine, retry={"max_attempts": 2, "backoff": NO_WAIT, "budget": None}, deadline=5
    )
    caller, twin = policy.at(route="eu"), tidegate.Policy("p", engine=engine, **policy._config)
    assert (tries(policy), tries(caller), tries(twin)) == (2, 2, 2)
    policy.retune(retry={"max_attempts": 4, "backoff": NO_WAIT, "budget": None})
    assert (tries(policy), tries(caller), tries(twin)) == (4, 4, 4)
    assert policy._setting("deadline") is None  # what is left out is not kept
    assert repr(policy) == repr(twin) == f"Policy('p', retry={policy._config['retry']!r})"
    assert pickle.loads(pickle.dumps(policy))._config == policy._config
    assert tidegate.Policy("p", engine=engine, **policy._config).name == "p"
    with pytest.raises(tidegate.PolicyError, match="other settings"):
        tidegate.Policy("p", engine=engine, deadline=5)


def test_mistakes_change_nothing(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    before = repr(policy)
    with pytest.raises(tidegate.PolicyError) as caught:
        policy.retune(deadline=-1, retry={"max_attempts": 0})
    assert {key for key, _, _ in caught.value.mistakes} == {"deadline", "retry.max_attempts"}
    assert (repr(policy), tries(policy)) == (before, 3)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_limit_that_grows_wakes_who_waits(engine: tidegate.Engine, colour: str) -> None:
    queue = {"max_queue": None, "acquire_timeout": None}
    policy = tidegate.Policy(engine=engine, bulkhead={"max_concurrency": 1, **queue})
    started, release = threading.Event(), threading.Event()
    holder = threading.Thread(target=policy.call, args=(lambda: (started.set(), release.wait(10)),))
    holder.start()
    started.wait(10)
    at: list[float] = []

    def waiter() -> None:
        if colour == "sync":
            policy.call(lambda: at.append(time.monotonic()))
        else:
            asyncio.run(policy.acall(asyncio.sleep, 0))
            at.append(time.monotonic())

    waiting = [threading.Thread(target=waiter) for _ in range(2)]
    for thread in waiting:
        thread.start()
    while engine.snapshot()["waiting"] < 2:
        time.sleep(0.001)
    before = time.monotonic()
    policy.retune(bulkhead={"max_concurrency": 3, **queue})
    for thread in waiting:
        thread.join(10)
    assert len(at) == 2
    assert max(at) - before < 0.3  # not at their next look
    policy.retune(bulkhead={"max_concurrency": 1})
    with pytest.raises(tidegate.BulkheadFull) as caught:
        policy.call(int)
    assert caught.value.max_concurrency == 1
    release.set()
    holder.join(10)
    policy.retune(deadline=5)
    assert engine.snapshot()["live"] == 0


def test_an_attempt_timeout_comes_and_goes(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    caller, twin = policy.at(route="eu"), tidegate.Policy(policy.name, engine=engine, **policy._config)
    policy.retune(attempt_timeout=0.01)
    for each in (policy, caller, twin):
        with pytest.raises(TypeError, match="pass_timeout"):
            each.call(int)
        with pytest.raises(tidegate.AttemptTimeout):
            asyncio.run(each.acall(asyncio.sleep, 5))
        with pytest.raises(TypeError, match="pass_timeout"):
            next(iter(each.attempts()))
    assert policy.at(pass_timeout="timeout").call(lambda *, timeout: timeout) == 0.01
    policy.retune(deadline=5)
    assert [each.call(int) for each in (policy, caller, twin)] == [0, 0, 0]


def test_a_call_in_flight_ends_as_it_began(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=engine, retry={"max_attempts": 2, "backoff": NO_WAIT, "budget": None})
    made: list[int] = []

    def work() -> None:
        made.append(1)
        policy.retune(retry={"max_attempts": 9, "backoff": NO_WAIT, "budget": None})
        raise ConnectionError

    with pytest.raises(ConnectionError):
        policy.call(work)
    assert len(made) == 2


def test_a_transport_goes_by_the_new_settings(http: Client, engine: tidegate.Engine, module: Any) -> None:
    policy, seen = quick(engine), []

    def handler(request: Any) -> Any:
        seen.append(request.method)
        return module.Response(503)

    http.open(policy, handler)
    http.request("DELETE", "http://x/")
    retry = {"max_attempts": 2, "methods": ["GET"], "backoff": NO_WAIT, "budget": None}
    policy.retune(retry=retry)
    http.request("DELETE", "http://x/")
    http.request("GET", "http://x/")
    assert seen == ["DELETE"] * 4 + ["GET"] * 2
