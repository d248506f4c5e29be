"""Servers that treat connections as they are made for: they reset them, stay silent, or hang up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Server:
    """A socket that treats each connection in the way that its port is for: resets it, stays silent, …"""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._held: list[socket.socket] = []

    def port(self, answer: bytes | None, *, reset: bool = False, read: bool = True) -> int:
        """A port whose connections get this answer and are closed; None keeps them open in silence."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError):
                    if read:
                        connection.recv(65536)
                    if answer is None:
                        self._held.append(connection)
                        continue
                    if answer:
                        connection.sendall(answer)
                    if reset:
                        linger = b"\x01\0\0\0\0\0\0\0"
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        return int(listener.getsockname()[1])

    def url(self, answer: bytes | None, **more: bool) -> str:
        return f"http://127.0.0.1:{self.port(answer, **more)}/"

    def status(self, status: int, headers: str = "") -> str:
        return self.url(
            f"HTTP/1.1 {status} x\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )

    def close(self) -> None:
        for listener in self._sockets:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in self._held:
            connection.close()


@contextmanager
def server() -> Iterator[Server]:
    it = Server()
    try:
        yield it
    finally:
        it.close()
