"""What is each adapter's own: pickling, redirects, what the client would repeat by itself."""

from __future__ import annotations

import asyncio
import gc
import io
import pickle
from typing import Any

import aiohttp
import pytest
import requests
import urllib3

import tidegate
import tidegate.aiohttp
import tidegate.requests
import tidegate.urllib3
from adapters import NAMES, Aiohttp, Requests, Urllib3, made
from conftest import Origin, quick


def moved(origin: Origin, status: int = 307) -> None:
    """`/a` leads to `/b`, which fails once."""
    there = {"status": status, "headers": {"location": "/b"}}
    origin.script(sequences={"/a": [there], "/b": [{"status": 503}, {"status": 200, "echo": True}]})


def keys_of(engine: tidegate.Engine) -> list[str]:
    return [route["key"] for route in engine.snapshot()["routes"] if route["key"] != "default"]


# requests


def test_a_session_that_is_pickled_keeps_its_policy(origin: Origin) -> None:
    session = requests.Session()
    policy = tidegate.Policy("pickled session", retry={"max_attempts": 2, "backoff": {"base": 0.001}})
    session.mount("http://", tidegate.requests.Adapter(policy, retry_header=False, pool_maxsize=3))
    with pickle.loads(pickle.dumps(session)) as again:
        again.trust_env = False
        adapter = again.get_adapter("http://o/")
        assert adapter._policy.name == "pickled session"
        assert adapter._pool_maxsize == 3
        origin.sequence(503, 200)
        assert again.get(origin.url + "/x").tidegate["attempts"] == 2
        assert "retry-attempt" not in origin.log()[1]["headers"]


def test_a_session_answers_redirects_hop_by_hop(origin: Origin, engine: tidegate.Engine) -> None:
    moved(origin)
    client = Requests().open(quick(engine))
    answer = client.request("PUT", origin.url + "/a", body=io.BytesIO(b"file"))
    client.close()
    assert (answer.status, answer.body, answer.info["attempts"]) == (200, b"file", 2)
    (policy,) = engine.snapshot()["policies"].values()
    assert (policy["attempts"], policy["retries"], policy["ends"]) == (3, 1, {"ok": 2})


def test_the_request_of_an_answer_is_the_callers(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(503, 200)
    client = Requests().open(quick(engine))
    response = client.session.get(origin.url + "/x")
    client.close()
    assert "Retry-Attempt" not in response.request.headers
    assert [entry["headers"].get("retry-attempt") for entry in origin.log()] == [None, "1"]


def test_a_timeout_of_requests_is_capped_by_what_is_left(origin: Origin, engine: tidegate.Engine) -> None:
    seen: list[Any] = []

    class Spied(requests.adapters.HTTPAdapter):
        def send(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(kwargs["timeout"])
            return super().send(*args, **kwargs)

    kind = type("Adapter", (tidegate.requests.Adapter, Spied), {})
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", kind(quick(engine, attempt_timeout=0.5)))
        for timeout in (None, 5, (0.1, 5), urllib3.Timeout(total=0.2), urllib3.Timeout(total=7)):
            session.get(origin.url + "/x", timeout=timeout)
        with pytest.raises(ValueError, match=r"timeout = \(1, 2, 3\): must be a number, or a pair"):
            session.get(origin.url + "/x", timeout=(1, 2, 3))
    spans = [(timeout.connect_timeout, timeout.total) for timeout in seen]
    assert spans[0] == spans[1] == (pytest.approx(0.5, abs=0.01), pytest.approx(0.5, abs=0.01))
    assert spans[2][0] == 0.1
    assert spans[3][1] == 0.2
    assert spans[4] == spans[0]


def test_an_answer_of_requests_is_read_line_by_line_as_it_comes(
    origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "slow_body", "body": "data: 1\n" * 5, "chunk_bytes": 8, "chunk_every": 10})
    client = Requests().open(quick(engine, deadline=3))
    response = client.session.get(origin.url + "/x", stream=True)
    assert engine.snapshot()["live"] == 1
    assert list(response.iter_lines(chunk_size=None)) == [b"data: 1"] * 5
    assert engine.snapshot()["live"] == 0
    client.close()


def test_an_invalid_url_is_not_repeated(engine: tidegate.Engine) -> None:
    client = Requests().open(quick(engine))
    with pytest.raises(requests.exceptions.InvalidURL):
        client.session.get("http://127.0.0.1:99999/")
    client.close()


# urllib3


def test_a_manager_answers_redirects_hop_by_hop(origin: Origin, engine: tidegate.Engine) -> None:
    moved(origin)
    client = Urllib3().open(quick(engine))
    answer = client.request("PUT", origin.url + "/a", body=io.BytesIO(b"file"))
    assert (answer.status, answer.body, answer.info["attempts"]) == (200, b"file", 2)
    moved(origin)
    response = client.manager.request("PUT", origin.url + "/a", body=b"x", redirect=False)
    assert response.status == 307
    moved(origin)
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        client.manager.request("PUT", origin.url + "/a", body=b"x", retries=urllib3.Retry(redirect=0))
    client.close()


def test_a_pool_that_its_user_takes_from_a_manager_follows_redirects_too(
    origin: Origin, engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without a policy: managers follow redirects themselves, and pools where they are asked directly."""
    manager = tidegate.urllib3.guard(urllib3.PoolManager(), quick(engine))
    pool = manager.connection_from_url(origin.url)
    moved(origin)
    response = pool.urlopen("PUT", "/a", body=io.BytesIO(b"file"))
    assert (response.status, response.data, len(response.retries.history)) == (200, b"file", 1)
    assert [entry["path"] for entry in origin.log()] == ["/a", "/b", "/b"]

    # The first releases of urllib3 2 do not have this method.
    monkeypatch.delattr(urllib3.HTTPHeaderDict, "_prepare_for_method_change", raising=False)
    moved(origin, 303)
    of_body = dict.fromkeys(["Content-Type", "Content-Language", "Digest", "last-modified"], "x")
    response = pool.request("PUT", "/a", body=b"x", headers={**of_body, "X-Other": "kept"})
    assert response.status == 200
    last = origin.log()[-1]
    assert last["method"] == "GET" and last["headers"]["x-other"] == "kept"
    assert not {name.lower() for name in of_body} & last["headers"].keys()

    moved(origin)
    assert pool.urlopen("GET", "/a", redirect=False).status == 307
    moved(origin)
    assert pool.urlopen("GET", "/a", retries=False).status == 307
    moved(origin)
    with pytest.raises(urllib3.exceptions.MaxRetryError):
        pool.urlopen("GET", "/a", retries=urllib3.Retry(redirect=0))
    elsewhere = {"status": 302, "headers": {"location": "http://elsewhere.test/"}}
    origin.script(sequences={"/a": [elsewhere]})
    with pytest.raises(urllib3.exceptions.HostChangedError):
        pool.urlopen("GET", "/a")
    assert len(origin.log()) == 1
    elsewhere["headers"] = {"location": "http://elsewhere.test/b"}
    origin.script(sequences={"/a": [elsewhere]})
    secret = {"Authorization": "secret", "X-Other": "kept"}
    pool.urlopen("GET", "/a", headers=secret, assert_same_host=False)  # as through a forwarding proxy
    first, second = (entry["headers"] for entry in origin.log())
    assert first["authorization"] == "secret" and "authorization" not in second
    assert first["x-other"] == second["x-other"] == "kept"
    manager.clear()


def test_a_managers_own_retries_are_off(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence(503)
    client = Urllib3().open(quick(engine))
    answer = client.request(
        "GET", origin.url + "/x", retries=urllib3.Retry(total=7, status_forcelist=[503], status=7)
    )
    client.close()
    assert (answer.status, answer.info["attempts"], len(origin.log())) == (503, 3, 3)


class _InBytes(dict[str, bytes]):
    """Headers as botocore has them."""

    def copy(self) -> _InBytes:
        return _InBytes(self)


def test_headers_keep_their_kind_on_a_repeat(origin: Origin, engine: tidegate.Engine) -> None:
    seen: list[Any] = []

    class Pool(urllib3.HTTPConnectionPool):
        def urlopen(self, *args: Any, **more: Any) -> Any:  # as botocore reads a header
            seen.append((type(args[3]), args[3].get("X-Kind"), args[3].get("Retry-Attempt")))
            return super().urlopen(*args, **more)

    manager = urllib3.PoolManager()
    manager.pool_classes_by_scheme = {"http": Pool}
    tidegate.urllib3.guard(manager, quick(engine))
    origin.sequence(503, 200)
    given = _InBytes({"X-Kind": b"mine"})
    with manager.connection_from_url(origin.url) as pool:
        response = pool.urlopen("PUT", "/x", body=b"x", headers=given)
    manager.clear()
    assert response.status == 200
    first, second = seen
    assert first == (_InBytes, b"mine", None)
    assert second == (_InBytes, b"mine", "1")
    assert given == {"X-Kind": b"mine"}


def test_a_manager_is_guarded_once() -> None:
    manager = tidegate.urllib3.guard(urllib3.PoolManager())
    with pytest.raises(TypeError, match="guarded already"):
        tidegate.urllib3.guard(manager)
    with pytest.raises(TypeError, match=r"must be a urllib3\.PoolManager"):
        tidegate.urllib3.guard(requests.Session())  # type: ignore[type-var]
    with pytest.raises(TypeError, match="must be a Policy"):
        tidegate.urllib3.guard(urllib3.PoolManager(), "orders")  # type: ignore[arg-type]


def test_a_proxy_that_forwards_has_the_route_of_the_origin(origin: Origin, engine: tidegate.Engine) -> None:
    manager = tidegate.urllib3.guard(urllib3.ProxyManager(origin.url), quick(engine))
    assert manager.request("GET", "http://elsewhere.example/x").status == 200
    manager.clear()
    assert keys_of(engine) == ["http://elsewhere.example:80"]


# aiohttp


def test_a_session_of_aiohttp_answers_redirects_hop_by_hop(origin: Origin, engine: tidegate.Engine) -> None:
    moved(origin)
    client = Aiohttp().open(quick(engine))
    answer = client.request("PUT", origin.url + "/a", body=b"bytes")
    client.close()
    assert (answer.status, answer.body, answer.info["attempts"]) == (200, b"bytes", 2)


@pytest.mark.parametrize("before", [0, 1])
def test_aiohttp_does_not_repeat_what_the_policy_gave_up(
    origin: Origin, engine: tidegate.Engine, before: int
) -> None:
    origin.sequence(*[200] * before, {"fault": "close"})
    client = Aiohttp().open(quick(engine))
    for _ in range(before):
        client.request("GET", origin.url + "/x")
    for _ in range(2):
        with pytest.raises(aiohttp.ServerDisconnectedError) as caught:
            client.request("GET", origin.url + "/x")
        assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
    client.close()
    assert len(origin.log()) == before + 6


@pytest.mark.parametrize("part", [b"bytes", "file", "one shot"])
def test_a_multipart_body_is_sent_again_where_its_parts_can_be(
    origin: Origin, engine: tidegate.Engine, part: Any
) -> None:
    origin.sequence(503, 200)
    client = Aiohttp().open(quick(engine))

    async def put() -> int:
        form = aiohttp.FormData()
        body = {"file": io.BytesIO(b"contents"), "one shot": client.one_shot([b"contents"])}.get(part, part)
        form.add_field("f", body, filename="name.txt")
        async with client.session.put(origin.url + "/x", data=form) as response:
            return int(response.status)

    assert client.run(put()) == (503 if part == "one shot" else 200)
    client.close()
    sent = [entry["body"] for entry in origin.log()]
    assert len(sent) == (1 if part == "one shot" else 2)
    assert len(set(sent)) == 1
    assert sent[0]


def test_a_file_that_was_still_being_sent_is_sent_whole_again(engine: tidegate.Engine) -> None:
    client = Aiohttp().open(quick(engine))
    whole = b"0123456789abcdef" * 500_000
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if not received:
            received.append(b"")
            writer.write(b"HTTP/1.1 503 Later\r\nContent-Length: 5\r\n\r\nlater")
            await writer.drain()
            await asyncio.sleep(0.05)
        else:
            received.append(await reader.readexactly(len(whole)))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async def put() -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            answer = await client.send("PUT", f"http://127.0.0.1:{port}/", body=io.BytesIO(whole))
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:  # the server's, on a busy machine
                await asyncio.wait(others, timeout=5)
            return int(answer.status)

    assert client.run(put()) == 200
    client.close()
    assert received[1:] == [whole]


@pytest.mark.filterwarnings("ignore:Unclosed:ResourceWarning")
def test_an_answer_of_aiohttp_that_is_left_unread_ends_with_its_session(
    origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"body_bytes": 4_000_000})
    policy = quick(engine, bulkhead={"max_concurrency": 1}, deadline=60)

    async def leave() -> None:
        guarded = tidegate.aiohttp.middleware(policy)
        async with aiohttp.ClientSession(middlewares=[guarded]) as session:
            await session.get(origin.url + "/x")
            assert engine.snapshot()["live"] == 1

    async def main() -> None:
        await leave()
        await asyncio.sleep(0)
        gc.collect()
        assert engine.snapshot()["live"] == 0

    asyncio.run(main())


def test_a_total_timeout_of_aiohttp_ends_the_call_as_its_caller_would(
    origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "hang"})
    client = Aiohttp().open(quick(engine))
    with pytest.raises(asyncio.TimeoutError):
        client.request("GET", origin.url + "/x", timeout=0.1)
    client.close()
    assert len(origin.log()) == 1
    (policy,) = engine.snapshot()["policies"].values()
    assert policy["ends"] == {"cancelled": 1}


# what a request says


@pytest.mark.parametrize("kind", [Requests, Urllib3, Aiohttp])
def test_a_request_names_policy_and_route(origin: Origin, engine: tidegate.Engine, kind: Any) -> None:
    origin.sequence(503)
    policies = tidegate.loads('[policy.once]\ndeadline = "5s"', engine=engine)
    client = kind().open(quick(engine), policies=policies)
    answer = client.request("GET", origin.url + "/x", tg={"policy": "once", "route": "eu"})
    assert answer.info["attempts"] == 1
    assert ("once", "eu") in {(route["policy"], route["key"]) for route in engine.snapshot()["routes"]}
    with pytest.raises(ValueError, match="policy = 'twice': the adapter's policies are once, unnamed"):
        client.request("GET", origin.url + "/x", tg={"policy": "twice"})
    client.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"routes": 1}, "'routes' is no option of a request; they are policy, route, deadline"),
        ({"cost": 70_000}, "cost = 70000: must be a whole number from 0 to 65535"),
        ({"criticality": "high"}, "criticality = 'high': must be one of best_effort, degraded, normal"),
        ({"deadline": "2s"}, "deadline = '2s': must be a number of seconds or a timedelta"),
        ({"idempotent": 1}, "idempotent = 1: must be True, False or None"),
        ({"predicate": True}, "predicate = True: must be callable"),
        ({"route": 7}, "route = 7: must be a string"),
        ({"retry_header": None}, "retry_header = None: must be True or False"),
        ({"policy": 1}, "policy = 1: must be a Policy"),
    ],
)
def test_a_wrong_option_is_one_clear_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tidegate.requests.options(**options)


def test_options_nest_and_those_of_the_request_win(origin: Origin, engine: tidegate.Engine) -> None:
    client = Urllib3().open(quick(engine))
    with (
        tidegate.urllib3.options(route="outer", idempotent=True),
        tidegate.urllib3.options(route="inner"),
    ):
        client.request("GET", origin.url + "/x")
        client.request("GET", origin.url + "/x", tg={"route": "own"})
        origin.sequence(503, 200)
        assert client.request("POST", origin.url + "/x").status == 200
    client.request("GET", origin.url + "/x")
    client.close()
    assert keys_of(engine) == ["inner", "own", origin.url]


def test_a_predicate_asks_for_another_attempt(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"body": "not yet"}, {"body": "done"})
    client = Urllib3().open(quick(engine))
    answer = client.request(
        "GET", origin.url + "/x", tg={"predicate": lambda response: response.headers["content-length"] == "7"}
    )
    assert (answer.body, answer.info["attempts"]) == (b"done", 2)

    def broken(response: Any) -> bool:
        raise RuntimeError("a bug")

    origin.sequence(503, 200)
    with pytest.warns(RuntimeWarning, match="predicate=.*failed, and is ignored"):
        assert client.request("GET", origin.url + "/x", tg={"predicate": broken}).status == 200
    client.close()


def test_our_errors_can_be_pickled(origin: Origin, engine: tidegate.Engine) -> None:
    for kind in (Requests, Urllib3, Aiohttp):
        policy = quick(engine, bulkhead={"max_concurrency": 2})
        client = kind().open(policy)
        with pytest.raises(tidegate.DeadlineExceeded) as caught:
            client.request("GET", origin.url + "/x", tg={"deadline": 0.0})
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again), again.reason) == (
            type(caught.value),
            str(caught.value),
            "deadline_before",
        )
        client.close()


# One rule of errors: core's table (semantics 1.5), for functions and for adapters.


@pytest.mark.parametrize("name", NAMES)
def test_a_timeout_of_the_client_is_a_timeout(name: str, origin: Origin, engine: tidegate.Engine) -> None:
    kinds: list[str | None] = []
    origin.sequence({"fault": "hang"})
    client = made(name).open(quick(engine, retry={"max_attempts": 1}))
    try:
        with engine.on_event(lambda record: kinds.append(record.kind), types=["attempt_done"]):
            if name == "aiohttp":
                client.run(read_slowly(client, origin))
            else:
                with pytest.raises(client.timeout_error):
                    client.request("GET", origin.url + "/x", timeout=0.05)
    finally:
        client.close()
    assert kinds == ["timeout"]


async def read_slowly(client: Any, origin: Origin) -> None:
    with pytest.raises(aiohttp.SocketTimeoutError):
        await client.session.get(origin.url + "/x", timeout=aiohttp.ClientTimeout(sock_read=0.05))


def test_an_answer_that_is_no_http_may_pass_also_in_aiohttp(origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "garbage"}, 200)
    client = Aiohttp().open(quick(engine))
    answer = client.request("GET", origin.url + "/x")
    client.close()
    assert (answer.status, answer.info["attempts"]) == (200, 2)
