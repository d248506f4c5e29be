"""Adapter rule 8: slots and deadlines span the body; each in both colours, for httpx and httpx2."""

from __future__ import annotations

import gc
import pickle
import time
from typing import Any

import pytest

import tidegate
import tidegate.httpx
from conftest import Client, Origin, quick


def live(engine: tidegate.Engine) -> int:
    return int(engine.snapshot()["live"])


def test_8_a_slot_is_kept_until_the_body_has_been_read(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    client = http.open(quick(engine, bulkhead={"max_concurrency": 1, "acquire_timeout": 0}))
    response = client.open_stream("GET", origin.url + "/x")
    with pytest.raises(tidegate.BulkheadFull) as caught:
        client.request("GET", origin.url + "/x")
    assert (caught.value.max_concurrency, caught.value.max_queue, caught.value.acquire_timeout) == (1, 0, 0.0)
    client.read(response)
    assert live(engine) == 0
    assert client.request("GET", origin.url + "/x").status_code == 200


def test_8_until_headers_gives_the_slot_back_at_once(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    client = http.open(
        quick(engine, slot_until="headers", bulkhead={"max_concurrency": 1, "acquire_timeout": 0})
    )
    response = client.open_stream("GET", origin.url + "/x")
    assert live(engine) == 0
    client.read(response)


def test_8_closing_early_gives_the_slot_back(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"body_bytes": 1_000_000})
    client = http.open(quick(engine, bulkhead={"max_concurrency": 1}))
    response = client.open_stream("GET", origin.url + "/x")
    assert live(engine) == 1
    client.close_stream(response)
    assert live(engine) == 0


def test_8_a_response_thrown_away_gives_the_slot_back(http: Client, engine: tidegate.Engine) -> None:
    class Body(http.module.SyncByteStream, http.module.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __iter__(self) -> Any:
            yield b"x"

        async def __aiter__(self) -> Any:
            yield b"x"

    client = http.open(
        quick(engine, bulkhead={"max_concurrency": 1}), lambda r: http.module.Response(200, stream=Body())
    )
    response = client.open_stream("GET", "http://o/x")
    assert live(engine) == 1
    del response
    gc.collect()
    assert live(engine) == 0


@pytest.mark.parametrize("fault", ["truncate", "reset_after_headers"])
def test_8_a_body_that_fails_is_recorded(
    http: Client, origin: Origin, engine: tidegate.Engine, fault: str
) -> None:
    origin.sequence({"fault": fault, "body_bytes": 100_000})
    policy = quick(engine)
    with pytest.raises(http.module.TransportError):
        http.open(policy).request("GET", origin.url + "/x")
    assert engine.snapshot()["policies"][policy.name]["ends"] == {"not_retryable": 1}


def test_8_the_deadline_ends_a_slow_body(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "slow_body", "body_bytes": 1000, "chunk_every": 20})
    started = time.monotonic()
    with pytest.raises(tidegate.DeadlineExceeded):
        http.open(quick(engine, deadline=0.2)).request("GET", origin.url + "/x")
    assert 0.19 < time.monotonic() - started < 0.6


def test_3_our_errors_are_the_clients_errors_too(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "hang"})
    client = http.open(quick(engine, attempt_timeout=0.1, retry={"max_attempts": 1}))
    with pytest.raises(http.module.TimeoutException) as timed_out:
        client.request("GET", origin.url + "/x")
    assert timed_out.value.request.url == origin.url + "/x"
    with pytest.raises(http.module.TimeoutException) as late:
        client.request("GET", origin.url + "/x", extensions={"tidegate": {"deadline": 0.0}})
    assert isinstance(late.value, tidegate.DeadlineExceeded)
    # A thread's attempt is ended by the transport's own timeout, so there one gets the original.
    ours = [error for error in (timed_out.value, late.value) if isinstance(error, tidegate.TidegateError)]
    assert len(ours) == (2 if http.is_async else 1)
    for error in ours:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.code, str(again)) == (type(error), error.code, str(error))


def test_3_a_refusal_is_a_transport_error_of_the_client(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"body_bytes": 100_000})
    client = http.open(quick(engine, bulkhead={"max_concurrency": 1}))
    held = client.open_stream("GET", origin.url + "/x")
    with pytest.raises(http.module.TransportError) as refused:
        client.request("GET", origin.url + "/x")
    assert isinstance(refused.value, tidegate.BulkheadFull)
    assert "max_concurrency 1, max_queue 0, acquire_timeout 1 s" in str(refused.value)
    del held
    gc.collect()


def test_8_the_attempt_timeout_ends_at_the_headers(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "slow_body", "body_bytes": 64, "chunk_every": 50})
    response = http.open(quick(engine, attempt_timeout=0.1)).request("GET", origin.url + "/x")
    assert len(response.content) == 64
