"""A server that sends a byte now and then, for `SECONDS`, and then ends as it should."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

EVERY = 0.02
BYTES = 500
SECONDS = EVERY * BYTES
"""How long a client is kept that keeps to no deadline."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BYTES
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINE = b"HTTP/1.1 200 OK\r\n"
SLOW_HEAD = LINE + b"X-Padding: " + b"a" * (BYTES - 40) + b"\r\nContent-Length: 0\r\n\r\n"
RECORD = b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb" + b"\x03" * BYTES  # a ServerHello that goes on and on

SCRIPTS: dict[str, tuple[bytes, bytes]] = {
    "head": (b"", SLOW_HEAD),
    "interim answers": (
        b"",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (BYTES // 25) + LINE + b"Content-Length: 0\r\n\r\n",
    ),
    "body": (HEAD, b"b" * BYTES),
    "the size of a chunk": (CHUNKED, b"0" * (BYTES - 10) + b"\r\n\r\n"),
    "failed body": (HEAD.replace(b"200 OK", b"503 Busy"), b"b" * BYTES),
    "handshake": (b"", RECORD),
    "the answer of a proxy": (b"", SLOW_HEAD),
}
"""What is sent at once, and what follows byte by byte."""


class Dripping:
    """The server. `finished` counts the connections that were served to the end."""

    def __init__(self, script: str) -> None:
        self.finished = 0
        self.accepted = 0
        self._at_once, self._slowly = SCRIPTS[script]
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._listener.settimeout(0.05)
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def _start(self, work: object, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self.accepted += 1
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.recv(65536)
            connection.sendall(self._at_once)
            for byte in self._slowly:
                if self._over.wait(EVERY):
                    return
                connection.sendall(bytes([byte]))
            self.finished += 1

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()


@contextlib.contextmanager
def dripping_server(script: str) -> Iterator[Dripping]:
    server = Dripping(script)
    try:
        yield server
    finally:
        server.close()
