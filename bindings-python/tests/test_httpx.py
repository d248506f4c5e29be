"""What is httpx's own, in both colours, for httpx and httpx2. The rules for all: `test_adapters_*.py`."""

from __future__ import annotations

import gc
import io
import weakref
from typing import Any

import pytest

import tidegate
import tidegate.httpx
from conftest import Client, Origin, quick


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


# Rule 2: which requests retry.


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


# Rule 3: the last response, or the original exception.


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


def test_a_method_that_is_replaced_later_is_called(http: Client, engine: tidegate.Engine) -> None:
    """Test tools replace methods of the inner transport."""
    policy = quick(engine)
    http.open(policy, lambda request: http.module.Response(200))
    assert [http.request("GET", "http://o/").status_code for _ in range(2)] == [200, 200]
    other = http.module.MockTransport(lambda request: http.module.Response(201))
    name = "handle_async_request" if http.is_async else "handle_request"
    setattr(http.transport._inner, name, getattr(other, name))
    response = http.request("GET", "http://o/")
    assert (response.status_code, info(response)["attempts"]) == (201, 1)
    assert engine.snapshot()["policies"][policy.name]["ends"] == {"ok": 3}


def test_a_value_that_is_no_response_fails_its_attempt(http: Client, engine: tidegate.Engine) -> None:
    def send(request: Any) -> Any:
        return "no response"

    async def asend(request: Any) -> Any:
        return "no response"

    policy = quick(engine)
    http.open(policy, lambda request: http.module.Response(200))
    name = "handle_async_request" if http.is_async else "handle_request"
    setattr(http.transport._inner, name, asend if http.is_async else send)
    with pytest.raises(AttributeError, match="stream"):
        http.run(getattr(http.transport, name)(http.module.Request("GET", "http://o/")))
    assert engine.snapshot()["live"] == 0
    assert engine.snapshot()["policies"][policy.name]["attempts"] == 1


def test_each_response_has_its_own_report(http: Client, engine: tidegate.Engine) -> None:
    http.open(quick(engine), lambda request: http.module.Response(200))
    first, second = (http.request("GET", "http://o/") for _ in range(2))
    info(first)["note"] = "changed by the user"
    assert info(second) == {"attempts": 1, "reason": "ok", "note": None, "retry_at": None}
    assert info(http.request("GET", "http://o/")) == info(second)


def test_a_transport_that_refers_to_itself_is_collected(module: Any, engine: tidegate.Engine) -> None:
    inner = module.MockTransport(lambda request: module.Response(200))
    inner.around = tidegate.httpx.Transport(inner, quick(engine))
    inner.around.handle_request(module.Request("GET", "http://o/"))
    alive = weakref.ref(inner)
    del inner
    gc.collect()
    assert not alive()


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
