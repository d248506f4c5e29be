"""Requests weighed by an estimate, attempts settled with what answers say (spec 15.6, 15.7)."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import openai
import pytest
import requests

import tidegate
import tidegate.httpx
import tidegate.requests
from adapters import NAMES, Adapter, made
from conftest import Origin

CHAT = "/v1/chat/completions"
HEADERS = {"content-type": "application/json", "authorization": "Bearer k"}
LIMITS = ["rpm: permits=600 per=1h", "tpm: permits=100000 per=1h weight=tokens default=77"]


def ask(**more: Any) -> bytes:
    """A chat of 16 bytes, so 4 tokens, whose answer has at most 500."""
    chat = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Is the tide high"}]}
    return json.dumps({**chat, **more}).encode()


STREAM = ask(stream=True, stream_options={"include_usage": True})


TOKENS = tidegate.tokens(output=300)


def broken(_: object) -> dict[str, int]:
    """A callback that fails."""
    raise RuntimeError("no")


def metered(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    """Requests and tokens, for chats that are repeated at once."""
    retry = {"methods": ["POST"], "backoff": {"base": 0.0, "jitter": "none"}, "budget": {"kind": "none"}}
    return tidegate.Policy("metered", engine=engine, rate_limit={"limits": LIMITS}, retry=retry, **rest)


def counted(engine: tidegate.Engine) -> tuple[int, int]:
    """What has been reserved and settled of tokens."""
    limit = engine.snapshot()["routes"][0]["rate"]["limits"]["tpm"]
    return limit["reserved"], limit["settled"]


@pytest.fixture(params=NAMES)
def adapter(request: pytest.FixtureRequest) -> Iterator[Adapter]:
    """Each client."""
    adapter = made(request.param)
    yield adapter
    adapter.close()


@pytest.mark.parametrize("body", [ask(), STREAM], ids=["plain", "streamed"])
def test_a_chat_reserves_its_estimate_and_settles_its_usage(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine, body: bytes
) -> None:
    """Spec 15.7.6 and 15.7.7."""
    origin.script(provider={"answer_tokens": 8})
    client = adapter.open(metered(engine), **TOKENS)
    stream = client.stream("POST", origin.url + CHAT, body=body, headers=HEADERS)
    client.read(stream)
    client.close_stream(stream)
    provider = origin._control("GET", "/provider")["k"]
    assert counted(engine) == (504, provider["input_tokens"] + provider["output_tokens"])
    assert provider["output_tokens"] == 8


def test_each_attempt_settles_by_itself(adapter: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    """Spec 3.6.4: an answer of 429 has used nothing."""
    faults = [{"fault": "throttled", "first": 1, "retry_after": 0}]
    origin.script(provider={"answer_tokens": 8, "faults": faults})
    client = adapter.open(metered(engine), **TOKENS)
    answer = client.request("POST", origin.url + CHAT, body=ask(), headers=HEADERS)
    assert (answer.status, answer.info["attempts"]) == (200, 2)
    provider = origin._control("GET", "/provider")["k"]
    assert counted(engine) == (2 * 504, provider["input_tokens"] + 8)


def test_a_stream_that_is_closed_early_counts_its_reservation(
    adapter: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    """Spec 15.7.7."""
    origin.script(provider={"answer_tokens": 400, "token_every": 20})
    client = adapter.open(metered(engine), **TOKENS)
    client.close_stream(client.stream("POST", origin.url + CHAT, body=STREAM, headers=HEADERS))
    until = time.monotonic() + 5
    while engine.snapshot()["live"] and time.monotonic() < until:
        client.run(_pause()) if client.is_async else time.sleep(0.01)
    assert counted(engine) == (504, 504)


async def _pause() -> None:
    """Lets an event loop close what it was told to."""
    import asyncio

    await asyncio.sleep(0.01)


def test_the_callers_weights_come_first(adapter: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    """Spec 15.7.6."""
    origin.script(provider={"answer_tokens": 8})
    client = adapter.open(metered(engine), weigh=TOKENS["weigh"])
    client.request("POST", origin.url + CHAT, body=ask(), headers=HEADERS, tg={"weights": {"tokens": 40}})
    assert counted(engine) == (40, 40)


def over(
    policy: tidegate.Policy, answer: bytes = b"", coding: str = "identity", **callbacks: Any
) -> httpx.Client:
    """A client whose answers are in memory."""
    headers = {"content-encoding": coding}
    inner = httpx.MockTransport(lambda _: httpx.Response(200, content=answer, headers=headers))
    return httpx.Client(transport=tidegate.httpx.Transport(inner, policy, **callbacks))


USED = (
    b'{"usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}}'
)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_an_answer_in_memory_settles_too(engine: tidegate.Engine, coding: str) -> None:
    """Spec 15.7.7."""
    packed = gzip.compress(USED) if coding == "gzip" else USED
    prices = tidegate.tokens(output=100, factors=tidegate.Factors(input=2.5, cached=0.25, output=10))
    with over(metered(engine), packed, coding, **prices) as client:
        assert client.post("http://a/", content=ask(max_tokens=None)).content == USED
    assert counted(engine) == (4 * 2.5 + 1000, 6 * 2.5 + 4 * 0.25 + 50)


def test_callbacks_that_fail_are_warned_about_once_and_break_no_call(engine: tidegate.Engine) -> None:
    """No callback can break a call."""
    client = over(metered(engine), USED, weigh=broken, usage=lambda _: {"token": 5})
    with pytest.warns(RuntimeWarning) as warned:
        statuses = [client.post("http://a/", content=ask()).status_code for _ in range(2)]
    client.close()
    assert statuses == [200, 200]
    texts = [str(warning.message) for warning in warned]
    assert len(texts) == 2 and "weigh=" in texts[0]
    assert texts[1].endswith("Unknown: 'token' is no weight that the attempt counts")
    assert counted(engine) == (2 * 77, 2 * 77)
    client = over(metered(tidegate.Engine()), USED, weigh=lambda _: {"tokens": -1})
    with pytest.warns(RuntimeWarning, match="'tokens': -1} must be a mapping of names to whole numbers"):
        client.post("http://a/", content=ask())
    client.close()


def test_wrong_callbacks_and_factors_are_clear_errors(engine: tidegate.Engine) -> None:
    """One error each, that names key, value and rule."""
    with pytest.raises(TypeError, match="usage = 5: must be callable"):
        tidegate.requests.Adapter(metered(engine), usage=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"factors\.output = -1: must be a number from 0 to 1,000"):
        tidegate.tokens(factors=tidegate.Factors(output=-1))
    with pytest.raises(ValueError, match=r"output = 0\.5: must be a mapping of names to whole numbers"):
        tidegate.tokens(output=0.5)  # type: ignore[arg-type]


def test_a_policy_without_weights_ignores_the_callbacks(engine: tidegate.Engine) -> None:
    """An adapter may have policies of both kinds."""
    plain = tidegate.Policy("plain", engine=engine, deadline=5.0)
    with over(plain, USED, weigh=broken, usage=broken) as client:
        assert client.post("http://a/", content=ask()).status_code == 200


def test_an_estimate_reads_prompt_limit_and_stream(engine: tidegate.Engine) -> None:
    """Spec 15.7."""
    seen: list[tidegate.Estimate] = []
    with over(metered(engine), weigh=seen.append) as client:
        client.post("http://a/v1/chat/completions?key=secret", content=STREAM)
        client.get("http://a/v1/models")
        client.post("http://a/v1/files", content=iter([b"once"]))
    assert seen == [(4, 500, True), (0, 0, False)]


def test_the_sdk_that_closes_after_its_last_event_settles(origin: Origin, engine: tidegate.Engine) -> None:
    """Spec 15.7.7: `openai` stops reading at `[DONE]`."""
    origin.script(provider={"answer_tokens": 8, "token_every": 1})
    transport = tidegate.httpx.Transport(httpx2.HTTPTransport(), metered(engine), **TOKENS)
    with httpx2.Client(transport=transport) as http:
        client = openai.OpenAI(api_key="k", base_url=origin.url + "/v1", http_client=http, max_retries=0)
        stream = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "Is the tide high"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        assert sum(bool(event.choices and event.choices[0].delta.content) for event in stream) == 8
    provider = origin._control("GET", "/provider")["k"]
    assert counted(engine) == (304, provider["input_tokens"] + 8)


def test_a_session_with_callbacks_can_be_pickled(origin: Origin, engine: tidegate.Engine) -> None:
    """The functions go by name."""
    origin.script(provider={"answer_tokens": 8})
    policy = tidegate.Policy("pickled", rate_limit={"limits": LIMITS})
    session = requests.Session()
    session.mount("http://", tidegate.requests.Adapter(policy, **TOKENS))
    with pickle.loads(pickle.dumps(session)) as again:
        again.post(origin.url + CHAT, data=ask(), headers=HEADERS)
        made_engine = again.get_adapter(origin.url)._policy.engine
        routes = [route for route in made_engine.snapshot()["routes"] if route["rate"]]
        assert any(route["rate"]["limits"]["tpm"]["reserved"] == 504 for route in routes)
    session.close()
