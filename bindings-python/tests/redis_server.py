"""Redis servers for a test: on ports of their own, with nothing kept, and gone when the test is."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from weakref import finalize

import pytest

PATIENCE = 10.0


class RedisServer:
    """A process that can be paused, killed and started again on the same port."""

    def __init__(self, *more: str) -> None:
        """`more` are options beside those that every server has."""
        self.port = _free()
        self.more = more
        self.folder = tempfile.mkdtemp(prefix="tidegate-redis-")
        finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._run([binary(), *options, *self.more])

    def _run(self, command: list[str]) -> None:
        # In a folder of its own: a replica writes a dump, whatever it is told to save.
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self.folder)
        try:
            wait_for(self.answers, PATIENCE)
        except BaseException:
            self.kill()
            raise

    def answers(self) -> bool:
        try:
            return self.command("PING") == b"+PONG\r\n"
        except OSError:
            return False

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


SYNC_AT_ONCE = ("--repl-diskless-sync-delay", "0")
"""A primary waits 5 s for further replicas before it sends the first its data; these have one."""


class Sentinel(RedisServer):
    """One sentinel, which alone decides, and the two servers that it watches: a primary and its replica."""

    NAME = "shop"

    def __init__(self, folder: pathlib.Path) -> None:
        self.config = folder / "sentinel.conf"
        self.primary = RedisServer(*SYNC_AT_ONCE)
        self.replica: RedisServer | None = None
        self.process = None
        try:
            self.replica = replica = RedisServer("--replicaof", "127.0.0.1", str(self.primary.port))
            wait_for(lambda: b"master_link_status:up" in replica.command("INFO", "replication"))
            super().__init__()
            wait_for(lambda: str(replica.port).encode() in self.command("SENTINEL", "replicas", self.NAME))
        except BaseException:
            self.kill()
            raise

    def start(self) -> None:
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f'dir "{self.config.parent}"',
            f"sentinel monitor {self.NAME} 127.0.0.1 {self.primary.port} 1",
            f"sentinel down-after-milliseconds {self.NAME} 1000",  # a busy machine is no failure
            f"sentinel failover-timeout {self.NAME} 5000",
        ]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._run([binary(), str(self.config), "--sentinel"])

    def kill(self) -> None:
        super().kill()
        for server in (self.primary, self.replica):
            if server is not None:
                server.kill()


class Cluster:
    """Three nodes that share the slots."""

    def __init__(self) -> None:
        self.nodes: list[RedisServer] = []
        try:
            buses = [_free() for _ in range(3)]
            for place, bus in enumerate(buses):
                options = ["--cluster-enabled", "yes", "--cluster-config-file", f"{place}.conf"]
                self.nodes.append(RedisServer(*options, "--cluster-port", str(bus)))
            self._join(buses)
        except BaseException:
            self.kill()
            raise

    def _join(self, buses: list[int]) -> None:
        edges = [16_384 * place // 3 for place in range(4)]
        for place, node in enumerate(self.nodes):
            first, last = str(edges[place]), str(edges[place + 1] - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", str(place + 1))
            assert node.command("CLUSTER", "ADDSLOTSRANGE", first, last) == b"+OK\r\n"
        for node, bus in zip(self.nodes[1:], buses[1:], strict=True):
            self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", str(node.port), str(bus))
        for node in self.nodes:
            wait_for(
                lambda node=node: all(  # type: ignore[misc]
                    said in node.command("CLUSTER", "INFO")
                    for said in (b"cluster_state:ok", b"cluster_known_nodes:3")
                )
            )

    @property
    def port(self) -> int:
        """Of one of them: clients find the others."""
        return self.nodes[0].port

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


def wait_for(check: Callable[[], bool], seconds: float = 3 * PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def binary() -> str:
    """The server's program. Where there is none the test is skipped, or fails where there has to be one."""
    named = os.environ.get("TIDEGATE_REDIS_SERVER")
    names = [named] if named else ["redis-server", "valkey-server"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing = "needs redis-server or valkey-server on PATH, or in TIDEGATE_REDIS_SERVER"
        if named or os.environ.get("TIDEGATE_REDIS_REQUIRED"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def redis_without_scripts() -> Iterator[RedisServer]:
    """As a service that forbids them."""
    server = RedisServer("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def redis_cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def redis_sentinel(tmp_path: pathlib.Path) -> Iterator[Sentinel]:
    sentinel = Sentinel(tmp_path)
    try:
        yield sentinel
    finally:
        sentinel.kill()
