"""What timeouts of a stream cost for each piece of a body, beside the bare client.

    python bench/python/pieces.py [CLIENT ...] [--pieces 100000] [--rounds 15]

A server in a process of its own sends so many events at once, each in a chunk of its own: the hardest case,
since a piece costs the bare client next to nothing. Bodies are read bare and under a policy in turn. CPU time
of this process, median of the ratios of pairs.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import tidegate

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":" tide"}}]}\n\n'
ACCEPT = {"accept": "text/event-stream"}
COUNTS = ("bytes", "sse_data")


def serve(listener: socket.socket, pieces: int) -> None:
    """Answers each request with a stream of events."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = head + (b"%x\r\n%s\r\n" % (len(EVENT), EVENT)) * pieces + b"0\r\n\r\n"

    def answers(connection: socket.socket) -> None:
        try:
            while connection.recv(65536):
                connection.sendall(answer)
        except OSError:
            pass  # the client has gone

    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answers, args=(connection,), daemon=True).start()


def policy(counts: str) -> tidegate.Policy:
    """A policy with both timeouts."""
    engine = tidegate.Engine(seed=1)
    return tidegate.Policy(first_byte_timeout=60.0, idle_timeout=60.0, counts=counts, engine=engine)


def httpx_sync(url: str) -> list[Callable[[], int]]:
    """Reads through httpx in a thread."""
    import httpx

    import tidegate.httpx

    transports = [httpx.HTTPTransport()]
    transports += [tidegate.httpx.Transport(httpx.HTTPTransport(), policy(counts)) for counts in COUNTS]

    def way(client: httpx.Client) -> Callable[[], int]:
        def read() -> int:
            with client.stream("GET", url, headers=ACCEPT) as response:
                return sum(len(piece) for piece in response.iter_raw())

        return read

    return [way(httpx.Client(transport=transport, timeout=60)) for transport in transports]


LOOP = asyncio.new_event_loop()
SESSIONS: list[Any] = []
"""Sessions of aiohttp, to be closed."""


def httpx_async(url: str) -> list[Callable[[], int]]:
    """Reads through httpx in an event loop."""
    import httpx

    import tidegate.httpx

    transports: list[Any] = [httpx.AsyncHTTPTransport()]
    transports += [
        tidegate.httpx.AsyncTransport(httpx.AsyncHTTPTransport(), policy(counts)) for counts in COUNTS
    ]

    def way(client: httpx.AsyncClient) -> Callable[[], int]:
        async def read() -> int:
            size = 0
            async with client.stream("GET", url, headers=ACCEPT) as response:
                async for piece in response.aiter_raw():
                    size += len(piece)
            return size

        return lambda: LOOP.run_until_complete(read())

    return [way(httpx.AsyncClient(transport=transport, timeout=60)) for transport in transports]


def requests(url: str) -> list[Callable[[], int]]:
    """Reads through requests."""
    import requests

    import tidegate.requests

    def way(counts: str | None) -> Callable[[], int]:
        session = requests.Session()
        if counts is not None:
            session.mount("http://", tidegate.requests.Adapter(policy(counts)))

        def read() -> int:
            with session.get(url, headers=ACCEPT, stream=True, timeout=60) as response:
                return sum(len(piece) for piece in response.iter_content(None))

        return read

    return [way(counts) for counts in (None, *COUNTS)]


def urllib3(url: str) -> list[Callable[[], int]]:
    """Reads through urllib3."""
    import urllib3

    import tidegate.urllib3

    def way(counts: str | None) -> Callable[[], int]:
        manager: Any = urllib3.PoolManager()
        if counts is not None:
            manager = tidegate.urllib3.guard(manager, policy(counts))

        def read() -> int:
            response = manager.request("GET", url, headers=ACCEPT, preload_content=False, timeout=60)
            size = sum(len(piece) for piece in response.stream(None))
            response.release_conn()
            return size

        return read

    return [way(counts) for counts in (None, *COUNTS)]


def aiohttp(url: str) -> list[Callable[[], int]]:
    """Reads through aiohttp."""
    import aiohttp

    import tidegate.aiohttp

    async def session(counts: str | None) -> aiohttp.ClientSession:
        wraps = () if counts is None else (tidegate.aiohttp.middleware(policy(counts)),)
        made = aiohttp.ClientSession(middlewares=wraps)
        SESSIONS.append(made)
        return made

    def way(session: aiohttp.ClientSession) -> Callable[[], int]:
        async def read() -> int:
            size = 0
            async with session.get(url, headers=ACCEPT) as response:
                async for piece, _ in response.content.iter_chunks():
                    size += len(piece)
            return size

        return lambda: LOOP.run_until_complete(read())

    return [way(LOOP.run_until_complete(session(counts))) for counts in (None, *COUNTS)]


CLIENTS = {
    "httpx": httpx_sync,
    "httpx, asyncio": httpx_async,
    "requests": requests,
    "urllib3": urllib3,
    "aiohttp": aiohttp,
}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("clients", nargs="*", default=list(CLIENTS))
    parser.add_argument("--pieces", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    for client in options.clients:
        server = context.Process(target=serve, args=(listener, options.pieces), daemon=True)
        server.start()
        ways = CLIENTS[client](f"http://127.0.0.1:{listener.getsockname()[1]}/")
        times: list[list[float]] = [[] for _ in ways]
        for _ in range(options.rounds):
            for place, way in enumerate(ways):
                started = time.process_time()
                size = way()
                times[place].append((time.process_time() - started) / options.pieces * 1e6)
                if size != options.pieces * len(EVENT):
                    raise RuntimeError(f"{client} has read {size} bytes")
        bare = statistics.median(times[0])
        cells = [f"{client:16} bare {bare:6.2f} µs"]
        for counts, row in zip(COUNTS, times[1:], strict=True):
            ratio = statistics.median(own / floor for own, floor in zip(row, times[0], strict=True))
            cells.append(f"{counts} {statistics.median(row):6.2f} × {ratio:.3f}")
        print("   ".join(cells), flush=True)
        server.kill()
    for session in SESSIONS:
        LOOP.run_until_complete(session.close())


if __name__ == "__main__":
    main()
