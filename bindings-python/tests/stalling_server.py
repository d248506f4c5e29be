"""A server of one thread per connection whose answers stall, drip and lie, by the path of the request."""

from __future__ import annotations

import select
import socket
import threading
import time

HEAD = "HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n{more}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
EVENT = b'data: {"delta": "x"}\n\n'
PING = b"event: ping\ndata: {}\n\n: comment\n\n"
ERROR = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'


class StallingServer:
    """Counts requests by path; the path says what an answer does."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Ends all answers."""
        self.closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while True:
                    head = b""
                    while b"\r\n\r\n" not in head:
                        got = connection.recv(65536)
                        if not got:
                            return
                        head += got
                    path = head.split(b" ", 2)[1].decode()
                    self.sent[path] = self.sent.get(path, 0) + 1
                    self._answer(path[1:], self.sent[path], connection)
            except OSError:
                pass

    def _answer(self, what: str, number: int, connection: socket.socket) -> None:
        send = connection.sendall

        def stall(seconds: float = 60.0) -> bool:
            """Sends nothing for so long; returns whether the client has gone, or the test is over."""
            return bool(select.select([connection], [], [], seconds)[0]) or self.closed.is_set()

        def head(status: str = "200 OK", more: str = CHUNKED) -> None:
            send(HEAD.format(status=status, more=more).encode())

        def chunk(data: bytes) -> None:
            send(b"%x\r\n%s\r\n" % (len(data), data))

        repeated = number > 1
        if what == "empty":
            head("204 No Content", "")
            return
        if what == "fails":  # a head that says so, and no body
            head("404 Not Found")
            stall()
            return
        if what == "lies":  # promises more than it sends, and keeps the connection
            head(more="Content-Length: 1000\r\n")
            send(EVENT)
            stall()
            return
        if what == "after":  # a moment later
            stall(0.2)
        head()
        if what == "stalls_0" and not repeated:
            stall()
        elif what == "pings_first" and not repeated:
            while not stall(0.05):
                chunk(PING)
        elif what == "error_first" and not repeated:
            chunk(PING + ERROR)
        elif what == "stalls_1":
            chunk(EVENT)
            stall()
        elif what == "pings_later":
            chunk(EVENT)
            while not stall(0.05):
                chunk(PING)
        elif what == "error_later":
            chunk(EVENT)
            chunk(ERROR)
        elif what == "drips":
            for _ in range(12):
                chunk(EVENT)
                time.sleep(0.1)
        elif what == "silent_end":
            chunk(EVENT)
        else:
            for _ in range(3):
                chunk(EVENT)
        send(b"0\r\n\r\n")
