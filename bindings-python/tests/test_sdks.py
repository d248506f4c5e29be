"""SDKs as they are, through `http_client=`: openai and anthropic, in both colours, against the origin."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import tidegate
import tidegate.httpx
from conftest import Origin
from tidegate.testing import FakeClock

USER = [{"role": "user", "content": "Say hi."}]
OPENAI = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
}
ANTHROPIC = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def openai_events() -> str:
    pieces = [
        {**OPENAI, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]}
        for word in ("h", "i", "!")
    ]
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"


def anthropic_events() -> str:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**ANTHROPIC, "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in ("h", "i", "!")
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


class Sdk:
    """One SDK in one colour."""

    def __init__(self, name: str, colour: str, url: str) -> None:
        self.module: Any = {"openai": openai, "anthropic": anthropic}[name]
        self.name = name
        self.is_async = colour == "async"
        self.path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[name]
        self.url = url
        self.loop = asyncio.new_event_loop() if self.is_async else None
        self.client: Any = None

    def open(self, policy: tidegate.Policy) -> Any:
        if self.is_async:
            inner: Any = httpx2.AsyncHTTPTransport()
            http: Any = httpx2.AsyncClient(transport=tidegate.httpx.AsyncTransport(inner, policy))
        else:
            inner = httpx2.HTTPTransport()
            http = httpx2.Client(transport=tidegate.httpx.Transport(inner, policy))
        kinds = {
            "openai": (openai.OpenAI, openai.AsyncOpenAI, "/v1"),
            "anthropic": (anthropic.Anthropic, anthropic.AsyncAnthropic, ""),
        }[self.name]
        kind: Any = kinds[self.is_async]
        base = self.url + kinds[2]
        self.client = kind(api_key="k", base_url=base, http_client=http, max_retries=0)
        return self

    def answer(self, **how: Any) -> Any:
        """A good answer of this SDK's server, or (given events) a stream of them."""
        body = json.dumps(OPENAI if self.name == "openai" else ANTHROPIC)
        return {"body": body, "headers": {"content-type": "application/json"}, **how}

    def events(self, **how: Any) -> Any:
        body = openai_events() if self.name == "openai" else anthropic_events()
        return {"body": body, "headers": {"content-type": "text/event-stream"}, **how}

    def create(self, **how: Any) -> Any:
        if self.name == "openai":
            return self.client.chat.completions.create(model="m", messages=USER, **how)
        return self.client.messages.create(model="m", messages=USER, max_tokens=9, **how)

    def ask(self, **how: Any) -> str:
        """What the model says."""
        made = self.run(self.create(**how))
        said = made.choices[0].message.content if self.name == "openai" else made.content[0].text
        return str(said)

    def text_of(self, event: Any) -> str:
        if self.name == "openai":
            return str(event.choices[0].delta.content)
        return str(event.delta.text) if event.type == "content_block_delta" else ""

    def run(self, value: Any) -> Any:
        return self.loop.run_until_complete(value) if self.loop is not None else value

    def close(self) -> None:
        if self.client is not None:
            self.run(self.client.close())
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()


@pytest.fixture(params=["openai sync", "openai async", "anthropic sync", "anthropic async"])
def sdk(request: pytest.FixtureRequest, origin: Origin) -> Iterator[Sdk]:
    name, _, colour = request.param.partition(" ")
    made = Sdk(name, colour, origin.url)
    yield made
    made.close()


def posting(engine: tidegate.Engine, **settings: Any) -> tidegate.Policy:
    """A policy that repeats what SDKs send, which is POST: their requests change nothing."""
    retry = {
        "max_attempts": 3,
        "backoff": {"base": 0.001, "max": 0.001},
        "max_retry_after": 60,
        "methods": ["GET", "POST"],
        "statuses": [408, 429, 500, 502, 503, 504],
        "budget": {"kind": "none"},
    }
    return tidegate.Policy(engine=engine, **{"retry": retry, **settings})


def test_a_throttled_call_waits_as_long_as_it_is_told(sdk: Sdk, origin: Origin) -> None:
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=1, clock=clock)
    throttled = {"status": 429, "retry_after": "7", "body": '{"error": {"message": "slow down"}}'}
    origin.sequence(throttled, throttled, sdk.answer(), path=sdk.path)
    assert sdk.open(posting(engine)).ask() == "hi"
    assert 14 <= clock.now() < 16
    assert len({entry["body"] for entry in origin.log()}) == 1
    assert len(origin.log()) == 3


def test_a_server_that_fails_is_asked_again(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(500, {"fault": "reset"}, sdk.answer(), path=sdk.path)
    assert sdk.open(posting(engine)).ask() == "hi"
    assert len(origin.log()) == 3


def test_the_last_failure_is_the_sdks_own_error(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    body = json.dumps({"error": {"message": "slow down"}})
    origin.sequence({"status": 429, "retry_after": "0", "body": body}, path=sdk.path)
    with pytest.raises(sdk.module.RateLimitError) as caught:
        sdk.open(posting(engine)).ask()
    assert "slow down" in str(caught.value)
    info = caught.value.response.extensions["tidegate"]
    assert (info["attempts"], info["note"]) == (3, "tidegate: gave up after 3 attempts")


def test_an_attempt_timeout_is_repeated_and_then_the_sdks_own(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "hang"}, sdk.answer(), path=sdk.path)
    sdk.open(posting(engine, attempt_timeout=0.3))
    assert sdk.ask() == "hi"
    origin.sequence({"fault": "hang"}, path=sdk.path)
    with pytest.raises(sdk.module.APITimeoutError):
        sdk.ask()
    assert len(origin.log()) == 3


def test_a_deadline_ends_the_call_as_a_timeout_of_the_sdk(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "hang"}, path=sdk.path)
    sdk.open(posting(engine, deadline=0.2))
    started = time.monotonic()
    with pytest.raises(sdk.module.APITimeoutError) as caught:
        sdk.ask()
    assert isinstance(caught.value.__cause__, tidegate.DeadlineExceeded)
    assert time.monotonic() - started < 10


def test_a_refusal_is_a_connection_error_of_the_sdk(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine
) -> None:
    policy = posting(engine)
    sdk.open(policy)
    policy.force_open()
    with pytest.raises(sdk.module.APIConnectionError) as caught:
        sdk.ask()
    assert isinstance(caught.value.__cause__, tidegate.ForcedOpen)
    assert origin.log() == []


def read(sdk: Sdk, engine: tidegate.Engine) -> tuple[str, list[int], list[float]]:
    """What a stream says, and at each event how many calls were live, and when it came."""
    text, live, at = [], [], []

    def look(event: Any) -> None:
        text.append(sdk.text_of(event))
        live.append(engine.snapshot()["live"])
        at.append(time.monotonic())

    if not sdk.is_async:
        for event in sdk.create(stream=True):
            look(event)
    else:

        async def reading() -> None:
            async for event in await sdk.create(stream=True):
                look(event)

        sdk.run(reading())
    return "".join(text), live, at


def test_a_stream_keeps_its_slot_until_it_ends(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    events = sdk.events()
    chunk = len(events["body"]) // 8
    slow = sdk.events(fault="slow_body", chunk_bytes=chunk, chunk_every=150)
    origin.sequence(503, slow, path=sdk.path)
    sdk.open(posting(engine, attempt_timeout=0.6, bulkhead={"max_concurrency": 1}))
    text, live, at = read(sdk, engine)
    assert text == "hi!"
    assert live[0] == 1
    assert at[-1] - at[0] > 0.02, "events are passed on as they come"
    assert engine.snapshot()["live"] == 0
    assert len(origin.log()) == 2


def test_a_stream_that_breaks_is_not_begun_again(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(sdk.events(fault="truncate"), sdk.events(), path=sdk.path)
    policy = posting(engine)
    sdk.open(policy)
    with pytest.raises((httpx2.TransportError, sdk.module.APIError)):
        read(sdk, engine)
    assert len(origin.log()) == 1
    assert policy.snapshot()["ends"] == {"not_retryable": 1}


def test_a_deadline_ends_a_stream(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(sdk.events(fault="slow_body", chunk_bytes=10, chunk_every=30), path=sdk.path)
    sdk.open(posting(engine, deadline=0.2))
    started = time.monotonic()
    with pytest.raises((tidegate.DeadlineExceeded, sdk.module.APITimeoutError)):
        read(sdk, engine)
    assert time.monotonic() - started < 10
    assert engine.snapshot()["live"] == 0


@pytest.mark.parametrize("module", [httpx2, __import__("httpx")], ids=lambda module: module.__name__)
def test_the_side_is_told_where_an_sdk_calls_the_classes_its_own(module: Any) -> None:
    class Own(module.BaseTransport):  # type: ignore[misc,name-defined]
        def handle_request(self, request: Any) -> Any:
            return module.Response(204)

    with module.Client(transport=tidegate.httpx.Transport(Own())) as client:
        assert client.get("http://o/").status_code == 204
