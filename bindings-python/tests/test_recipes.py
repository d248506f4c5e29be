"""Libraries without an adapter, with a policy around their methods, beyond `docs/python/using-with.md`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
import grpc
import pytest
from botocore.config import Config

import tidegate
from conftest import Origin
from tidegate.testing import FakeClock

RETRY: dict[str, Any] = {"backoff": {"base": 0.001}, "budget": None}


def s3(origin: Origin) -> Any:
    once = Config(retries={"total_max_attempts": 1})  # botocore's own retries are off
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "eu-west-1"}
    return botocore.session.Session().create_client("s3", endpoint_url=origin.url, config=once, **keys)


def test_botocore_reads_again_after_a_503_and_a_429(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(503, 429, {"status": 200, "body": "hello"}, path="/bucket/key")
    policy = tidegate.Policy("s3", preset="http", retry=RETRY, engine=engine)
    reader = policy.wrap(s3(origin), methods=["get_object", "head_object"], route="s3")
    assert reader.get_object(Bucket="bucket", Key="key")["Body"].read() == b"hello"
    assert policy.snapshot()["attempts"] == 3


def test_botocore_does_not_read_again_after_a_403(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(403, path="/bucket/key")
    policy = tidegate.Policy("s3", preset="http", retry=RETRY, engine=engine)
    client = s3(origin)
    with pytest.raises(client.exceptions.ClientError) as raised:
        policy.call(client.get_object, Bucket="bucket", Key="key")
    told = engine.explain(raised.value)
    assert told is not None and (told.attempts, told.reason) == (1, "not_retryable")


def test_botocore_waits_for_as_long_as_the_service_says(origin: Origin) -> None:
    """Semantics 2.8.6: `x-amz-retry-after`, in milliseconds, on an error of a plain function."""
    told = {"status": 503, "headers": {"x-amz-retry-after": "1500"}}
    origin.sequence(told, {"status": 200, "body": "hello"}, path="/bucket/key")
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=1, clock=clock)
    policy = tidegate.Policy("s3", preset="http", retry=RETRY, engine=engine)
    answer = policy.at(route="s3").call(s3(origin).get_object, Bucket="bucket", Key="key")
    assert answer["Body"].read() == b"hello"
    assert 1.5 <= clock.now() <= 1.65, "the wait, and up to a tenth of it"


@pytest.fixture
def service() -> Any:
    """A gRPC method that is unavailable twice, and the times that its callers gave it."""
    left: list[float] = []

    def get(request: bytes, context: grpc.ServicerContext) -> bytes:
        left.append(context.time_remaining())
        if len(left) < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "starting")
        if request == b"wrong":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "wrong")
        return b"order " + request

    handler = grpc.unary_unary_rpc_method_handler(get)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Orders", {"Get": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel.unary_unary("/Orders/Get"), left
    server.stop(None).wait(10)


def test_a_grpc_method_is_called_again_with_the_time_of_each_attempt(
    service: Any, engine: tidegate.Engine
) -> None:
    get, left = service
    policy = tidegate.Policy("orders", deadline=30, attempt_timeout=20, retry=RETRY, engine=engine)
    orders = policy.at(pass_timeout="timeout")
    assert orders.call(get, b"7") == b"order 7"
    assert len(left) == 3 and all(0 < span < 21 for span in left)
    with pytest.raises(grpc.RpcError) as raised:
        orders.call(get, b"wrong")
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(left) == 4, "the caller's fault is not repeated"
