"""Makes calls, for callgrind to count their instructions: one scenario, so many calls.

    python bench/python/instructions.py SCENARIO CALLS

`cargo xtask gate` runs it twice, and divides the difference by the difference of the calls, so that what the
interpreter does before and after them cancels out (`bench/python/instructions.txt` has the accepted figures).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import tidegate

engine = tidegate.Engine(seed=1)
RETRY = tidegate.Retry(max_attempts=3)
retry = tidegate.Policy(retry=RETRY, engine=engine)
plain = tidegate.Policy(retry=RETRY, bulkhead=tidegate.Bulkhead(max_concurrency=100), engine=engine)
http = tidegate.Policy(preset="http", bulkhead=tidegate.Bulkhead(max_concurrency=100), engine=engine)


def work() -> int:
    """What is called."""
    return 1


async def awork() -> int:
    """What is awaited."""
    return 1


@plain
def decorated() -> int:
    """What is decorated."""
    return 1


def called(fn: Callable[[], object], calls: int) -> None:
    """Makes the calls."""
    for _ in range(calls):
        fn()


def awaited(fn: Callable[[], Awaitable[object]], calls: int) -> None:
    """Makes the calls in an event loop."""

    async def main() -> None:
        for _ in range(calls):
            await fn()

    asyncio.run(main())


def looped(calls: int) -> None:
    """Makes the calls as loops over their attempts."""
    for _ in range(calls):
        for attempt in retry.attempts():
            with attempt:
                work()


def alooped(calls: int) -> None:
    """The same, awaited."""

    async def main() -> None:
        for _ in range(calls):
            async for attempt in retry.attempts():
                with attempt:
                    await awork()

    asyncio.run(main())


def prepared() -> tuple[Any, Any]:
    """A transport of httpx that always answers with the same response, and a request as a client makes it.

    Making a response costs ten times as much as a policy adds, so it would hide changes of that.
    """
    import httpx

    response = httpx.Response(200, content=b"ok")

    class Ready(httpx.BaseTransport, httpx.AsyncBaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return response

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return response

    request = httpx.Request("GET", "http://bench.test/")
    request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), 5.0)
    return Ready(), request


def requested(wrap: Callable[[Any], Any], calls: int) -> None:
    """Sends requests through a transport of httpx, without a client around it."""
    inner, request = prepared()
    transport = wrap(inner)
    for _ in range(calls):
        transport.handle_request(request)


def arequested(wrap: Callable[[Any], Any], calls: int) -> None:
    """The same, awaited."""

    async def main() -> None:
        inner, request = prepared()
        transport = wrap(inner)
        for _ in range(calls):
            await transport.handle_async_request(request)

    asyncio.run(main())


def under(kind: str, policy: tidegate.Policy) -> Callable[[Any], Any]:
    """What wraps a transport in one of ours."""

    def wrap(inner: Any) -> Any:
        import tidegate.httpx

        return getattr(tidegate.httpx, kind)(inner, policy)

    return wrap


def peer(inner: Any) -> Any:
    """Wraps a transport in that of httpx-retries."""
    import httpx_retries

    return httpx_retries.RetryTransport(inner)


def bare(inner: Any) -> Any:
    """The transport itself."""
    return inner


SCENARIOS: dict[str, Callable[[int], None]] = {
    "call": lambda calls: called(lambda: plain.call(work), calls),
    "call_bare": lambda calls: called(work, calls),
    "acall": lambda calls: awaited(lambda: plain.acall(awork), calls),
    "acall_bare": lambda calls: awaited(awork, calls),
    "decorated": lambda calls: called(decorated, calls),
    "loop": looped,
    "loop_async": alooped,
    "httpx": lambda calls: requested(under("Transport", retry), calls),
    "httpx_preset": lambda calls: requested(under("Transport", http), calls),
    "httpx_bare": lambda calls: requested(bare, calls),
    "httpx_async": lambda calls: arequested(under("AsyncTransport", retry), calls),
    "httpx_async_preset": lambda calls: arequested(under("AsyncTransport", http), calls),
    "httpx_async_bare": lambda calls: arequested(bare, calls),
    "httpx_peer": lambda calls: requested(peer, calls),
    "httpx_async_peer": lambda calls: arequested(peer, calls),
}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](int(sys.argv[2]))
