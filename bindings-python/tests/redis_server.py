"""A Redis server for a test: on a port of its own, with nothing kept, and gone when the test is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

PATIENCE = 10.0


class RedisServer:
    """A process that can be paused, killed and started again on the same port."""

    def __init__(self, binary: str) -> None:
        self.binary = binary
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([self.binary, *options], stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                assert self.command("PING") == b"+PONG\r\n"
                return
            except OSError:
                assert time.monotonic() < until, "redis-server does not answer"
                time.sleep(0.01)

    def command(self, *words: str) -> bytes:
        """Sends one command over a connection of its own; the first piece of what comes back."""
        parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE) as link:
            link.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return link.recv(1 << 16)

    def clients(self) -> int:
        """How many connections there are, this one left out."""
        return self.command("CLIENT", "LIST").count(b"id=") - 1

    def pause(self) -> None:
        """It stands still: connections stay open, and nothing is answered."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """It is gone, and all it knew."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)
            self.process = None


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        pytest.skip("needs redis-server or valkey-server on PATH")
    server = RedisServer(binary)
    try:
        yield server
    finally:
        server.kill()
