"""HawkAPI's page about bulkheads (seed 002), sentence by sentence, through `tidegate.compat.hawkapi`.

 1  a bulkhead is a named, size-limited concurrency isolator
 2  one saturated downstream cannot starve others
 3  compose them: rate limit, adaptive limit and bulkhead do different things
 4  async with bulkhead: …; except BulkheadFullError: another way
 5  limit=10: at most 10 concurrent calls
 6  max_wait=0.5: wait up to 500 ms for a slot; raise on timeout
 7  max_wait=0.0 (default): fail fast
 8  the decorator caps an endpoint's concurrency
 9  on rejection the handler raises HTTPException(503) with a Retry-After header
10  override status_code=429
11  distributed bulkheads: backend=RedisBulkheadBackend (`test_hawkapi_fleet.py`)
12  metrics per bulkhead: metrics=True
13  hawkapi_bulkhead_in_flight{name}: gauge of currently-held slots
14  hawkapi_bulkhead_capacity{name}: gauge = configured limit
15  hawkapi_bulkhead_rejections_total{name, reason}: fail_fast, timeout
16  hawkapi_bulkhead_acquire_latency_seconds{name}: histogram
17  metrics are off by default; prometheus_client is not imported unless one asks for them
18  same name with different limit raises ValueError
19  fairness is not guaranteed (differs: waiters are served in order)
20  nested same-name acquires in the same task work, but can deadlock if limit is too small
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import pickle
import subprocess
import sys
import threading
import types
from typing import Any

import pytest

import tidegate
from compat import test_hawkapi_fleet
from compat.pages import page_of
from tidegate.compat.hawkapi import Bulkhead, BulkheadFullError, HTTPException, LocalBulkheadBackend, bulkhead
from tidegate.testing import FakeClock

PAGE = page_of(__doc__)
says = PAGE.says


@pytest.fixture
def apart(fake: tidegate.Engine) -> LocalBulkheadBackend:
    """Slots of this test alone, on its clock."""
    return LocalBulkheadBackend(fake)


@says(1, 5)
def test_at_most_so_many_at_once(apart: LocalBulkheadBackend) -> None:
    pool = Bulkhead("stripe", limit=3, max_wait=60, backend=apart)
    assert (pool.name, pool.limit) == ("stripe", 3)
    running = most = 0

    async def charge() -> None:
        nonlocal running, most
        async with pool:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    async def main() -> None:
        await asyncio.gather(*(charge() for _ in range(20)))

    asyncio.run(main())
    assert most == 3


@says(2)
def test_a_saturated_name_starves_no_other(apart: LocalBulkheadBackend) -> None:
    async def main() -> None:
        async with Bulkhead("stripe", limit=1, backend=apart):
            with pytest.raises(BulkheadFullError):
                async with Bulkhead("stripe", limit=1, backend=apart):
                    pass
            async with Bulkhead("mail", limit=1, backend=apart):
                pass

    asyncio.run(main())


@says(3)
def test_it_composes_with_the_other_limits(fake: tidegate.Engine, apart: LocalBulkheadBackend) -> None:
    everybody = tidegate.Policy(rate_limit={"permits": 3, "per": 1.0}, engine=fake)
    service = tidegate.Policy(
        bulkhead={"kind": "aimd", "max_concurrency": 5, "latency_threshold": 1.0}, engine=fake
    )

    @everybody
    @service
    @bulkhead("report", limit=1, backend=apart)
    def report(inner: Any) -> Any:
        return inner() if inner else "done"

    def again() -> Any:
        with pytest.raises(HTTPException):
            report(None)
        return "one at once"

    assert report(again) == "one at once"
    assert report(None) == "done"
    with pytest.raises(tidegate.RateLimited):
        report(None)


@says(4, 7)
def test_full_it_fails_at_once_and_says_so(apart: LocalBulkheadBackend) -> None:
    async def main() -> BulkheadFullError:
        async with Bulkhead("stripe", 2, backend=apart), Bulkhead("stripe", 2, backend=apart):
            try:
                async with Bulkhead("stripe", 2, backend=apart):
                    raise AssertionError("a third slot")
            except BulkheadFullError as full:
                return full

    error = asyncio.run(main())
    assert (error.name, error.limit, error.waited) == ("stripe", 2, 0.0)
    assert str(error) == "bulkhead 'stripe' full (limit=2, waited=0.000s)"
    assert isinstance(error, tidegate.BulkheadFull) and error.max_concurrency == 2
    for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(same), same.waited) == (str(error), 0.0)


@says(6)
def test_it_waits_so_long_and_no_longer(apart: LocalBulkheadBackend, clock: FakeClock) -> None:
    pool = Bulkhead("stripe", limit=1, max_wait=0.5, backend=apart)

    async def hold(seconds: float) -> float:
        async with pool:
            got = clock.now()
            await clock.sleep(seconds)
            return got

    async def main() -> None:
        tasks = [asyncio.ensure_future(hold(seconds)) for seconds in (0.4, 0.5, 9)]
        await clock.advance(0.45)
        assert not tasks[2].done()
        await clock.advance(0.1)
        assert (await tasks[0], tasks[1].done()) == (0.0, False)
        with pytest.raises(BulkheadFullError) as full:
            await tasks[2]
        assert full.value.waited == 0.5 and str(full.value).endswith("waited=0.500s)")
        await clock.advance(1)
        assert await tasks[1] == 0.4

    asyncio.run(main())


@says(8, 9)
def test_a_decorated_endpoint_answers_503_when_it_is_full(apart: LocalBulkheadBackend) -> None:
    @bulkhead("payments", limit=1, backend=apart)
    async def pay(amount: int, *, currency: str = "EUR", inner: Any = None) -> str:
        """Takes a payment."""
        if inner is not None:
            return str(await inner())
        return f"{amount} {currency}"

    assert (pay.__name__, pay.__doc__) == ("pay", "Takes a payment.")
    assert inspect.iscoroutinefunction(pay)
    assert asyncio.run(pay(3, currency="USD")) == "3 USD"
    with pytest.raises(HTTPException) as full:
        asyncio.run(pay(3, inner=lambda: pay(4)))
    error = full.value
    assert (error.status_code, error.detail, error.headers) == (503, "bulkhead_full", {"Retry-After": "1"})
    assert isinstance(error.__cause__, BulkheadFullError)
    assert pickle.loads(pickle.dumps(error)).headers == error.headers
    assert asyncio.run(pay(5)) == "5 EUR", "the slot is free again"


@says(9, 10)
@pytest.mark.parametrize(("seconds", "header"), [(0, "1"), (1.0, "1"), (1.0001, "2"), (2.5, "3"), (60, "60")])
def test_status_and_retry_after_are_ones_own(
    apart: LocalBulkheadBackend, seconds: float, header: str
) -> None:
    @bulkhead("payments", limit=1, status_code=429, retry_after=seconds, backend=apart)
    def pay(inner: Any) -> Any:
        return inner(None) if inner else "paid"

    assert pay(None) == "paid", "also where the endpoint is not async"
    with pytest.raises(HTTPException) as full:
        pay(pay)
    assert (full.value.status_code, full.value.headers) == (429, {"Retry-After": header})


@says(9)
def test_another_bulkheads_refusal_is_not_this_endpoints(apart: LocalBulkheadBackend) -> None:
    inner = Bulkhead("inner", limit=1, backend=apart)

    @bulkhead("outer", limit=1, backend=apart)
    async def endpoint() -> None:
        async with inner:
            raise AssertionError("a second slot")

    async def main() -> None:
        async with inner:
            with pytest.raises(BulkheadFullError) as full:
                await endpoint()
            assert full.value.name == "inner"

    asyncio.run(main())


@says(9)
def test_the_answer_is_hawkapis_own_exception_where_that_is_imported(
    apart: LocalBulkheadBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Theirs(Exception):
        def to_response(self) -> Any:
            return self.status_code, self.headers  # type: ignore[attr-defined]

    module = types.ModuleType("hawkapi.exceptions")
    module.HTTPException = Theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hawkapi.exceptions", module)

    @bulkhead("both", limit=1, backend=apart)
    def endpoint(inner: Any) -> Any:
        return inner(None) if inner else None

    with pytest.raises(Theirs) as full:
        endpoint(endpoint)
    assert isinstance(full.value, HTTPException)
    assert full.value.to_response() == (503, {"Retry-After": "1"})


def test_a_backend_is_one_of_ours() -> None:
    with pytest.raises(tidegate.Unsupported, match=r"backend = .*: must be a LocalBulkheadBackend"):
        Bulkhead("fleet", 1, backend=object())  # type: ignore[arg-type]


def sample(series: str, **labels: str) -> float | None:
    prometheus = importlib.import_module("prometheus_client")
    value: float | None = prometheus.REGISTRY.get_sample_value(f"hawkapi_bulkhead_{series}", labels)
    return value


@says(12, 13, 14, 15, 16)
def test_metrics_follow_each_bulkhead(apart: LocalBulkheadBackend, clock: FakeClock) -> None:
    quick = Bulkhead("quick", limit=2, metrics=True, backend=apart)
    slow = Bulkhead("slow", limit=1, max_wait=2.0, metrics=True, backend=apart)
    assert sample("capacity", name="quick") == 2 and sample("in_flight", name="quick") == 0

    async def main() -> None:
        async with quick, quick:
            assert sample("in_flight", name="quick") == 2
            for _ in range(3):
                with pytest.raises(BulkheadFullError):
                    await quick.__aenter__()
        assert sample("in_flight", name="quick") == 0
        async with slow:
            late = asyncio.ensure_future(slow.__aenter__())
            await clock.advance(2.5)
            with pytest.raises(BulkheadFullError):
                await late
        with pytest.raises(ZeroDivisionError):
            async with slow:
                raise ZeroDivisionError
        task = asyncio.ensure_future(forever())
        await asyncio.sleep(0)
        assert sample("in_flight", name="slow") == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sample("in_flight", name="slow") == 0

    async def forever() -> None:
        async with slow:
            await asyncio.Event().wait()

    asyncio.run(main())
    assert sample("rejections_total", name="quick", reason="fail_fast") == 3
    assert sample("rejections_total", name="quick", reason="timeout") is None
    assert sample("rejections_total", name="slow", reason="timeout") == 1
    assert sample("acquire_latency_seconds_count", name="quick") == 5
    assert sample("acquire_latency_seconds_count", name="slow") == 4
    assert sample("acquire_latency_seconds_sum", name="slow") == 2.0


@says(17)
def test_prometheus_is_imported_when_somebody_asks_for_it() -> None:
    program = """
import sys
from tidegate.compat.hawkapi import Bulkhead
with Bulkhead("stripe", limit=1):
    pass
assert not {"prometheus_client", "hawkapi", "asyncio"} & set(sys.modules)
sys.modules["prometheus_client"] = None
try:
    Bulkhead("mail", limit=1, metrics=True)
except ImportError as error:
    assert "pip install prometheus-client" in str(error)
    print("told")
"""
    import os

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert (done.stdout.strip(), done.stderr) == ("told", "")


@says(18)
def test_a_name_has_one_limit() -> None:
    apart = LocalBulkheadBackend()
    Bulkhead("dup", limit=2, backend=apart)
    with pytest.raises(ValueError, match=r"^bulkhead 'dup' already registered with limit=2, got limit=3$"):
        Bulkhead("dup", limit=3, backend=apart)
    with pytest.raises(ValueError, match="already registered"):
        bulkhead("dup", limit=1, backend=apart)
    assert Bulkhead("dup", limit=2, max_wait=1.0, backend=apart).limit == 2, "patience is each one's own"
    assert Bulkhead("dup", limit=3, backend=LocalBulkheadBackend()).limit == 3
    Bulkhead("the process's own", limit=1)
    with pytest.raises(ValueError, match="already registered"):
        Bulkhead("the process's own", limit=2)


def test_a_backend_hands_out_slots_itself(apart: LocalBulkheadBackend) -> None:
    async def main() -> None:
        for _ in range(2):
            assert await apart.acquire("direct", limit=2, max_wait=0.0) is None
        with pytest.raises(BulkheadFullError) as full:
            await apart.acquire("direct", limit=2, max_wait=0.0)
        assert (full.value.name, full.value.limit) == ("direct", 2)
        with pytest.raises(BulkheadFullError):
            Bulkhead("direct", limit=2, backend=apart).__enter__()
        await apart.release("direct", None)
        async with Bulkhead("direct", limit=2, backend=apart):
            pass
        await apart.release("direct")
        with pytest.raises(RuntimeError, match="no slot of it is held"):
            await apart.release("direct")
        with pytest.raises(ValueError, match="already registered with limit=2"):
            await apart.acquire("direct", limit=3, max_wait=0.0)

    asyncio.run(main())


def test_what_a_plain_function_returns_is_awaited_in_a_slot(apart: LocalBulkheadBackend) -> None:
    running = most = 0

    async def pay() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "paid"

    class Payment:
        async def __call__(self) -> str:
            return await pay()

    def wrapped() -> Any:
        return pay()

    async def answers(handler: Any) -> list[Any]:
        return await asyncio.gather(*(handler() for _ in range(3)), return_exceptions=True)

    for number, endpoint in enumerate((wrapped, Payment())):
        limited = bulkhead(f"pay {number}", limit=1, max_wait=0, backend=apart)(endpoint)
        paid, *refused = asyncio.run(answers(limited))
        assert (paid, [str(error) for error in refused]) == ("paid", ["bulkhead_full"] * 2)
        assert most == 1


def test_a_generator_has_to_take_its_slot_itself(apart: LocalBulkheadBackend) -> None:
    def rows() -> Any:
        yield 1

    async def pieces() -> Any:
        yield 1

    for endpoint in (rows, pieces):
        with pytest.raises(TypeError, match="is a generator, which runs after it has been called"):
            bulkhead("rows", limit=1, backend=apart)(endpoint)


def test_waits_that_a_program_computes_take_no_memory(apart: LocalBulkheadBackend) -> None:
    async def main() -> None:
        async with Bulkhead("stripe", limit=1, backend=apart):
            for number in range(3000):
                with pytest.raises(BulkheadFullError):
                    await apart.acquire("stripe", limit=1, max_wait=number * 1e-12)
        for number in range(3000):
            await apart.acquire("stripe", limit=1, max_wait=1 + number * 1e-6)
            await apart.release("stripe")

    asyncio.run(main())
    assert len(apart._starts) == 1024


@says(19)
def test_waiters_are_served_in_order(apart: LocalBulkheadBackend) -> None:
    pool = Bulkhead("queue", limit=1, max_wait=60, backend=apart)
    order = []

    async def enter(number: int) -> None:
        async with pool:
            order.append(number)
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(enter(number) for number in range(10)))

    asyncio.run(main())
    assert order == list(range(10))


@says(20)
def test_a_slot_within_a_slot_is_a_second_one(apart: LocalBulkheadBackend, clock: FakeClock) -> None:
    async def nested(limit: int, max_wait: float) -> str:
        pool = Bulkhead(f"n{limit}", limit=limit, max_wait=max_wait, backend=apart)
        async with pool, pool:
            return "both"

    async def main() -> None:
        assert await nested(2, 0.0) == "both"
        with pytest.raises(BulkheadFullError):
            await nested(1, 0.0)
        task = asyncio.ensure_future(nested(1, 5.0))
        await clock.advance(6)
        with pytest.raises(BulkheadFullError):
            await task  # locked up for no longer than its patience

    asyncio.run(main())


@says(1, 5)
def test_threads_and_loops_share_the_slots() -> None:
    pool = Bulkhead("both", limit=1, max_wait=10.0, backend=LocalBulkheadBackend())
    inside = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with pool:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)

    async def main() -> str:
        asyncio.get_running_loop().call_later(0.02, leave.set)
        async with pool:
            return "after the thread"

    assert asyncio.run(main()) == "after the thread"
    thread.join()


@says(1)
def test_leaving_needs_no_order_no_task_and_no_context(apart: LocalBulkheadBackend) -> None:
    pool = Bulkhead("loose", limit=2, backend=apart)

    async def main() -> None:
        await asyncio.ensure_future(pool.__aenter__())
        async with pool:
            await asyncio.ensure_future(pool.__aexit__(None, None, None))
        async with pool, pool:
            pass
        with pytest.raises(RuntimeError, match="unpaired release of bulkhead 'loose'"):
            await pool.__aexit__(None, None, None)

    asyncio.run(main())


@says(6)
def test_a_deadline_around_it_holds(apart: LocalBulkheadBackend, clock: FakeClock) -> None:
    pool = Bulkhead("patient", limit=1, max_wait=float("inf"), backend=apart)

    async def main() -> None:
        async with pool:

            async def late() -> None:
                with tidegate.deadline(2.0):
                    async with pool:
                        raise AssertionError("a second slot")

            task = asyncio.ensure_future(late())
            await clock.advance(3)
            with pytest.raises(tidegate.DeadlineExceeded):
                await task

    asyncio.run(main())


@says(6)
def test_it_keeps_to_the_deadline_of_the_call_around_it(
    fake: tidegate.Engine, apart: LocalBulkheadBackend, clock: FakeClock
) -> None:
    pool = Bulkhead("patient", limit=1, max_wait=60, backend=apart)
    around = tidegate.Policy(deadline=2.0, engine=fake)

    def endpoint() -> None:
        with pool:
            raise AssertionError("a second slot")

    with pool, pytest.raises(tidegate.DeadlineExceeded):
        around.call(endpoint)
    assert clock.now() == 2.0


@pytest.mark.parametrize(
    ("wrong", "says_so"),
    [
        ({"limit": 0}, "limit must be >= 1, got 0"),
        ({"limit": 1.5}, "limit must be a whole number >= 1, got 1.5"),
        ({"max_wait": -0.1}, "max_wait must be >= 0, got -0.1"),
        ({"max_wait": float("nan")}, "max_wait must be >= 0, got nan"),
        ({"name": ""}, "name must be a string of 1 to 90 bytes, got ''"),
        ({"name": 7}, "name must be a string of 1 to 90 bytes, got 7"),
        ({"retry_after": -1}, "retry_after must be a finite number >= 0, got -1"),
        ({"status_code": 200}, "status_code must be from 400 to 599, got 200"),
    ],
)
@says(8, 6)
def test_what_is_wrong_is_named(apart: LocalBulkheadBackend, wrong: dict[str, Any], says_so: str) -> None:
    with pytest.raises(ValueError, match=says_so):
        bulkhead(**{"name": "x", "limit": 1, "backend": apart, **wrong})


says(test_hawkapi_fleet.SENTENCE)(test_hawkapi_fleet.test_processes_share_the_slots_of_a_name)


def test_no_sentence_is_missing() -> None:
    assert len(PAGE.sentences) == 20
    assert PAGE.unshown() == {}
