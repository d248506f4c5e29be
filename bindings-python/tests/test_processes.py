"""Processes: forks, real ones, and what goes through a pickle."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel

import tidegate
from conftest import quick
from fast import guarded
from tidegate.events import Record

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(work: Callable[[], None]) -> None:
    """Runs something in the child of a fork, and fails with what it says."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a child that hangs ends all the same
        failure = b""
        try:
            work()
        except BaseException:
            import traceback

            failure = traceback.format_exc().encode()
        os.write(write, failure[-4000:])
        os._exit(1 if failure else 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitpid(pid, 0)[1]
    assert status == 0, said or f"the child ended with {status}"


def empty(engine: tidegate.Engine) -> bool:
    view = engine.snapshot()
    return (view["live"], view["lingering"], view["waiting"], engine.waiters) == (0, 0, 0, {})


def all_shapes(policy: tidegate.Policy) -> None:
    """A call in every shape."""

    async def work() -> int:
        await asyncio.sleep(0)
        return 1

    async def trio_work() -> int:
        await trio.lowlevel.checkpoint()
        return 1

    assert policy.call(int) == 0
    assert asyncio.run(policy.acall(work)) == 1
    assert trio.run(policy.acall, trio_work) == 1
    with policy.bulkhead():
        pass
    for attempt in policy.attempts():
        with attempt:
            pass


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_child_has_none_of_the_parents_calls(engine: tidegate.Engine) -> None:
    """While threads hold slots and wait for some, and tasks do, on asyncio and in this thread."""
    policy, hold, inside = guarded(engine, limit=2, deadline=60), threading.Event(), threading.Barrier(3)

    def occupy() -> None:
        inside.wait(10)
        hold.wait(20)

    def child() -> None:
        assert empty(engine)
        assert policy.snapshot()["routes"]["default"]["pool"]["in_flight"] == 0
        all_shapes(policy)
        assert empty(engine)

    threads = [threading.Thread(target=policy.call, args=(occupy,)) for _ in range(2)]
    waiting = [threading.Thread(target=policy.call, args=(int,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(10)
    for thread in waiting:
        thread.start()

    async def main() -> None:
        async def work() -> str:
            return "after the fork"

        tasks = [asyncio.ensure_future(policy.acall(work)) for _ in range(3)]
        while engine.snapshot()["waiting"] < 5:  # noqa: ASYNC110 - threads are among them
            await asyncio.sleep(0.001)
        in_child(child)
        hold.set()
        assert await asyncio.gather(*tasks) == ["after the fork"] * 3

    asyncio.run(main())
    for thread in threads + waiting:
        thread.join(10)
    assert policy.snapshot()["ends"] == {"ok": 7}


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_is_in_a_hook(engine: tidegate.Engine) -> None:
    """A thread of the child may get the number of that thread, and its records are delivered all the same."""
    policy, hold, inside = guarded(engine), threading.Event(), threading.Event()

    def hook(record: Record) -> None:
        inside.set()
        assert hold.wait(20)

    def child() -> None:
        assert engine.hooks._telling == set()

    with policy.on_event(hook, types=["call_done"]):
        thread = threading.Thread(target=policy.call, args=(int,))
        thread.start()
        assert inside.wait(10)
        in_child(child)
        hold.set()
        thread.join(10)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_is_left_of_the_parents_calls_touches_none_of_the_childs(engine: tidegate.Engine) -> None:
    policy = guarded(engine, limit=1)
    left: list[Any] = []

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        async def work() -> None:
            await future

        task = asyncio.ensure_future(policy.acall(work))
        await asyncio.sleep(0)
        left.append(policy.acall(work))
        in_child(child)
        future.set_result(None)
        await task
        left.pop().close()

    def child() -> None:
        def occupied() -> None:
            left.clear()  # a coroutine that was made in the parent ends here
            gc.collect()
            assert engine.snapshot()["live"] == 1

        policy.call(occupied)
        assert empty(engine)

    asyncio.run(main())


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_inside_a_call_lets_it_end_in_both(engine: tidegate.Engine) -> None:
    policy = guarded(engine)

    def forks() -> str:
        in_child(lambda: all_shapes(policy))
        return "done"

    async def aforks() -> str:
        in_child(lambda: policy.call(int) and None)
        return "done"

    assert policy.call(forks) == asyncio.run(policy.acall(aforks)) == "done"


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_hedges_in_threads(engine: tidegate.Engine) -> None:
    """The threads that waited for work are not in the child."""
    policy = tidegate.Policy(engine=engine, hedge={"delay": 5})
    assert policy.call(int) == 0

    def child() -> None:
        assert policy.call(lambda: "on a thread of the child") == "on a thread of the child"

    in_child(child)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_each_child_draws_anew() -> None:
    """Correlated jitter would bring all workers back at the same moment."""
    policy = tidegate.Policy(
        engine=tidegate.Engine(seed=1), retry={"max_attempts": 2, "backoff": {"base": 1000, "max": 1000}}
    )

    def delay() -> int:
        waits: list[int] = []

        def park(lock: Any, us: int) -> None:
            waits.append(us)
            raise KeyboardInterrupt

        policy.engine.park = park  # type: ignore[method-assign]

        def fails() -> None:
            raise ConnectionError

        with pytest.raises(KeyboardInterrupt):
            policy.call(fails)
        return waits[0]

    read, write = os.pipe()
    for _ in range(3):
        in_child(lambda: os.write(write, f"{delay()} ".encode()) and None)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        draws = pipe.read().split()
    assert len(set(draws)) == 3


ERRORS = [
    tidegate.BulkheadFull("m", max_concurrency=1, max_queue=2, acquire_timeout=0.5, reason="queue_full"),
    *(
        kind("m", reason="why", retry_in=2.5, policy="p", route="r")
        for kind in (
            tidegate.TidegateError,
            tidegate.Rejected,
            tidegate.RateLimited,
            tidegate.BreakerOpen,
            tidegate.Throttled,
            tidegate.ForcedOpen,
            tidegate.HoldFull,
            tidegate.StoreUnavailable,
            tidegate.CostAboveBurst,
            tidegate.CallLost,
            tidegate.AttemptTimeout,
            tidegate.DeadlineExceeded,
        )
    ),
    tidegate.PolicyError([("key", "value", "rule")]),
    tidegate.Unsupported([("key", "value", "rule")]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("through", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
def test_errors_keep_what_they_say(error: Any, through: Any) -> None:
    if hasattr(error, "add_note"):
        error.__notes__ = ["tidegate: gave up after 3 attempts"]
    twin = through(error)
    assert type(twin) is type(error)
    assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))
    assert twin.retry_at == error.retry_at if isinstance(error, tidegate.Rejected) else True


def test_the_error_of_a_call_survives_a_pickle(engine: tidegate.Engine) -> None:
    policy = guarded(engine)
    policy.force_open()
    with pytest.raises(tidegate.ForcedOpen) as caught:
        policy.call(int)
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (twin.policy, twin.route, twin.reason) == (policy.name, "default", "forced_open")


def test_callers_keep_what_at_has_said() -> None:
    policy = quick(tidegate.Engine(seed=1), deadline=30, fallback="cached")
    caller = policy.at(
        route="eu", idempotent=False, criticality="critical", deadline=3, cost=2, pass_timeout="timeout"
    )
    weighed = policy.at(weights={"tokens": 7})
    for one in (caller, weighed, policy.at(fallback=None), policy.bulkhead()._caller):
        twin = pickle.loads(pickle.dumps(one))
        for name in ("_route_key", "_flags", "_limit", "_passing", "_urgent", "_bare", "_weights"):
            assert getattr(twin, name) == getattr(one, name)
        assert (twin._fallback is None) == (one._fallback is None)
        assert twin._policy._config == policy._config


def test_a_copy_in_the_process_is_the_policy_itself() -> None:
    policy = quick(tidegate.Engine(seed=1), bulkhead={"max_concurrency": 1})
    for one in (policy, policy.at(route="eu")):
        assert copy.copy(one) is one
        assert copy.deepcopy({"caller": [one]})["caller"][0] is one


def test_a_policy_in_another_process_is_the_same_settings_and_fresh_state() -> None:
    policy = tidegate.Policy(
        "shared", retry={"max_attempts": 2}, bulkhead={"max_concurrency": 1}, hedge={"delay": 1}
    )
    text = pickle.dumps((policy, policy.at(route="eu"))).hex()
    program = (
        "import pickle, sys\n"
        f"policy, eu = pickle.loads(bytes.fromhex({text!r}))\n"
        "with policy.bulkhead():\n"
        "    assert eu.call(int) == 0\n"
        "print(policy, eu._policy is policy, policy.snapshot()['ends'])"
    )

    def another() -> str:
        path = os.pathsep.join(sys.path)
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    with policy.bulkhead():
        assert another() == f"{policy!r} True {{'ok': 2}}"
