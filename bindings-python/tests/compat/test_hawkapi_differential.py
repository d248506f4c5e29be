"""The same scripts through HawkAPI's bulkheads and through ours: what a caller sees is the same.

What differs stands in `docs/python/migrate-hawkapi.md`, and is tested in `test_hawkapi_document.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from tidegate.compat import hawkapi as door

hawkapi = pytest.importorskip("hawkapi", reason="HawkAPI needs Python 3.12")
theirs = pytest.importorskip("hawkapi.middleware.bulkhead", reason="HawkAPI needs Python 3.12")

_numbers = itertools.count()


def name() -> str:
    return f"pool-{next(_numbers)}"


def end(error: BaseException) -> list[Any]:
    fields = ("limit", "waited", "status_code", "detail", "headers")
    text = str(error).split("'")[-1] if "'" in str(error) else str(error)
    return [type(error).__name__, text, *(getattr(error, field, None) for field in fields)]


async def outcome(made: Any) -> Any:
    try:
        return await made
    except Exception as error:
        return end(error)


async def nested(library: Any, limit: int, depth: int) -> Any:
    pool = library.Bulkhead(name(), limit=limit)

    async def deeper(level: int) -> Any:
        if level == depth:
            return "bottom"
        async with pool:
            return await deeper(level + 1)

    return await outcome(deeper(0))


async def crowd(library: Any, limit: int, tasks: int) -> Any:
    pool = library.Bulkhead(name(), limit=limit, max_wait=30.0)
    running = most = 0

    async def one() -> None:
        nonlocal running, most
        async with pool:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(one() for _ in range(tasks)))
    return most


async def endpoint(library: Any, **settings: Any) -> Any:
    @library.bulkhead(name(), limit=1, **settings)
    async def pay(inner: Any, *, amount: int = 3) -> Any:
        return await inner(None, amount=4) if inner else amount

    return [await outcome(pay(None)), await outcome(pay(pay)), await outcome(pay(None, amount=5))]


async def failing(library: Any) -> Any:
    pool = library.Bulkhead(name(), limit=1)
    seen = []
    for error in (ValueError("bug"), asyncio.CancelledError()):
        try:
            async with pool:
                raise error
        except BaseException as caught:
            seen.append(caught is error)
        async with pool:
            seen.append("free")
    return seen


SCRIPTS: dict[str, Any] = {
    "fits": lambda library: nested(library, 2, 2),
    "too deep": lambda library: nested(library, 2, 3),
    "one and no more": lambda library: nested(library, 1, 2),
    "a crowd": lambda library: crowd(library, 3, 20),
    "an endpoint": lambda library: endpoint(library),
    "an endpoint of one's own": lambda library: endpoint(library, status_code=429, retry_after=2.5),
    "no Retry-After is one second": lambda library: endpoint(library, retry_after=0),
    "a hair above a second": lambda library: endpoint(library, retry_after=1.0001),
    "failures": lambda library: failing(library),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_bulkhead_is_seen_alike(script: str) -> None:
    assert asyncio.run(SCRIPTS[script](door)) == asyncio.run(SCRIPTS[script](theirs))


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 1, "max_wait": -0.1}, {"limit": 1, "retry_after": -1}]
)
def test_a_mistake_has_the_same_words(wrong: dict[str, Any]) -> None:
    said = []
    for library in (theirs, door):
        with pytest.raises(ValueError, match="must be") as caught:
            library.bulkhead(name(), **wrong)
        said.append(str(caught.value).replace("a finite number ", ""))
    assert said[0] == said[1]


def test_a_clash_is_told_earlier_in_the_same_words() -> None:
    both = name()
    theirs.Bulkhead(both, limit=2)
    late = theirs.Bulkhead(both, limit=3)

    async def main() -> None:
        async with theirs.Bulkhead(both, limit=2):
            pass
        with pytest.raises(ValueError, match="already registered") as caught:
            await late.__aenter__()
        door.Bulkhead(both, limit=2)
        with pytest.raises(ValueError, match="already registered") as ours:
            door.Bulkhead(both, limit=3)
        assert str(ours.value) == str(caught.value)

    asyncio.run(main())


def test_errors_are_hawkapis_too() -> None:
    async def main() -> None:
        pool = door.Bulkhead(name(), limit=1)
        async with pool:
            with pytest.raises(theirs.BulkheadFullError) as full:
                await pool.__aenter__()
            assert isinstance(full.value, door.BulkheadFullError)

        @door.bulkhead(name(), limit=1, retry_after=3)
        async def pay(inner: Any) -> Any:
            return await inner(None) if inner else None

        with pytest.raises(hawkapi.HTTPException) as refused:
            await pay(pay)
        answer = refused.value.to_response()
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "3"

    asyncio.run(main())
