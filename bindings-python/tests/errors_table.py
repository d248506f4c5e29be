"""Real errors, each raised by its own library: how it is made, and what it has to be (semantics 1.5).

`docs/errors-python.md` is written from this table by `test_errors.py` (`UPDATE=1`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http.client
import os
import smtplib
import socket
import sqlite3
import ssl
import urllib.request
from collections.abc import Callable
from typing import Any, NamedTuple

from odd_server import Server

NOBODY = "127.0.0.1:1"
"""The address of a closed port."""


class Row(NamedTuple):
    library: str
    error: str
    how: str
    expected: str
    make: Callable[[Server], object]


ROWS: list[Row] = []


def row(library: str, error: str, how: str, expected: str) -> Callable[[Callable[[Server], object]], None]:
    def keep(make: Callable[[Server], object]) -> None:
        ROWS.append(Row(library, error, how, expected, make))

    return keep


SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nfew"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BAD = b"nonsense\r\n\r\n"

# Python itself.

row("Python", "FileNotFoundError", "`stat` of a file that is not there", "permanent")(
    lambda s: os.stat("/no/such")
)
row("Python", "IsADirectoryError", "`open` of a folder", "permanent")(lambda s: os.open("/", os.O_WRONLY))
row("Python", "NotADirectoryError", "`listdir` of a file", "permanent")(lambda s: os.listdir(__file__))
row("Python", "FileExistsError", "`mkdir` of a folder that is there", "permanent")(lambda s: os.mkdir("/"))
row("Python", "OSError", "`EINVAL` of `readlink`", "permanent")(lambda s: os.readlink(__file__))
row("Python", "OSError", "`EBADF` of a closed descriptor", "permanent")(lambda s: os.read(2**20, 1))
row("Python", "ValueError", "`int` of a word", "permanent")(lambda s: int("word"))
row("Python", "ZeroDivisionError", "a bug", "permanent")(lambda s: 1 // 0)
row("Python", "ConnectionRefusedError", "a closed port", "never_sent")(
    lambda s: socket.create_connection(("127.0.0.1", 1))
)
row("Python", "gaierror", "an unknown host name", "never_sent")(
    lambda s: socket.getaddrinfo("no.invalid.", 1)
)
row("Python", "TimeoutError", "`recv` with a timeout", "timeout")(
    lambda s: socket.create_connection(("127.0.0.1", s.port(None)), 0.05).recv(1)
)
row("Python", "TimeoutError", "`asyncio.wait_for`", "timeout")(
    lambda s: asyncio.run(asyncio.wait_for(asyncio.sleep(5), 0.001))
)
row("Python", "TimeoutError", "`Future.result(timeout=0)`", "timeout")(
    lambda s: concurrent.futures.Future().result(timeout=0)
)
row("Python", "BrokenPipeError", "a pipe whose reader is gone", "transient")(lambda s: _broken_pipe())
row("Python", "BlockingIOError", "a read that would block", "transient")(lambda s: _would_block())
row("Python", "IncompleteReadError", "`StreamReader.readexactly`", "transient")(
    lambda s: asyncio.run(_read_exactly(s))
)
row("Python", "OSError", 'asyncio\'s "Multiple exceptions", all addresses refused', "never_sent")(
    lambda s: _raise(
        OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] …")
    )
)
row("Python", "SSLError", "TLS with a server that has none", "permanent")(
    lambda s: ssl.create_default_context().wrap_socket(
        socket.create_connection(("127.0.0.1", s.port(BAD))), server_hostname="localhost"
    )
)
row("Python", "RuntimeError", "raised from a ConnectionResetError", "transient")(
    lambda s: _from_reset(explicit=True)
)
row("Python", "RuntimeError", "raised while a ConnectionResetError was handled", "permanent")(
    lambda s: _from_reset(explicit=False)
)
row("http.client", "RemoteDisconnected", "a server that hangs up", "transient")(
    lambda s: _http_client(s, b"")
)
row("http.client", "BadStatusLine", "a server that speaks no HTTP", "transient")(
    lambda s: _http_client(s, BAD)
)
row("http.client", "IncompleteRead", "a body that breaks off", "transient")(lambda s: _http_client(s, SHORT))
row("urllib", "URLError", "a closed port", "never_sent")(
    lambda s: urllib.request.urlopen(f"http://{NOBODY}/")
)
row("urllib", "HTTPError", "a 503", "transient")(lambda s: urllib.request.urlopen(s.status(503)))
row("urllib", "HTTPError", "a 404", "permanent")(lambda s: urllib.request.urlopen(s.status(404)))
row("smtplib", "SMTPServerDisconnected", "a server that hangs up", "transient")(
    lambda s: smtplib.SMTP("127.0.0.1", s.port(b"", read=False))
)


@row("sqlite3", "OperationalError", "a table that is not there", "permanent")
def _(s: Server) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("select * from nobody")


# HTTP clients.


@row("httpx", "ConnectError", "a closed port", "never_sent")
def _(s: Server) -> object:
    import httpx

    return httpx.get(f"http://{NOBODY}/")


@row("httpx", "ReadTimeout", "a server that is silent", "timeout")
def _(s: Server) -> object:
    import httpx

    return httpx.get(s.url(None), timeout=0.05)


@row("httpx", "RemoteProtocolError", "a server that hangs up", "transient")
def _(s: Server) -> object:
    import httpx

    return httpx.get(s.url(b""))


@row("httpx", "ReadError", "a connection that is reset", "transient")
def _(s: Server) -> object:
    import httpx

    return httpx.get(s.url(b"", reset=True))


@row("httpx", "UnsupportedProtocol", "a URL without a scheme", "permanent")
def _(s: Server) -> object:
    import httpx

    return httpx.get("nobody")


@row("httpx", "InvalidURL", "a port that is no number", "permanent")
def _(s: Server) -> object:
    import httpx

    return httpx.get("http://h:port/")


def _httpx_status(status: int) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import httpx

        return httpx.get(s.status(status, "Retry-After: 0\r\n")).raise_for_status()

    return make


row("httpx", "HTTPStatusError", "`raise_for_status` of a 503", "transient")(_httpx_status(503))
row("httpx", "HTTPStatusError", "`raise_for_status` of a 429", "throttled")(_httpx_status(429))
row("httpx", "HTTPStatusError", "`raise_for_status` of a 404", "permanent")(_httpx_status(404))
row("httpx", "HTTPStatusError", "`raise_for_status` of a 500: a failure that is not repeated", "transient")(
    _httpx_status(500)
)


def _requests(url: Callable[[Server], str], **more: Any) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import requests

        answer = requests.get(url(s), **more)
        answer.raise_for_status()
        return answer.content

    return make


refused = f"http://{NOBODY}/"
row("requests", "ConnectionError", "a closed port", "never_sent")(_requests(lambda s: refused))
row("requests", "ReadTimeout", "a server that is silent", "timeout")(
    _requests(lambda s: s.url(None), timeout=0.05)
)
row("requests", "ConnectionError", "a server that hangs up", "transient")(_requests(lambda s: s.url(b"")))
row("requests", "ConnectionError", "a connection that is reset", "transient")(
    _requests(lambda s: s.url(b"", reset=True))
)
row("requests", "ChunkedEncodingError", "a body that breaks off", "transient")(
    _requests(lambda s: s.url(SHORT))
)
row("requests", "ProxyError", "a proxy that is not there", "never_sent")(
    _requests(lambda s: "http://h.invalid/", proxies={"http": refused})
)
row("requests", "MissingSchema", "a URL without a scheme", "permanent")(_requests(lambda s: "nobody"))
row("requests", "InvalidURL", "a URL without a host", "permanent")(_requests(lambda s: "http://"))
row("requests", "HTTPError", "a 503", "transient")(_requests(lambda s: s.status(503)))
row("requests", "HTTPError", "a 404", "permanent")(_requests(lambda s: s.status(404)))


def _urllib3(url: Callable[[Server], str], **more: Any) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import urllib3

        with urllib3.PoolManager(retries=False) as pool:
            return pool.request("GET", url(s), **more)

    return make


row("urllib3", "NewConnectionError", "a closed port", "never_sent")(_urllib3(lambda s: refused))
row("urllib3", "MaxRetryError", "the same, after its own retries", "never_sent")(
    _urllib3(lambda s: refused, retries=1)
)
row("urllib3", "ReadTimeoutError", "a server that is silent", "timeout")(
    _urllib3(lambda s: s.url(None), timeout=0.05)
)
row("urllib3", "ProtocolError", "a server that hangs up", "transient")(_urllib3(lambda s: s.url(b"")))
row("urllib3", "ProtocolError", "a body that breaks off", "transient")(_urllib3(lambda s: s.url(SHORT)))
row("urllib3", "LocationParseError", "an invalid URL", "permanent")(_urllib3(lambda s: "http://[::1"))


@row("urllib3", "HostChangedError", "a URL of another host, asked of one host's pool", "permanent")
def _(s: Server) -> object:
    import urllib3

    with urllib3.HTTPConnectionPool("127.0.0.1") as pool:
        return pool.urlopen("GET", "http://h.invalid/", retries=False)


def _aiohttp(url: Callable[[Server], str], **more: Any) -> Callable[[Server], object]:
    async def ask(s: Server) -> object:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.get(url(s), **more) as answer:
            answer.raise_for_status()
            return await answer.read()

    return lambda s: asyncio.run(ask(s))


def _total(seconds: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(sock_read=seconds)


row("aiohttp", "ClientConnectorError", "a closed port", "never_sent")(_aiohttp(lambda s: refused))
row("aiohttp", "ClientConnectorDNSError", "an unknown host name", "never_sent")(
    _aiohttp(lambda s: "http://no.invalid/")
)
row("aiohttp", "ServerDisconnectedError", "a server that hangs up", "transient")(
    _aiohttp(lambda s: s.url(b""))
)
row("aiohttp", "ClientOSError", "a connection that is reset", "transient")(
    _aiohttp(lambda s: s.url(b"", reset=True))
)
row("aiohttp", "ClientPayloadError", "a body that breaks off", "transient")(_aiohttp(lambda s: s.url(SHORT)))
row("aiohttp", "SocketTimeoutError", "a server that is silent", "timeout")(
    lambda s: _aiohttp(lambda s: s.url(None), timeout=_total(0.05))(s)
)
row("aiohttp", "ClientResponseError", "a 503", "transient")(_aiohttp(lambda s: s.status(503)))
row("aiohttp", "ClientResponseError", "a 403", "permanent")(_aiohttp(lambda s: s.status(403)))
row("aiohttp", "InvalidUrlClientError", "an invalid URL", "permanent")(_aiohttp(lambda s: "http:///"))
row("aiohttp", "NonHttpUrlClientError", "a URL of another scheme", "permanent")(
    _aiohttp(lambda s: "ftp://h/")
)
row("aiohttp", "TooManyRedirects", "a redirect, where none is allowed", "permanent")(
    _aiohttp(lambda s: s.url(MOVED), max_redirects=1)
)


@row("aiohttp", "ContentTypeError", "`json` of an answer that is none", "permanent")
def _(s: Server) -> object:
    import aiohttp

    async def ask() -> object:
        async with aiohttp.ClientSession() as session, session.get(s.status(200)) as answer:
            return await answer.json()

    return asyncio.run(ask())


# SDKs.


def _aws(url: Callable[[Server], str], **more: Any) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import botocore.session
        from botocore.config import Config

        config = Config(retries={"total_max_attempts": 1}, **more)
        keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "eu-west-1"}
        client = botocore.session.Session().create_client("sts", endpoint_url=url(s), config=config, **keys)
        return client.get_caller_identity()

    return make


def _aws_error(status: int, code: str) -> bytes:
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>m</Message></Error></ErrorResponse>"
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


row("botocore", "EndpointConnectionError", "a closed port", "never_sent")(_aws(lambda s: refused))
row("botocore", "ReadTimeoutError", "a server that is silent", "timeout")(
    _aws(lambda s: s.url(None), read_timeout=0.1)
)
row("botocore", "ConnectionClosedError", "a server that hangs up", "transient")(_aws(lambda s: s.url(b"")))
row("botocore", "ClientError", "a 503", "transient")(
    _aws(lambda s: s.url(_aws_error(503, "ServiceUnavailable")))
)
row("botocore", "ClientError", "a 400 with the code `ThrottlingException`", "throttled")(
    _aws(lambda s: s.url(_aws_error(400, "ThrottlingException")))
)
row("botocore", "ClientError", "a 403", "permanent")(_aws(lambda s: s.url(_aws_error(403, "AccessDenied"))))


def _model(library: str, url: Callable[[Server], str], **more: Any) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import importlib

        module = importlib.import_module(library)
        kind = {"openai": "OpenAI", "anthropic": "Anthropic"}[library]
        with getattr(module, kind)(api_key="k", base_url=url(s), max_retries=0, **more) as client:
            return client.models.list()

    return make


for sdk in ("openai", "anthropic"):
    row(sdk, "APIConnectionError", "a closed port", "never_sent")(_model(sdk, lambda s: refused))
    row(sdk, "APIConnectionError", "a server that hangs up", "transient")(_model(sdk, lambda s: s.url(b"")))
    row(sdk, "APITimeoutError", "a server that is silent", "timeout")(
        _model(sdk, lambda s: s.url(None), timeout=0.1)
    )
    row(sdk, "RateLimitError", "a 429", "throttled")(_model(sdk, lambda s: s.status(429)))
    row(sdk, "AuthenticationError", "a 401", "permanent")(_model(sdk, lambda s: s.status(401)))

# gRPC.


def _grpc(code: str) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        from concurrent.futures import ThreadPoolExecutor

        import grpc

        def answer(request: bytes, context: Any) -> bytes:
            context.abort(getattr(grpc.StatusCode, code), "no")
            return b""

        class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
            def service(self, details: object) -> object:
                return grpc.unary_unary_rpc_method_handler(answer)

        host = grpc.server(ThreadPoolExecutor(1))
        host.add_generic_rpc_handlers((Handler(),))
        port = host.add_insecure_port("127.0.0.1:0")
        host.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                return channel.unary_unary("/a/b")(b"")
        finally:
            host.stop(None).wait()

    return make


for name, expected in (
    ("UNAVAILABLE", "transient"),
    ("RESOURCE_EXHAUSTED", "throttled"),
    ("DEADLINE_EXCEEDED", "transient"),
    ("ABORTED", "conflict"),
    ("INVALID_ARGUMENT", "permanent"),
    ("UNIMPLEMENTED", "permanent"),
):
    row("grpc", "_InactiveRpcError", f"`{name}`", expected)(_grpc(name))

# Databases and stores.


@row("redis", "ConnectionError", "a closed port", "never_sent")
def _(s: Server) -> object:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(port=1, retry=Retry(NoBackoff(), 0)).ping()


@row("redis", "TimeoutError", "a server that is silent", "timeout")
def _(s: Server) -> object:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.Redis(port=s.port(None), socket_timeout=0.05, retry=Retry(NoBackoff(), 0)).ping()


def _redis(answer: bytes) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis(
            port=s.port(answer), protocol=2, driver_info=None, retry=Retry(NoBackoff(), 0)
        ).ping()

    return make


row("redis", "BusyLoadingError", "a server that is loading", "transient")(_redis(b"-LOADING wait\r\n" * 4))
row("redis", "ReadOnlyError", "a replica", "transient")(_redis(b"-READONLY replica\r\n" * 4))
row("redis", "ConnectionError", "a server that hangs up", "transient")(_redis(b""))
row("redis", "ResponseError", "a command that is wrong", "permanent")(_redis(b"-ERR wrong\r\n" * 4))


def _postgres(state: str) -> bytes:
    fields = f"SFATAL\0C{state}\0Mno\0\0".encode()
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


@row("psycopg", "OperationalError", "a closed port", "transient")
def _(s: Server) -> object:
    import psycopg

    return psycopg.connect("host=127.0.0.1 port=1 user=u dbname=d")


@row("psycopg", "SerializationFailure", "SQLSTATE 40001", "conflict")
def _(s: Server) -> object:
    import psycopg

    raise psycopg.errors.lookup("40001")("no")


@row("psycopg", "UniqueViolation", "SQLSTATE 23505", "permanent")
def _(s: Server) -> object:
    import psycopg

    raise psycopg.errors.lookup("23505")("no")


def _asyncpg(answer: bytes) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import asyncpg

        how: Any = {"host": "127.0.0.1", "user": "u", "password": "p", "ssl": False, "timeout": 5}
        return asyncio.run(asyncpg.connect(port=s.port(answer), **how))

    return make


row("asyncpg", "CannotConnectNowError", "a server that starts", "never_sent")(_asyncpg(_postgres("57P03")))
row("asyncpg", "TooManyConnectionsError", "a server that is full", "never_sent")(_asyncpg(_postgres("53300")))
row("asyncpg", "InvalidPasswordError", "a wrong password", "permanent")(_asyncpg(_postgres("28P01")))


def _pymysql(number: int | None) -> Callable[[Server], object]:
    def make(s: Server) -> object:
        import pymysql

        if number is None:
            return pymysql.connect(host="127.0.0.1", port=1)
        body = b"\xff" + number.to_bytes(2, "little") + b"no"
        packet = len(body).to_bytes(3, "little") + b"\0" + body
        return pymysql.connect(host="127.0.0.1", port=s.port(packet, read=False))

    return make


row("pymysql", "OperationalError", "a closed port (2003)", "never_sent")(_pymysql(None))
row("pymysql", "OperationalError", "too many connections (1040)", "never_sent")(_pymysql(1040))
row("pymysql", "OperationalError", "a wrong password (1045)", "permanent")(_pymysql(1045))
row("pymysql", "OperationalError", "a deadlock (1213)", "conflict")(_pymysql(1213))


@row("SQLAlchemy", "OperationalError", "pymysql's refused connection", "never_sent")
def _(s: Server) -> object:
    import sqlalchemy

    return sqlalchemy.create_engine("mysql+pymysql://u@127.0.0.1:1/d").connect()


@row("SQLAlchemy", "OperationalError", "a table that is not there", "permanent")
def _(s: Server) -> object:
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            return connection.execute(sqlalchemy.text("select * from nobody"))
    finally:
        engine.dispose()


@row("SQLAlchemy", "TimeoutError", "a pool without a free connection", "never_sent")
def _(s: Server) -> object:
    import sqlalchemy
    from sqlalchemy.pool import QueuePool

    how: Any = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": 0.01}
    engine = sqlalchemy.create_engine("sqlite://", **how)
    try:
        with engine.connect():
            return engine.connect()
    finally:
        engine.dispose()


def _raise(error: Exception) -> None:
    raise error


def _broken_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        os.write(writer, b"x")
    finally:
        os.close(writer)


def _would_block() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        one.recv(1)


def _from_reset(*, explicit: bool) -> None:
    try:
        raise ConnectionResetError(104, "reset")
    except ConnectionResetError as error:
        if explicit:
            raise RuntimeError("failed") from error
        raise RuntimeError("a mistake in the handler")  # noqa: B904 - it has a context


async def _read_exactly(s: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", s.port(b"few", read=False))
    try:
        await reader.readexactly(9)
    finally:
        writer.close()


def _http_client(s: Server, answer: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", s.port(answer))
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    finally:
        connection.close()
