"""`RetryHandler` in the pipeline of kiota's own package, and beside its own handler on the same script.

Where they differ, the door follows the design:

- Without Retry-After kiota waits `delay` + 0.5·2^(n−2) + up to 1 s, at most 120 s; the design has
  delay·n², at most 180 s.
- kiota repeats 3 times by default; the design names 10, and 1800 s in all, which kiota has no limit for.
- kiota leaves an answer that asks for 180 s or more to the caller, we one that asks for more than 180 s.
- kiota reads `"120,5"` as 120 s; it is no Retry-After, and we wait as if there were none.
- kiota takes a body for one that it cannot repeat if its Content-Type is application/octet-stream; we look at
  the body itself, and so repeat bytes of that type, and never a stream of another.
- kiota counts a `Retry-Attempt` header that the caller has set as repeats that were made.
- kiota writes `Retry-Attempt` into the caller's own request; we leave it as it was.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import httpx
import pytest

import tidegate
from conftest import Origin
from tidegate.compat import kiota
from tidegate.testing import FakeClock

pytest.importorskip("kiota_http", reason="microsoft-kiota-http is not installed")
from kiota_http.kiota_client_factory import KiotaClientFactory
from kiota_http.middleware import RetryHandler as TheirHandler
from kiota_http.middleware.options import RetryHandlerOption as TheirOption

RETRY = 1
"""The place of the retry handler in kiota's default pipeline."""


class Server:
    def __init__(self, answers: list[tuple[int, str | None]]) -> None:
        self.answers = answers
        self.seen: list[Any] = []

    def __call__(self, request: Any) -> Any:
        answer, after = self.answers[min(len(self.seen), len(self.answers) - 1)]
        self.seen.append(
            (request.method, str(request.url), request.headers.get("retry-attempt"), request.content)
        )
        return httpx.Response(answer, headers={} if after is None else {"Retry-After": after})


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What kiota's own handler sleeps, which takes no time here."""
    slept: list[float] = []
    real = asyncio.sleep

    async def nap(seconds: float) -> None:
        slept.append(seconds)
        await real(0)

    monkeypatch.setattr("kiota_http.middleware.retry_handler.asyncio.sleep", nap)
    return slept


def pipeline(handler: Any, inner: Any) -> httpx.AsyncClient:
    middleware = KiotaClientFactory.get_default_middleware(None)
    assert isinstance(middleware[RETRY], TheirHandler)
    middleware[RETRY] = handler
    client = httpx.AsyncClient(transport=inner)
    return KiotaClientFactory.create_with_custom_middleware(middleware, client)


def ask(handler: Any, inner: Any, *requests: dict[str, Any]) -> list[Any]:
    async def main() -> list[Any]:
        async with pipeline(handler, inner) as client:
            return [await client.request(**request) for request in requests]

    return asyncio.run(main())


def ours(option: Any = None) -> tuple[kiota.RetryHandler, FakeClock]:
    clock = FakeClock(autojump=True)
    return kiota.RetryHandler(option, engine=tidegate.Engine(seed=1, clock=clock), queue=False), clock


@pytest.mark.parametrize("seed", range(40))
def test_the_same_script_is_sent_alike(seed: int, naps: list[float]) -> None:
    rng = random.Random(seed)
    answers = [
        (
            rng.choice([200, 404, 429, 429, 500, 503, 503, 504]),
            rng.choice([None, None, "1", "30", "179", "181"]),
        )
        for _ in range(5)
    ]
    retries, should = rng.randrange(0, 5), rng.random() < 0.9
    method = rng.choice(["GET", "POST", "PUT", "PATCH", "DELETE"])
    request = {"method": method, "url": "http://api/a?b=1", "content": b"body"}
    outcomes = []
    for option, handler in (
        (TheirOption(3.0, retries, should), None),
        (kiota.RetryHandlerOption(3.0, retries, should), ours),
    ):
        server = Server(list(answers))
        made = TheirHandler(option) if handler is None else handler(option)[0]
        (response,) = ask(made, httpx.MockTransport(server), request)
        outcomes.append((response.status_code, server.seen))
    assert outcomes[1] == outcomes[0], f"seed {seed}"


def test_a_retry_after_is_waited_for_alike(naps: list[float]) -> None:
    answers: list[tuple[int, str | None]] = [(429, "5"), (503, "170"), (200, None)]
    ask(TheirHandler(), httpx.MockTransport(Server(answers)), {"method": "GET", "url": "http://api/a"})
    handler, clock = ours()
    ask(handler, httpx.MockTransport(Server(answers)), {"method": "GET", "url": "http://api/a"})
    assert naps == [5, 170]
    assert 175 <= clock.now() <= 175 * 1.1


def test_a_request_may_bring_kiotas_own_option() -> None:
    server = Server([(503, None)])
    handler, _ = ours()
    said = {"kiota_request_options": {TheirOption.get_key(): TheirOption(1.0, 2)}}
    (response,) = ask(
        handler,
        httpx.MockTransport(server),
        {"method": "GET", "url": "http://api/a", "extensions": said},
    )
    assert (response.status_code, [seen[2] for seen in server.seen]) == (503, [None, "1", "2"])


def test_the_differences_are_still_there(naps: list[float]) -> None:
    get = {"method": "GET", "url": "http://api/a"}
    ask(TheirHandler(), httpx.MockTransport(Server([(503, None)])), get)
    assert len(naps) == 3, "their default is three repeats"
    assert 3 <= naps[0] <= 5, "and no n²"
    binary = {"method": "POST", "url": "http://api/a", "content": b"x",
              "headers": {"Content-Type": "application/octet-stream"}}  # fmt: skip
    server = Server([(503, None), (200, None)])
    assert ask(TheirHandler(), httpx.MockTransport(server), binary)[0].status_code == 503
    server = Server([(503, None), (200, None)])
    assert ask(ours()[0], httpx.MockTransport(server), binary)[0].status_code == 200
    used = {**get, "headers": {"Retry-Attempt": "5"}}
    server = Server([(503, None), (200, None)])
    assert ask(TheirHandler(), httpx.MockTransport(server), used)[0].status_code == 503
    server = Server([(503, None), (200, None)])
    assert ask(ours()[0], httpx.MockTransport(server), used)[0].status_code == 200


def test_a_response_has_its_request_and_the_callers_is_not_changed(naps: list[float]) -> None:
    """D3: a response without `request` could not `raise_for_status`."""
    server = Server([(503, None), (200, None)])
    (response,) = ask(ours()[0], httpx.MockTransport(server), {"method": "GET", "url": "http://api/a"})
    assert response.raise_for_status().request.url == "http://api/a"
    assert "retry-attempt" not in response.request.headers
    assert [seen[2] for seen in server.seen] == [None, "1"]


def test_the_whole_pipeline_over_the_network(origin: Origin) -> None:
    origin.sequence(503, 429, 200)
    handler = kiota.RetryHandler(
        kiota.RetryHandlerOption(delay=0.01), engine=tidegate.Engine(seed=1), queue=False
    )
    (response,) = ask(handler, httpx.AsyncHTTPTransport(), {"method": "GET", "url": origin.url + "/x"})
    assert response.status_code == 200
    log = [entry for entry in origin.log() if entry["path"] == "/x"]
    assert [entry["headers"].get("retry-attempt") for entry in log] == [None, "1", "2"]


def test_a_pipeline_of_nothing_else(naps: list[float]) -> None:
    handler, _ = ours(kiota.RetryHandlerOption(max_retries=1))
    server = Server([(503, None)])

    async def main() -> int:
        client = httpx.AsyncClient(transport=httpx.MockTransport(server))
        async with KiotaClientFactory.create_with_custom_middleware([handler], client) as made:
            request = made.build_request("GET", "http://api/a")
            before = dict(request.extensions)
            status = (await made.send(request)).status_code
            assert request.extensions == before, "the caller's own request is not touched"
            return status

    assert asyncio.run(main()) == 503
    assert len(server.seen) == 2
    assert naps == []
