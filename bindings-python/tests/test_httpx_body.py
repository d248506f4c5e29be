"""Our errors as httpx knows them, in both colours, for httpx and httpx2."""

from __future__ import annotations

import gc
import pathlib
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

import tidegate
import tidegate.httpx
from conftest import Client, Origin, quick
from tidegate.testing import FakeClock


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


def test_a_body_that_has_been_read_is_not_read_again(http: Client, engine: tidegate.Engine) -> None:
    """The connection of a body that an inner transport has read may carry another request by now."""
    module, reads = http.module, list[int]()

    class Once(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            reads.append(1)
            yield b"data: hello\n\n"

        async def __aiter__(self) -> AsyncIterator[bytes]:
            reads.append(1)
            yield b"data: hello\n\n"

    def answers(request: Any) -> Any:
        response = module.Response(503 if len(reads) % 2 == 0 else 200, stream=Once(), request=request)
        if http.is_async:
            return aread(response)
        response.read()
        return response

    async def aread(response: Any) -> Any:
        await response.aread()
        return response

    at_once = {"max_attempts": 2, "backoff": {"base": 0.0}, "budget": {"kind": "none"}}
    one = {"max_concurrency": 1}
    for more in (
        {},
        {"first_byte_timeout": 5.0, "idle_timeout": 5.0, "counts": "sse_data"},
        {"retry": {**at_once, "read_errors": True}},
    ):
        reads.clear()
        client = http.open(quick(engine, **{"retry": at_once, "bulkhead": one, **more}), answers)
        for _ in range(2):  # the first answer is still held, but its permit is not
            response = client.open_stream("GET", "http://a.test/x", headers={"accept": "text/event-stream"})
            assert response.status_code == 200
            assert client.read(response) == b"data: hello\n\n"
        assert len(reads) == 4
        assert engine.snapshot()["live"] == 0


def test_a_body_that_a_predicate_has_begun_is_closed(http: Client, engine: tidegate.Engine) -> None:
    if http.is_async:
        pytest.skip("a predicate cannot await")
    module, reads, closed = http.module, list[int](), list[int]()

    class Once(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            reads.append(1)
            yield from (b"some", b"more")

        def close(self) -> None:
            closed.append(1)

    def begins(result: Any) -> bool:
        next(result.iter_raw())
        return result.status_code == 503

    client = http.open(
        quick(engine, retry={"max_attempts": 2, "backoff": {"base": 0.0}}),
        lambda _: module.Response(503 if not reads else 200, stream=Once()),
    )
    response = client.open_stream("GET", "http://a.test/x", extensions={"tidegate": {"predicate": begins}})
    assert (response.status_code, len(reads)) == (200, 2) and closed
    client.close_stream(response)


def test_a_refused_retry_after_an_answer_that_was_closed_says_so(http: Client) -> None:
    class Large(http.module.SyncByteStream, http.module.AsyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            yield bytes(100_000)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield bytes(100_000)

    policy = quick(
        tidegate.Engine(clock=FakeClock(autojump=True)),
        retry={"max_attempts": 2, "backoff": {"base": 1.0, "max": 1.0}},
        on_retry=lambda _: policy.force_open(),
    )
    client = http.open(policy, lambda _: http.module.Response(503, stream=Large()))
    with pytest.raises(tidegate.Rejected) as refused:
        client.request("GET", "http://a.test/x")
    assert isinstance(refused.value, http.module.TransportError)
    assert (refused.value.reason, refused.value.code) == ("readmission", "rejected")
    assert str(refused.value).startswith(
        "the answer of the last attempt has been closed, and cannot be returned; "
        "not retried: the next attempt was refused a slot (policy "
    )


def test_an_answer_that_was_closed_before_its_body_proved_lost_is_no_lost_call(
    tmp_path: pathlib.Path,
) -> None:
    """The file cannot be rewound after all: the call ends, and its error says why."""

    class Large(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield bytes(100_000)

    policy = quick(
        tidegate.Engine(clock=FakeClock(autojump=True)),
        retry={"max_attempts": 2, "backoff": {"base": 1.0, "max": 1.0}, "methods": ["PUT"]},
        on_retry=lambda _: file.close(),
    )
    path = tmp_path / "body"
    path.write_bytes(b"body")
    inner = httpx.MockTransport(lambda _: httpx.Response(503, stream=Large()))
    with (
        path.open("rb") as file,
        httpx.Client(transport=tidegate.httpx.Transport(inner, policy)) as client,
        pytest.raises(tidegate.TidegateError) as ended,
    ):
        client.put("http://a.test/x", content=file)
    assert not isinstance(ended.value, tidegate.CallLost)
    assert (ended.value.reason, ended.value.code) == ("opinion", "error")
    assert "the answer of the last attempt has been closed" in str(ended.value)
