"""`policy.wrap`: the methods of an object behind a policy."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import math
import pickle
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import tidegate
from conftest import quick

SAFE = {"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "retry_on": ["never_sent", "throttled"]}


class Store:
    """A blocking client."""

    limit = 5

    def __init__(self) -> None:
        self.log: list[str] = []
        self.failures = 0

    def get(self, key: str) -> str:
        self.log.append(f"get {key}")
        if self.failures:
            self.failures -= 1
            raise ConnectionRefusedError
        return key.upper()

    def put(self, key: str) -> None:
        self.log.append(f"put {key}")
        raise ConnectionResetError

    def scan(self) -> Iterator[str]:
        yield from ("a", "b")

    @property
    def costly(self) -> str:
        raise AssertionError("nobody has asked for it")

    def _private(self) -> str:
        return "private"

    def __enter__(self) -> Store:
        self.log.append("enter")
        return self

    def __exit__(self, *error: object) -> None:
        self.log.append("exit")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, key: str) -> str:
        return f"item {key}"


class AsyncStore:
    """An async client, with methods that are neither."""

    def __init__(self) -> None:
        self.entered = False

    def url(self) -> str:
        return "made here"

    async def get(self, key: str) -> str:
        await asyncio.sleep(0)
        return key.upper()

    async def pages(self) -> AsyncIterator[int]:
        yield 1

    @contextlib.asynccontextmanager
    async def stream(self) -> AsyncIterator[str]:
        yield "streamed"

    async def __aenter__(self) -> AsyncStore:
        self.entered = True
        return self

    async def __aexit__(self, *error: object) -> None:
        self.entered = False


def test_methods_are_calls_and_the_rest_is_the_objects(engine: tidegate.Engine) -> None:
    policy, store = tidegate.Policy(engine=engine, retry=SAFE), Store()
    wrapped = policy.wrap(store)
    store.failures = 2
    assert wrapped.get("x") == "X"
    assert store.log == ["get x"] * 3
    assert (wrapped._private(), wrapped.limit, len(wrapped), wrapped["k"]) == ("private", 5, 2, "item k")
    assert list(wrapped.scan()) == ["a", "b"]
    assert policy.snapshot()["ends"] == {"ok": 1}  # a stream is no call
    wrapped.failures = 7
    assert store.failures == 7
    assert isinstance(wrapped, Store)
    assert "behind" in repr(wrapped) and dir(wrapped) == dir(store)
    with wrapped as inside:
        assert inside is wrapped
    assert store.log[-2:] == ["enter", "exit"]


def test_an_ambiguous_failure_is_not_repeated_by_a_policy_for_all(engine: tidegate.Engine) -> None:
    store = Store()
    with pytest.raises(ConnectionResetError):
        tidegate.Policy(engine=engine, retry=SAFE).wrap(store).put("x")
    assert store.log == ["put x"]


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "http"},
        {"retry": {}},
        {"retry": tidegate.Retry(max_attempts=2)},
        {"retry": {**SAFE, "retry_on": ["never_sent", "transient"]}},
        {"retry": {**SAFE, "retry_on": ["mine"]}, "kinds": {"mine": "timeout"}},
        {"hedge": {"delay": 1}},
    ],
)
def test_a_policy_that_repeats_wants_names(engine: tidegate.Engine, settings: Any) -> None:
    policy, store = tidegate.Policy(engine=engine, **settings), Store()
    with pytest.raises(ValueError, match="name the methods that may be repeated"):
        policy.wrap(store)
    assert policy.wrap(store, methods=["get"]).get("x") == "X"


@pytest.mark.parametrize(
    "settings",
    [
        {"bulkhead": {"max_concurrency": 1}},
        {"retry": {"max_attempts": 1}},
        {"retry": {**SAFE, "retry_on": ["mine"]}, "kinds": {"mine": "throttled"}},
        {"retry": tidegate.Retry(max_attempts=2, retry_on=["never_sent"])},
    ],
)
def test_one_that_cannot_do_harm_takes_all(engine: tidegate.Engine, settings: Any) -> None:
    assert tidegate.Policy(engine=engine, **settings).wrap(Store()).get("x") == "X"


def test_only_the_methods_named_and_their_route(engine: tidegate.Engine) -> None:
    policy, store = quick(engine), Store()
    wrapped = policy.wrap(store, methods=["get"], route="eu")
    with pytest.raises(ConnectionResetError) as caught:
        wrapped.put("x")
    assert not hasattr(caught.value, "__notes__")
    store.failures = 1
    assert wrapped.get("x") == "X"
    assert policy.snapshot()["attempts"] == 2
    assert list(policy.snapshot()["routes"]) == ["eu"]


def test_an_async_client_has_its_coroutine_methods_wrapped(engine: tidegate.Engine) -> None:
    policy, store = tidegate.Policy(engine=engine, bulkhead={"max_concurrency": 1}), AsyncStore()

    async def main() -> None:
        async with policy.wrap(store) as wrapped:
            assert store.entered
            assert await wrapped.get("x") == "X"
            assert wrapped.url() == "made here"
            assert [page async for page in wrapped.pages()] == [1]
            async with wrapped.stream() as text:
                assert text == "streamed"
        assert not store.entered

    asyncio.run(main())
    assert policy.snapshot()["ends"] == {"ok": 1}


@pytest.mark.parametrize(
    ("methods", "rule"),
    [
        (["gte"], "'gte' is no method of AsyncStore"),
        (["entered"], "'entered' is no method"),
        (["stream"], "is a stream, which is never wrapped"),
        (["pages"], "is a stream, which is never wrapped"),
        ("get", "must be names of methods"),
    ],
)
def test_mistakes_are_named(engine: tidegate.Engine, methods: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        quick(engine).wrap(AsyncStore(), methods=methods)
    with pytest.raises(ValueError, match="has no public method"):
        tidegate.Policy(engine=engine, deadline=1).wrap(object())


def test_a_module_and_a_class(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    assert policy.wrap(math, methods=["sqrt"]).sqrt(4) == 2
    assert policy.wrap(dict, methods=["fromkeys"]).fromkeys("a") == {"a": None}
    assert policy.snapshot()["ends"] == {"ok": 2}


def test_a_copy_has_the_policy_and_a_client_of_its_own(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    store = policy.wrap(Store(), methods=["get"], route="eu")
    for twin in (copy.copy(store), copy.deepcopy(store)):
        assert twin.get("a") == "A"
    assert list(policy.snapshot()["routes"]) == ["eu"]
    assert policy.snapshot()["ends"] == {"ok": 2}
    again = pickle.loads(pickle.dumps(store))
    assert again.get("b") == "B"
    assert again.get.__wrapped__.__self__ is not store.get.__wrapped__.__self__
    assert " behind 'unnamed-" in repr(again)


def test_an_http_client(engine: tidegate.Engine, module: Any) -> None:
    answers = iter([module.ConnectError("no"), module.Response(200, text="hello")])

    def answer(request: Any) -> Any:
        given = next(answers)
        if isinstance(given, Exception):
            raise given
        return given

    retried = lambda it: "never_sent" if isinstance(it, module.ConnectError) else None  # noqa: E731
    policy = quick(engine, classify=retried)
    with policy.wrap(module.Client(transport=module.MockTransport(answer)), methods=["get"]) as client:
        assert client.get("http://origin.test/").text == "hello"


def test_a_class_that_is_made_for_one_client_goes_with_it(engine: tidegate.Engine) -> None:
    """As botocore makes them, with all methods of their service."""
    policy = quick(engine)
    made = type("S3", (Store,), {})
    gone = weakref.ref(made)
    wrapped = policy.wrap(made(), methods=["get"])
    assert wrapped.get("a") == "A"
    assert type(policy.wrap(made(), methods=["get"])) is type(wrapped)
    del made, wrapped
    gc.collect()
    assert gone() is None
