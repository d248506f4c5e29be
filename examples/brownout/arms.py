"""The three clients: real requests with `httpx.AsyncClient`; only the logic around them differs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

import tidegate
import tidegate.httpx
from load import OK
from world import World


class Counting(httpx.AsyncBaseTransport):
    """Counts the attempts on their way to the network."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.attempts = 0
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.attempts += 1
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def one_try(client: httpx.AsyncClient, world: World) -> str:
    """One request, given up after the attempt timeout."""
    try:
        response = await asyncio.wait_for(client.get("/"), world.attempt_timeout)
    except asyncio.TimeoutError:
        return "timeout"
    except httpx.TransportError as error:
        return type(error).__name__
    return OK if response.is_success else str(response.status_code)


async def naive_loop(client: httpx.AsyncClient, world: World) -> str:
    """The loop of most code bases: up to three tries, after a timeout, a broken connection or a 5xx."""
    outcome = await one_try(client, world)
    for _ in range(world.tries - 1):
        if outcome == OK:
            break
        await asyncio.sleep(world.naive_pause)
        outcome = await one_try(client, world)
    return outcome


def policy(world: World) -> tidegate.Policy:
    """The preset `http` with timeouts and a bulkhead; backoff and retry budget are the preset's own."""
    return tidegate.Policy(
        "brownout",
        preset="http",
        deadline=world.deadline,
        attempt_timeout=world.attempt_timeout,
        retry={"max_attempts": world.tries},
        bulkhead={
            "max_concurrency": world.max_concurrency,
            "max_queue": world.max_queue,
            "acquire_timeout": world.acquire_timeout,
        },
    )


async def through_tidegate(client: httpx.AsyncClient, _world: World) -> str:
    """A plain request: the transport below does the rest."""
    try:
        response = await client.get("/")
    except (tidegate.Rejected, tidegate.AttemptTimeout, tidegate.DeadlineExceeded) as error:
        return type(error).__name__
    except httpx.TransportError as error:
        return type(error).__name__
    return OK if response.is_success else str(response.status_code)


def bare(inner: httpx.AsyncBaseTransport, _world: World) -> httpx.AsyncBaseTransport:
    """No policy."""
    return inner


def guarded(inner: httpx.AsyncBaseTransport, world: World) -> httpx.AsyncBaseTransport:
    """The policy around the same transport."""
    return tidegate.httpx.AsyncTransport(inner, policy(world))


@dataclass(frozen=True)
class Arm:
    """One way to call the server."""

    key: str
    title: str
    logic: str
    """The retry logic in one line, for the record."""
    call: Callable[[httpx.AsyncClient, World], Awaitable[str]]
    transport: Callable[[httpx.AsyncBaseTransport, World], httpx.AsyncBaseTransport] = bare

    def client(self, url: str, world: World) -> tuple[httpx.AsyncClient, Counting]:
        """A fresh client with a pool that never makes anybody wait, and its count of attempts."""
        pool = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        counting = Counting(httpx.AsyncHTTPTransport(limits=pool, trust_env=False))
        transport = self.transport(counting, world)
        # No timeouts of httpx's own: the attempt timeout is the same for all and covers the whole attempt.
        return httpx.AsyncClient(transport=transport, base_url=url, timeout=None, trust_env=False), counting


ARMS = {
    arm.key: arm
    for arm in (
        Arm(
            "naive",
            "naive, 3 tries",
            "up to 3 tries, 0.1 s apart, after a timeout, transport error or 5xx",
            naive_loop,
        ),
        Arm("none", "no retries", "one try", one_try),
        Arm(
            "tidegate",
            "Tidegate",
            "preset http: up to 3 attempts, jittered backoff from 0.1 s, retry budget 0.18 per answered call",
            through_tidegate,
            guarded,
        ),
    )
}
