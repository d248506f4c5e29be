"""The rules for adapters, by their numbers, each in both colours, for httpx and httpx2."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

import tidegate
import tidegate.httpx
from conftest import Client, Origin, quick
from tidegate.testing import FakeClock


def info(response: Any) -> dict[str, Any]:
    found: dict[str, Any] = response.extensions["tidegate"]
    return found


# Rule 1: replayability is judged before attempt 1.


@pytest.mark.parametrize(
    "body", [{"content": b"bytes"}, {"content": "text"}, {"json": {"a": 1}}, {"data": {"a": "1"}}]
)
def test_1_whole_bodies_are_sent_again(
    http: Client, origin: Origin, engine: tidegate.Engine, body: Any
) -> None:
    origin.sequence(503, 503, 200)
    response = http.open(quick(engine)).request("PUT", origin.url + "/x", **body)
    assert response.status_code == 200
    assert info(response)["attempts"] == 3
    sent = [entry["body"] for entry in origin.log()]
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert sent[0]


def test_1_a_multipart_body_with_a_file_is_sent_again(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 200)
    files = {"f": ("name.txt", io.BytesIO(b"contents"))}
    assert http.open(quick(engine)).request("PUT", origin.url + "/x", files=files).status_code == 200
    first, second = (entry["body"] for entry in origin.log())
    assert first == second
    assert "contents" in first


class Replayable:
    """A seekable body in both colours."""

    def __init__(self, data: bytes, broken: bool = False) -> None:
        self.file = io.BytesIO(data)
        self.broken = broken
        self.consumed = False

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, to: int, whence: int = 0) -> int:
        if self.broken and to == 0 and self.consumed:
            raise OSError("this file cannot be rewound")
        return self.file.seek(to, whence)

    def __iter__(self) -> Any:
        self.consumed = True
        while chunk := self.file.read(4):
            yield chunk

    async def __aiter__(self) -> Any:
        self.consumed = True
        while chunk := self.file.read(4):
            yield chunk


class AsyncReplayable(Replayable):
    __iter__ = None  # type: ignore[assignment]


def seekable(http: Client, data: bytes, broken: bool = False) -> Any:
    return (AsyncReplayable if http.is_async else Replayable)(data, broken)


def test_1_a_seekable_body_rewinds_to_its_initial_offset(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 503, 200)
    file = seekable(http, b"0123456789")
    file.seek(3)
    assert (
        http.open(quick(engine))
        .request("PUT", origin.url + "/x", content=file, headers={"Content-Length": "7"})
        .status_code
        == 200
    )
    assert [entry["body"] for entry in origin.log()] == ["3456789"] * 3


def test_1_a_body_that_cannot_be_rewound_fails_closed(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 200)
    response = http.open(quick(engine)).request(
        "PUT", origin.url + "/x", content=seekable(http, b"abc", broken=True)
    )
    assert response.status_code == 503
    assert info(response)["note"] == "tidegate: body cannot be replayed"
    assert len(origin.log()) == 1


def test_1_a_one_shot_body_is_sent_once(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"status": 503, "body": "the first failure"}, 200)
    response = http.open(quick(engine)).request("PUT", origin.url + "/x", content=http.body([b"a", b"b"]))
    assert (response.status_code, response.text) == (503, "the first failure")
    assert info(response) == {
        "attempts": 1,
        "reason": "one_shot_body",
        "note": "tidegate: body cannot be replayed",
        "retry_at": None,
    }
    assert [entry["body"] for entry in origin.log()] == ["ab"]


def test_1_a_one_shot_body_leaves_the_original_exception(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "close"}, 200)
    with pytest.raises(http.module.RemoteProtocolError) as caught:
        http.open(quick(engine)).request("PUT", origin.url + "/x", content=http.body([b"a"]))
    assert caught.value.__notes__ == ["tidegate: body cannot be replayed"]


@pytest.mark.parametrize("kind", ["bytes", "iterable"])
def test_1_a_body_factory_makes_a_one_shot_body_retryable(
    http: Client, origin: Origin, engine: tidegate.Engine, kind: str
) -> None:
    origin.sequence(503, 503, 200)
    made = []

    def factory() -> Any:
        made.append(1)
        return b"abc" if kind == "bytes" else http.body([b"ab", b"c"])

    client = http.open(quick(engine))
    response = client.request(
        "PUT", origin.url + "/x", content=http.body([b"a", b"bc"]), tg={"body_factory": factory}
    )
    assert response.status_code == 200
    assert len(made) == 2
    assert [entry["body"] for entry in origin.log()] == ["abc"] * 3


# Rule 2: which requests retry.


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_2_a_method_that_is_not_idempotent_is_not_repeated(
    http: Client, origin: Origin, engine: tidegate.Engine, method: str
) -> None:
    origin.sequence(503, 200)
    response = http.open(quick(engine)).request(method, origin.url + "/x", content=b"pay")
    assert response.status_code == 503
    assert info(response)["reason"] == "method"
    assert info(response)["note"].startswith("tidegate: not retried: a repeat could happen twice")
    assert len(origin.log()) == 1


def test_2_an_idempotency_key_makes_a_post_retryable_with_the_same_key(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, {"fault": "reset"}, 200)
    client = http.open(quick(engine))
    response = client.request("POST", origin.url + "/x", content=b"pay", headers={"Idempotency-Key": "k-1"})
    assert response.status_code == 200
    assert [entry["headers"]["idempotency-key"] for entry in origin.log()] == ["k-1"] * 3


@pytest.mark.parametrize(("told", "attempts"), [(True, 2), (False, 1)])
def test_2_a_request_may_say_so_itself(
    http: Client, origin: Origin, engine: tidegate.Engine, told: bool, attempts: int
) -> None:
    origin.sequence(503, 200)
    method = "POST" if told else "GET"
    http.open(quick(engine)).request(method, origin.url + "/x", tg={"idempotent": told})
    assert len(origin.log()) == attempts


@pytest.mark.parametrize("error", ["ConnectError", "ConnectTimeout", "PoolTimeout"])
def test_2_what_never_left_is_retried_whatever_the_method(
    http: Client, engine: tidegate.Engine, error: str
) -> None:
    attempts = []

    def handler(request: Any) -> Any:
        attempts.append(request)
        if len(attempts) < 3:
            raise getattr(http.module, error)("no")
        return http.module.Response(200)

    assert http.open(quick(engine), handler).request("POST", "http://o/x", content=b"pay").status_code == 200
    assert len(attempts) == 3


@pytest.mark.parametrize("error", ["ReadError", "ReadTimeout", "RemoteProtocolError"])
def test_2_what_may_have_left_is_not(http: Client, engine: tidegate.Engine, error: str) -> None:
    def handler(request: Any) -> Any:
        raise getattr(http.module, error)("no")

    with pytest.raises(getattr(http.module, error)) as caught:
        http.open(quick(engine), handler).request("POST", "http://o/x", content=b"pay")
    assert "could happen twice" in caught.value.__notes__[0]


def test_2_a_port_that_refuses_is_never_sent(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.script(phases=[{"refuse": True}])
    with pytest.raises(http.module.ConnectError) as caught:
        http.open(quick(engine)).request("POST", origin.url + "/x", content=b"pay")
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]


# Rule 3: the last response, or the original exception.


def test_3_the_last_response_is_returned_unread_and_intact(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 503, {"status": 503, "body_bytes": 200_000})
    client = http.open(quick(engine))
    response = client.open_stream("GET", origin.url + "/x")
    assert not response.is_closed
    assert not hasattr(response, "_content")
    assert len(client.read(response)) == 200_000
    assert info(response)["note"] == "tidegate: gave up after 3 attempts"
    assert len(origin.log()) == 3


def test_3_the_original_exception_is_raised_the_same_object(http: Client, engine: tidegate.Engine) -> None:
    raised = []

    def handler(request: Any) -> Any:
        raised.append(http.module.ReadError("broken"))
        raise raised[-1]

    with pytest.raises(http.module.ReadError) as caught:
        http.open(quick(engine), handler).request("GET", "http://o/x")
    assert caught.value is raised[-1]
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
    assert len(raised) == 3


def test_3_no_note_where_nothing_was_held_back(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(404)
    response = http.open(quick(engine)).request("GET", origin.url + "/x")
    assert info(response) == {"attempts": 1, "reason": "not_retryable", "note": None, "retry_at": None}


def test_3_a_status_that_is_not_listed_is_not_retried(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(500, 200)
    assert info(http.open(quick(engine)).request("GET", origin.url + "/x"))["reason"] == "opinion"


def test_3_the_budget_leaves_a_note(http: Client, engine: tidegate.Engine) -> None:
    policy = quick(engine, retry={"budget": {"min_retries_per_sec": 0, "percent_can_retry": 0}})
    response = http.open(policy, lambda request: http.module.Response(503)).request("GET", "http://o/x")
    assert info(response)["note"] == "tidegate: retry budget exhausted"


# Rule 4: a failed response is released before the next attempt.


@pytest.mark.parametrize("size", [100, 300_000])
def test_4_a_pool_of_one_connection_never_deadlocks(
    http: Client, origin: Origin, engine: tidegate.Engine, size: int
) -> None:
    origin.sequence(*[{"status": 503, "body_bytes": size}] * 2, 200)
    client = http.open(quick(engine), limits=http.module.Limits(max_connections=1))
    started = time.monotonic()
    assert client.request("GET", origin.url + "/x", timeout=3).status_code == 200
    assert time.monotonic() - started < 1
    connections = {entry["connection"] for entry in origin.log()}
    assert len(connections) == (1 if size == 100 else 3)


# Rule 5: Retry-After is never cut short.


def test_5_retry_after_is_never_early_in_1000_trials(http: Client, clock: FakeClock) -> None:
    jumping = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=7, clock=jumping)
    policy = tidegate.Policy(engine=engine, retry={"max_attempts": 2, "max_retry_after": 120, "budget": None})
    at: list[float] = []

    def handler(request: Any) -> Any:
        at.append(jumping.now())
        if len(at) % 2:
            return http.module.Response(503, headers={"retry-after": str(len(at) % 90)})
        return http.module.Response(200)

    client = http.open(policy, handler)
    for _ in range(1000):
        assert client.request("GET", "http://o/x").status_code == 200
    waits = [
        (later - earlier, i * 2 + 1) for i, (earlier, later) in enumerate(zip(at[::2], at[1::2], strict=True))
    ]
    assert len(waits) == 1000
    assert all(wait >= n % 90 for wait, n in waits)
    assert any(wait > n % 90 for wait, n in waits)


def test_5_a_wait_beyond_the_deadline_ends_at_once(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 503, "retry_after": "3600", "body": "down"})
    policy = quick(engine, deadline=2, retry={"max_retry_after": 7200})
    started = time.monotonic()
    response = http.open(policy).request("GET", origin.url + "/x")
    assert time.monotonic() - started < 1
    assert response.text == "down"
    found = info(response)
    assert found["reason"] == "would_outlive_deadline"
    assert "Retry-After 3600 s" in found["note"]
    assert "would outlive the deadline" in found["note"]
    assert 3590 < (found["retry_at"].timestamp() - time.time()) <= 3601


def test_5_a_wait_beyond_max_retry_after_ends_at_once(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 503, "retry_after": "120"})
    response = http.open(quick(engine)).request("GET", origin.url + "/x")
    assert info(response)["note"] == "tidegate: Retry-After 120 s exceeds max_retry_after 60 s"


# Rule 7: two timeouts, two names; the deadline covers everything.


def test_7_an_attempt_gets_no_more_time_than_is_left(http: Client, engine: tidegate.Engine) -> None:
    seen = []

    def handler(request: Any) -> Any:
        seen.append(request.extensions["timeout"])
        return http.module.Response(200)

    client = http.open(quick(engine, attempt_timeout=0.5, deadline=10), handler)
    client.request("GET", "http://o/x", timeout=http.module.Timeout(5, connect=0.1))
    assert seen[0]["connect"] == 0.1
    assert [seen[0][phase] for phase in ("read", "write", "pool")] == pytest.approx([0.5] * 3, abs=0.01)


def test_7_an_attempt_timeout_is_retried(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"}, 200)
    response = http.open(quick(engine, attempt_timeout=0.1)).request("GET", origin.url + "/x")
    assert response.status_code == 200
    assert info(response)["attempts"] == 2


def test_7_the_last_attempt_timeout_is_told(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"})
    kinds = (tidegate.AttemptTimeout, http.module.ReadTimeout)
    with pytest.raises(kinds) as caught:
        http.open(quick(engine, attempt_timeout=0.05)).request("GET", origin.url + "/x")
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]


def test_7_the_deadline_ends_a_hanging_attempt(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"})
    started = time.monotonic()
    with pytest.raises(tidegate.DeadlineExceeded):
        http.open(quick(engine, deadline=0.2)).request("GET", origin.url + "/x")
    assert 0.19 < time.monotonic() - started < 0.5


def test_7_a_deadline_around_the_client_counts(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"})
    client = http.open(quick(engine, deadline=30))
    with tidegate.deadline(0.1), pytest.raises(tidegate.DeadlineExceeded):
        client.request("GET", origin.url + "/x")


def test_7_a_request_may_have_its_own_deadline(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"})
    with pytest.raises(tidegate.DeadlineExceeded):
        http.open(quick(engine)).request("GET", origin.url + "/x", tg={"deadline": 0.1})


# Rule 9: nested policies do not multiply.


def test_9_a_client_inside_a_retried_function_makes_one_attempt(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503)
    outer = quick(engine)
    client = http.open(quick(engine))
    responses = []

    async def one_async() -> None:
        responses.append(await client.client.get(origin.url + "/x"))
        raise ConnectionError("and the outer one fails")

    def one() -> None:
        responses.append(client.client.get(origin.url + "/x"))
        raise ConnectionError("and the outer one fails")

    with pytest.raises(ConnectionError):
        http.run(outer.acall(one_async)) if http.is_async else outer.call(one)
    assert len(origin.log()) == 3
    assert info(responses[0])["reason"] == "nested"


# Rule 11: headers out.


@pytest.mark.parametrize("switch", ["on", "off", "off by request"])
def test_11_repeats_carry_their_number(
    http: Client, origin: Origin, engine: tidegate.Engine, switch: str
) -> None:
    origin.sequence(503, 503, 200)
    client = http.open(quick(engine), retry_header=switch != "off")
    client.request(
        "PUT", origin.url + "/x", content=b"x", tg={"retry_header": False} if "by" in switch else {}
    )
    seen = [entry["headers"] for entry in origin.log()]
    told = [headers.pop("retry-attempt", None) for headers in seen]
    assert told == ([None, "1", "2"] if switch == "on" else [None] * 3)
    assert seen[0] == seen[1] == seen[2]


# Rule 12: on by default, finite, safe.


def test_12_the_default_policy_is_the_preset(http: Client, origin: Origin) -> None:
    origin.sequence(503, 200)
    response = http.open().request("GET", origin.url + "/x")
    assert (response.status_code, info(response)["attempts"]) == (200, 2)


# What else a request can say.


def test_another_policy_and_route(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(503)
    once = tidegate.Policy("once", engine=engine, deadline=5)
    response = http.open(quick(engine)).request("GET", origin.url + "/x", tg={"policy": once, "route": "eu"})
    assert info(response)["attempts"] == 1
    assert ("once", "eu") in {(route["policy"], route["key"]) for route in engine.snapshot()["routes"]}


def test_the_route_is_the_origin(http: Client, engine: tidegate.Engine) -> None:
    client = http.open(quick(engine), lambda request: http.module.Response(200))
    for url in ("https://a.example/1", "https://a.example:443/2", "http://a.example/", "http://[::1]:81/"):
        client.request("GET", url)
    keys = [route["key"] for route in engine.snapshot()["routes"]]
    assert {"https://a.example:443", "http://a.example:80", "http://[::1]:81"} <= set(keys)


def test_an_unknown_option_is_refused(http: Client, engine: tidegate.Engine) -> None:
    client = http.open(quick(engine), lambda request: http.module.Response(200))
    with pytest.raises(ValueError, match="'routes' is no option of a request; they are policy, route"):
        client.request("GET", "http://o/", tg={"routes": 1})


def test_a_route_that_was_evicted_is_asked_for_again(http: Client, engine: tidegate.Engine) -> None:
    policy = quick(engine)
    client = http.open(policy, lambda request: http.module.Response(200))
    client.request("GET", "http://first/")
    for number in range(10_050):
        engine.native.route(policy._number, f"other-{number}")
    assert client.request("GET", "http://first/").status_code == 200


def test_each_hop_of_a_redirect_is_one_call(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    origin.script(
        sequences={"/a": [{"status": 302, "headers": {"location": "/b"}}], "/b": [503, 200]}
        and {
            "/a": [{"status": 302, "headers": {"location": "/b"}}],
            "/b": [{"status": 503}, {"status": 200}],
        }
    )
    policy = quick(engine)
    response = http.open(policy).request("GET", origin.url + "/a", follow_redirects=True)
    assert (response.status_code, len(response.history)) == (200, 1)
    assert engine.snapshot()["policies"][policy.name] == {
        "attempts": 3,
        "retries": 1,
        "hedges": 0,
        "ends": {"ok": 2},
    }


def test_a_policy_may_classify_responses(http: Client, engine: tidegate.Engine) -> None:
    answers = iter([b"try again", b"fine"])

    def classify(subject: Any) -> Any:
        return "transient" if subject.content == b"try again" else None

    policy = quick(engine, classify=classify)
    response = http.open(policy, lambda r: http.module.Response(200, content=next(answers))).request(
        "GET", "http://o/"
    )
    assert response.content == b"fine"


def test_the_side_is_told_by_the_inner_transport(module: Any) -> None:
    transport = tidegate.httpx.Transport(module.MockTransport(lambda request: module.Response(200)))
    assert isinstance(transport, module.BaseTransport)
    assert isinstance(transport, tidegate.httpx.Transport)
    both = tidegate.httpx.AsyncTransport(module=module)
    assert isinstance(both, module.AsyncBaseTransport)


def test_a_transport_of_nobody_is_refused() -> None:
    with pytest.raises(TypeError, match="say which"):
        tidegate.httpx.Transport(object())
    with pytest.raises(TypeError, match="both httpx and httpx2 are imported"):
        tidegate.httpx.Transport()
