"""The server: a `tidegate-origin` process on loopback ports."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx


class Origin:
    """A running origin. It ends when this process does, because it reads our end of a pipe."""

    def __init__(self, url: str, control: httpx.AsyncClient) -> None:
        self.url = url
        self._control = control

    async def play(self, script: dict[str, Any]) -> float:
        """Begins `script`; returns its time zero in `time.perf_counter` seconds."""
        (await self._control.put("/script", json=script)).raise_for_status()
        asked = time.perf_counter()
        elapsed: float = (await self.stats())["t"]
        return (asked + time.perf_counter()) / 2.0 - elapsed

    async def stats(self) -> dict[str, Any]:
        """Counts since the script began."""
        return await self._fetch("/stats")

    async def series(self, bucket: float) -> list[dict[str, Any]]:
        """What the server saw, per `bucket` seconds."""
        answer = await self._fetch(f"/series?bucket={bucket}")
        buckets: list[dict[str, Any]] = answer["buckets"]
        return buckets

    async def _fetch(self, path: str) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._control.get(path)).raise_for_status().json()
        return answer


@asynccontextmanager
async def running(binary: Path) -> AsyncIterator[Origin]:
    """Starts an origin and ends it."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(str(binary), stdin=pipe, stdout=pipe)
    assert process.stdin and process.stdout
    try:
        addresses = json.loads(await process.stdout.readline())
        async with httpx.AsyncClient(base_url=addresses["control"], timeout=10.0, trust_env=False) as control:
            yield Origin(addresses["url"], control)
    finally:
        process.stdin.close()
        await process.wait()
