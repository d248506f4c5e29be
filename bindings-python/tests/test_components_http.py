"""Components over HTTP: the path of a hold, the cost and the criticality of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tidegate
import tidegate.httpx
from components import assert_error
from tidegate._http.httpx_run import HttpxRun
from tidegate.testing import FakeClock


class Server:
    """Answers from a script, by path."""

    def __init__(self, module: Any, **answers: Any) -> None:
        self.module = module
        self.answers = {f"/{path}": list(script) for path, script in answers.items()}
        self.seen: list[str] = []

    def __call__(self, request: Any) -> Any:
        self.seen.append(request.url.path)
        script = self.answers.get(request.url.path, [])
        status = script.pop(0) if script else 200
        return self.module.Response(status, headers={"Retry-After": "20"} if status == 429 else {})


HOLDING = {"max_attempts": 2, "hold": True, "backoff": {"base": 0, "max": 60}}


def test_calls_to_a_throttled_path_are_held(module: Any, clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry={**HOLDING, "max_held": 1}, engine=fake)
    server = Server(module, a=[429])

    async def main() -> None:
        inner = module.MockTransport(server)
        transport = tidegate.httpx.AsyncTransport(inner, policy)
        async with module.AsyncClient(transport=transport, base_url="http://api") as client:
            first = asyncio.ensure_future(client.get("/a"))
            await clock.advance(1)
            held = asyncio.ensure_future(client.get("/a?page=2"))
            await clock.advance(1)
            assert server.seen == ["/a"], "the second waits for the first one's Retry-After"
            route = policy.snapshot()["routes"]["http://api:80"]
            assert (route["hold"]["held"], route["hold"]["holds"]) == (1, 1)
            with pytest.raises(tidegate.HoldFull) as full:
                await client.get("/a")
            assert_error(full.value, "hold_full", policy, full.value.retry_in)
            assert isinstance(full.value, module.TransportError)
            assert (await client.get("/elsewhere")).status_code == 200
            await clock.advance(60)
            assert {(await first).status_code, (await held).status_code} == {200}

    asyncio.run(main())
    assert sorted(server.seen) == ["/a", "/a", "/a", "/elsewhere"]


def test_a_policy_that_holds_nothing_asks_for_no_path(
    module: Any, fake: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    path = HttpxRun.path
    monkeypatch.setattr(HttpxRun, "path", lambda run: asked.append(path(run)) or asked[-1])
    for preset, paths in (("http", []), ("graph", ["/a/b"])):
        policy = tidegate.Policy(preset=preset, engine=fake)  # type: ignore[arg-type]
        transport = tidegate.httpx.Transport(module.MockTransport(Server(module)), policy)
        with module.Client(transport=transport, base_url="http://api") as client:
            client.get("/a/b?c")
        assert [told.partition("?")[0] for told in asked] == paths


def test_a_request_has_a_cost_and_a_criticality(module: Any, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(rate_limit={"permits": 5, "per": 60.0}, engine=fake)
    transport = tidegate.httpx.Transport(module.MockTransport(Server(module)), policy)
    with module.Client(transport=transport, base_url="http://api") as client:
        client.get("/", extensions={"tidegate": {"cost": 4, "criticality": "critical"}})
        with pytest.raises(tidegate.RateLimited):
            client.get("/", extensions={"tidegate": {"cost": 2}})
        client.get("/")
        with pytest.raises(tidegate.CostAboveBurst):
            client.get("/", extensions={"tidegate": {"cost": 6}})
        for cost in (-1, 65_536, 1.5, "many", None):
            with pytest.raises(ValueError, match=r"cost = .*: must be a whole number from 0 to 65535"):
                client.get("/", extensions={"tidegate": {"cost": cost}})
