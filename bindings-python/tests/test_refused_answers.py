"""A call that must not repeat a request says so to the call around it, by its answer (spec 1.6.4)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import tidegate
import tidegate.httpx
from adapters import NAMES, made
from odd_server import Server
from tidegate._call import left

RETRY = {"max_attempts": 3, "backoff": {"base": 0.001, "max": 0.001}, "budget": None}


class Refused(Exception):
    """The error of an SDK, which has the answer."""

    def __init__(self, response: Any) -> None:
        super().__init__("the server refused it")
        self.response = response


def policy(engine: tidegate.Engine, **more: Any) -> tidegate.Policy:
    return tidegate.Policy(engine=engine, preset="http", retry=RETRY, **more)


def status(response: Any) -> Any:
    """Raises the client's own error for the status; urllib3 has none."""
    if not hasattr(response, "raise_for_status"):
        raise Refused(response)
    response.raise_for_status()


def sdk(response: Any) -> Any:
    raise Refused(response)


class ByStatus(Exception):
    """The error of an SDK, which has nothing of the answer but its status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def by_status(response: Any) -> Any:
    found = getattr(response, "status_code", None)
    raise ByStatus(response.status if found is None else found)


def caused_by_status(response: Any) -> Any:
    try:
        by_status(response)
    except ByStatus as cause:
        raise LookupError("nothing there") from cause


def caused(response: Any) -> Any:
    try:
        status(response)
    except Exception as cause:
        raise LookupError("nothing there") from cause


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(params=NAMES)
def adapter(request: pytest.FixtureRequest) -> Iterator[Any]:
    adapter = made(request.param)
    adapter.may_lose = True
    yield adapter
    adapter.close()


def failing(outer: tidegate.Policy, adapter: Any, method: str, url: str, raises: Any, **more: Any) -> None:
    """Makes a call around requests of a client; in asyncio, if the client is async."""

    async def async_once() -> Any:
        client = adapter.client if hasattr(adapter, "client") else adapter.session
        return raises(await client.request(method, url, **more))

    def once() -> Any:
        return raises(adapter.stream(method, url, **more))

    def call() -> Any:
        return outer.call(once) if adapter.loop is None else adapter.run(outer.acall(async_once))

    with pytest.raises(Exception, match=r"503|refused|nothing"):
        call()


@pytest.mark.parametrize("raises", [status, sdk, caused, by_status, caused_by_status])
def test_an_error_with_the_answer_of_a_refused_repeat_is_not_repeated(
    adapter: Any, server: Server, engine: tidegate.Engine, raises: Any
) -> None:
    """Spec 1.6.4, 1.6.7: the client did not repeat a POST; nor does the call around it. A GET is repeated."""
    sent: list[None] = []
    adapter.open(policy(engine), on_attempt=lambda: sent.append(None))
    outer = policy(engine)
    failing(outer, adapter, "POST", server.status(503), raises)
    assert len(sent) == 1
    sent.clear()
    failing(outer, adapter, "GET", server.status(503), raises)
    assert len(sent) == 3


def test_the_types_that_on_names_and_classify_go_before(
    adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 1.5.17 and 1.6.3."""
    sent: list[None] = []
    adapter.open(policy(engine), on_attempt=lambda: sent.append(None))
    on = policy(engine, on=(Refused, ByStatus))
    for outer in (on, policy(engine, classify=lambda it: "transient")):
        for raises in (sdk, by_status):
            sent.clear()
            failing(outer, adapter, "POST", server.status(503), raises)
            assert len(sent) == 3


def test_an_answer_of_another_call_forbids_nothing(
    adapter: Any, server: Server, engine: tidegate.Engine
) -> None:
    """Spec 1.6.4: it is for the call that the request was made in."""
    adapter.open(policy(engine))
    kept: list[Any] = []
    failing(policy(engine), adapter, "POST", server.status(503), lambda it: kept.append(it) or sdk(it))
    tries: list[None] = []

    def again() -> None:
        tries.append(None)
        raise Refused(kept[0])

    with pytest.raises(Refused):
        policy(engine).call(again)
    assert len(tries) == 3


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_client_around_another_one_does_not_repeat_what_that_one_refused(
    engine: tidegate.Engine, colour: str
) -> None:
    """Spec 1.6.4: the outer client may repeat POSTs, the inner one may not. 1.6.3: its classify decides."""
    sent: list[None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(None)
        return httpx.Response(503)

    def outer(**more: Any) -> tidegate.Policy:
        return tidegate.Policy(engine=engine, retry={**RETRY, "methods": ["POST"]}, **more)

    async def ask(around: tidegate.Policy) -> int:
        kind = tidegate.httpx.AsyncTransport
        inner = kind(httpx.MockTransport(handler), policy(engine))
        async with httpx.AsyncClient(transport=kind(inner, around)) as client:
            return (await client.post("http://h/")).status_code

    def sync(around: tidegate.Policy) -> int:
        kind = tidegate.httpx.Transport
        inner = kind(httpx.MockTransport(handler), policy(engine))
        with httpx.Client(transport=kind(inner, around)) as client:
            return client.post("http://h/").status_code

    for around, times in ((outer(), 1), (outer(classify=lambda it: "transient"), 3)):
        sent.clear()
        assert (sync(around) if colour == "sync" else asyncio.run(ask(around))) == 503
        assert len(sent) == times


def test_an_answer_itself_is_not_kept(adapter: Any, server: Server, engine: tidegate.Engine) -> None:
    """No answer is kept alive, and none that a function returns makes calls that succeed ask for it."""
    adapter.open(policy(engine))
    outer, url = policy(engine), server.status(503)
    left._statuses.clear()
    before = len(left._answers), len(left._plain)
    found = outer.call(lambda: adapter.stream("POST", url))
    assert [list(statuses) for statuses in left._statuses.values()] == [[503]]
    assert (len(left._answers), len(left._plain)) == before
    assert not left.is_left(found)
    gone = weakref.ref(found)
    adapter.close_stream(found)
    del found
    gc.collect()
    assert gone() is None


def test_a_status_is_that_of_its_own_call_and_no_other_status(engine: tidegate.Engine) -> None:
    """Spec 1.6.7."""
    inner = policy(engine, classify=lambda it: "transient" if isinstance(it, dict) else None)
    outer = policy(engine)

    def attempts(status_code: int, *, idempotent: bool = False, raises: bool = True) -> int:
        tries: list[None] = []

        def once() -> Any:
            tries.append(None)
            found = inner.at(idempotent=idempotent).call(lambda: {"status_code": 503})
            if raises:
                raise ByStatus(status_code)
            return found

        if raises:
            with pytest.raises(ByStatus):
                outer.call(once)
        else:
            assert outer.call(once) == {"status_code": 503}
        return len(tries)

    assert attempts(503) == 1
    assert attempts(503, idempotent=True) == 3
    assert attempts(502) == 3
    assert attempts(503, raises=False) == 1, "an answer is a result like any other"
    assert outer.call(int) == 0
    tries: list[None] = []

    def again() -> None:
        tries.append(None)
        raise ByStatus(503)

    with pytest.raises(ByStatus):
        outer.call(again)
    assert len(tries) == 3


def test_statuses_that_no_call_asks_for_are_bounded(engine: tidegate.Engine) -> None:
    inner = policy(engine, classify=lambda it: "transient" if isinstance(it, dict) else None).at(
        idempotent=False
    )
    for _ in range(100):
        policy(engine).call(lambda: inner.call(lambda: {"status_code": 503}))
    assert len(left._statuses) <= left._MOST
