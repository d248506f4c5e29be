"""Who decides in the fleet's bench, in Python: ours, the peers on their Redis storages, one bare command."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import redis
import redis.asyncio

import tidegate
from tidegate.fleet import RedisStore, Refused, attach

Args = argparse.Namespace
Make = Callable[[Args], Any]


def host_and_port(args: Args) -> dict[str, Any]:
    """Where the server is, as redis-py takes it."""
    host, _, port = args.redis.rpartition(":")
    return {"host": host, "port": int(port)}


def work() -> bool:
    """What the limit lets through."""
    return True


async def awork() -> bool:
    """The same, awaited."""
    return True


class Watched(RedisStore):
    """A store that counts the commands without an answer: figures of a run with any are of something else."""

    lost = 0

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        try:
            return super().carry(words, key, seconds)
        except Refused:
            raise
        except Exception:
            Watched.lost += 1
            raise

    def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[bytes | Exception]:
        try:
            return super().carry_all(commands, seconds)
        except Exception:
            Watched.lost += len(commands)
            raise


def policy(args: Args, client: Any, **limit: Any) -> Any:
    """A policy with nothing but this rate: of the fleet's where a client is given, else the process's own."""
    engine = tidegate.Engine(logs=False)
    more = {}
    if client is not None:
        attach(Watched(client), engine=engine)
        limit |= {"store": "fleet"}
        # The peers wait as long as it takes; where sixteen processes want two cores, 50 ms are soon gone.
        more = {"store_timeout": 1.0}
    rate = {"permits": args.rate, "per": 1, **limit}
    return tidegate.Policy("bench", rate_limit=rate, engine=engine, **more).at(route="eu")


def tidegate_sync(args: Args, client: Any, **limit: Any) -> Callable[[], bool]:
    """Our decisions, in a thread."""
    call = policy(args, client, **limit).call

    def decide() -> bool:
        try:
            return bool(call(work))
        except tidegate.RateLimited:
            return False

    return decide


def tidegate_async(args: Args, client: Any, **limit: Any) -> Callable[[], Any]:
    """Our decisions, in asyncio."""
    call = policy(args, client, **limit).acall

    async def decide() -> bool:
        try:
            return bool(await call(awork))
        except tidegate.RateLimited:
            return False

    return decide


def bare(args: Args) -> Callable[[], bool]:
    """The least that asking a server can cost: one INCR."""
    client = redis.Redis(**host_and_port(args))
    return lambda: client.incr("bench") > 0


def abare(args: Args) -> Callable[[], Any]:
    """The same, awaited."""
    client = redis.asyncio.Redis(**host_and_port(args))

    async def decide() -> bool:
        return await client.incr("bench") > 0

    return decide


def limits(kind: str, asynchronous: bool) -> Make:
    """A strategy of `limits` on its RedisStorage, over redis-py in both colours."""

    def make(args: Args) -> Callable[[], Any]:
        base = import_module("limits.aio" if asynchronous else "limits")
        strategies = import_module(f"{base.__name__}.strategies")
        scheme, more = ("async+redis", {"implementation": "redispy"}) if asynchronous else ("redis", {})
        storage = import_module(f"{base.__name__}.storage").RedisStorage(f"{scheme}://{args.redis}", **more)
        limiter = getattr(strategies, f"{kind}RateLimiter")(storage)
        item = import_module("limits").RateLimitItemPerSecond(args.rate)
        return lambda: limiter.hit(item, "eu")

    return make


def pyrate(log: bool, asynchronous: bool) -> Make:
    """pyrate-limiter's log in a sorted set, or its GCRA; both without waiting."""

    def make(args: Args) -> Any:
        peer = import_module("pyrate_limiter")
        rates = [peer.Rate(args.rate, 1000)]
        client = (redis.asyncio if asynchronous else redis).Redis(**host_and_port(args))
        if log:
            bucket = peer.RedisBucket.init(rates, client, "bench")
        else:
            bucket = peer.StateBucket(
                rates, store=peer.RedisStateStore(client, "bench"), algorithm=peer.GCRA()
            )
        if not asynchronous:
            acquire = peer.Limiter(bucket).try_acquire
            return lambda: acquire("eu", blocking=False)

        async def there() -> Callable[[], Any]:
            made = await bucket if inspect.isawaitable(bucket) else bucket
            acquire = peer.Limiter(made).try_acquire_async
            return lambda: acquire("eu", blocking=False)

        return there()

    return make


STRATEGIES = {
    "fixed window": "FixedWindow",
    "moving window": "MovingWindow",
    "sliding window counter": "SlidingWindowCounter",
}


def contenders() -> dict[str, Make]:
    """By name; `asyncio` ones are awaited."""
    found: dict[str, Make] = {
        "sync: tidegate, a local rate": lambda args: tidegate_sync(args, None),
        "sync: tidegate, leased": lambda args: tidegate_sync(args, redis.Redis(**host_and_port(args))),
        "sync: tidegate, strict": lambda args: tidegate_sync(
            args, redis.Redis(**host_and_port(args)), lease=1
        ),
        "sync: a bare INCR": bare,
        "asyncio: tidegate, a local rate": lambda args: tidegate_async(args, None),
        "asyncio: tidegate, leased": lambda args: tidegate_async(
            args, redis.asyncio.Redis(**host_and_port(args))
        ),
        "asyncio: tidegate, strict": lambda args: tidegate_async(
            args, redis.asyncio.Redis(**host_and_port(args)), lease=1
        ),
        "asyncio: a bare INCR": abare,
    }
    if installed("limits"):
        for name, kind in STRATEGIES.items():
            found[f"sync: limits, {name}"] = limits(kind, False)
            found[f"asyncio: limits, {name}"] = limits(kind, True)
    if installed("pyrate-limiter"):
        for name, log in {"log": True, "GCRA": False}.items():
            found[f"sync: pyrate-limiter, {name}"] = pyrate(log, False)
            found[f"asyncio: pyrate-limiter, {name}"] = pyrate(log, True)
    return found


def installed(package: str) -> str | None:
    """Its version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
