"""What users write, for the type checkers: mypy and pyright agree with every line. Nothing here runs."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from typing_extensions import assert_type

import tidegate

policy = tidegate.Policy("p", retry=tidegate.Retry(max_attempts=3), deadline=1.5)
assert_type(policy, tidegate.Policy)
assert_type(policy.at(route="eu"), tidegate.Caller)
policy.retune(retry={"max_attempts": 2}, bulkhead=tidegate.Bulkhead(max_concurrency=1))
tidegate.Policy(preset="nonsense")  # type: ignore[arg-type]
tidegate.Policy(dedline=1)  # type: ignore[call-arg]


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
    assert_type([page async for page in apages(1)], list[str])
    async for attempt in policy.attempts():
        with attempt:
            assert_type(attempt.num, int)
