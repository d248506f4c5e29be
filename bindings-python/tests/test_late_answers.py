"""An answer that no caller receives is closed, in every order of events, and its connection is not lost."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
import trio

import tidegate
import tidegate.httpx
from adapters import NAMES, Adapter, made
from conftest import Origin

DEADLINE = 0.2
LATE = 0.4
"""Seconds that an answer is held back, beyond every deadline here."""
ASYNC = [name for name in NAMES if "async" in name or name == "aiohttp"]
PATIENCE = 10.0


class Endless:
    """A server whose answers have a body without end, and how many of its connections are open."""

    def __init__(self) -> None:
        self.open = 0
        self.heads = [b"200 OK"]
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.open += 1
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                with self._lock:
                    status = self.heads.pop(0) if len(self.heads) > 1 else self.heads[0]
                connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: 1000000\r\n\r\nbegin" % status)
        with self._lock:
            self.open -= 1

    def is_deserted(self) -> bool:
        """Whether all connections have been closed by the other side, sooner or later."""
        until = time.monotonic() + PATIENCE
        while self.open and time.monotonic() < until:
            time.sleep(0.005)
        return self.open == 0

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE)


@pytest.fixture
def endless() -> Iterator[Endless]:
    server = Endless()
    yield server
    server.close()


def policy(engine: tidegate.Engine, **more: Any) -> tidegate.Policy:
    retry = {"max_attempts": 2, "backoff": {"base": 0.001, "max": 0.001}}
    return tidegate.Policy(engine=engine, **{"deadline": DEADLINE, "retry": retry, **more})


def held(adapter: Adapter) -> Callable[[], Any]:
    """Holds an answer back, and lets nothing else happen meanwhile."""
    if not adapter.is_async:
        return lambda: time.sleep(LATE)

    async def blocking() -> None:
        time.sleep(LATE)  # noqa: ASYNC251 - so that no timer can fire before the answer is there

    return blocking


def nothing_is_left(adapter: Adapter, endless: Endless, engine: tidegate.Engine) -> None:
    if adapter.loop is not None:
        adapter.run(asyncio.sleep(0.01))  # aiohttp closes sockets in the next turn of the loop
    assert endless.is_deserted()
    assert adapter.busy() == []
    view = engine.snapshot()
    assert (view["live"], view["lingering"]) == (0, 0)
    if adapter.loop is not None:
        assert asyncio.all_tasks(adapter.loop) == set()


@pytest.fixture(params=NAMES)
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    made_one = made(request.param)
    yield made_one
    made_one.close()


@pytest.fixture(params=ASYNC)
def awaited(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    made_one = made(request.param)
    yield made_one
    made_one.close()


@pytest.mark.parametrize("times", [1, 3])
def test_a_head_after_the_deadline(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine, times: int
) -> None:
    client = adapter.open(policy(engine), on_answer=held(adapter))
    for _ in range(times):
        # On a busy machine the deadline may pass while it connects, which the client tells in its own words.
        with pytest.raises((tidegate.DeadlineExceeded, adapter.error)):
            client.stream("GET", endless.url)
    nothing_is_left(adapter, endless, engine)


def test_a_head_after_the_attempts_timeout(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine
) -> None:
    client = adapter.open(policy(engine, attempt_timeout=0.03, deadline=30), on_answer=held(adapter))
    with contextlib.suppress(adapter.error):
        client.close_stream(client.stream("GET", endless.url))  # good answers are not asked for twice
    nothing_is_left(adapter, endless, engine)


def test_a_failed_answer_and_then_a_good_one_that_is_late(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine
) -> None:
    endless.heads = [b"503 Busy", b"200 OK"]
    hold = held(adapter)
    heads = []

    def second() -> Any:
        heads.append(1)
        return hold() if len(heads) == 2 else (asyncio.sleep(0) if adapter.is_async else None)

    client = adapter.open(policy(engine, deadline=0.4), on_answer=second)
    with contextlib.suppress(tidegate.DeadlineExceeded):
        client.close_stream(client.stream("GET", endless.url))
    assert len(heads) == 2
    nothing_is_left(adapter, endless, engine)


def test_the_deadline_passes_while_the_body_is_read(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine
) -> None:
    client = adapter.open(policy(engine, deadline=0.3))
    stream = client.stream("GET", endless.url)
    with pytest.raises(tidegate.DeadlineExceeded):
        client.read(stream)
    nothing_is_left(adapter, endless, engine)


def test_the_deadline_passes_before_the_body_is_read(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine
) -> None:
    client = adapter.open(policy(engine, deadline=0.3))
    stream = client.stream("GET", endless.url)
    time.sleep(0.35)
    with pytest.raises(tidegate.DeadlineExceeded):
        client.read(stream)
    nothing_is_left(adapter, endless, engine)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_who_judges_the_answer_ends_the_program(
    adapter: Adapter, endless: Endless, engine: tidegate.Engine, interrupt: type[BaseException]
) -> None:
    def classify(value: Any) -> None:
        raise interrupt

    client = adapter.open(policy(engine, deadline=30, classify=classify))
    with pytest.raises(interrupt):
        client.stream("GET", endless.url)
    nothing_is_left(adapter, endless, engine)


def test_an_answer_that_comes_although_its_attempt_was_stopped(
    awaited: Adapter, endless: Endless, engine: tidegate.Engine
) -> None:
    stops: list[int] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stops.append(1)

    client = awaited.open(policy(engine), on_answer=stubborn)
    with contextlib.suppress(tidegate.DeadlineExceeded):
        stream = client.stream("GET", endless.url)  # R1: its outcome is delivered, and its time is up
        with pytest.raises(tidegate.DeadlineExceeded):
            client.read(stream)
    assert stops == [1]
    nothing_is_left(awaited, endless, engine)


@pytest.mark.parametrize("late", [False, True])
def test_a_caller_who_leaves_as_the_head_comes(
    awaited: Adapter, endless: Endless, engine: tidegate.Engine, late: bool
) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def leaving() -> None:
        tasks[0].cancel()
        if late:
            time.sleep(LATE)  # noqa: ASYNC251 - the deadline passes too

    client = awaited.open(policy(engine, retry=None), on_answer=leaving)

    async def main() -> None:
        tasks.append(asyncio.ensure_future(client.send("GET", endless.url)))
        with pytest.raises((asyncio.CancelledError, tidegate.DeadlineExceeded)):
            await tasks[0]

    awaited.run(main())
    nothing_is_left(awaited, endless, engine)


def test_a_caller_who_leaves_while_a_late_answer_is_closed(engine: tidegate.Engine) -> None:
    httpx = importlib.import_module("httpx")
    closed: list[str] = []

    class Slow(httpx.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> Any:
            yield b"x"

        async def aclose(self) -> None:
            closed.append("begun")
            begun.set()
            await asyncio.sleep(0.05)
            closed.append("ended")

    class Late(httpx.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            time.sleep(LATE)  # noqa: ASYNC251 - it comes late, and nothing else happens meanwhile
            return httpx.Response(200, stream=Slow())

    begun = asyncio.Event()

    async def main() -> None:
        transport = tidegate.httpx.AsyncTransport(Late(), policy(engine))
        async with httpx.AsyncClient(transport=transport) as client:
            task = asyncio.ensure_future(client.get("http://far.test/"))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert closed == ["begun", "ended"]


@pytest.mark.parametrize("how", ["raises", "hangs"])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_a_late_answer_that_cannot_be_closed_changes_no_end(
    name: str, backend: str, how: str, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate._call.tasks.CLOSE_SECONDS", 0.02)
    module, closed = importlib.import_module(name), []

    class Broken(module.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> Any:
            yield b"x"

        async def aclose(self) -> None:
            closed.append(1)
            if how == "raises":
                raise RuntimeError("cannot be closed")
            await anyio.sleep(30)

    class Late(module.AsyncBaseTransport):  # type: ignore[misc, name-defined]
        async def handle_async_request(self, request: Any) -> Any:
            time.sleep(LATE)  # noqa: ASYNC251 - it comes late, and nothing else happens meanwhile
            return module.Response(200, stream=Broken())

    async def main() -> None:
        transport = tidegate.httpx.AsyncTransport(Late(), policy(engine))
        async with module.AsyncClient(transport=transport) as client:
            with pytest.raises(tidegate.DeadlineExceeded):
                await client.get("http://far.test/")

    anyio.run(main, backend=backend)
    assert closed == [1]


@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_a_late_answer_in_a_thread_that_cannot_be_closed(name: str, engine: tidegate.Engine) -> None:
    module, closed = importlib.import_module(name), []

    class Broken(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            yield b"x"

        def close(self) -> None:
            closed.append(1)
            raise RuntimeError("cannot be closed")

    class Late(module.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            time.sleep(LATE)
            return module.Response(200, stream=Broken())

    client = module.Client(transport=tidegate.httpx.Transport(Late(), policy(engine)))
    with client, pytest.raises(tidegate.DeadlineExceeded):
        client.get("http://far.test/")
    assert closed == [1]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_generator_whose_first_item_is_late_is_closed(backend: str, engine: tidegate.Engine) -> None:
    closed: list[str] = []

    @policy(engine)
    async def items() -> Any:
        try:
            time.sleep(LATE)  # noqa: ASYNC251 - it comes late, and nothing else happens meanwhile
            yield 1
        finally:
            closed.append("async")

    @policy(engine)
    def more() -> Any:
        try:
            time.sleep(LATE)
            yield 1
        finally:
            closed.append("sync")

    async def main() -> None:
        with pytest.raises(tidegate.DeadlineExceeded):
            async for _ in items():
                pass
        assert closed == ["async"]

    anyio.run(main, backend=backend)
    with pytest.raises(tidegate.DeadlineExceeded):
        list(more())
    assert closed == ["async", "sync"]


def test_files_and_threads_are_as_many_as_before(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    client = adapter.open(policy(engine), on_answer=held(adapter))
    counts: list[tuple[int, int]] = []
    for _ in range(6):
        with contextlib.suppress(tidegate.DeadlineExceeded):  # aiohttp has all of a small answer already
            client.request("GET", origin.url + "/x")
        counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
    (files, threads), last = counts[0], counts[-1]
    assert last[0] <= files and last[1] <= threads, counts  # fewer where a busy machine ended a thread late


@pytest.mark.parametrize(
    "order", ["a late head", "a late body", "a caller who leaves", "stopped and answered"]
)
@pytest.mark.parametrize("name", ["httpx", "httpx2"])
def test_orders_under_trio(name: str, order: str, endless: Endless, engine: tidegate.Engine) -> None:
    module = importlib.import_module(name)
    inner = module.AsyncHTTPTransport()
    send = inner.handle_async_request
    scopes: list[trio.CancelScope] = []

    async def answered(request: Any) -> Any:
        response = await send(request)
        if order == "a late head":
            time.sleep(LATE)  # noqa: ASYNC251 - no timer can fire before the answer is there
        elif order == "a caller who leaves":
            scopes[0].cancel()
        elif order == "stopped and answered":
            with trio.CancelScope(shield=True):
                await trio.sleep(LATE)
        return response

    inner.handle_async_request = answered

    async def main() -> None:
        deadline = {"a late body": 0.3, "a caller who leaves": 30}.get(order, DEADLINE)
        transport = tidegate.httpx.AsyncTransport(inner, policy(engine, deadline=deadline, retry=None))
        async with module.AsyncClient(transport=transport) as client:
            with trio.CancelScope() as scope:
                scopes.append(scope)
                with pytest.raises((tidegate.DeadlineExceeded, trio.Cancelled)) as raised:
                    await client.get(endless.url)
                assert isinstance(raised.value, trio.Cancelled) == (order == "a caller who leaves")
            assert await trio.to_thread.run_sync(endless.is_deserted)
            assert [one for one in inner._pool.connections if not one.is_idle()] == []

    trio.run(main)
    view = engine.snapshot()
    assert (view["live"], view["lingering"]) == (0, 0)
