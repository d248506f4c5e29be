"""What the tests of the native happy path share."""

from __future__ import annotations

import asyncio
from typing import Any

import tidegate


def guarded(engine: tidegate.Engine, limit: int = 1, **rest: Any) -> tidegate.Policy:
    """A policy with a queue of any length."""
    bulkhead = {"max_concurrency": limit, "max_queue": None, "acquire_timeout": None}
    return tidegate.Policy(engine=engine, bulkhead=bulkhead, **rest)


async def suspend(times: int = 1) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
