"""What all tests share: engines checked for leaks, the faulty origin, both colours of both clients."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest

import tidegate
import tidegate.httpx
from leaks import nothing_stays_open, watch_loops
from tidegate._engine.engine import _engines
from tidegate.testing import FakeClock

__all__ = ["nothing_stays_open"]  # pytest finds the fixture here

watch_loops()

# On a busy machine one example can take longer than Hypothesis' 200 ms. Tests read the profile on import.
hypothesis.settings.register_profile("tidegate", deadline=None)
hypothesis.settings.load_profile("tidegate")


@pytest.fixture(autouse=True, scope="session")
def frozen() -> None:
    """What was there before the first test is no test's garbage.

    Left out, a whole collection, of which there are some after most tests, takes a hundredth of its time.
    Hypothesis has been imported before: its plugin imports it at the end of a run otherwise, and warns of
    generators whose owners are frozen.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Rule 14: after any test, live calls, waiters and timers are zero."""
    yield
    if all(engine.snapshot()["live"] == 0 for engine in list(_engines)):
        gc.collect(0)  # there is nothing to wait for
    else:
        for _ in range(2):
            gc.collect()
    for engine in list(_engines):
        view = engine.snapshot()
        assert (view["live"], view["lingering"], view["lost"], view["waiting"]) == (0, 0, 0, 0)
        assert engine.waiters == {}
        for timers in list(engine.timers.values()):
            assert (timers.running, timers.parked, timers.stopped) == ({}, {}, {})
        for route in view["routes"]:
            assert route["active"] == 0
            assert route["pool"] is None or route["pool"]["in_flight"] == 0


@pytest.fixture(params=["native", "shell"])
def both_paths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test twice: first attempts by the native half, and by the shells."""
    monkeypatch.setattr("tidegate._call.caller.FAST", request.param == "native")


@pytest.fixture
def engine() -> tidegate.Engine:
    return tidegate.Engine(seed=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def fake(clock: FakeClock) -> tidegate.Engine:
    return tidegate.Engine(seed=1, clock=clock)


class Origin:
    """The faulty server of `tests/origin`, and its control port."""

    def __init__(self, binary: str) -> None:
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        line = json.loads(self.process.stdout.readline())
        self.url, self.control = line["url"], line["control"]

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def script(self, **script: Any) -> None:
        self._control("PUT", "/script", script)

    def sequence(self, *answers: Any, path: str = "/x") -> None:
        """The answers to the requests of a path, in order; numbers are statuses."""
        self.script(sequences={path: [{"status": a} if isinstance(a, int) else a for a in answers]})

    def log(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._control("GET", "/log")
        for entry in entries:
            entry["headers"] = dict(entry["headers"])
        return entries

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self._control("GET", "/stats")
        return stats

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture(scope="session")
def _origin() -> Iterator[Origin]:
    binary = os.environ.get("TIDEGATE_ORIGIN")
    if not binary:
        pytest.skip("TIDEGATE_ORIGIN names no binary (cargo build -p tidegate-origin)")
    origin = Origin(binary)
    yield origin
    origin.close()


@pytest.fixture
def origin(_origin: Origin) -> Origin:
    _origin.script()
    return _origin


class Client:
    """One HTTP client in one colour, driven from synchronous tests."""

    def __init__(self, module: Any, colour: str) -> None:
        self.module = module
        self.colour = colour
        self.is_async = colour == "async"
        self.loop = asyncio.new_event_loop() if self.is_async else None
        self.client: Any = None

    def open(
        self, policy: tidegate.Policy | None = None, handler: Any = None, limits: Any = None, **rest: Any
    ) -> Any:
        """Opens the client over the network, or over a handler in memory."""
        if handler is not None:
            inner = self.module.MockTransport(handler)
        else:
            more = {} if limits is None else {"limits": limits}
            kind = self.module.AsyncHTTPTransport if self.is_async else self.module.HTTPTransport
            inner = kind(**more)
        transport = tidegate.httpx.AsyncTransport if self.is_async else tidegate.httpx.Transport
        self.transport = transport(inner, policy, **rest)
        kind = self.module.AsyncClient if self.is_async else self.module.Client
        self.client = kind(transport=self.transport)
        return self

    def run(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if self.loop is not None else value

    def request(self, method: str, url: str, *, tg: Any = None, **rest: Any) -> Any:
        if tg is not None:
            rest["extensions"] = {"tidegate": tg}
        return self.run(self.client.request(method, url, **rest))

    def open_stream(self, method: str, url: str, **rest: Any) -> Any:
        """A response whose body has not been read."""
        request = self.client.build_request(method, url, **rest)
        return self.run(self.client.send(request, stream=True))

    def read(self, response: Any) -> bytes:
        return bytes(self.run(response.aread() if self.is_async else response.read()))

    def close_stream(self, response: Any) -> None:
        self.run(response.aclose() if self.is_async else response.close())

    def body(self, chunks: Any) -> Any:
        """A body that can be read once, of the client's colour."""
        if not self.is_async:
            return iter(chunks)

        async def again() -> Any:
            for chunk in chunks:
                yield chunk

        return again()

    def close(self) -> None:
        if self.client is not None:
            self.run(self.client.aclose() if self.is_async else self.client.close())
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["httpx", "httpx2"])
def module(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture(params=["sync", "async"])
def http(request: pytest.FixtureRequest, module: Any) -> Iterator[Client]:
    client = Client(module, request.param)
    yield client
    client.close()


def quick(engine: tidegate.Engine, **settings: Any) -> tidegate.Policy:
    """A policy that tries three times, 1 ms apart, with room for ten retries a second."""
    backoff = {"base": 0.001, "max": 0.001}
    retry = {"max_attempts": 3, "backoff": backoff, "max_retry_after": 60, "budget": {"kind": "window"}}
    return tidegate.Policy(engine=engine, **{"retry": retry, **settings})
