"""Timeouts of streams (semantics 7.7), against a server that stalls, drips, pings and lies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import aiohttp
import anyio
import httpx
import pytest
import requests
import urllib3

import tidegate
import tidegate.aiohttp
import tidegate.httpx
import tidegate.requests
import tidegate.urllib3
from stalling_server import EVENT, StallingServer

ACCEPT = {"accept": "text/event-stream"}
LONG = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[StallingServer]:
    """The server."""
    server = StallingServer()
    yield server
    server.close()


def policy(**options: Any) -> tidegate.Policy:
    """A policy that repeats a GET at once."""
    retry = {"max_attempts": 3, "backoff": {"base": 0.0, "jitter": "none"}, "budget": {"kind": "none"}}
    return tidegate.Policy("streams", engine=tidegate.Engine(), **{"retry": retry, **options})


def sync_read(
    policy: tidegate.Policy, url: str, pause: float = 0, headers: Any = ACCEPT, **extra: Any
) -> Any:
    """Reads a body in a thread: its report, what was read, and the error that ended it."""
    with httpx.Client(
        transport=tidegate.httpx.Transport(policy=policy, module=httpx), timeout=LONG
    ) as client:
        read = b""
        try:
            with client.stream("GET", url, headers=headers, extensions={"tidegate": extra}) as response:
                for piece in response.iter_raw():
                    read += piece
                    time.sleep(pause)
        except Exception as error:
            return read, error
        return read, response.extensions["tidegate"]


def async_read(
    policy: tidegate.Policy, url: str, pause: float = 0, headers: Any = ACCEPT, **extra: Any
) -> Any:
    """The same in an event loop."""

    async def main() -> Any:
        transport = tidegate.httpx.AsyncTransport(policy=policy, module=httpx)
        async with httpx.AsyncClient(transport=transport, timeout=LONG) as client:
            read = b""
            try:
                async with client.stream(
                    "GET", url, headers=headers, extensions={"tidegate": extra}
                ) as response:
                    async for piece in response.aiter_raw():
                        read += piece
                        await asyncio.sleep(pause)
            except Exception as error:
                return read, error
            return read, response.extensions["tidegate"]

    return asyncio.run(main())


def requests_read(
    policy: tidegate.Policy, url: str, pause: float = 0, headers: Any = ACCEPT, **extra: Any
) -> Any:
    """The same through requests, piece by piece."""
    adapter = tidegate.requests.Adapter(policy)
    adapter.init_poolmanager(1, 1, block=True)  # a connection that is not given back blocks the next one
    read = b""
    with requests.Session() as session, tidegate.requests.options(**extra) if extra else nullcontext():
        session.mount("http://", adapter)
        try:
            with session.get(url, headers=headers, stream=True, timeout=LONG) as response:
                for piece in response.iter_content(len(EVENT)):
                    read += piece
                    time.sleep(pause)
        except Exception as error:
            return read, error
        return read, response.tidegate  # type: ignore[attr-defined]


def urllib3_read(
    policy: tidegate.Policy, url: str, pause: float = 0, headers: Any = ACCEPT, **extra: Any
) -> Any:
    """The same through urllib3."""
    manager = tidegate.urllib3.guard(urllib3.PoolManager(maxsize=1, block=True), policy)
    read = b""
    try:
        response = manager.request(
            "GET", url, headers=headers, preload_content=False, timeout=LONG, tidegate=extra or None
        )
        try:
            while piece := response.read1(4096):
                read += piece
                time.sleep(pause)
        finally:
            response.close()
            response.release_conn()
    except Exception as error:
        return read, error
    finally:
        manager.clear()
    return read, response.tidegate  # type: ignore[attr-defined]


def aiohttp_read(
    policy: tidegate.Policy, url: str, pause: float = 0, headers: Any = ACCEPT, **extra: Any
) -> Any:
    """The same through aiohttp."""

    async def main() -> Any:
        middleware = tidegate.aiohttp.middleware(policy)
        read = b""
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(middlewares=[middleware], connector=connector) as session:
            try:
                with tidegate.aiohttp.options(**extra) if extra else nullcontext():
                    response = await session.get(url, headers=headers)
                async with response:
                    async for piece in response.content.iter_any():
                        read += piece
                        await asyncio.sleep(pause)
            except Exception as error:
                return read, error
            finally:
                assert not connector._acquired, "the connection has been given back or closed"
            return read, response.tidegate  # type: ignore[attr-defined]

    return asyncio.run(main())


READS = [sync_read, async_read, requests_read, urllib3_read, aiohttp_read]
IDS = ["httpx sync", "httpx async", "requests", "urllib3", "aiohttp"]
both = pytest.mark.parametrize("read", READS, ids=IDS)
TIMEOUTS = {
    requests_read: requests.exceptions.ReadTimeout,
    urllib3_read: urllib3.exceptions.TimeoutError,
    aiohttp_read: aiohttp.ServerTimeoutError,
}


@both
@pytest.mark.parametrize("how", ["stalls_0", "pings_first"])
def test_a_stream_without_a_first_piece_is_repeated(read: Any, how: str, server: StallingServer) -> None:
    """Semantics 7.7.2, 7.7.3, 7.7.13."""
    path = f"/{how}"
    server.sent.pop(path, None)
    body, info = read(policy(first_byte_timeout=0.6, counts="sse_data"), server.url + path)
    assert (body, info["attempts"]) == (3 * EVENT, 2)
    assert server.sent[path] == 2


@both
def test_pings_count_as_bytes_and_not_as_data(read: Any, server: StallingServer) -> None:
    """Semantics 7.7.13: by default each byte counts, so pings deliver the answer."""
    server.sent.pop("/pings_first", None)
    limits = {"first_byte_timeout": LONG, "deadline": 1.0}
    body, error = read(policy(**limits), server.url + "/pings_first")
    assert isinstance(error, tidegate.DeadlineExceeded) and b"ping" in body
    server.sent.pop("/pings_first", None)
    body, error = read(policy(**limits, counts="sse_data"), server.url + "/pings_first")
    assert isinstance(error, Exception) and body == b""


@both
@pytest.mark.parametrize("how", ["stalls_1", "pings_later", "lies"])
def test_silence_after_the_delivery_ends_the_call(read: Any, how: str, server: StallingServer) -> None:
    """Semantics 7.7.9, 7.7.11, 7.7.22: nothing is repeated, and the error is a timeout of the client too."""
    server.sent.pop(f"/{how}", None)
    limits = policy(first_byte_timeout=LONG, idle_timeout=0.4, counts="sse_data")
    began = time.monotonic()
    body, error = read(limits, f"{server.url}/{how}")
    assert isinstance(error, tidegate.StreamStalled)
    assert isinstance(error, TimeoutError) and isinstance(error, TIMEOUTS.get(read, httpx.ReadTimeout))
    assert (error.code, error.reason, error.http_status) == ("stream_stalled", "stream_stalled", 504)
    assert body.startswith(EVENT) and server.sent[f"/{how}"] == 1
    assert time.monotonic() - began >= 0.4


@both
def test_a_stream_that_goes_on_and_a_caller_who_does_not_read_are_no_stall(
    read: Any, server: StallingServer
) -> None:
    """Semantics 7.7.17: the whole takes longer than `idle_timeout`, and so does each pause of its reader."""
    body, info = read(policy(idle_timeout=0.6, first_byte_timeout=LONG), server.url + "/drips")
    assert (body, info["reason"]) == (12 * EVENT, "ok")
    body, info = read(policy(idle_timeout=0.4), server.url + "/good", pause=0.6)
    assert (body, info["reason"]) == (3 * EVENT, "ok")


@both
def test_a_body_that_stalls_is_a_failure_of_the_breaker(read: Any, server: StallingServer) -> None:
    """Semantics 7.7.11."""
    breaker = {"consecutive": 1, "break_duration": 60.0}
    limits = policy(idle_timeout=0.2, breaker=breaker)
    assert isinstance(read(limits, server.url + "/stalls_1")[1], tidegate.StreamStalled)
    assert isinstance(read(limits, server.url + "/good")[1], tidegate.BreakerOpen)


@both
def test_a_request_that_is_no_stream_is_delivered_at_its_head(read: Any, server: StallingServer) -> None:
    """Semantics 7.7.4: only streams have a first byte's timeout; a caller may say what one is."""
    limits = policy(first_byte_timeout=0.4, deadline=2.0)
    server.sent.pop("/stalls_0", None)
    body, error = read(limits, server.url + "/stalls_0", headers={})
    assert isinstance(error, tidegate.DeadlineExceeded) and server.sent["/stalls_0"] == 1 and body == b""
    server.sent.pop("/stalls_0", None)
    body, info = read(limits, server.url + "/stalls_0", headers={}, stream=True)
    assert (body, info["attempts"]) == (3 * EVENT, 2)


@both
def test_the_end_of_an_answer_delivers_it(read: Any, server: StallingServer) -> None:
    """Semantics 7.7.6."""
    body, info = read(policy(first_byte_timeout=0.5, idle_timeout=0.5), server.url + "/empty")
    assert (body, info["attempts"]) == (b"", 1)


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_an_answer_that_came_while_the_loop_was_busy_is_no_timeout(
    library: str, server: StallingServer
) -> None:
    """Semantics 7.7.24: it came after 0.2 s of 0.4 s, and the loop stood still for 0.8 s."""
    limits = policy(first_byte_timeout=0.4, idle_timeout=0.4, counts="sse_data")
    server.sent.pop("/after", None)
    got: list[Any] = []

    async def ask() -> None:
        transport = tidegate.httpx.AsyncTransport(policy=limits, module=httpx)
        async with httpx.AsyncClient(transport=transport, timeout=LONG) as client:
            response = await client.get(server.url + "/after", headers=ACCEPT)
            got.append((response.content, response.extensions["tidegate"]["attempts"]))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            while not server.sent.get("/after"):  # noqa: ASYNC110 - another thread counts
                await anyio.sleep(0.005)
            time.sleep(0.8)  # noqa: ASYNC251 - that is what the test is about

    anyio.run(main, backend=library)
    assert got == [(3 * EVENT, 1)]


@pytest.mark.parametrize("client", ["httpx", "requests", "urllib3", "aiohttp"])
def test_an_answer_that_failed_is_not_held_back(client: str, server: StallingServer) -> None:
    """Semantics 7.7.5: the head says what happened, though no piece of the body ever comes."""
    limits = policy(first_byte_timeout=LONG, idle_timeout=LONG, counts="sse_data")
    url = server.url + "/fails"
    server.sent.pop("/fails", None)
    began = time.monotonic()

    async def by_aiohttp() -> int:
        middleware = tidegate.aiohttp.middleware(limits)
        async with (
            aiohttp.ClientSession(middlewares=(middleware,)) as session,
            session.get(url, headers=ACCEPT) as response,
        ):
            return response.status

    if client == "httpx":
        transport = tidegate.httpx.Transport(policy=limits, module=httpx)
        with httpx.Client(transport=transport) as own, own.stream("GET", url, headers=ACCEPT) as response:
            status = response.status_code
    elif client == "requests":
        with requests.Session() as session:
            session.mount("http://", tidegate.requests.Adapter(limits))
            with session.get(url, headers=ACCEPT, stream=True) as answer:
                status = answer.status_code
    elif client == "urllib3":
        manager = tidegate.urllib3.guard(urllib3.PoolManager(), limits)
        raw = manager.request("GET", url, headers=ACCEPT, preload_content=False)
        status = raw.status
        raw.close()
        manager.clear()
    else:
        status = asyncio.run(by_aiohttp())
    assert (status, server.sent["/fails"]) == (404, 1)
    assert time.monotonic() - began < LONG / 2


@both
def test_an_error_event_is_a_failed_answer_before_the_delivery_and_a_failed_body_after(
    read: Any, server: StallingServer
) -> None:
    """Semantics 7.7.21."""
    server.sent.pop("/error_first", None)
    breaker = {"consecutive": 1, "break_duration": 60.0, "failure_on": ["throttled"], "unit": "call"}
    limits = policy(first_byte_timeout=LONG, counts="sse_data", breaker=breaker)
    body, info = read(limits, server.url + "/error_first")
    assert (body, info["attempts"]) == (3 * EVENT, 2)
    body, _ = read(limits, server.url + "/error_later")
    assert body.startswith(EVENT) and b"overloaded" in body, "the caller reads it as it came"
    assert isinstance(read(limits, server.url + "/good")[1], tidegate.BreakerOpen)


@both
def test_the_deadline_may_end_at_the_delivery(read: Any, server: StallingServer) -> None:
    """Semantics 7.7.15: a body that takes 1.2 s under a deadline of 0.6 s."""
    limits = {"deadline": 0.6, "idle_timeout": LONG, "first_byte_timeout": LONG}
    body, error = read(policy(**limits), server.url + "/drips")
    assert isinstance(error, tidegate.DeadlineExceeded) and len(body) < 12 * len(EVENT)
    body, info = read(policy(**limits, deadline_until="delivery"), server.url + "/drips")
    assert (body, info["reason"]) == (12 * EVENT, "ok")


@pytest.mark.parametrize("key", ["first_byte_timeout", "idle_timeout"])
def test_a_generator_function_refuses_a_silence_that_it_could_not_notice(key: str) -> None:
    """Semantics 7.7.23; a plain function has no pieces, so the keys do nothing there."""
    limits = policy(**{key: 1.0})

    @limits
    def pieces() -> Iterator[int]:
        yield 1

    with pytest.raises(tidegate.Unsupported, match=f"{key} = 1s: a generator function does not serve"):
        next(pieces())
    assert limits.call(lambda: 7) == 7
