"""A store that is wrong from the start: calls wait at most `store_timeout`, and the log says what to do."""

from __future__ import annotations

import asyncio
import logging
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

import tidegate
from fleet_tools import PATIENT, SLACK, WAITS, limited, redis, until
from tidegate._engine import store as _store
from tidegate.fleet import RedisStore

PASSWORD = "canary-9d41f7"
WRONG = "-WRONGPASS invalid username-password pair or user is disabled."
NEEDED = "-NOAUTH Authentication required."


class Server(socketserver.ThreadingTCPServer):
    """A server on a free port that gives one reply to every command, or none."""

    daemon_threads = True

    def __init__(self, reply: str | None) -> None:
        self.reply = reply
        self.ends = threading.Event()
        super().__init__(("127.0.0.1", 0), Replies)


class Replies(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        if server.reply is None:
            server.ends.wait(60)
            return
        while text := self.request.recv(65_536):
            for _ in range(max(text.count(b"\r\n*"), 0) + 1):  # an answer to each command
                self.request.sendall(f"{server.reply}\r\n".encode())


def refused() -> int:
    """A port without a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def serve() -> Iterator[Callable[[str | None], int]]:
    servers: list[Server] = []

    def start(reply: str | None) -> int:
        servers.append(Server(reply))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,), daemon=True).start()
        return int(servers[-1].server_address[1])

    yield start
    for server in servers:
        server.ends.set()
        server.shutdown()
        server.server_close()


# The reply of the server, the reasons that the record may name, and what the log advises.
STARTS: dict[str, tuple[str | None, set[str], str]] = {
    "a wrong password": (WRONG, {"WRONGPASS"}, "check the user and the password"),
    "a password is wanted": (NEEDED, {"NOAUTH"}, "check the user and the password"),
    "no answer": (None, {"timeout"}, "check its address, and that it is up"),
    "a refused port": ("", {"connection"}, "check its address, and that it is up"),
    # The system decides whether its resolver fails at once.
    "an unknown name": ("", {"connection", "timeout"}, "check its address, and that it is up"),
}


def of_thread(policy: tidegate.Policy) -> int:
    return policy.call(int)


def of_asyncio(policy: tidegate.Policy) -> int:
    async def zero() -> int:
        return 0

    return asyncio.run(policy.acall(zero))


def of_trio(policy: tidegate.Policy) -> int:
    async def zero() -> int:
        return 0

    return int(trio.run(policy.acall, zero))


@pytest.mark.parametrize("caller", [of_thread, of_asyncio, of_trio])
@pytest.mark.parametrize("colour", ["redis", "redis.asyncio"])
@pytest.mark.parametrize("start", STARTS)
def test_a_store_that_is_wrong_from_the_start_delays_no_call(
    start: str,
    colour: str,
    caller: Callable[[tidegate.Policy], int],
    serve: Callable[[str | None], int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    reply, words, advice = STARTS[start]
    caplog.set_level(logging.DEBUG)
    host = "no-such-host.invalid" if start == "an unknown name" else "127.0.0.1"
    port = refused() if reply == "" else serve(reply)
    kind = redis.Redis if colour == "redis" else redis.asyncio.Redis
    client: Any = kind(host=host, port=port, username="somebody", password=PASSWORD)
    store = RedisStore(client)
    engine = tidegate.Engine(seed=1, store=store)
    records: list[Any] = []
    engine.on_event(records.append, types=["store_degraded"])
    # A busy machine is late with an answer, too: where one comes, it and not the timeout is the reason.
    policy = limited(engine, 50, None if "timeout" in words else PATIENT, on_loss="open")
    for _ in range(3):
        began = time.monotonic()
        assert caller(policy) == 0, "calls are decided by on_loss"
        assert time.monotonic() - began < WAITS + SLACK

    def said() -> bool:
        caller(policy)  # each call tries the store again: on a busy machine the first were too early
        return bool(records) and "has not answered" in caplog.text

    until(said, 30.0)
    assert records[0].reason in words
    assert advice in caplog.text
    closed = tidegate.Policy(
        "closed",
        rate_limit={"permits": 1, "per": 1, "store": "fleet", "on_loss": "closed"},
        engine=engine,
    )
    with pytest.raises(tidegate.Rejected) as rejected:
        caller(closed)
    everything = [
        caplog.text,
        repr(store),
        repr(engine),
        repr(records),
        str(rejected.value),
        repr(engine.snapshot()),
    ]
    assert PASSWORD not in "\n".join(everything)
    until(lambda: not _store.worker._queue, 30.0)
    store.close()
