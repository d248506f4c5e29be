"""Our errors as httpx knows them, in both colours, for httpx and httpx2."""

from __future__ import annotations

import gc
import pickle

import pytest

import tidegate
import tidegate.httpx
from conftest import Client, Origin, quick


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
