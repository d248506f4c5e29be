"""gRPC channels under a policy, of `grpc` and `grpc.aio`, against a real server."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

import tidegate
import tidegate.grpc

grpc.aio.init_grpc_aio()  # its poller belongs to the process, not to the first test with a channel

Code = grpc.StatusCode
AT_ONCE: dict[str, Any] = {
    "max_attempts": 3,
    "backoff": {"base": 0.001, "max": 0.001},
    "max_retry_after": 1,
    "budget": None,
}


class Service:
    """A server whose methods answer what `plan` says: a status, a pair of it and metadata, or bytes."""

    def __init__(self) -> None:
        self.plan: list[Any] = []
        self.left: list[float | None] = []
        self.metadata: list[dict[str, Any]] = []
        self.hold = threading.Event()
        kinds = {
            "Get": grpc.unary_unary_rpc_method_handler(self.get),
            "List": grpc.unary_stream_rpc_method_handler(self.list),
            "Put": grpc.stream_unary_rpc_method_handler(self.put),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
        }
        self.pool = ThreadPoolExecutor(4)
        self.server = grpc.server(self.pool)
        self.server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Orders", kinds)])
        self.target = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def step(self, context: Any) -> Any:
        self.left.append(context.time_remaining())
        self.metadata.append(dict(context.invocation_metadata()))
        told = self.plan.pop(0) if self.plan else b"ok"
        if isinstance(told, tuple):
            context.set_trailing_metadata(told[1])
            told = told[0]
        if isinstance(told, Code):
            context.abort(told, "planned")
        if told == b"hang":
            self.hold.wait(10)
        return told

    def get(self, request: bytes, context: Any) -> Any:
        return self.step(context)

    def list(self, request: bytes, context: Any) -> Iterator[bytes]:
        yield b"first"
        yield self.step(context)

    def put(self, requests: Any, context: Any) -> Any:
        sent = b"".join(requests)
        return sent + self.step(context)

    def chat(self, requests: Any, context: Any) -> Iterator[bytes]:
        for request in requests:
            yield request.upper()
        self.step(context)

    def close(self) -> None:
        self.hold.set()
        self.server.stop(None).wait(10)
        self.pool.shutdown()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


class Sync:
    """Stubs of a channel of `grpc`."""

    rpc_error: Any = grpc.RpcError

    def __init__(self, service: Service, policy: tidegate.Policy | None, **more: Any) -> None:
        channel = grpc.insecure_channel(service.target)
        self.raw, self.channel = (
            channel,
            grpc.intercept_channel(channel, tidegate.grpc.Interceptor(policy, **more)),
        )

    def get(self, request: bytes = b"7", **how: Any) -> Any:
        return self.channel.unary_unary("/Orders/Get")(request, **how)

    def list(self, **how: Any) -> list[bytes]:
        return list(self.channel.unary_stream("/Orders/List")(b"", **how))

    def put(self, *requests: bytes) -> Any:
        return self.channel.stream_unary("/Orders/Put")(iter(requests))

    def chat(self, *requests: bytes) -> list[bytes]:
        return list(self.channel.stream_stream("/Orders/Chat")(iter(requests)))

    def close(self) -> None:
        self.raw.close()


class Async:
    """The same of `grpc.aio`."""

    rpc_error: Any = grpc.aio.AioRpcError

    def __init__(self, service: Service, policy: tidegate.Policy | None, **more: Any) -> None:
        self.loop = asyncio.new_event_loop()

        async def opening() -> Any:
            guarded = tidegate.grpc.aio_interceptors(policy, **more)
            return grpc.aio.insecure_channel(service.target, interceptors=guarded)

        self.channel: Any = self.loop.run_until_complete(opening())

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(call())

    def get(self, request: bytes = b"7", **how: Any) -> Any:
        async def call() -> Any:
            return await self.channel.unary_unary("/Orders/Get")(request, **how)

        return self.run(call)

    def list(self, **how: Any) -> Any:
        async def call() -> Any:
            return [it async for it in self.channel.unary_stream("/Orders/List")(b"", **how)]

        return self.run(call)

    def put(self, *requests: bytes) -> Any:
        async def call() -> Any:
            stream = self.channel.stream_unary("/Orders/Put")()
            for request in requests:
                await stream.write(request)
            await stream.done_writing()
            return await stream

        return self.run(call)

    def chat(self, *requests: bytes) -> Any:
        async def call() -> Any:
            return [it async for it in self.channel.stream_stream("/Orders/Chat")(iter(requests))]

        return self.run(call)

    def close(self) -> None:
        async def closing() -> None:
            await self.channel.close()

        self.run(closing)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


@pytest.fixture(params=[Sync, Async], ids=["grpc", "grpc.aio"])
def client(request: pytest.FixtureRequest, service: Service) -> Iterator[Any]:
    opened: list[Any] = []

    def opening(policy: tidegate.Policy | None, **more: Any) -> Any:
        opened.append(request.param(service, policy, **more))
        return opened[-1]

    yield opening
    for one in opened:
        one.close()


def ends(policy: tidegate.Policy) -> dict[str, int]:
    """How calls ended. A stream's end reaches the policy from a thread of gRPC's."""
    until = time.monotonic() + 10
    while policy.engine.snapshot()["live"] and time.monotonic() < until:
        time.sleep(0.005)
    return policy.snapshot()["ends"]


def test_a_unary_call_is_repeated_by_its_status(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    service.plan = [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, b"order"]
    policy = tidegate.Policy("orders", retry=AT_ONCE, deadline=30, engine=engine)
    assert client(policy).get(metadata=(("tenant", "t1"),)) == b"order"
    assert (policy.snapshot()["attempts"], ends(policy)) == (3, {"ok": 1})
    assert [it.get("retry-attempt") for it in service.metadata] == [None, "1", "2"]
    assert all(it["tenant"] == "t1" for it in service.metadata)
    assert all(it is not None and 0 < it < 31 for it in service.left)


def test_the_last_failure_is_grpcs_own_with_a_note(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, engine=engine)
    it = client(policy)
    service.plan = [Code.UNAVAILABLE] * 3
    with pytest.raises(it.rpc_error) as raised:
        it.get()
    assert (raised.value.code(), raised.value.details()) == (Code.UNAVAILABLE, "planned")
    service.plan = [Code.INVALID_ARGUMENT]
    with pytest.raises(it.rpc_error) as raised:
        it.get()
    assert raised.value.code() is Code.INVALID_ARGUMENT
    assert ends(policy) == {"attempts": 1, "not_retryable": 1}


def test_pushback_says_when_to_come_back_or_not_to(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, engine=engine)
    it = client(policy)
    service.plan = [(Code.UNAVAILABLE, (("grpc-retry-pushback-ms", "-1"),))]
    with pytest.raises(it.rpc_error):
        it.get()
    assert policy.snapshot()["attempts"] == 1
    service.plan = [(Code.UNAVAILABLE, (("grpc-retry-pushback-ms", "60"),)), b"later"]
    started = time.monotonic()
    assert it.get() == b"later"
    assert time.monotonic() - started >= 0.06


def test_a_method_that_may_not_be_repeated_is_not(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, engine=engine)
    asked: list[str] = []

    def idempotent(method: str) -> bool:
        asked.append(method)
        return not method.endswith("/Get")

    it = client(policy, idempotent=idempotent)
    service.plan = [Code.UNAVAILABLE]
    with pytest.raises(it.rpc_error):
        it.get()
    assert (asked, ends(policy)) == (["/Orders/Get"], {"method": 1})


def test_the_time_of_a_call_is_its_deadline(client: Any, service: Service, engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, deadline=60, engine=engine)
    it = client(policy)
    service.plan = [b"hang"]
    started = time.monotonic()
    with pytest.raises(it.rpc_error) as raised:
        it.get(timeout=0.2)
    assert raised.value.code() is Code.DEADLINE_EXCEEDED
    assert 0.19 < time.monotonic() - started < 9
    service.hold.set()
    with pytest.raises(it.rpc_error) as raised, tidegate.deadline(0):
        it.get()
    assert isinstance(raised.value, tidegate.DeadlineExceeded)
    assert raised.value.code() is Code.DEADLINE_EXCEEDED
    assert len(service.left) == 1


def test_the_deadline_that_a_stream_sends_is_the_engines(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    """The earliest of the policy's, the call's and that around it, also after a change of the policy's."""
    policy = tidegate.Policy("orders", retry=AT_ONCE, attempt_timeout=0.5, deadline=30, engine=engine)
    it = client(policy)
    assert it.list() == [b"first", b"ok"]
    assert it.list(timeout=7) == [b"first", b"ok"]
    with tidegate.deadline(4):
        assert it.list(timeout=7) == [b"first", b"ok"]
    policy.retune(retry=AT_ONCE, deadline=3)
    assert it.list() == [b"first", b"ok"]
    policy.retune(retry=AT_ONCE)
    assert it.list() == [b"first", b"ok"]
    *bounded, unbounded = service.left
    for left, given in zip(bounded, (30, 7, 4, 3), strict=True):
        assert left is not None and given - 2 < left < given + 1
    assert unbounded is None or unbounded > 86_400


def test_an_attempt_that_hangs_is_repeated(client: Any, service: Service, engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, attempt_timeout=0.5, deadline=30, engine=engine)
    service.plan = [b"hang", b"second"]
    assert client(policy).get() == b"second"
    assert service.left[0] is not None and service.left[0] < 0.6


def test_refusals_are_errors_of_grpc(client: Any, service: Service, engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("orders", rate_limit={"permits": 1, "per": 60}, engine=engine)
    it = client(policy)
    assert it.get() == b"ok"
    with pytest.raises(it.rpc_error) as raised:
        it.get()
    error = raised.value
    assert isinstance(error, tidegate.RateLimited)
    assert (error.code(), error.trailing_metadata()) == (Code.RESOURCE_EXHAUSTED, None)
    assert "rate limit is used up" in error.details()
    again = pickle.loads(pickle.dumps(error))
    assert (again.code(), type(again).__name__, again.policy) == (error.code(), "RateLimited", "orders")
    policy.force_open()
    with pytest.raises(it.rpc_error) as raised:
        it.get()
    assert raised.value.code() is Code.UNAVAILABLE and raised.value.reason == "forced_open"
    with pytest.raises(it.rpc_error):
        it.list()
    assert len(service.left) == 1


def test_a_breaker_counts_statuses(client: Any, service: Service, engine: tidegate.Engine) -> None:
    breaker = {"consecutive": 2, "break_duration": 60}
    policy = tidegate.Policy("orders", breaker=breaker, engine=engine)
    it = client(policy, route="eu")
    service.plan = [Code.NOT_FOUND, Code.INTERNAL, Code.UNAVAILABLE]
    for _ in range(3):
        with pytest.raises(it.rpc_error):
            it.get()
    with pytest.raises(tidegate.BreakerOpen):
        it.get()
    assert list(policy.snapshot()["routes"]) == ["eu"]


def test_streams_are_made_once_and_judged_at_their_end(
    client: Any, service: Service, engine: tidegate.Engine
) -> None:
    policy = tidegate.Policy(
        "orders", retry=AT_ONCE, breaker={"consecutive": 2, "break_duration": 60}, engine=engine
    )
    it = client(policy)
    assert it.list() == [b"first", b"ok"]
    assert it.put(b"a", b"b") == b"abok"
    assert it.chat(b"a", b"b") == [b"A", b"B"]
    assert ends(policy) == {"ok": 3}
    service.plan = [Code.UNAVAILABLE, Code.UNAVAILABLE]
    for call in (it.list, it.put):
        with pytest.raises(it.rpc_error) as raised:
            call()
        assert raised.value.code() is Code.UNAVAILABLE
        ends(policy)
    assert policy.snapshot()["attempts"] == 5
    with pytest.raises(tidegate.BreakerOpen):
        it.get()


def test_a_stream_holds_its_permit_until_it_ends(engine: tidegate.Engine, service: Service) -> None:
    policy = tidegate.Policy("orders", bulkhead={"max_concurrency": 1, "max_queue": 0}, engine=engine)
    it = Sync(service, policy)
    service.plan = [b"hang"]
    stream = it.channel.unary_stream("/Orders/List")(b"")
    assert next(stream) == b"first"
    assert engine.snapshot()["live"] == 1
    with pytest.raises(tidegate.BulkheadFull):
        it.get()
    stream.cancel()
    assert set(ends(policy)) <= {"queue_full", "cancelled", "not_retryable"}
    assert engine.snapshot()["live"] == 0
    service.plan = []
    service.hold.set()
    assert it.get() == b"ok"
    it.close()


def test_a_stream_that_is_dropped_gives_its_permit_back(engine: tidegate.Engine, service: Service) -> None:
    policy = tidegate.Policy("orders", bulkhead={"max_concurrency": 1, "max_queue": 0}, engine=engine)
    it = Sync(service, policy)
    service.plan = [b"hang"]
    stream = it.channel.unary_stream("/Orders/List")(b"")
    next(stream)
    del stream
    ends(policy)
    assert engine.snapshot()["live"] == 0
    service.hold.set()
    it.close()


def test_a_cancelled_call_leaves_nothing(engine: tidegate.Engine, service: Service) -> None:
    policy = tidegate.Policy("orders", retry=AT_ONCE, bulkhead={"max_concurrency": 1}, engine=engine)
    it = Async(service, policy)
    service.plan = [b"hang"]

    async def cancelled() -> None:
        made = it.channel.unary_unary("/Orders/Get")(b"")
        while not service.left:  # noqa: ASYNC110 - the server runs in threads of its own
            await asyncio.sleep(0.005)
        made.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made

    it.run(cancelled)
    assert ends(policy) == {"cancelled": 1}
    service.hold.set()
    it.close()


def test_interceptors_around_ours_get_an_error_that_is_a_call(
    engine: tidegate.Engine, service: Service
) -> None:
    policy = tidegate.Policy("orders", deadline=5, engine=engine)
    seen: list[Any] = []

    class Around(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            seen.append(continuation(details, request))
            return seen[-1]

    it = Sync(service, policy)
    policy.force_open()
    outer = grpc.intercept_channel(it.channel, Around())
    with pytest.raises(tidegate.ForcedOpen):
        outer.unary_unary("/Orders/Get")(b"")
    (error,) = seen
    assert (error.done(), error.code(), error.exception()) == (True, Code.UNAVAILABLE, error)
    it.close()


def test_without_a_policy_there_is_one_of_the_preset(service: Service) -> None:
    it = Sync(service, None)
    service.plan = [Code.UNAVAILABLE]
    assert it.get() == b"ok"
    it.close()
    with pytest.raises(TypeError, match=r"policy = 'orders': must be a tidegate\.Policy"):
        tidegate.grpc.Interceptor("orders")  # type: ignore[arg-type]


def test_each_error_has_the_status_of_the_specification() -> None:
    """7.6.3"""
    from tidegate._grpc.errors import status_of

    statuses = {
        Code.RESOURCE_EXHAUSTED: ["RateLimited", "Throttled", "CoolingDown", "TargetsLimited"],
        Code.DEADLINE_EXCEEDED: ["AttemptTimeout", "StreamStalled", "DeadlineExceeded"],
        Code.FAILED_PRECONDITION: ["CostAboveBurst"],
        Code.INTERNAL: ["CallLost"],
        Code.UNAVAILABLE: [
            "BreakerOpen",
            "BulkheadFull",
            "ForcedOpen",
            "HoldFull",
            "NoTarget",
            "StoreUnavailable",
        ],
    }
    for status, names in statuses.items():
        for name in names:
            assert status_of(getattr(tidegate, name)) is status, name
