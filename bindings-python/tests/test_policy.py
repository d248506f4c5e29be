"""Policies: options, mistakes, pickling, decorators, classification, notes, errors."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import doctest
import functools
import inspect
import json
import math
import pickle
import socket
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import tidegate
import tidegate.httpx
import tidegate.testing
from conftest import quick
from tidegate._call import notes as _notes
from tidegate._engine import wire as _wire
from tidegate._engine.options import TABLE
from tidegate._http.options import gathered
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")

VECTORS = Path(__file__).resolve().parents[2] / "tests" / "vectors" / "wire"


def mistakes(**settings: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(tidegate.PolicyError) as caught:
        tidegate.Policy(engine=tidegate.Engine(seed=1), **settings)
    return caught.value.mistakes


def test_all_mistakes_are_told_at_once() -> None:
    found = mistakes(
        deadline=float("nan"),
        retry=tidegate.Retry(max_attempts=0, backoff=tidegate.Backoff(base=-1)),
        bulkhead={"max_concurency": 3},
    )
    assert [key for key, _, _ in found] == [
        "deadline", "retry.max_attempts", "retry.backoff.base", "bulkhead.max_concurency",
        "bulkhead.max_concurrency",
    ][: len(found)]  # fmt: skip
    assert ("retry.max_attempts", "0", "must be a whole number from 1 to 255") in found


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"retry": {"max_attempts": True}}, "retry.max_attempts"),
        ({"retry": {"max_attempts": 2.5}}, "retry.max_attempts"),
        ({"retry": {"max_attempts": 10**400}}, "retry.max_attempts"),
        ({"deadline": 10**400}, "deadline"),
        ({"deadline": "2s"}, "deadline"),
        ({"deadline": object()}, "deadline"),
        ({"retry": {"respect_retry_after": 1}}, "retry.respect_retry_after"),
        ({"retry": {"methods": []}}, "retry.methods"),
        ({"retry": {"methods": ["get"]}}, "retry.methods"),
        ({"retry": {"statuses": [200]}}, "retry.statuses"),
        ({"retry": 3}, "retry"),
        ({"preset": "nonsense"}, "preset"),
        ({}, "policy"),
        ({"name": "", "deadline": 1}, "policy"),
    ],
)
def test_a_mistake_names_its_key(settings: dict[str, Any], key: str) -> None:
    assert key in {found for found, _, _ in mistakes(**settings)}


def test_the_same_name_with_other_settings_is_an_error(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy("p", deadline=1, engine=engine)
    assert tidegate.Policy("p", deadline=timedelta(seconds=1), engine=engine).name == policy.name
    with pytest.raises(tidegate.PolicyError, match="a policy of this name with other settings"):
        tidegate.Policy("p", deadline=2, engine=engine)


def test_defaults_are_cores(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        retry=tidegate.Retry(), bulkhead=tidegate.Bulkhead(max_concurrency=2), engine=engine
    )
    tries: list[int] = []
    with pytest.raises(ConnectionError):
        policy.call(lambda: (tries.append(1), fail())[1])
    assert len(tries) == 3
    assert (policy._count("bulkhead.max_queue"), policy._seconds("bulkhead.acquire_timeout")) == (0, 1.0)
    assert policy._seconds("retry.max_retry_after") == 5.0


def test_a_misspelt_component_is_named_even_where_it_is_empty(engine: tidegate.Engine) -> None:
    with pytest.raises(tidegate.PolicyError) as error:
        tidegate.Policy(retry={"backof": {}}, deadline=1, engine=engine)
    assert [key for key, _, _ in error.value.mistakes] == ["retry.backof"]


def fail(error: BaseException | None = None) -> Any:
    raise error or ConnectionError("no")


def test_none_is_none(engine: tidegate.Engine) -> None:
    policy = tidegate.Policy(
        retry=tidegate.Retry(budget=None),
        bulkhead=tidegate.Bulkhead(max_concurrency=1, max_queue=None, acquire_timeout=None),
        engine=engine,
    )
    policy.call(int)
    (route,) = (route for route in engine.snapshot()["routes"] if route["policy"] == policy.name)
    assert route["budget"] is None
    assert policy._count("bulkhead.max_concurrency") == 1
    assert policy._count("bulkhead.max_queue") is policy._seconds("bulkhead.acquire_timeout") is None


def test_policies_pickle_their_settings() -> None:
    policy = tidegate.Policy("pickled", preset="http", deadline=3, retry=tidegate.Retry(max_attempts=4))
    again = pickle.loads(pickle.dumps(policy))
    assert repr(again) == repr(policy)
    assert again.engine is policy.engine
    assert again == again and again != policy and len({again, policy}) == 2
    unnamed = tidegate.Policy(deadline=3)
    assert pickle.loads(pickle.dumps(unnamed)).name != unnamed.name
    assert copy.copy(policy).name == "pickled"


def test_repr_shows_what_was_given() -> None:
    policy = tidegate.Policy("r", preset="http", retry={"max_attempts": 2}, engine=tidegate.Engine())
    assert repr(policy) == "Policy('r', preset='http', retry={'max_attempts': 2})"
    assert repr(tidegate.Backoff(base=1)) == "Backoff(base=1)"


@pytest.mark.parametrize(
    "kind",
    [k for k in vars(tidegate).values() if isinstance(k, type) and issubclass(k, tidegate.TidegateError)],
)
def test_errors_pickle_with_notes(kind: type[tidegate.TidegateError]) -> None:
    if issubclass(kind, tidegate.PolicyError):
        error: tidegate.TidegateError = kind([("a", "b", "c")])
    else:
        error = kind("text", reason="r", retry_in=1.5, policy="p", route="o")
    _notes.add_note(error, "tidegate: a note")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    assert again.__notes__ == ["tidegate: a note"]
    assert again.http_status in (429, 503, 504)
    assert isinstance(error, tidegate.TidegateError)


def test_errors_carry_what_a_server_needs(engine: tidegate.Engine) -> None:
    error = tidegate.RateLimited("x", retry_in=60)
    assert (error.code, error.http_status, error.reason) == ("rate_limited", 429, "rate_limited")
    assert error.retry_at is not None
    assert abs(error.retry_at - datetime.now(timezone.utc) - timedelta(minutes=1)) < timedelta(seconds=1)
    assert issubclass(tidegate.AttemptTimeout, TimeoutError)
    assert issubclass(tidegate.DeadlineExceeded, TimeoutError)
    assert issubclass(tidegate.PolicyError, ValueError)


def test_decorators_keep_the_function(engine: tidegate.Engine) -> None:
    policy = quick(engine)

    @policy
    def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    @policy.at(route="eu")
    async def wait(a: int) -> int:
        return a

    assert (add(1, b=2), add.__doc__, add.__name__) == (3, "Adds.", "add")
    assert inspect.iscoroutinefunction(wait)
    assert asyncio.run(wait(4)) == 4
    assert asyncio.run(policy(functools.partial(wait, 5))()) == 5


@pytest.mark.parametrize(
    ("error", "attempts", "idempotent"),
    [
        (ConnectionError("x"), 3, True),
        (OSError("x"), 1, True),
        (TimeoutError("x"), 3, True),
        (asyncio.TimeoutError("x"), 3, True),
        (ConnectionRefusedError("x"), 3, False),
        (socket.gaierror("x"), 3, False),
        (ConnectionResetError("x"), 1, False),
        (ValueError("x"), 1, True),
        (tidegate.BulkheadFull("x"), 3, True),
        (tidegate.RateLimited("x", retry_in=0.001), 3, True),
    ],
)
def test_exceptions_have_classes(
    fake: tidegate.Engine, error: Exception, attempts: int, idempotent: bool
) -> None:
    tries = []

    def failing() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        quick(fake).at(idempotent=idempotent).call(failing)
    assert caught.value is error
    assert len(tries) == attempts


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(), GeneratorExit(), asyncio.CancelledError()]
)
def test_what_is_no_failure_goes_on_untouched(fake: tidegate.Engine, error: BaseException) -> None:
    policy = quick(fake)
    with pytest.raises(type(error)) as caught:
        policy.call(fail, error)
    assert caught.value is error
    assert not hasattr(error, "__notes__")
    assert fake.snapshot()["policies"][policy.name]["ends"] == {"cancelled": 1}


def test_classify_overrides(fake: tidegate.Engine) -> None:
    answers = iter([1, 2, 3])
    policy = quick(fake, classify=lambda subject: "transient" if subject != 3 else None)
    assert policy.call(lambda: next(answers)) == 3
    policy = quick(fake, classify=lambda subject: tidegate.Outcome("permanent", opinion="retry"))
    assert policy.call(lambda: 7) == 7
    assert fake.snapshot()["policies"][policy.name]["attempts"] == 3


def test_a_broken_classify_breaks_nothing_and_warns_once(fake: tidegate.Engine) -> None:
    def broken(subject: Any) -> Any:
        raise ZeroDivisionError("oops")

    policy = quick(fake, classify=broken)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert policy.call(lambda: 1) == 1
        assert policy.call(lambda: 2) == 2
    assert len(seen) == 1
    assert "ZeroDivisionError" in str(seen[0].message)
    nonsense = quick(fake, classify=lambda subject: "nonsense")
    with pytest.warns(RuntimeWarning, match="nonsense"):
        assert nonsense.call(lambda: 3) == 3


def test_notes() -> None:
    assert _notes.note_of("attempts", 1, None, None) is None
    assert _notes.note_of("not_retryable", 2, None, None) is None
    assert _notes.note_of("attempts", 3, None, None) == "tidegate: gave up after 3 attempts"
    told = {verdict: _notes.note_of(verdict, 2, 120.0, 60.0) for verdict in _notes._NOTES}
    assert told["retry_after_too_long"] == "tidegate: Retry-After 120 s exceeds max_retry_after 60 s"
    assert told["budget"] == "tidegate: retry budget exhausted"
    assert all(note and note.startswith("tidegate: ") for note in told.values())


def test_a_single_attempt_leaves_no_note(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(deadline=5, engine=fake)
    with pytest.raises(ConnectionError) as caught:
        policy.call(fail)
    assert not hasattr(caught.value, "__notes__")


def test_an_attempt_timeout_needs_a_function_that_takes_its_time(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(attempt_timeout=2, engine=fake)
    with pytest.raises(TypeError, match="pass_timeout"):
        policy.call(int)
    assert policy.at(pass_timeout="timeout").call(lambda *, timeout: timeout) == 2.0


def test_a_time_limit_of_the_call_itself_holds_if_it_is_earlier(fake: tidegate.Engine) -> None:
    def limit(*, timeout: float | None) -> float | None:
        return timeout

    for more, expected in (({}, [None, 3]), ({"deadline": 2}, [2.0, 2.0]), ({"deadline": 9}, [9.0, 3])):
        caller = quick(fake, **more).at(pass_timeout="timeout")
        assert [caller.call(limit, **own) for own in ({"timeout": None}, {"timeout": 3})] == expected
    with pytest.raises(ValueError, match="pass_timeout = 3: must be the name of a parameter"):
        caller._policy.at(pass_timeout=3)  # type: ignore[arg-type]


def test_what_cannot_be_called_or_holds_no_state_is_refused(engine: tidegate.Engine) -> None:
    text = "[policy.p]\ndeadline = '1s'"
    for make in (
        lambda classify: tidegate.Policy(classify=classify, engine=engine, deadline=1),
        lambda classify: tidegate.loads(text, classify=classify, engine=engine),
    ):
        with pytest.raises(TypeError, match="classify = 'transient': must be a function"):
            make("transient")
    for make in (
        lambda engine: tidegate.Policy(engine=engine, deadline=1),
        lambda engine: tidegate.Pool(engine=engine, bulkhead={"max_concurrency": 1}, name="p"),
        lambda engine: tidegate.loads(text, engine=engine),
    ):
        with pytest.raises(TypeError, match=r"engine = 'main': must be a tidegate\.Engine"):
            make("main")
    for on_event in (engine.on_event, tidegate.Policy(engine=engine, deadline=1).on_event):
        with pytest.raises(TypeError, match="callback = None: must be a function that takes a record"):
            on_event(None)  # type: ignore[arg-type]


def test_an_outcome_may_ask_for_an_endless_wait(engine: tidegate.Engine) -> None:
    policy = quick(engine, retry={}, classify=lambda _: tidegate.Outcome("throttled", retry_after=math.inf))
    assert policy.call(int) == 0
    assert policy.snapshot()["ends"] == {"retry_after_too_long": 1}


def test_a_route_that_was_evicted_is_asked_for_again(engine: tidegate.Engine) -> None:
    policy = quick(engine)
    for number in range(10_050):
        engine.native.route(policy._number, f"r{number}")
    assert policy.call(int) == 0
    for number in range(20_000, 30_050):
        engine.native.route(policy._number, f"r{number}")
    assert asyncio.run(policy.acall(asyncio.sleep, 0, 5)) == 5


def test_deadlines_nest_the_earlier_wins(clock: FakeClock, fake: tidegate.Engine) -> None:
    caller = tidegate.Policy(deadline=100, engine=fake).at(pass_timeout="timeout")

    def left(*, timeout: float) -> float:
        return timeout

    with tidegate.deadline(5):
        assert caller.call(left) == 5
        with tidegate.deadline(timedelta(seconds=50)):
            assert caller.call(left) == 5
        with tidegate.deadline(2):
            clock.tick(1)
            assert caller.call(left) == 1
        assert caller.call(left) == 4
        clock.tick(10)
        with pytest.raises(tidegate.DeadlineExceeded) as caught:
            caller.call(left)
        assert caught.value.reason == "deadline_before"
    assert caller.call(left) == 100
    with pytest.raises(ValueError, match="a deadline is"):
        tidegate.deadline(float("nan"))


def test_the_deadline_of_another_engines_call_holds_inside(clock: FakeClock, fake: tidegate.Engine) -> None:
    slow = {"max_attempts": 3, "backoff": {"base": 60, "max": 60, "jitter": "none"}}
    other = tidegate.Engine(seed=1, clock=clock)
    outer, inner = tidegate.Policy(deadline=5, engine=fake), tidegate.Policy(retry=slow, engine=other)
    innermost = quick(fake).at(pass_timeout="timeout")
    with pytest.raises(ConnectionError) as raised:
        outer.call(inner.call, fail)
    assert raised.value.__notes__ == [
        "tidegate: not retried: the next wait would outlive the deadline",
    ]
    assert clock.now() == 0

    def left(*, timeout: float | None) -> float | None:
        clock.tick(1)
        return timeout

    brief = tidegate.Policy(deadline=3, engine=other)
    assert outer.call(brief.call, innermost.call, left) == 3
    assert tidegate.Policy(deadline=5, engine=tidegate.Engine(seed=1)).call(innermost.call, left) is None
    with tidegate.deadline(2):
        assert outer.call(inner.call, innermost.call, left) == 2


def test_the_notes_of_an_exception_that_many_calls_raise_do_not_pile_up(engine: tidegate.Engine) -> None:
    retry = {"max_attempts": 2, "backoff": {"base": 0}, "budget": None}
    policy, same = quick(engine, retry=retry), ConnectionError("reset")

    def fails() -> None:
        raise same

    for _ in range(3):
        with pytest.raises(ConnectionError):
            policy.call(fails)
    assert same.__notes__ == ["tidegate: gave up after 2 attempts"]


@pytest.mark.parametrize("cost", [2.5, "3", True, None])
def test_a_cost_is_a_whole_number(engine: tidegate.Engine, cost: Any) -> None:
    with pytest.raises(ValueError, match=r"cost = .*: must be a whole number from 0 to 65535"):
        quick(engine).at(cost=cost)


def test_a_deadline_is_entered_twice_and_by_threads(clock: FakeClock, fake: tidegate.Engine) -> None:
    caller = tidegate.Policy(deadline=100, engine=fake).at(pass_timeout="timeout")
    shared = tidegate.deadline(5)

    def left(*, timeout: float) -> float:
        return timeout

    def in_a_thread() -> float:
        with shared:
            inside.set()
            assert outside.wait(10)
        return caller.call(left)

    with shared, shared:
        assert caller.call(left) == 5
    assert caller.call(left) == 100
    inside, outside = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(in_a_thread)
        assert inside.wait(10)
        with shared:
            pass
        assert caller.call(left) == 100
        outside.set()
        assert other.result() == 100


@pytest.mark.parametrize(
    "block", [tidegate.deadline(5), tidegate.criticality("critical"), tidegate.httpx.options(cost=2)]
)
def test_a_block_of_a_generator_may_end_in_another_context(block: Any) -> None:
    """Web frameworks resume a generator in a new copy of the context for each of its items."""

    def items() -> Any:
        with block:
            yield 1

    made, last = items(), copy_context()
    before = list(last.items())
    assert copy_context().run(next, made) == 1
    assert last.run(next, made, "end") == "end"
    assert list(last.items()) == before


def test_a_block_that_ends_inside_another_does_not_come_back(clock: FakeClock, fake: tidegate.Engine) -> None:
    """A generator enters a block, and ends it inside a block that its consumer has entered since."""
    caller = tidegate.Policy(deadline=100, engine=fake).at(pass_timeout="timeout")

    def left(*, timeout: float) -> float:
        return timeout

    def items(block: Any) -> Any:
        with block:
            yield 1

    made = items(tidegate.deadline(2))
    next(made)
    with tidegate.deadline(5), tidegate.criticality("critical"):
        assert list(made) == []
        assert caller.call(left) == 2  # of the deadlines that were in force when it began
    assert caller.call(left) == 100

    made = items(tidegate.httpx.options(cost=2))
    next(made)
    with tidegate.httpx.options(route="a"):
        assert list(made) == []
        assert gathered(None) == {"route": "a"}
    assert gathered(None) == {}


def test_a_block_that_ends_inside_a_task_s_own_stays_in_force_there(fake: tidegate.Engine) -> None:
    caller = tidegate.Policy(deadline=100, engine=fake).at(pass_timeout="timeout")

    def left(*, timeout: float) -> float:
        return timeout

    with tidegate.deadline(5):
        task = copy_context()
    with tidegate.deadline(50):
        assert caller.call(left) == 50

    def in_the_task() -> float:
        with tidegate.deadline(2):
            assert caller.call(left) == 2
        return caller.call(left)

    assert task.run(in_the_task) == 5


def test_importing_imports_little() -> None:
    unwanted = ("asyncio", "httpx", "logging", "ssl", "socket")
    code = f"import sys, tidegate; print([m for m in {unwanted} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_bad_words_are_value_errors(engine: tidegate.Engine) -> None:
    native = engine.native
    with pytest.raises(ValueError, match="no request has the flags"):
        native.begin(1, 1 << 40, 0, 0, 0)
    with pytest.raises(ValueError, match="no event has the word"):
        native.on(1, 7)
    assert _wire.VERDICTS[native.on(12345, _wire.POLL) >> 12 & 63] == "stale"  # type: ignore[operator]
    with pytest.raises(ValueError, match="manual_clock"):
        native.set_now(1)


@pytest.mark.skipif(not VECTORS.is_dir(), reason="no wire vectors yet")
def test_words_are_those_of_the_vectors() -> None:
    vectors = json.loads((VECTORS / "words.json").read_text(encoding="utf-8"))
    longest = (1 << 31) - 2
    for entry in vectors["steps"]:
        step, decoded = entry["step"], _wire.decode_step(entry["word"])
        if step["action"] == "done":
            us = step.pop("retry_in_us")
            step["retry_in_ms"] = None if us is None else min(-(-us // 1000), longest)
        elif step["next_us"] is not None:
            step["next_us"] = min(step["next_us"], longest)
        assert decoded == step, entry["word"]
    for entry in vectors["events"]:
        event, tags = entry["event"], {"timer": _wire.TIMER, "poll": _wire.POLL, "cancel": _wire.CANCEL}
        if event["event"] in tags:
            word = tags[event["event"]]
        elif event["event"] == "progress":
            word = _wire.progress(event["attempt"], event["age_us"])
        else:
            tag = _wire.HEADERS if event["event"] == "headers" else _wire.FINISHED
            word = tag | event["attempt"] << _wire.ATTEMPT_SHIFT
        if event["event"] == "finished":
            opinion = {"none": 0, "retry": 1, "do_not": 2}[event["opinion"]]
            us = event["retry_after_us"]
            word |= _wire.pack_outcome(event["kind"], opinion, None if us is None else us / 1e6)
        assert word == entry["word"], event
    for entry in vectors["requests"]:
        request = entry["request"]
        bits = {"replayable": _wire.REPLAYABLE, "idempotent": _wire.IDEMPOTENT, "abortable": _wire.ABORTABLE,
                "may_park": _wire.MAY_PARK, "slot_until_body": _wire.SLOT_UNTIL_BODY}  # fmt: skip
        bits |= {"solo": _wire.SOLO, "stream": _wire.STREAM}
        flags = sum(bit for name, bit in bits.items() if request.get(name))
        flags |= _wire.CRITICALITIES[request["criticality"]] | request["cost"] << _wire.COST_SHIFT
        left = request["remaining_us"]
        remaining = 0 if left is None else _wire.pack_remaining(left)
        assert [flags, remaining] == entry["words"][:2], request


def test_the_options_are_those_of_cores_table() -> None:
    kinds = {
        "retry": tidegate.Retry, "retry.backoff": tidegate.Backoff, "retry.budget": tidegate.Budget,
        "rate_limit": tidegate.RateLimit, "bulkhead": tidegate.Bulkhead, "breaker": tidegate.Breaker,
        "throttle": tidegate.Throttle, "cooldown": tidegate.Cooldown, "hedge": tidegate.Hedge,
        "hedge.budget": tidegate.HedgeBudget,
    }  # fmt: skip
    keys = {f"{path}.{field.name}" for path, kind in kinds.items() for field in dataclasses.fields(kind)}
    keys |= {key for key in inspect.signature(tidegate.Policy).parameters if key in TABLE}
    # Groups of targets, and the policies that name them, are declared in documents.
    assert keys - set(kinds) == set(TABLE) - {"targets", "retry.failover_on"}


def test_an_option_that_there_is_not_is_named(engine: tidegate.Engine) -> None:
    with pytest.raises(TypeError, match=r"Policy.__init__\(\) got an unexpected keyword argument 'dedline'"):
        tidegate.Policy(engine=engine, dedline=1)  # type: ignore[call-arg]
    policy = tidegate.Policy(engine=engine, deadline=1)
    with pytest.raises(TypeError, match=r"Policy.retune\(\) got an unexpected keyword argument 'classify'"):
        policy.retune(classify=None)  # type: ignore[call-arg]
    assert list(inspect.signature(policy).parameters) == ["fn"]


@pytest.mark.parametrize("module", [tidegate, tidegate.testing], ids=lambda module: module.__name__)
def test_the_examples_of_docstrings_run(module: Any) -> None:
    """The classes say that they are of the public module, so `doctest.testmod` of theirs finds none."""
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    names = {**vars(module), "tidegate": tidegate}
    found = [
        example
        for name in module.__all__
        for example in doctest.DocTestFinder().find(getattr(module, name), name, module=False, globs=names)
        if example.examples
    ]
    assert len(found) > 2
    for example in found:
        assert doctest.DocTestRunner(optionflags=flags).run(example).failed == 0, example.name
