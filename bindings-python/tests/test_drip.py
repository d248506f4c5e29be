"""A call through an adapter ends when its deadline does, whatever drips (SECURITY.md)."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import requests
import urllib3

import tidegate
import tidegate.httpx
import tidegate.requests
import tidegate.urllib3
from adapters import NAMES, bodies, made
from conftest import Origin
from drip_server import SECONDS, Dripping, dripping_server

DEADLINE = 0.3
SLACK = 1.0
"""Seconds that a call may take beyond its deadline."""
SYNC = [name for name in NAMES if "async" not in name and name != "aiohttp"]


def policy(engine: tidegate.Engine, **more: Any) -> tidegate.Policy:
    backoff = {"base": 0.001, "max": 0.001}
    settings = {"deadline": DEADLINE, "retry": {"max_attempts": 3, "backoff": backoff}, **more}
    return tidegate.Policy(engine=engine, **settings)


def ends_in_time(server: Dripping, call: Callable[[], Any], *errors: type[BaseException]) -> BaseException:
    """The call ends with one of these errors, long before what the server sends does."""
    cpu, started = time.thread_time(), time.monotonic()
    with pytest.raises(errors) as raised:
        call()
    took = time.monotonic() - started
    assert server.finished == 0
    assert server.accepted > 0
    # A busy machine is late; a call that is kept takes `SECONDS` for each attempt.
    assert took < DEADLINE + 4 * SLACK < SECONDS / 2
    assert time.thread_time() - cpu < 1
    return raised.value


@pytest.mark.parametrize("script", ["head", "interim answers", "body", "the size of a chunk", "failed body"])
@pytest.mark.parametrize("name", NAMES)
def test_what_drips_ends_with_the_deadline(name: str, script: str, engine: tidegate.Engine) -> None:
    adapter = made(name)
    try:
        with dripping_server(script) as server:
            client = adapter.open(policy(engine))
            error = ends_in_time(
                server,
                lambda: client.request("GET", f"http://127.0.0.1:{server.port}/", timeout=5),
                adapter.error,
                adapter.timeout_error,
            )
            assert isinstance(error, tidegate.DeadlineExceeded)
    finally:
        adapter.close()


@pytest.mark.parametrize("script", ["head", "body", "the size of a chunk"])
@pytest.mark.parametrize("name", SYNC)
def test_the_same_without_timeouts_of_the_client_and_for_a_post(
    name: str, script: str, engine: tidegate.Engine
) -> None:
    adapter = made(name)
    try:
        with dripping_server(script) as server:
            client = adapter.open(policy(engine))
            url = f"http://127.0.0.1:{server.port}/"
            ends_in_time(
                server, lambda: client.request("POST", url, body=b"x" * 300_000), tidegate.DeadlineExceeded
            )
    finally:
        adapter.close()


@pytest.mark.parametrize("name", SYNC)
def test_a_streamed_answer_ends_while_it_is_read(name: str, engine: tidegate.Engine) -> None:
    adapter = made(name)
    try:
        with dripping_server("body") as server:
            client = adapter.open(policy(engine))
            opened: list[Any] = []

            def read() -> None:
                opened.append(client.stream("GET", f"http://127.0.0.1:{server.port}/"))
                client.read(opened[0])

            ends_in_time(server, read, tidegate.DeadlineExceeded)
            for stream in opened:  # none on a machine so busy that the head comes after the deadline
                client.close_stream(stream)
    finally:
        adapter.close()


@pytest.mark.parametrize("name", SYNC)
def test_an_attempt_timeout_is_kept_too(name: str, engine: tidegate.Engine) -> None:
    adapter = made(name)
    try:
        with dripping_server("head") as server:
            short = policy(engine, attempt_timeout=0.1, deadline=5.0)
            client = adapter.open(short)
            url = f"http://127.0.0.1:{server.port}/"
            ends_in_time(server, lambda: client.request("GET", url), adapter.error)
            assert short.snapshot()["attempts"] == 3  # on a busy machine not all of them reach the server
            assert 1 <= server.accepted <= 3
    finally:
        adapter.close()


class Late:
    """A clock's end that comes at one operation: no time is left then, and plenty before and after."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, own: float | None) -> float | None:
        self.calls += 1
        if self.calls == self.at:
            raise TimeoutError("timed out")
        return own


@pytest.mark.parametrize("name", ["requests", "urllib3"])
@pytest.mark.parametrize("at", [1, 2])  # before it connects; once it is connected, before it sends
def test_without_time_to_connect_a_post_was_never_sent(
    name: str, at: int, origin: Origin, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = Late(at)
    monkeypatch.setattr("tidegate._http.until.spare", late)
    origin.sequence(200, 200)
    adapter = made(name)
    try:
        patient = policy(engine, deadline=30.0)
        answer = adapter.open(patient).request("POST", origin.url + "/x", body=b"once")
        assert (answer.status, answer.info["attempts"], bodies(origin)) == (200, 2, ["once"])
    finally:
        adapter.close()
    assert late.calls > at


@pytest.mark.parametrize("name", ["requests", "urllib3"])
def test_without_time_to_send_an_attempt_timed_out(
    name: str, origin: Origin, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._http.until.spare", Late(3))  # two to connect, then it sends
    origin.sequence(200, 200)
    adapter = made(name)
    kinds: list[str | None] = []
    try:
        patient = policy(engine, deadline=30.0)
        patient.on_event(lambda record: kinds.append(record.kind), types=["attempt_done"])
        with pytest.raises(adapter.error):
            adapter.open(patient).request("POST", origin.url + "/x", body=b"twice?")
    finally:
        adapter.close()
    assert kinds == ["timeout"]  # and it is not repeated: a part of it may have arrived


def call_over_tls(name: str, port: int, engine: tidegate.Engine) -> Any:
    url = f"https://127.0.0.1:{port}/"
    if name == "requests":
        with requests.Session() as session:
            session.trust_env = False
            session.mount("https://", tidegate.requests.Adapter(policy(engine)))
            return session.get(url, verify=False)
    if name == "urllib3":
        manager = tidegate.urllib3.guard(urllib3.PoolManager(cert_reqs="CERT_NONE"), policy(engine))
        return manager.request("GET", url)
    module = importlib.import_module(name.split()[0])
    transport = tidegate.httpx.Transport(module.HTTPTransport(verify=False), policy(engine))
    with module.Client(transport=transport, timeout=None) as client:
        return client.get(url)


def call_by_proxy(name: str, port: int, engine: tidegate.Engine) -> Any:
    url, proxy = "https://far.test/", f"http://127.0.0.1:{port}"
    if name == "requests":
        with requests.Session() as session:
            session.trust_env = False
            session.mount("https://", tidegate.requests.Adapter(policy(engine)))
            return session.get(url, proxies={"https": proxy})
    if name == "urllib3":
        return tidegate.urllib3.guard(urllib3.ProxyManager(proxy), policy(engine)).request("GET", url)
    module = importlib.import_module(name.split()[0])
    transport = tidegate.httpx.Transport(module.HTTPTransport(proxy=proxy), policy(engine))
    with module.Client(transport=transport, timeout=None) as client:
        return client.get(url)


@pytest.mark.parametrize("name", SYNC)
@pytest.mark.parametrize(
    ("script", "call"), [("handshake", call_over_tls), ("the answer of a proxy", call_by_proxy)]
)
def test_a_handshake_and_a_proxy_that_drip(
    name: str, script: str, call: Any, engine: tidegate.Engine
) -> None:
    module = importlib.import_module(name.split()[0]) if name.startswith("httpx") else httpx
    theirs = (module.TransportError, requests.ConnectionError, urllib3.exceptions.HTTPError)
    with dripping_server(script) as server:
        ends_in_time(server, lambda: call(name, server.port, engine), tidegate.TidegateError, *theirs)


def test_what_is_sent_outside_a_policy_keeps_the_clients_own_timeout() -> None:
    inner = httpx.HTTPTransport()
    tidegate.httpx.Transport(inner, tidegate.Policy(deadline=0.1))
    tidegate.httpx.Transport(inner, tidegate.Policy(deadline=0.1))  # twice: the pool is looked into once
    with (
        dripping_server("body") as server,
        httpx.Client(transport=inner, timeout=5) as client,
        client.stream("GET", f"http://127.0.0.1:{server.port}/") as response,
    ):
        stream = response.iter_raw(1)
        assert [next(stream) for _ in range(20)] == [b"b"] * 20
