"""What users write, for the type checkers: mypy and pyright agree with every line. Nothing here runs."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

import httpx
import httpx2
from typing_extensions import assert_type

import tidegate
import tidegate.fleet
import tidegate.httpx
from tidegate.testing import MemoryStore

policy = tidegate.Policy("p", retry=tidegate.Retry(max_attempts=3), deadline=1.5)
assert_type(policy, tidegate.Policy)
assert_type(policy.at(route="eu"), tidegate.Caller)
policy.retune(retry={"max_attempts": 2}, bulkhead=tidegate.Bulkhead(max_concurrency=1))
tidegate.Policy(preset="nonsense")  # type: ignore[arg-type]
tidegate.Policy(dedline=1)  # type: ignore[call-arg]
shared = tidegate.Engine(store=MemoryStore())
fleetwide = tidegate.RateLimit(permits=5, per=1, store="fleet", on_loss="open")
tidegate.Policy("f", rate_limit=fleetwide, engine=shared)
tidegate.RateLimit(permits=5, per=1, store="elsewhere")  # type: ignore[arg-type]
tidegate.fleet.attach(tidegate.fleet.RedisStore(object(), namespace="shop"), engine=shared)
tidegate.Engine(store="redis://localhost")  # type: ignore[arg-type]


def price(item: int, *, currency: str = "EUR") -> float:
    return float(item) if currency else 0.0


async def charge(item: int) -> str:
    return str(item)


assert_type(policy.call(price, 1, currency="USD"), float)
policy.call(price, "one")  # type: ignore[arg-type]
policy.call(price, 1, curency="USD")  # type: ignore[call-arg]


@policy
def guarded(item: int) -> bytes:
    return bytes(item)


@policy
async def aguarded(item: int) -> bytes:
    return bytes(item)


@policy
def pages(start: int) -> Iterator[str]:
    yield str(start)


@policy
async def apages(start: int) -> AsyncIterator[str]:
    yield str(start)


@policy.bulkhead()
def admitted(item: int) -> bytes:
    return bytes(item)


@policy.at(route="eu", fallback=None, criticality="critical").bulkhead()
async def aadmitted(item: int) -> bytes:
    return bytes(item)


class Catalogue:
    def find(self, key: str) -> int:
        return len(key)


with policy.bulkhead() as attempt_inside, tidegate.criticality("critical"):
    assert_type(attempt_inside.remaining, float | None)
assert_type(policy.wrap(Catalogue(), methods=["find"]).find("x"), int)
assert_type(policy.replace("other", deadline=3), tidegate.Policy)
tidegate.Policy(fallback=lambda error: str(error), fallback_on=(KeyError, OSError), hedge={"delay": 1})
tidegate.Policy(fallback="cached", fallback_on=3)  # type: ignore[arg-type]
tidegate.criticality("urgent")  # type: ignore[arg-type]
assert_type(admitted(1), bytes)
admitted("one")  # type: ignore[arg-type]
assert_type(guarded(1), bytes)
guarded("one")  # type: ignore[arg-type]
assert_type(list(pages(1)), list[str])


async def main() -> None:
    assert_type(await policy.acall(charge, 1), str)
    await policy.acall(charge, "one")  # type: ignore[arg-type]
    await policy.acall(price, 1)  # type: ignore[arg-type]
    assert_type(await asyncio.create_task(policy.acall(charge, 1)), str)
    assert_type(await asyncio.wait_for(policy.acall(charge, 1), 5), str)
    assert_type(await aguarded(1), bytes)
    assert_type(await aadmitted(1), bytes)
    await aadmitted("one")  # type: ignore[arg-type]
    async with policy.bulkhead() as attempt:
        assert_type(attempt.num, int)
    assert_type([page async for page in apages(1)], list[str])
    async for attempt in policy.attempts():
        with attempt:
            assert_type(attempt.num, int)


class Busy(Exception):
    """The warehouse asks for patience."""


httpx.Client(transport=tidegate.httpx.Transport(httpx.HTTPTransport(), policy))
httpx2.Client(transport=tidegate.httpx.Transport(httpx2.HTTPTransport(), policy))
httpx.AsyncClient(transport=tidegate.httpx.AsyncTransport(policy=policy, module=httpx))
httpx2.AsyncClient(transport=tidegate.httpx.AsyncTransport(policy=policy, module=httpx2))
told = tidegate.report(httpx2.get("http://o/"))
assert_type(told["attempts"], int)
assert_type(told["retry_at"], datetime | None)
told["atempts"]  # type: ignore[typeddict-item]
tidegate.loads("", on=(Busy,))
tidegate.load("policies.toml", on={"charges": Busy})
tidegate.load("policies.toml", on="Busy")  # type: ignore[arg-type]
tidegate.Policy(
    classify=lambda it: it.status_code if isinstance(it, httpx.Response) else (503, {"Retry-After": "1"})
)
for headers in ({"Retry-After": "1"}, httpx.Headers(), [(b"retry-after", b"1")]):
    assert_type(policy.outcome_of(429, headers), tidegate.Outcome)
policy.outcome_of("429")  # type: ignore[arg-type]
tidegate.Policy(classify=lambda it: policy.outcome_of(it.status))
