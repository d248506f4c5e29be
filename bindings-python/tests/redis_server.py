"""A Redis server for a test: on a port of its own, with nothing kept, and gone when the test is."""

from __future__ import annotations

import os
import pathlib
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

    def __init__(self, binary: str, cluster: str = "") -> None:
        """`cluster` is the file that it keeps its state in, if it is to be a cluster of one."""
        self.binary = binary
        self.port = _free()
        self.more: list[str] = []
        if cluster:
            self.more += ["--cluster-enabled", "yes", "--cluster-config-file", cluster]
            self.more += ["--cluster-port", str(_free())]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([self.binary, *options, *self.more], stdout=subprocess.DEVNULL)
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


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _binary() -> str:
    named = os.environ.get("TIDEGATE_REDIS_SERVER", "redis-server")
    binary = shutil.which(named) or shutil.which("valkey-server")
    if binary is None:
        pytest.skip("needs redis-server or valkey-server on PATH, or TIDEGATE_REDIS_SERVER")
    return binary


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer(_binary())
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def redis_cluster(tmp_path: pathlib.Path) -> Iterator[RedisServer]:
    """A cluster of one node, which has all the slots."""
    server = RedisServer(_binary(), str(tmp_path / "nodes.conf"))
    try:
        assert server.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == b"+OK\r\n"
        until = time.monotonic() + PATIENCE
        while b"cluster_state:ok" not in server.command("CLUSTER", "INFO"):
            assert time.monotonic() < until, "the cluster does not come up"
            time.sleep(0.02)
        yield server
    finally:
        server.kill()
