"""httpware's "Resilience reference" through the door: budget, bulkheads and what is around them."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
from typing import Any

import pytest

import tidegate
import tidegate.compat.httpware as door
from compat.chain import Chain, Colour, Events, httpware, httpx2, notes, request
from compat.httpware_page import PAGE
from tidegate.testing import FakeClock

says = PAGE.says


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> Colour:
    return Colour(request.param, door)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    return Events(caplog)


def broke() -> door.RetryBudget:
    return door.RetryBudget(min_retries_per_sec=0, percent_can_retry=0)


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
