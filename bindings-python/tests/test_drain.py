"""A failed response is drained within its limit, and its connection always goes back to the pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest

from tidegate._call import tasks
from tidegate._http.drain import DRAIN_SECONDS, drain_async

SLOW = 4 * DRAIN_SECONDS
"""Seconds that closing takes: the limit passes meanwhile, however busy the machine is."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing is given up after half a second; here only cancellations are looked at."""
    monkeypatch.setattr(tasks, "CLOSE_SECONDS", 60.0)


class Pooled:
    """Like a stream of httpcore: it closes itself once, when reading fails, and shields that from anyio."""

    def __init__(self, fails_after: float | None) -> None:
        self.fails_after = fails_after
        self.begun = False
        self.returned = False
        """Whether the pool has its connection back."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield b"x"
            if self.fails_after is None:
                await asyncio.Event().wait()
            else:
                await asyncio.sleep(self.fails_after)
                raise OSError("a read timeout of the transport's own")
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        if not self.begun:
            self.begun = True
            with anyio.CancelScope(shield=True):
                await asyncio.sleep(SLOW)
            self.returned = True


def failed(stream: Pooled) -> Any:
    return SimpleNamespace(stream=stream, headers={}, is_closed=False, is_stream_consumed=False)


FAMILY: Any = SimpleNamespace(bytes=httpx.ByteStream)


@pytest.mark.parametrize("fails_after", [0.0, DRAIN_SECONDS / 2, None])
def test_a_limit_that_passes_while_the_stream_closes_loses_no_connection(
    fails_after: float | None,
) -> None:
    stream = Pooled(fails_after)
    response = failed(stream)
    asyncio.run(drain_async(response, FAMILY, 60.0))
    assert stream.returned
    assert response.is_closed


@pytest.mark.parametrize("after", [0.0, DRAIN_SECONDS / 2, 2 * DRAIN_SECONDS])
def test_a_caller_that_is_cancelled_gives_the_connection_back_first(after: float) -> None:
    """Before the reader's first step, while it reads, and while the stream closes."""

    async def main() -> tuple[Pooled, bool]:
        stream = Pooled(None)
        task = asyncio.ensure_future(drain_async(failed(stream), FAMILY, 60.0))
        await asyncio.sleep(after)
        task.cancel()
        await asyncio.wait({task})
        return stream, task.cancelled()

    stream, cancelled = asyncio.run(main())
    assert cancelled, "a cancellation stays the caller's"
    assert stream.returned


def test_what_is_not_worth_reading_is_closed_at_once() -> None:
    stream = Pooled(None)
    response = failed(stream)
    asyncio.run(drain_async(response, FAMILY, 0.0))
    assert stream.returned
    assert response.is_closed
