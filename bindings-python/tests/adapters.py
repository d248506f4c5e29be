"""All adapters behind one face, driven from synchronous tests: the rules are the same for each."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import aiohttp
import pytest
import requests
import urllib3

import tidegate
import tidegate.aiohttp
import tidegate.httpx
import tidegate.requests
import tidegate.urllib3

NAMES = ("httpx sync", "httpx async", "httpx2 sync", "httpx2 async", "requests", "urllib3", "aiohttp")


class Answer(NamedTuple):
    """A response that has been read."""

    status: int
    body: bytes
    info: dict[str, Any]


class File(io.BytesIO):
    """A seekable body; a broken one cannot go back once it has been read."""

    def __init__(self, data: bytes, broken: bool = False) -> None:
        super().__init__(data)
        self.broken = broken
        self.consumed = False

    def read(self, size: int | None = -1) -> bytes:
        self.consumed = True
        return super().read(size)

    def seek(self, to: int, whence: int = 0) -> int:
        if self.broken and to == 0 and whence == 0 and self.consumed:
            raise OSError("this file cannot be rewound")
        return super().seek(to, whence)


class AsyncFile:
    """The same for httpx in an event loop."""

    def __init__(self, data: bytes, broken: bool = False) -> None:
        self.file = File(data, broken)

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, to: int, whence: int = 0) -> int:
        return self.file.seek(to, whence)

    async def __aiter__(self) -> Any:
        while chunk := self.file.read(4):
            yield chunk


class Adapter:
    """One client in one colour."""

    is_async = False
    timeout_error: type[Exception]
    """What its users catch for timeouts."""
    error: type[Exception]
    """What its users catch for failures of the connection."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.may_lose = False
        """Whether a test throws an answer away unread: a client keeps its connection until it is closed."""

    def open(
        self,
        policy: tidegate.Policy | None = None,
        *,
        one_connection: bool = False,
        on_attempt: Callable[[], None] | None = None,
        on_answer: Callable[[], Any] | None = None,
        **rest: Any,
    ) -> Any:
        """Opens the client; `on_attempt` is called before each request that leaves.

        `on_answer` is called, and in an event loop awaited, after each head, before the adapter sees it.
        """
        raise NotImplementedError

    def run(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if self.loop is not None else value

    def request(self, method: str, url: str, **how: Any) -> Answer:
        """Sends a request (`body`, `headers`, `timeout`, `tg`: its options), and reads the answer."""
        return self.run(self.send(method, url, **how))  # type: ignore[no-any-return]

    def send(self, method: str, url: str, **how: Any) -> Any:
        """The same; in an event loop something to await."""
        raise NotImplementedError

    def stream(self, method: str, url: str, **how: Any) -> Any:
        """An answer whose body has not been read."""
        raise NotImplementedError

    def read(self, stream: Any) -> bytes:
        raise NotImplementedError

    def close_stream(self, stream: Any) -> None:
        raise NotImplementedError

    def info(self, stream: Any) -> dict[str, Any]:
        found: dict[str, Any] = stream.tidegate
        return found

    def one_shot(self, chunks: list[bytes]) -> Any:
        return iter(chunks)

    def file(self, data: bytes, broken: bool = False) -> Any:
        return File(data, broken)

    def busy(self) -> list[Any]:
        """The connections of the pool that are at work."""
        return []

    def close(self) -> None:
        raise NotImplementedError


class Httpx(Adapter):
    def __init__(self, module: str, colour: str) -> None:
        super().__init__()
        self.module = importlib.import_module(module)
        self.is_async = colour == "async"
        self.timeout_error, self.error = self.module.TimeoutException, self.module.TransportError
        self.client: Any = None
        if self.is_async:
            self.loop = asyncio.new_event_loop()

    def open(
        self,
        policy: Any = None,
        *,
        one_connection: bool = False,
        on_attempt: Any = None,
        on_answer: Any = None,
        **rest: Any,
    ) -> Any:
        module = self.module
        limits = module.Limits(max_connections=1) if one_connection else module.Limits()
        if self.is_async:
            inner = module.AsyncHTTPTransport(limits=limits)
            send = inner.handle_async_request
        else:
            inner = module.HTTPTransport(limits=limits)
            send = inner.handle_request
        if on_attempt is not None:

            def spying(request: Any) -> Any:
                on_attempt()
                return send(request)

            setattr(inner, "handle_async_request" if self.is_async else "handle_request", spying)
        if on_answer is not None and self.is_async:

            async def answered(request: Any) -> Any:
                response = await send(request)
                await on_answer()
                return response

            inner.handle_async_request = answered
        elif on_answer is not None:

            def answering(request: Any) -> Any:
                response = send(request)
                on_answer()
                return response

            inner.handle_request = answering
        self.pool = inner._pool
        kind = tidegate.httpx.AsyncTransport if self.is_async else tidegate.httpx.Transport
        client = module.AsyncClient if self.is_async else module.Client
        self.client = client(transport=kind(inner, policy, **rest), timeout=5)
        return self

    def _request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        timeout: Any = None,
        tg: Any = None,
    ) -> Any:
        extra: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
        if isinstance(body, (AsyncFile, File)):
            headers = (
                {"Content-Length": str(len(body.file.getvalue()) - body.tell())}
                if isinstance(body, AsyncFile)
                else {"Content-Length": str(len(body.getvalue()) - body.tell())}
            )
        extensions = {} if tg is None else {"tidegate": tg}
        return self.client.build_request(
            method, url, content=body, headers=headers, extensions=extensions, **extra
        )

    def send(self, method: str, url: str, **how: Any) -> Any:
        request = self._request(method, url, **how)
        if not self.is_async:
            return self._answer(self.client.send(request))

        async def sending() -> Answer:
            return self._answer(await self.client.send(request))

        return sending()

    def _answer(self, response: Any) -> Answer:
        return Answer(response.status_code, response.content, self.info(response))

    def info(self, stream: Any) -> dict[str, Any]:
        found: dict[str, Any] = stream.extensions["tidegate"]
        return found

    def stream(self, method: str, url: str, **how: Any) -> Any:
        return self.run(self.client.send(self._request(method, url, **how), stream=True))

    def read(self, stream: Any) -> bytes:
        return bytes(self.run(stream.aread() if self.is_async else stream.read()))

    def close_stream(self, stream: Any) -> None:
        self.run(stream.aclose() if self.is_async else stream.close())

    def one_shot(self, chunks: list[bytes]) -> Any:
        return once(chunks) if self.is_async else iter(chunks)

    def file(self, data: bytes, broken: bool = False) -> Any:
        return AsyncFile(data, broken) if self.is_async else File(data, broken)

    def busy(self) -> list[Any]:
        return [one for one in self.pool.connections if not one.is_idle()]

    def close(self) -> None:
        if self.client is not None:
            assert self.may_lose or self.busy() == [], "a connection has been lost to the pool"
            self.run(self.client.aclose() if self.is_async else self.client.close())
        close_loop(self.loop)


class Requests(Adapter):
    timeout_error, error = requests.Timeout, requests.RequestException

    def open(
        self,
        policy: Any = None,
        *,
        one_connection: bool = False,
        on_attempt: Any = None,
        on_answer: Any = None,
        **rest: Any,
    ) -> Any:
        kind = tidegate.requests.Adapter
        if on_attempt is not None or on_answer is not None:

            class Spied(requests.adapters.HTTPAdapter):
                def send(self, *args: Any, **kwargs: Any) -> Any:
                    (on_attempt or nothing)()
                    response = super().send(*args, **kwargs)
                    (on_answer or nothing)()
                    return response

            kind = type("Adapter", (tidegate.requests.Adapter, Spied), {})
        pool = {"pool_maxsize": 1, "pool_block": True} if one_connection else {}
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.mount("http://", kind(policy, **pool, **rest))
        return self

    def stream(self, method: str, url: str, **how: Any) -> Any:
        body, tg = how.pop("body", None), how.pop("tg", None)
        with options(tidegate.requests, tg):
            return self.session.request(method, url, data=body, stream=True, **how)

    def send(self, method: str, url: str, **how: Any) -> Answer:
        body, tg = how.pop("body", None), how.pop("tg", None)
        with options(tidegate.requests, tg):
            response = self.session.request(method, url, data=body, **how)
            return Answer(response.status_code, response.content, self.info(response))

    def read(self, stream: Any) -> bytes:
        content: bytes = stream.content
        return content

    def close_stream(self, stream: Any) -> None:
        stream.close()

    def close(self) -> None:
        if hasattr(self, "session"):
            self.session.close()


class Urllib3(Adapter):
    timeout_error, error = urllib3.exceptions.TimeoutError, urllib3.exceptions.HTTPError

    def open(
        self,
        policy: Any = None,
        *,
        one_connection: bool = False,
        on_attempt: Any = None,
        on_answer: Any = None,
        **rest: Any,
    ) -> Any:
        pool = {"maxsize": 1, "block": True} if one_connection else {}
        self.manager = urllib3.PoolManager(**pool)
        if on_attempt is not None or on_answer is not None:

            class Spied(urllib3.HTTPConnectionPool):
                def urlopen(self, *args: Any, **kwargs: Any) -> Any:
                    (on_attempt or nothing)()
                    response = super().urlopen(*args, **kwargs)
                    (on_answer or nothing)()
                    return response

            self.manager.pool_classes_by_scheme = {"http": Spied}
        tidegate.urllib3.guard(self.manager, policy, **rest)
        return self

    def send(self, method: str, url: str, **how: Any) -> Answer:
        tg = how.pop("tg", None)
        response = self.manager.request(method, url, tidegate=tg, **how)
        return Answer(response.status, response.data, self.info(response))

    def stream(self, method: str, url: str, **how: Any) -> Any:
        tg = how.pop("tg", None)
        return self.manager.request(method, url, preload_content=False, tidegate=tg, **how)

    def read(self, stream: Any) -> bytes:
        data = bytes(stream.read())
        stream.release_conn()
        return data

    def close_stream(self, stream: Any) -> None:
        stream.close()
        stream.release_conn()

    def close(self) -> None:
        if hasattr(self, "manager"):
            self.manager.clear()


class Aiohttp(Adapter):
    is_async = True
    timeout_error, error = aiohttp.ServerTimeoutError, aiohttp.ClientError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.session: Any = None

    def open(
        self,
        policy: Any = None,
        *,
        one_connection: bool = False,
        on_attempt: Any = None,
        on_answer: Any = None,
        **rest: Any,
    ) -> Any:
        async def spying(request: Any, handler: Any) -> Any:
            (on_attempt or nothing)()
            response = await handler(request)
            if on_answer is not None:
                await on_answer()
            return response

        async def opening() -> None:
            guarded = tidegate.aiohttp.middleware(policy, **rest)
            self.session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=1 if one_connection else 100),
                middlewares=[guarded, spying] if on_attempt or on_answer else [guarded],
            )

        self.run(opening())
        return self

    async def _open(self, method: str, url: str, how: dict[str, Any]) -> Any:
        body, tg, timeout = how.pop("body", None), how.pop("tg", None), how.pop("timeout", None)
        if timeout is not None:
            how["timeout"] = aiohttp.ClientTimeout(total=timeout)
        with options(tidegate.aiohttp, tg):
            return await self.session.request(method, url, data=body, **how)

    async def send(self, method: str, url: str, **how: Any) -> Answer:
        response = await self._open(method, url, how)
        async with response:
            return Answer(response.status, await response.read(), self.info(response))

    def stream(self, method: str, url: str, **how: Any) -> Any:
        return self.run(self._open(method, url, how))

    def read(self, stream: Any) -> bytes:
        return bytes(self.run(stream.read()))

    def close_stream(self, stream: Any) -> None:
        stream.close()

    def one_shot(self, chunks: list[bytes]) -> Any:
        return once(chunks)

    def busy(self) -> list[Any]:
        return list(self.session.connector._acquired)

    def close(self) -> None:
        if self.session is not None:
            assert self.may_lose or self.busy() == [], "a connection has been lost to the pool"
            self.run(self.session.close())
        close_loop(self.loop)


def nothing() -> None:
    """What a spy does that nobody has asked for."""


async def once(chunks: list[bytes]) -> Any:
    """A body that can be read once, in an event loop."""
    for chunk in chunks:
        yield chunk


def options(module: Any, tg: dict[str, Any] | None) -> Any:
    return contextlib.nullcontext() if tg is None else module.options(**tg)


def close_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    if loop is not None:
        loop.run_until_complete(asyncio.sleep(0))
        assert asyncio.all_tasks(loop) == set(), "a task has been left behind"
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def made(name: str) -> Adapter:
    """An adapter by its name."""
    module, _, colour = name.partition(" ")
    if colour:
        return Httpx(module, colour)
    return {"requests": Requests, "urllib3": Urllib3, "aiohttp": Aiohttp}[module]()


def bodies(origin: Any) -> list[str]:
    """What the origin was sent."""
    return [entry["body"] for entry in origin.log()]


def ends(engine: tidegate.Engine) -> dict[str, int]:
    """How the calls of the engine's only policy ended."""
    (policy,) = engine.snapshot()["policies"].values()
    return json.loads(json.dumps(policy["ends"]))  # type: ignore[no-any-return]


@pytest.fixture(params=NAMES)
def http(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    adapter = made(request.param)
    yield adapter
    adapter.close()


def dripping(status: int, every: int = 60, size: int = 60) -> dict[str, Any]:
    return {
        "status": status,
        "fault": "slow_body",
        "body_bytes": size,
        "chunk_bytes": 1,
        "chunk_every": every,
    }


def live(engine: tidegate.Engine) -> int:
    return int(engine.snapshot()["live"])
