"""What errors of plain functions mean: real errors, `on`, notes and nesting (semantics 1.5, 1.6)."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import enum
import importlib
import os
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidegate
from errors_table import ROWS, Row
from odd_server import server
from tidegate._call import judge, left, outcomes
from tidegate._engine.wire import KINDS, kind_of

CLASSES = {number: name for name, number in KINDS.items()}
PAGE = Path(__file__).parents[2] / "docs" / "errors-python.md"
AT_ONCE = {"max_attempts": 3, "backoff": {"base": 0, "max": 0, "jitter": "none"}, "budget": None}


@pytest.fixture
def engine() -> tidegate.Engine:
    return tidegate.Engine(seed=1)


def tries(policy: Any, work: Any, colour: str = "sync") -> tuple[int, Any]:
    """How often the policy calls `work`, and what comes out."""
    made = 0

    def once() -> Any:
        nonlocal made
        made += 1
        return work(made)

    async def aonce() -> Any:
        return once()

    try:
        value = policy.call(once) if colour == "sync" else asyncio.run(policy.acall(aonce))
    except Exception as error:
        return made, error
    return made, value


@pytest.mark.filterwarnings("ignore")  # libraries whose connection failed may warn of what they left open
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.library}: {row.error}, {row.how}")
def test_a_real_error_has_the_class_of_the_table(row: Row, engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry={}, engine=engine)
    with server() as odd, pytest.raises(Exception) as raised:  # noqa: PT011 - of any type
        row.make(odd)
    error = raised.value
    if isinstance(error, ImportError):
        pytest.skip(f"{row.library} is not installed: {error}")
    assert type(error).__name__ == row.error, repr(error)
    assert CLASSES[kind_of(outcomes.of_exception(error, policy))] == row.expected, repr(error)


def test_the_page_lists_the_errors_that_the_tests_raise() -> None:
    lines = [
        "# Errors that Python's libraries raise, and what they mean",
        "",
        "Each line is an error that the tests raise for real, with the library itself "
        "(`bindings-python/tests/errors_table.py`, from which this page is made). "
        "[errors.md](errors.md) has the rules and the whole table.",
        "",
        "| Library | Error | How it was made | Class |",
        "|---|---|---|---|",
    ]
    lines += [f"| {row.library} | `{row.error}` | {row.how} | {row.expected} |" for row in ROWS]
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "UPDATE=1 writes the page"
    assert len(ROWS) >= 60


MISUSED = """requests.URLRequired requests.InvalidProxyURL urllib3.HostChangedError urllib3.FullPoolError
    urllib3.UnrewindableBodyError urllib3.TimeoutStateError urllib3.ResponseNotChunked
    urllib3.URLSchemeUnknown urllib3.BodyNotHttplibCompatible aiohttp.NonHttpUrlClientError
    aiohttp.InvalidUrlRedirectClientError
    aiohttp.TooManyRedirects aiohttp.ContentTypeError aiohttp.ServerFingerprintMismatch""".split()


@pytest.mark.parametrize("name", MISUSED)
def test_an_error_of_the_request_itself_is_not_repeated_by_a_guarded_client(
    engine: tidegate.Engine, name: str
) -> None:
    """Semantics 1.4.3: only an error of the client that the table does not list is transient."""
    library, _, kind = name.partition(".")
    module = importlib.import_module(f"{library}.exceptions" if library != "aiohttp" else "aiohttp")
    own = {"requests": "RequestException", "urllib3": "HTTPError", "aiohttp": "ClientError"}[library]
    error = vars(module)[kind].__new__(vars(module)[kind])
    policy = tidegate.Policy(retry={}, engine=engine)
    assert judge.of_client(error, policy, vars(module)[own]) == judge.PERMANENT


class Mine(Exception):
    """An error that nothing is known of."""


class Status(Exception):
    def __init__(self, status: Any, **more: Any) -> None:
        super().__init__("no")
        self.status_code = status
        self.__dict__.update(more)


def fails(error: Exception) -> Any:
    def work(attempt: int) -> None:
        raise error

    return work


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_unknown_error_is_not_repeated_and_its_note_says_how_to(
    engine: tidegate.Engine, colour: str
) -> None:
    error = Mine()
    assert tries(tidegate.Policy(retry=AT_ONCE, engine=engine), fails(error), colour) == (1, error)
    assert error.__notes__ == [
        "tidegate: not retried: Mine is not listed as an error that may pass;"
        " to repeat it: on=(Mine,), or classify"
    ]


def test_there_is_no_note_where_there_are_no_retries_or_somebody_has_decided(engine: tidegate.Engine) -> None:
    for policy, error in (
        (tidegate.Policy(bulkhead={"max_concurrency": 1}, engine=engine), Mine()),
        (tidegate.Policy(retry=AT_ONCE, classify=lambda value: "permanent", engine=engine), Mine()),
        (tidegate.Policy(retry=AT_ONCE, engine=engine), Status(404)),
    ):
        assert tries(policy, fails(error)) == (1, error)
        assert not hasattr(error, "__notes__")


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_on_names_the_errors_to_repeat(engine: tidegate.Engine, colour: str) -> None:
    policy = tidegate.Policy(retry=AT_ONCE, on=(Mine, Status), engine=engine)
    assert tries(policy, fails(Mine()), colour)[0] == 3
    assert tries(policy, fails(Status(404)), colour)[0] == 3
    assert tries(policy, fails(Status(500)), colour)[0] == 3
    assert tries(policy, fails(ValueError()), colour)[0] == 1
    assert tries(policy, fails(ConnectionError()), colour)[0] == 3
    assert tries(policy.replace(on=None), fails(Mine()), colour)[0] == 1


def test_classify_goes_before_on(engine: tidegate.Engine) -> None:
    def classify(value: object) -> str | None:
        return "permanent" if isinstance(value, Mine) else None

    policy = tidegate.Policy(retry=AT_ONCE, on=(Mine, ValueError), classify=classify, engine=engine)
    assert tries(policy, fails(Mine()))[0] == 1
    assert tries(policy, fails(ValueError()))[0] == 3


@pytest.mark.parametrize("on", [(), 5, "Mine", (Mine, 5), KeyboardInterrupt, [Mine]])
def test_on_takes_exception_classes_alone(engine: tidegate.Engine, on: Any) -> None:
    with pytest.raises(tidegate.PolicyError, match="must be an exception class or a tuple of them"):
        tidegate.Policy(retry={}, on=on, engine=engine)


def test_a_status_is_judged_with_its_retry_after(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry={}, engine=engine)

    def seconds(error: Exception) -> float:
        return (outcomes.of_exception(error, policy) >> 18) / 1000

    assert seconds(Status(503, headers={"Retry-After": "7"})) == pytest.approx(7, abs=0.01)
    assert seconds(Status(503, headers=[(b"retry-after-ms", b"250")])) == pytest.approx(0.25, abs=0.01)
    assert seconds(Status(503, headers=5)) == 0
    for odd in (True, "503", 503.0, 200, 600, None):
        assert outcomes.of_exception(Status(odd), policy) == outcomes.PERMANENT


def test_causes_are_walked_eight_deep_and_once(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(retry={}, engine=engine)

    def chain(length: int) -> Exception:
        error: Exception = ConnectionResetError()
        for _ in range(length - 1):
            outer = Mine()
            outer.__cause__ = error
            error = outer
        return error

    assert outcomes.of_exception(chain(8), policy) == outcomes.TRANSIENT
    assert outcomes.of_exception(chain(9), policy) == outcomes.PERMANENT
    cycle, other = Mine(), Mine()
    cycle.__cause__, other.__cause__ = other, cycle
    assert outcomes.of_exception(cycle, policy) == outcomes.PERMANENT


def exception_group() -> Any:
    """The class of groups, which Python 3.10 does not have."""
    found = vars(builtins).get("ExceptionGroup")
    return pytest.skip("Python 3.11 has ExceptionGroup") if found is None else found


def test_a_group_is_repeated_if_each_member_may_be(engine: tidegate.Engine) -> None:
    group = exception_group()
    policy = tidegate.Policy(retry={}, engine=engine)

    def of(*errors: Exception) -> int:
        return outcomes.of_exception(group("g", errors), policy)

    assert of(ConnectionRefusedError(), ConnectionResetError()) == outcomes.NEVER_SENT
    assert of(ConnectionResetError(), ValueError()) == outcomes.PERMANENT
    assert of(group("g", (ConnectionResetError(),))) == outcomes.TRANSIENT
    deep: Exception = group("g", (ConnectionResetError(), ConnectionResetError()))
    for _ in range(30):
        deep = group("g", (deep, deep))
    assert outcomes.of_exception(deep, policy) == outcomes.PERMANENT


def test_types_are_looked_up_once(engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tidegate.Policy(retry={}, engine=engine)
    outcomes.of_exception(Mine(), policy)
    monkeypatch.setattr(judge, "key_of", lambda kind: pytest.fail("looked up again"))
    assert outcomes.of_exception(Mine(), policy) == outcomes.PERMANENT


# Policies within policies (semantics 1.6).


def nested(engine: tidegate.Engine, **inner: Any) -> tuple[Any, Any]:
    outer = tidegate.Policy("outer", retry=AT_ONCE, engine=engine)
    return outer, tidegate.Policy("inner", **{"retry": AT_ONCE, **inner}, engine=engine)


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("how", ["on", "classify", "kinds"])
def test_a_policy_around_another_keeps_what_that_one_repeats(
    engine: tidegate.Engine, colour: str, how: str
) -> None:
    kinds = {"kinds": {"mine": "conflict"}, "classify": lambda value: "mine" if value else None}
    more: dict[str, Any] = {"on": {"on": Mine}, "classify": {"classify": lambda value: value and "throttled"}}
    outer, inner = nested(engine, **more.get(how, kinds))
    assert tries(inner, fails(Mine()), colour)[0] == 3
    made = 0

    def sometimes() -> None:
        nonlocal made
        made += 1
        if made < 3:
            raise Mine

    async def asometimes() -> None:
        sometimes()

    async def through() -> None:
        await outer.acall(inner.acall, asometimes)

    if colour == "sync":
        outer.call(inner.call, sometimes)
    else:
        asyncio.run(through())
    assert made == 3


def test_what_the_inner_policy_does_not_repeat_the_outer_one_does_not(engine: tidegate.Engine) -> None:
    outer, inner = nested(engine)
    made, error = tries(
        outer, lambda attempt: inner.at(idempotent=False).call(fails(ConnectionResetError()), 1)
    )
    assert (made, type(error)) == (1, ConnectionResetError)
    made, _ = tries(
        outer, lambda attempt: inner.at(idempotent=False).call(fails(ConnectionRefusedError()), 1)
    )
    assert made == 3


def test_a_judgement_counts_once(engine: tidegate.Engine) -> None:
    outer, inner = nested(engine, on=Mine)
    error = Mine()
    assert tries(outer, lambda attempt: inner.call(fails(error), 1))[0] == 3
    assert tries(outer, fails(error))[0] == 1


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_the_cause_of_an_error_has_what_the_inner_policy_said(engine: tidegate.Engine, colour: str) -> None:
    """Semantics 1.6.1 and 1.6.4, through an SDK that raises an error of its own."""
    outer, inner = nested(engine, on=Mine)

    class Sdk(Exception):
        pass

    def work(idempotent: bool, error: Exception) -> Any:
        def once(attempt: int) -> None:
            try:
                inner.at(idempotent=idempotent).call(fails(error), 1)
            except Exception as cause:
                raise Sdk from cause

        return once

    assert tries(outer, work(True, ConnectionResetError()), colour)[0] == 3
    assert tries(outer, work(False, ConnectionResetError()), colour)[0] == 1, "it may have had an effect"
    assert tries(outer, work(True, Mine()), colour)[0] == 3
    assert tries(outer, work(True, ValueError()), colour)[0] == 1


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_member_of_a_group_has_what_the_inner_policy_said(engine: tidegate.Engine, colour: str) -> None:
    """Semantics 1.5.14: a group is not repeated if an inner call forbids that for one member (1.6.4)."""
    group = exception_group()
    outer, inner = nested(engine)

    def work(idempotent: bool) -> Any:
        def once(attempt: int) -> None:
            try:
                inner.at(idempotent=idempotent).call(fails(ConnectionAbortedError()), 1)
            except ConnectionAbortedError as cause:
                raise group("g", [TimeoutError(), cause]) from None

        return once

    kinds: list[str | None] = []
    with engine.on_event(lambda record: kinds.append(record.kind), types=["attempt_done"]):
        assert tries(outer, work(True), colour)[0] == 3
        kinds.clear()
        assert tries(outer, work(False), colour)[0] == 1, "the member may have had an effect"
    assert kinds == ["transient", "timeout"], "the class of the first member"


class Answer(enum.Enum):
    """Values that all calls share."""

    BUSY = "busy"


SHARED: dict[str, Any] = {"enum": Answer.BUSY, "dict": {"status": "busy"}, "bool": False, "text": "busy"}


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("what", ["error", *SHARED])
def test_a_judgement_is_for_the_call_around_and_no_other(
    engine: tidegate.Engine, colour: str, what: str
) -> None:
    """Semantics 1.6.3 and 1.6.6, with an object that calls share and a function that replaces it."""
    error = Mine()

    def fail(attempt: int = 0) -> Any:
        if what == "error":
            raise error
        return SHARED[what]

    def classify(value: object) -> str | None:
        return "transient" if value in (error, *SHARED.values()) else None

    outer, inner = nested(engine, classify=classify)

    def replaced(attempt: int) -> str:
        with contextlib.suppress(Mine):
            inner.call(fail)
        return "replaced"

    assert tries(outer, replaced, colour) == (1, "replaced")
    assert tries(outer, fail, colour)[0] == 1, "another call, for which nobody has judged it"
    assert tries(outer, lambda attempt: inner.call(fail), colour)[0] == 3
    assert tries(outer, fail, colour)[0] == 1


class Page:
    """A part of a big answer."""


def test_a_value_that_an_inner_policy_calls_a_failure_is_kept_until_it_is_judged(
    engine: tidegate.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists have no weak references. None is kept for long that its call has replaced (semantics 1.6.6)."""
    monkeypatch.setattr(left, "_plain", {})
    outer, inner = nested(engine, classify=lambda value: "transient" if isinstance(value, list) else None)
    made: list[weakref.ref[Page]] = []

    def pages() -> list[Page]:
        found = [Page()]
        made.append(weakref.ref(found[0]))
        return found

    def alive() -> int:
        return sum(page() is not None for page in made)

    assert tries(outer, lambda attempt: inner.call(pages))[0] == 3
    assert (len(made), alive(), left._plain) == (3, 0, {})

    def replaced() -> str:
        inner.call(pages)
        inner.call(pages)
        assert (alive(), len(left._plain)) == (2, 2), "those of calls that have ended went"
        return "replaced"

    for _ in range(3):
        assert outer.call(replaced) == "replaced"
    for _ in range(64):
        assert outer.call(int) == 0
    assert (alive(), left._plain) == (0, {}), "what other calls return need not be looked up any more"

    def many() -> None:
        for _ in range(200):
            inner.call(pages)
        assert (alive(), len(left._plain)) == (64, 64)

    outer.call(many)
    assert tries(outer, lambda attempt: inner.call(pages))[0] == 3
    assert (alive(), left._plain) == (0, {})


def test_objects_that_many_calls_share_do_not_grow(engine: tidegate.Engine) -> None:
    error = Mine()
    outer, inner = nested(engine, on=Mine, retry={**AT_ONCE, "budget": {"kind": "none"}})
    for _ in range(200):
        assert outer.call(lambda: tries(inner, fails(error)))[0] == 1
    assert len(vars(error)["__tidegate_left__"]) == 64
    assert tries(outer, lambda attempt: inner.call(fails(error), 1))[0] == 3


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_fallback_that_raises_the_error_takes_no_judgement(engine: tidegate.Engine, colour: str) -> None:
    """Semantics 1.6.1: the outer policy repeats what the inner one would."""

    def again(error: Exception) -> Any:
        raise error

    outer, inner = nested(engine, on=Mine, fallback=again)
    made = 0

    def once() -> None:
        nonlocal made
        made += 1
        raise Mine

    async def aonce() -> None:
        once()

    async def ask() -> Any:
        return await outer.acall(inner.acall, aonce)

    with pytest.raises(Mine):
        outer.call(inner.call, once) if colour == "sync" else asyncio.run(ask())
    assert made == 3


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_failed_answer_of_an_inner_client_is_repeated_by_the_outer_policy(
    engine: tidegate.Engine, colour: str
) -> None:
    httpx = pytest.importorskip("httpx")
    import tidegate.httpx

    outer, inner = nested(engine)
    statuses: list[int] = []

    def handler(request: Any) -> Any:
        statuses.append(503 if len(statuses) < 2 else 200)
        return httpx.Response(statuses[-1])

    async def ask() -> Any:
        transport = tidegate.httpx.AsyncTransport(httpx.MockTransport(handler), policy=inner)
        async with httpx.AsyncClient(transport=transport) as client:
            return await outer.acall(client.get, "http://h/")

    if colour == "sync":
        transport = tidegate.httpx.Transport(httpx.MockTransport(handler), policy=inner)
        with httpx.Client(transport=transport) as client:
            answer = outer.call(client.get, "http://h/")
    else:
        answer = asyncio.run(ask())
    assert (answer.status_code, statuses) == (200, [503, 503, 200])


def test_classify_may_return_a_status_with_headers(engine: tidegate.Engine) -> None:
    answers: list[Any] = [(503, {"Retry-After": "0"}), 429, (200, None), 404]
    policy = tidegate.Policy(
        "tuples",
        preset="http",
        retry={"max_attempts": 5, "backoff": {"base": 0.001}},
        classify=lambda it: it,
        engine=engine,
    )
    kinds: list[str | None] = []
    with engine.on_event(lambda record: kinds.append(record.kind), types=["attempt_done"]):
        assert policy.call(lambda: answers.pop(0)) == (200, None)
        assert policy.call(lambda: answers.pop(0)) == 404
    assert kinds == ["transient", "throttled", "ok", "permanent"]
    with pytest.warns(RuntimeWarning, match=r"True is no status: a status is a whole number from 100 to 999"):
        tidegate.Policy(deadline=5, classify=lambda _: True, engine=engine).call(int)


@pytest.mark.parametrize(
    "answer", [2.5, timedelta(seconds=2), object()], ids=["float", "timedelta", "object"]
)
def test_a_classify_that_returns_something_else_is_told_what_there_is(answer: object) -> None:
    """A hook of stamina returns the wait; the warning named an AttributeError of ours."""
    policy = tidegate.Policy(retry={"max_attempts": 2}, classify=lambda _: answer)
    told = rf"failed, .*: Unknown: it returned a {type(answer).__name__}; there are names"
    with pytest.warns(RuntimeWarning, match=told):
        assert policy.call(int) == 0
