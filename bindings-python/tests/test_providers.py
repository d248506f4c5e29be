"""SDKs as they are, over the policies' clients, against the fake provider of `tests/origin`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import openai
import pytest

import tidegate
from conftest import Origin
from test_sdks import USER, Sdk, posting, read, sdk
from tidegate.testing import FakeClock

__all__ = ["sdk"]  # pytest finds the fixture here


def used(origin: Origin) -> dict[str, Any]:
    """What the provider has counted for the one key of these tests."""
    counted: dict[str, Any] = origin._control("GET", "/provider")["k"]
    return counted


@contextmanager
def openai_over(origin: Origin, policy: tidegate.Policy) -> Iterator[openai.OpenAI]:
    """A client of the `openai` SDK whose requests go through a policy."""
    transport = tidegate.httpx.Transport(httpx2.HTTPTransport(), policy)
    with httpx2.Client(transport=transport) as http:
        yield openai.OpenAI(api_key="k", base_url=origin.url + "/v1", http_client=http, max_retries=0)


def test_an_overloaded_provider_is_asked_again_by_the_policy_alone(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.script(provider={"answer_tokens": 5, "faults": [{"fault": "overloaded", "first": 2}]})
    settings = {"statuses": [429, 503, 529], "methods": ["POST"], "backoff": {"base": 0.001, "max": 0.001}}
    sdk.open(posting(engine, retry=settings))
    assert len(sdk.ask().split(" ")) == 5
    counted = used(origin)
    assert (counted["requests"], counted["refused"], counted["output_tokens"]) == (3, {"overloaded": 2}, 5)


@pytest.mark.parametrize(("form", "least", "most"), [("seconds", 7, 9), ("ms", 7, 8), ("date", 7, 10)])
def test_each_form_of_a_wait_is_kept(sdk: Sdk, origin: Origin, form: str, least: int, most: int) -> None:
    faults = [{"fault": "throttled", "first": 1, "retry_after": 7}]
    origin.script(provider={"retry_after": form, "faults": faults})
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=1, clock=clock)
    sdk.open(posting(engine)).ask()
    assert least <= clock.now() <= most + 1
    assert used(origin)["requests"] == 2


def test_a_key_that_ran_out_waits_until_its_bucket_fills(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine
) -> None:
    """The provider's own meter, on the real clock: the second call needs tokens that come within a second."""
    limits = {"tokens": 12, "per_s": 1.0}
    origin.script(provider={"answer_tokens": 8, "retry_after": "ms", "limits": limits})
    sdk.open(posting(engine))
    assert all(len(sdk.ask().split(" ")) == 8 for _ in range(2))
    counted = used(origin)
    assert counted["requests"] == 2 + counted["refused"].get("throttled", 0)
    assert counted["output_tokens"] == 16


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("unauthorized", "AuthenticationError"),
        ("too_long", "BadRequestError"),
        ("content_refused", "BadRequestError"),
        ("payment_required", "APIStatusError"),
        ("throttled", "RateLimitError"),
        ("server_error", "InternalServerError"),
    ],
)
def test_errors_keep_the_types_of_the_sdk(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine, fault: str, name: str
) -> None:
    origin.script(provider={"faults": [{"fault": fault}]})
    with pytest.raises(getattr(sdk.module, name)) as caught:
        sdk.open(posting(engine)).ask()
    again = fault in ("throttled", "server_error")
    assert used(origin)["refused"] == {fault: 3 if again else 1}
    assert caught.value.response.extensions["tidegate"]["attempts"] == (3 if again else 1)


def test_a_stream_comes_word_by_word_and_once(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    faults = [{"fault": "unavailable", "first": 1}]
    origin.script(provider={"answer_tokens": 9, "ping_every": 0.01, "token_every": 20, "faults": faults})
    sdk.open(posting(engine))
    text, live, _ = read(sdk, engine)
    assert len(text.replace("None", "").split(" ")) == 9
    assert (live[0], engine.snapshot()["live"]) == (1, 0)
    assert (used(origin)["requests"], used(origin)["output_tokens"]) == (2, 9)


@pytest.mark.parametrize("fault", [{"fault": "break", "at": 900}, {"fault": "end", "at": 900}])
def test_a_stream_that_breaks_after_its_first_words_is_not_repeated(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine, fault: dict[str, Any]
) -> None:
    origin.script(provider={"answer_tokens": 40, "faults": [fault]})
    sdk.open(posting(engine))
    with pytest.raises((httpx2.TransportError, sdk.module.APIError)):
        read(sdk, engine)
    assert used(origin)["requests"] == 1
    assert engine.snapshot()["live"] == 0


def test_an_error_inside_a_stream_is_the_sdks_own(sdk: Sdk, origin: Origin, engine: tidegate.Engine) -> None:
    fault = {"fault": "error_event", "at": 3, "error": "overloaded"}
    origin.script(provider={"answer_tokens": 8, "faults": [fault]})
    sdk.open(posting(engine))
    with pytest.raises(sdk.module.APIError) as caught:
        read(sdk, engine)
    assert "verloaded" in str(caught.value)
    assert (used(origin)["requests"], used(origin)["output_tokens"]) == (1, 3)


@pytest.mark.parametrize("at", [0, 1, 200])
def test_a_stalled_stream_ends_with_the_deadline(
    sdk: Sdk, origin: Origin, engine: tidegate.Engine, at: int
) -> None:
    origin.script(provider={"ping_every": 0.05, "faults": [{"fault": "stall", "at": at}]})
    sdk.open(posting(engine, deadline=0.5))
    with pytest.raises((tidegate.DeadlineExceeded, sdk.module.APITimeoutError)):
        read(sdk, engine)
    assert engine.snapshot()["live"] == 0


def test_responses_are_streamed_and_told_by_type(origin: Origin, engine: tidegate.Engine) -> None:
    origin.script(provider={"answer_tokens": 6, "faults": [{"fault": "server_error", "first": 1}]})
    with openai_over(origin, posting(engine)) as client:
        whole = client.responses.create(model="m", input="Say hi.")
        assert len(whole.output_text.split(" ")) == 6
        assert whole.usage is not None and whole.usage.output_tokens == 6
        kinds = [event.type for event in client.responses.create(model="m", input="Say hi.", stream=True)]
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
        assert kinds.count("response.output_text.delta") == 6
    assert used(origin)["requests"] == 3


def test_the_usage_of_a_stream_is_told_at_its_end(origin: Origin, engine: tidegate.Engine) -> None:
    origin.script(provider={"answer_tokens": 6, "cached_share": 0.5})
    with openai_over(origin, posting(engine)) as client:
        messages: Any = USER
        options: Any = {"include_usage": True}
        events = list(
            client.chat.completions.create(model="m", messages=messages, stream=True, stream_options=options)
        )
    assert events[-1].usage is not None
    assert (events[-1].usage.prompt_tokens, events[-1].usage.completion_tokens) == (2, 6)


@pytest.mark.parametrize("at", [0, 1])
def test_a_stream_that_stalls_before_its_first_token_is_repeated(
    origin: Origin, engine: tidegate.Engine, at: int
) -> None:
    """Semantics 7.7.4: the SDK asks for a stream in its body only, and sees one stream."""
    faults = [{"fault": "stall", "at": at, "first": 1}]
    origin.script(provider={"answer_tokens": 6, "ping_every": 0.05, "faults": faults})
    policy = posting(engine, counts="sse_data", first_byte_timeout=1.0)
    messages: Any = USER
    with openai_over(origin, policy) as client:
        events = client.chat.completions.create(model="m", messages=messages, stream=True)
        text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert len(text.split(" ")) == 6
    assert used(origin)["faults"] == {"stall": 1}
    assert engine.snapshot()["live"] == 0


def test_an_answer_that_is_not_streamed_has_no_first_bytes_timeout(
    origin: Origin, engine: tidegate.Engine
) -> None:
    """Semantics 7.7.4: such an answer may take longer to its first byte than a stream to its first token."""
    faults = [{"fault": "stall", "at": 0, "first": 1}]
    origin.script(provider={"answer_tokens": 6, "faults": faults})
    policy = posting(engine, first_byte_timeout=0.1, deadline=0.6)
    messages: Any = USER
    late = (tidegate.DeadlineExceeded, openai.APITimeoutError)
    with openai_over(origin, policy) as client, pytest.raises(late):
        client.chat.completions.create(model="m", messages=messages)
    assert used(origin)["requests"] == 1
