"""What a review found: answers that drip, attempts that are stopped, callers who leave in between."""

from __future__ import annotations

import asyncio
import time

import pytest

import tidegate
import tidegate.httpx
from adapters import dripping
from conftest import Client, Origin, quick
from test_httpx import seekable


def test_1_a_file_is_rewound_where_the_server_asks_for_a_retry_of_another_class(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 400, "headers": {"x-should-retry": "true"}}, 200)
    file = seekable(http, b"payload")
    headers = {"Content-Length": "7"}
    client = http.open(quick(engine))
    assert client.request("PUT", origin.url + "/x", content=file, headers=headers).status_code == 200
    assert [entry["body"] for entry in origin.log()] == ["payload"] * 2


def test_8_a_pause_in_the_body_may_be_longer_than_the_attempt_timeout(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    slow = {"fault": "slow_body", "body_bytes": 2, "chunk_bytes": 1, "chunk_every": 400}
    origin.sequence(slow)
    response = http.open(quick(engine, attempt_timeout=0.15, deadline=5.0)).request("GET", origin.url + "/x")
    assert len(response.content) == 2


def test_6_a_caller_who_leaves_while_a_failed_answer_is_drained_has_left(
    http: Client, origin: Origin, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not http.is_async:
        pytest.skip("a thread cannot be cancelled")
    monkeypatch.setattr("tidegate._http.drain.DRAIN_SECONDS", 60.0)
    origin.sequence(dripping(503, size=1000), 200)  # for a minute
    client = http.open(quick(engine, bulkhead={"max_concurrency": 1}))

    async def leave() -> None:
        task = asyncio.ensure_future(client.client.get(origin.url + "/x"))
        await asyncio.sleep(0.12)  # the head has come, its body drips
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - started < 15

    http.run(leave())
    view = engine.snapshot()
    assert (view["live"], view["routes"][0]["pool"]["in_flight"]) == (0, 0)
    assert len(origin.log()) == 1


def test_a_transport_without_a_policy_takes_nobodys_name(http: Client, origin: Origin) -> None:
    tidegate.Policy("http", deadline=1.0)
    origin.sequence(503, 200)
    assert http.open().request("GET", origin.url + "/x").status_code == 200


def test_the_programs_own_end_is_not_repeated(engine: tidegate.Engine) -> None:
    attempts: list[int] = []

    async def ends() -> None:
        attempts.append(1)
        try:
            await asyncio.sleep(10)
        finally:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        asyncio.run(quick(engine, attempt_timeout=0.05).acall(ends))
    assert attempts == [1]


def test_14_a_thousand_waiters_who_leave_leave_nothing_behind(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    if not http.is_async:
        pytest.skip("a thread cannot be cancelled")
    origin.sequence({"fault": "hang"})
    waiting = {"max_concurrency": 3, "max_queue": None, "acquire_timeout": None}
    client = http.open(quick(engine, bulkhead=waiting, retry=None))

    async def leave() -> None:
        tasks = [asyncio.ensure_future(client.client.get(origin.url + "/x")) for _ in range(1000)]
        for _ in range(200):
            await asyncio.sleep(0.02)
            if (await asyncio.to_thread(origin.stats))["requests"] == 3:
                break
        assert engine.snapshot()["waiting"] == 997
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        view = engine.snapshot()
        assert (view["live"], view["lingering"], view["waiting"]) == (0, 0, 0)
        await client.client.aclose()

    http.run(leave())
    until = time.monotonic() + 5
    while origin.stats()["connections_open"] and time.monotonic() < until:
        time.sleep(0.02)
    stats = origin.stats()
    assert (stats["connections_open"], stats["requests"]) == (0, 3)
