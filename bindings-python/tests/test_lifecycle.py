"""Policies come and go: what nobody holds is freed, what somebody holds keeps what it owes."""

from __future__ import annotations

import asyncio
import gc
import threading
import types
import warnings
import weakref

import pytest

import tidegate
from tidegate.testing import FakeClock


@pytest.fixture
def engine() -> tidegate.Engine:
    return tidegate.Engine(seed=1, clock=FakeClock(), logs=False)


def run(module: types.ModuleType, source: str) -> None:
    """One run of a module's code, or of a notebook's cell."""
    exec(compile(source, module.__name__, "exec"), module.__dict__)


@pytest.fixture
def module(engine: tidegate.Engine) -> types.ModuleType:
    made = types.ModuleType("notebook")
    made.__dict__.update(engine=engine, tidegate=tidegate)
    return made


CELL = (
    "orders = tidegate.Policy('orders', deadline={}, rate_limit={{'permits': 2, 'per': 3600}}, engine=engine)"
)


def test_thousands_of_policies_leave_none(engine: tidegate.Engine) -> None:
    gc.disable()
    try:
        for n in range(5_000):
            assert tidegate.Policy(deadline=1 + n, retry={"max_attempts": 2}, engine=engine).call(int) == 0
        assert engine.snapshot()["policies"] == {}
        assert engine.snapshot()["routes"] == []
        assert not engine.shared
    finally:
        gc.enable()


def test_a_policy_is_freed_when_its_last_caller_is(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(deadline=5, engine=engine)
    caller = policy.at(route="eu")
    gone = weakref.ref(policy)
    del policy
    assert caller.call(int) == 0 and gone() is not None
    del caller
    gc.collect()
    assert gone() is None and names(engine) == []


def test_a_call_under_way_holds_its_policy(engine: tidegate.Engine) -> None:
    def look() -> list[str]:
        gc.collect()
        return names(engine)

    assert tidegate.Policy("brief", deadline=5, engine=engine).call(look) == ["brief"]


def names(engine: tidegate.Engine) -> list[str]:
    return list(engine.snapshot()["policies"])


def test_a_named_policy_that_is_made_for_each_request_keeps_its_limit(engine: tidegate.Engine) -> None:
    def request() -> int:
        return tidegate.Policy("orders", rate_limit={"permits": 2, "per": 3600}, engine=engine).call(int)

    assert request() == request() == 0
    with pytest.raises(tidegate.RateLimited):
        request()


def test_two_owners_that_disagree_are_told_the_way_out(engine: tidegate.Engine) -> None:
    def define(deadline: float) -> tidegate.Policy:
        return tidegate.Policy("orders", deadline=deadline, engine=engine)

    first = define(10)
    with pytest.raises(tidegate.PolicyError, match=r"`retune` that one .* or give this one another name"):
        define(5)
    del first
    assert define(5)._config["deadline"] == 5  # nobody else holds it


def test_a_cell_that_runs_again_retunes_and_says_so(
    module: types.ModuleType, engine: tidegate.Engine
) -> None:
    run(module, CELL.format(10))
    module.orders.call(int)
    with pytest.warns(
        UserWarning, match="policy 'orders' is defined again in notebook, with other settings"
    ) as told:
        run(module, CELL.format(5))
    assert told[0].filename == "notebook"
    assert module.orders._config["deadline"] == 5
    module.orders.call(int)
    with pytest.raises(tidegate.RateLimited):
        module.orders.call(int)  # the budget was not refilled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(module, CELL.format(5))  # the same settings: nothing to say
        run(module, "del orders")
        run(module, CELL.format(7))  # nobody holds it
    assert names(engine) == ["orders"]


def test_one_run_that_defines_a_name_twice_is_told(module: types.ModuleType) -> None:
    twice = CELL.format(10) + "\nother = tidegate.Policy('orders', deadline=1, engine=engine)"
    with pytest.raises(tidegate.PolicyError, match="another name"):
        run(module, twice)


def test_another_module_is_another_owner(module: types.ModuleType, engine: tidegate.Engine) -> None:
    run(module, CELL.format(10))
    other = types.ModuleType("elsewhere")
    other.__dict__.update(module.__dict__ | {"__name__": "elsewhere"})
    with pytest.raises(tidegate.PolicyError, match="another name"):
        run(other, CELL.format(5))


def test_a_pool_that_is_defined_again_is_retuned(module: types.ModuleType) -> None:
    cell = "db = tidegate.Pool('db', bulkhead={{'max_concurrency': {}}}, engine=engine)"
    run(module, cell.format(4))
    with pytest.warns(UserWarning, match="pool 'db' is defined again in notebook"):
        run(module, cell.format(8))
    assert module.db.snapshot()["pool"]["limit"] == 8
    with pytest.raises(tidegate.PolicyError):
        tidegate.Pool("db", bulkhead={"max_concurrency": 2}, engine=module.engine)


def test_a_document_that_is_dropped_lets_its_policies_go(engine: tidegate.Engine) -> None:
    policies = tidegate.loads("[policy.charges]\ndeadline = '10s'", engine=engine)
    policies["charges"].call(int)
    policies.reload("[policy.charges]\ndeadline = '5s'\n[policy.refunds]\ndeadline = '1s'")
    with pytest.raises(tidegate.PolicyError, match="`reload` its document"):
        tidegate.loads("[policy.charges]\ndeadline = '7s'", engine=engine)["charges"]
    del policies
    assert tidegate.loads("[policy.charges]\ndeadline = '7s'", engine=engine)["charges"].call(int) == 0


def test_threads_that_make_and_drop_policies_leave_none(engine: tidegate.Engine) -> None:
    def make() -> None:
        for n in range(300):
            tidegate.Policy(deadline=1 + n, engine=engine).call(int)
            tidegate.Policy("shared", deadline=1, engine=engine).call(int)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert names(engine) == ["shared"]


def test_a_policy_that_could_not_be_made_leaves_nothing(engine: tidegate.Engine) -> None:
    for _ in range(3):
        with pytest.raises(tidegate.PolicyError):
            tidegate.Policy("wrong", deadline=-1, engine=engine)
        with pytest.raises(TypeError):
            tidegate.Policy("wrong", nonsense=1, engine=engine)  # type: ignore[call-arg]
    assert names(engine) == []


def test_event_loops_that_come_and_go_are_freed() -> None:
    """A timer that is set when its loop is closed keeps the loop: at most one is left, until the next."""
    engine = tidegate.Engine(seed=1)
    policy = tidegate.Policy(deadline=30, engine=engine)
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def work() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.sleep(0)

    for _ in range(5):
        asyncio.run(policy.acall(work))
    gc.collect()
    assert [loop() is None for loop in loops[:-1]] == [True] * 4
    assert len(engine.timers) == 1


def test_an_owner_whose_method_is_on_retry_goes_with_its_policy(engine: tidegate.Engine) -> None:
    class Client:
        def __init__(self) -> None:
            retry = {"max_attempts": 2, "backoff": {"base": 0}}
            self.retries: list[tidegate.Retrying] = []
            self.policy = tidegate.Policy(retry=retry, on_retry=self.log, engine=engine)

        def log(self, event: tidegate.Retrying) -> None:
            self.retries.append(event)

    def fail() -> None:
        raise ConnectionError

    client = Client()
    with pytest.raises(ConnectionError):
        client.policy.call(fail)
    assert len(client.retries) == 1
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None
    assert names(engine) == []
