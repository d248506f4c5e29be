"""The door in httpware's own clients, over the network, in both colours, and on trio."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tidegate
import tidegate.compat.httpware as door
from compat.chain import httpware, httpx2, notes
from conftest import Origin
from tidegate._call.deadline import current
from tidegate.testing import FakeClock


class Client:
    """An httpware client of one colour, with the door's middlewares."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async
        self.engine = tidegate.Engine(seed=3)

    def make(self, kind: str, **settings: Any) -> Any:
        if kind == "Retry":
            settings = {"base_delay": 0.001, "engine": self.engine, **settings}
        return getattr(door, "Async" * self.is_async + kind)(**settings)

    def request(self, url: str, middleware: list[Any], method: str = "GET", body: Any = None) -> Any:
        """The answer's status, or the exception."""
        if not self.is_async:
            with httpware.Client(base_url=url, middleware=middleware) as client:
                try:
                    return client.request(method, "/x", content=body).status_code
                except httpware.ClientError as error:
                    return error

        async def main() -> Any:
            async with httpware.AsyncClient(base_url=url, middleware=middleware) as client:
                try:
                    return (await client.request(method, "/x", content=body)).status_code
                except httpware.ClientError as error:
                    return error

        return asyncio.run(main())

    def stream(self) -> Any:
        async def chunks() -> Any:
            yield b"once"

        return chunks() if self.is_async else iter([b"once"])


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param == "async")


def test_the_canonical_chain(client: Client, origin: Origin) -> None:
    origin.sequence(503, 503, 200)
    chain = [client.make("Bulkhead", max_concurrent=10), client.make("Retry")]
    assert client.request(origin.url, chain) == 200
    assert len(origin.log()) == 3


def test_every_middleware_in_one_chain(client: Client, origin: Origin) -> None:
    origin.sequence(503, 200)
    chain = [client.make("CircuitBreaker"), client.make("KeyedCircuitBreaker")]
    chain += [door.AsyncTimeout(timeout=10.0)] if client.is_async else []
    chain += [client.make("Bulkhead", max_concurrent=1), client.make("Retry")]
    assert client.request(origin.url, chain) == 200
    assert chain[0].state is door.CircuitState.CLOSED


def test_three_answers_and_the_last_is_the_error(client: Client, origin: Origin) -> None:
    origin.sequence(503, 503, 503, 200)
    error = client.request(origin.url, [client.make("Retry")])
    assert type(error) is httpware.ServiceUnavailableError
    assert notes(error) == ["httpware: gave up after 3 attempts"]
    assert len(origin.log()) == 3


def test_a_broken_connection_is_repeated_and_a_post_is_not(client: Client, origin: Origin) -> None:
    origin.sequence({"fault": "reset"}, 200)
    assert client.request(origin.url, [client.make("Retry")]) == 200
    origin.sequence(503, 200)
    error = client.request(origin.url, [client.make("Retry")], "POST", b"order")
    assert type(error) is httpware.ServiceUnavailableError and notes(error) == []
    assert len(origin.log()) == 1


def test_a_body_in_memory_is_sent_again_and_a_stream_is_not(client: Client, origin: Origin) -> None:
    origin.sequence(503, 200)
    assert client.request(origin.url, [client.make("Retry")], "PUT", b"again") == 200
    origin.sequence(503, 200)
    error = client.request(origin.url, [client.make("Retry")], "PUT", client.stream())
    assert notes(error) == [
        "httpware: not retrying — request body is a stream that cannot replay across attempts"
    ]
    assert len(origin.log()) == 1


def test_the_servers_wait_is_kept(client: Client, origin: Origin) -> None:
    clock = FakeClock(autojump=True, threshold=0.05) if client.is_async else FakeClock()
    engine = tidegate.Engine(clock=clock)
    answer = {"status": 429, "headers": [["Retry-After", "3"]]}
    origin.script(sequences={"/x": [answer, {"status": 200}]})
    assert client.request(origin.url, [client.make("Retry", engine=engine)]) == 200
    assert clock.now() == pytest.approx(3.0, abs=0.01)
    origin.script(sequences={"/x": [answer]})
    error = client.request(origin.url, [client.make("Retry", engine=engine, max_delay=2.0)])
    assert type(error) is httpware.RateLimitedError
    assert notes(error) == ["httpware: Retry-After (3.0s) exceeded max_delay (2.0s); giving up"]


def test_a_retry_inside_a_policy_that_retries_does_not_multiply(origin: Origin) -> None:
    origin.sequence(*[503] * 9)
    engine = tidegate.Engine(seed=1)
    outer = tidegate.Policy(
        retry={"max_attempts": 2, "backoff": {"base": 0}},
        classify=lambda value: "transient" if isinstance(value, Exception) else None,
        engine=engine,
    )
    with (
        httpware.Client(base_url=origin.url, middleware=[door.Retry(engine=engine)]) as client,
        pytest.raises(httpware.ServiceUnavailableError),
    ):
        outer.call(client.get, "/x")
    assert len(origin.log()) == 2


@pytest.mark.parametrize("own_sleep", [False, True])
def test_a_call_leaves_no_scope_behind(own_sleep: bool) -> None:
    async def nap(seconds: float) -> None:
        assert seconds > 0

    retry = door.AsyncRetry(base_delay=0.001, **({"_sleep": nap} if own_sleep else {}))
    answers: list[Any] = [httpware.NetworkError("reset"), "ok"]

    async def main() -> None:
        async def send(asked: Any) -> Any:
            assert current() is not None, "inside, calls are nested"
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert await retry(httpx2.Request("GET", "http://api.test/"), send) == "ok"
        assert current() is None

    asyncio.run(main())


def test_a_cancelled_backoff_gives_its_retry_back() -> None:
    clock = FakeClock()
    budget = door.RetryBudget(min_retries_per_sec=0.1, percent_can_retry=0, _now=clock.now)
    retry = door.AsyncRetry(budget=budget, engine=tidegate.Engine(clock=clock), base_delay=5)

    async def main() -> None:
        async def fail(asked: Any) -> Any:
            raise httpware.NetworkError("reset")

        task = asyncio.ensure_future(retry(httpx2.Request("GET", "http://api.test/"), fail))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not budget.try_withdraw(), "the retry is paid for before it waits"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert budget.try_withdraw(), "and given back"


def test_the_doors_work_on_trio() -> None:
    import trio

    from tidegate.compat.hawkapi import Bulkhead, LocalBulkheadBackend

    calls = []

    async def main() -> None:
        async def answer(asked: Any) -> Any:
            calls.append(1)
            if len(calls) < 3:
                raise httpware.NetworkError("reset")
            return "ok"

        chain = door.AsyncBulkhead(max_concurrent=1)
        retry = door.AsyncRetry(base_delay=0.001)
        asked = httpx2.Request("GET", "http://api.test/")
        assert await chain(asked, lambda onward: retry(onward, answer)) == "ok"
        pool = Bulkhead("trio", limit=1, max_wait=5.0, backend=LocalBulkheadBackend())
        order = []

        async def enter(number: int) -> None:
            async with pool:
                order.append(number)
                await trio.sleep(0.001)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(enter, number)
        assert sorted(order) == [0, 1, 2]

    trio.run(main)
    assert len(calls) == 3
