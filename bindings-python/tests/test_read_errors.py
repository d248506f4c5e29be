"""Policies with `retry.read_errors` read why an answer failed; callers get it unread (spec 15.5, 15.8)."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

import tidegate
import tidegate.httpx
from adapters import NAMES, made
from odd_server import Server

SPENT = json.dumps({"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}).encode()
BUSY = json.dumps({"type": "error", "error": {"type": "overloaded_error"}}).encode()
STATUSES = [408, 409, 429, 500, 502, 503, 504, 529]


def policy(engine: tidegate.Engine, read: bool = True, **more: Any) -> tidegate.Policy:
    backoff = {"base": 0.001, "max": 0.001}
    retry = {"max_attempts": 3, "backoff": backoff, "statuses": STATUSES, "max_retry_after": 60}
    return tidegate.Policy(engine=engine, retry={**retry, "read_errors": read}, **more)


def answer(status: int, body: bytes, *headers: str, chunked: bool = False) -> bytes:
    if chunked:
        pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    lines = [f"HTTP/1.1 {status} x", length, "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=NAMES)
def adapter(request: pytest.FixtureRequest) -> Iterator[Any]:
    adapter = made(request.param)
    yield adapter
    adapter.close()


@pytest.mark.parametrize("how", ["plain", "chunked", "gzip"])
def test_a_spent_quota_is_not_retried_and_its_answer_can_be_read(
    how: str, adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 15.5.3, 15.8.1 and 15.8.4: three attempts without the key, one with it; the body is whole."""
    sent, headers = (gzip.compress(SPENT), ["Content-Encoding: gzip"]) if how == "gzip" else (SPENT, [])
    url = server.url(answer(429, sent, *headers, chunked=how == "chunked"))
    client = adapter.open(policy(engine))
    found = client.request("GET", url)
    assert (found.status, found.body) == (429, SPENT)
    assert (found.info["attempts"], found.info["reason"]) == (1, "not_retryable")


def test_without_the_key_no_body_is_read(adapter: Any, server: Server, engine: tidegate.Engine) -> None:
    """Spec 15.5.1."""
    found = adapter.open(policy(engine, read=False)).request("GET", server.url(answer(429, SPENT)))
    assert (found.status, found.info["attempts"], found.info["reason"]) == (429, 3, "attempts")


def test_an_overload_that_the_body_names_is_a_throttle(
    adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 15.5.4 and 15.5.5: a 400 is retried where its body says that the service is overloaded."""
    found = adapter.open(policy(engine)).request("GET", server.url(answer(400, BUSY)))
    assert (found.status, found.body, found.info["attempts"]) == (400, BUSY, 3)


def test_a_large_answer_is_delivered_whole(adapter: Any, server: Server, engine: tidegate.Engine) -> None:
    """Spec 15.8.1 and 15.8.4: 64 kB are read, and what follows them is not lost."""
    large = SPENT[:-1] + b', "more": "' + b"x" * 300_000 + b'"}'
    client = adapter.open(policy(engine))
    for chunked in (False, True):
        found = client.request("GET", server.url(answer(429, large, chunked=chunked)))
        assert (found.body, found.info["attempts"]) == (large, 1)


def test_an_answer_that_breaks_off_goes_by_what_came(
    adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 15.8.3; the caller gets the client's own error when it reads, as without a policy."""
    broken = answer(429, SPENT + b" " * 50)[:-50]
    stream = adapter.open(policy(engine, slot_until="headers")).stream("GET", server.url(broken))
    assert adapter.info(stream)["attempts"] == 1
    with pytest.raises(adapter.error):
        adapter.read(stream)
    adapter.may_lose = True
    adapter.close_stream(stream)


@contextmanager
def stalled(head: bytes, rest: bytes) -> Iterator[tuple[str, threading.Event]]:
    """A server that sends the rest only when it is told to."""
    go, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(head)
                    go.wait(20)
                    with suppress(OSError):
                        connection.sendall(rest)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", go
    finally:
        go.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(20)


def test_a_body_that_stalls_is_not_waited_for(
    adapter: Any, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec 15.8.2: the head decides after a second (here less); in an event loop the rest still comes."""
    monkeypatch.setattr("tidegate._http.beginning.READ_FOR", 50_000)
    whole = answer(402, SPENT)
    with stalled(whole[:-20], whole[-20:]) as (url, go):
        stream = adapter.open(policy(engine, slot_until="headers")).stream("GET", url)
        info = adapter.info(stream)
        assert (info["attempts"], info["reason"]) == (1, "not_retryable")
        go.set()
        if adapter.is_async:
            assert adapter.read(stream) == SPENT
        else:
            with pytest.raises(adapter.error):
                adapter.read(stream)
            adapter.may_lose = True
            adapter.close_stream(stream)


def test_sdks_are_told_not_to_retry(adapter: Any, server: Server, engine: tidegate.Engine) -> None:
    """Spec 15.8.6 and 15.8.7, for the last answer alone, and for policies that read errors alone."""
    url = server.url(answer(503, b"", "x-should-retry: true"))
    repeated = {"x-stainless-retry-count": "1"}
    stream = adapter.open(policy(engine)).stream("GET", url, headers=repeated)
    if adapter.__class__.__name__ != "Aiohttp":
        assert stream.headers["x-should-retry"] == "false"
    info = adapter.info(stream)
    assert info["attempts"] == 3
    assert info["note"].endswith("the SDK retries too (x-stainless-retry-count: 1): set its max_retries to 0")
    adapter.read(stream)
    stream = adapter.stream("GET", url, headers=repeated, tg={"policy": policy(engine, read=False)})
    assert stream.headers["x-should-retry"] == "true"
    assert "max_retries" not in str(adapter.info(stream)["note"])
    adapter.read(stream)


def test_kinds_of_read_errors_come_after_those_of_the_policy(engine: tidegate.Engine) -> None:
    """Spec 15.5.2."""
    own = tidegate.Policy(engine=engine, kinds={"slow": "transient"}, retry={"read_errors": True})
    numbers = [
        own._kinds[name] for name in ("slow", "quota_spent", "unauthorized", "too_long", "content_refused")
    ]
    assert numbers == [9, 10, 11, 12, 13]


def test_an_answer_that_a_policy_around_may_repeat_forbids_no_repeat(
    adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 1.6.1 and 15.8.6: an SDK inside the outer policy may repeat it, and so may another client."""
    url, outer = server.url(answer(503, b"")), policy(engine)
    adapter.open(policy(engine))
    told: list[tuple[str, bool]] = []

    def once() -> Any:
        stream = adapter.stream("GET", url)
        told.append((adapter.info(stream)["reason"], "x-should-retry" in stream.headers))
        adapter.read(stream)
        return stream

    outer.call(once)
    assert told == [("nested", False)] * 3


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_transport_around_another_one_repeats_what_that_one_would(
    engine: tidegate.Engine, colour: str
) -> None:
    """Spec 1.6.1 and 1.6.3: also a status that the outer policy does not list."""
    statuses: list[int] = []

    def handler(request: httpx.Request) -> httpx.Response:
        statuses.append(int(request.url.path[1:]))
        return httpx.Response(statuses[-1])

    def twice(kind: Any) -> Any:
        own = {"max_attempts": 3, "backoff": {"base": 0.001}, "read_errors": True}
        both = tidegate.Policy(engine=engine, retry={**own, "statuses": [500, 503]})
        inner = kind(httpx.MockTransport(handler), both)
        return kind(inner, tidegate.Policy(engine=engine, retry={**own, "statuses": [503]}))

    async def ask(path: str) -> Any:
        async with httpx.AsyncClient(transport=twice(tidegate.httpx.AsyncTransport)) as client:
            return await client.get(f"http://h/{path}")

    def sync(path: str) -> Any:
        with httpx.Client(transport=twice(tidegate.httpx.Transport)) as client:
            return client.get(f"http://h/{path}")

    for status in (503, 500):
        statuses.clear()
        found = sync(str(status)) if colour == "sync" else asyncio.run(ask(str(status)))
        assert statuses == [status] * 3
        assert found.extensions["tidegate"]["attempts"] == 3
        assert found.headers["x-should-retry"] == "false", "the outer one has given up"
