"""Timeouts of streams through every client, against the provider of `tests/origin`; connections counted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import tidegate
from adapters import NAMES, Adapter, made
from conftest import Origin

PATH = "/v1/chat/completions"
ASK = json.dumps(
    {"model": "m", "stream": True, "messages": [{"role": "user", "content": "When is high tide?"}]}
).encode()
HEADERS = {"content-type": "application/json", "authorization": "Bearer k"}


@pytest.fixture(params=NAMES)
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    """Each client."""
    adapter = made(request.param)
    yield adapter
    adapter.close()


def streamed(engine: tidegate.Engine, **options: Any) -> tidegate.Policy:
    """A policy that repeats a chat at once, and bounds the silence of its answer."""
    retry = {"methods": ["POST"], "backoff": {"base": 0.0, "jitter": "none"}, "budget": {"kind": "none"}}
    limits = {"first_byte_timeout": 0.5, "idle_timeout": 0.5, "counts": "sse_data", **options}
    return tidegate.Policy("streamed", engine=engine, retry=retry, **limits)


def provider(origin: Origin, *faults: Any, **rest: Any) -> None:
    """Answers of eight words, with pings."""
    origin.script(provider={"answer_tokens": 8, "ping_every": 0.05, "faults": list(faults), **rest})


def settled(origin: Origin, connections: int) -> dict[str, Any]:
    """What the server has counted, once it has noticed what clients have closed."""
    until = time.monotonic() + 10
    while (stats := origin.stats())["connections_open"] > connections and time.monotonic() < until:
        time.sleep(0.01)
    assert stats["connections_open"] <= connections
    return stats


@pytest.mark.parametrize("at", [0, 1])
def test_a_chat_without_a_token_is_asked_again_on_another_connection(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine, at: int
) -> None:
    """Semantics 7.7.3, 7.7.4: a POST whose body asks for a stream is one, and pings are no token."""
    provider(origin, {"fault": "stall", "at": at, "first": 1})
    client = adapter.open(streamed(engine), one_connection=True)
    stream = client.stream("POST", origin.url + PATH, body=ASK, headers=HEADERS)
    assert client.info(stream)["attempts"] == 2
    body = client.read(stream)
    assert body.count(b'"content"') >= 8 and body.rstrip().endswith(b"[DONE]")
    assert client.request("POST", origin.url + PATH, body=ASK, headers=HEADERS).info["attempts"] == 1
    stats = settled(origin, 1)
    assert (stats["requests"], stats["connections_accepted"]) == (3, 2), "the good connection is reused"


def test_a_chat_that_stalls_later_fails_once_and_gives_everything_back(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    """Semantics 7.7.11: the connection is closed, and the next call has one to use."""
    provider(origin, {"fault": "stall", "at": 900, "first": 1}, answer_tokens=40)
    client = adapter.open(streamed(engine, bulkhead={"max_concurrency": 1}), one_connection=True)
    stream = client.stream("POST", origin.url + PATH, body=ASK, headers=HEADERS)
    with pytest.raises(tidegate.StreamStalled) as caught:
        client.read(stream)
    assert isinstance(caught.value, client.timeout_error)
    client.close_stream(stream)
    assert origin.stats()["requests"] == 1
    assert client.request("POST", origin.url + PATH, body=ASK, headers=HEADERS).info["attempts"] == 1
    assert settled(origin, 1)["connections_accepted"] == 2


def test_an_error_event_before_the_first_token_is_a_failed_answer(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    """Semantics 7.7.21."""
    provider(origin, {"fault": "error_event", "at": 0, "error": "overloaded", "first": 1})
    client = adapter.open(streamed(engine))
    answer = client.request("POST", origin.url + PATH, body=ASK, headers=HEADERS)
    assert answer.info["attempts"] == 2 and answer.body.rstrip().endswith(b"[DONE]")


def test_a_chat_that_is_not_streamed_may_think_for_longer(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    """Semantics 7.7.4."""
    provider(origin, first_token=600)
    plain = ASK.replace(b"true", b"false")
    client = adapter.open(streamed(engine, idle_timeout=None, first_byte_timeout=0.3))
    assert client.request("POST", origin.url + PATH, body=plain, headers=HEADERS).info["attempts"] == 1
