"""What an engine says when it is asked: snapshots, explanations, its journal, what it has learned."""

from __future__ import annotations

import pickle
import threading
import typing
from datetime import timedelta
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate._engine import snapshot as _snapshot
from tidegate.testing import FakeClock


def broken() -> None:
    raise ConnectionError("reset")


def journaled() -> tidegate.Engine:
    return tidegate.Engine(seed=5, clock=FakeClock(autojump=True), journal=True)


def fits(value: Any, kind: Any, where: str) -> None:
    """A value has exactly the keys of its TypedDict, all the way down."""
    origin = typing.get_origin(kind)
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind)
        assert set(value) == set(hints), where
        for key, hint in hints.items():
            fits(value[key], hint, f"{where}.{key}")
    elif origin is dict:
        for key, part in value.items():
            fits(part, typing.get_args(kind)[1], f"{where}[{key}]")
    elif origin is list:
        for part in value:
            fits(part, typing.get_args(kind)[0], f"{where}[]")
    elif origin is typing.Literal:
        assert value in typing.get_args(kind), where
    elif origin is not None:
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        if value is not None:
            fits(value, options[0], where)
        else:
            assert type(None) in typing.get_args(kind), where
    else:
        assert isinstance(value, (int, float) if kind is float else kind), where


def test_a_snapshot_is_what_its_types_say(fake: tidegate.Engine) -> None:
    tidegate.Pool("db", bulkhead={"max_concurrency": 3}, engine=fake)
    tidegate.Pool("rate", rate_limit={"permits": 3, "per": 1}, engine=fake)
    tidegate.Pool("spent", budget={"kind": "window"}, engine=fake)
    full = tidegate.Policy(
        "full",
        retry={"max_attempts": 3, "hold": True, "send_rate": "cubic"},
        rate_limit={"permits": 9, "per": 1},
        bulkhead={"max_concurrency": 3, "kind": "aimd", "latency_threshold": 1},
        breaker={"consecutive": 3, "break_duration": 5},
        engine=fake,
    )
    plain = tidegate.Policy("plain", throttle=tidegate.Throttle(), deadline=1, engine=fake)
    full.call(int)
    plain.call(int)
    view = fake.snapshot()
    fits(view, _snapshot.Snapshot, "snapshot")
    fits(full.snapshot(), _snapshot.PolicySnapshot, "policy")
    parts = {key for route in view["routes"] for key, part in route.items() if isinstance(part, dict)}
    assert parts == {"pool", "rate", "send", "breaker", "throttle", "hold"}, "hedges come with their shells"
    assert [route["key"] for route in full.snapshot()["routes"].values()] == ["default"]


def test_a_policy_says_what_it_comes_to() -> None:
    policy = tidegate.Policy(
        "pay",
        deadline=10,
        attempt_timeout=2,
        retry={"max_attempts": 4, "budget": {"percent_can_retry": 0.5, "min_retries_per_sec": 0}},
        engine=journaled(),
    )
    told = policy.explain()
    assert (told.policy, told.max_attempts, told.max_time, told.load.per_call) == ("pay", 4, 10.0, 1.5)
    assert [part.name for part in told.components] == [
        "deadline",
        "retry",
        "retry.budget",
        "retry.backoff",
        "attempt_timeout",
    ]
    assert told.components[1].settings["max_attempts"] == "4"
    assert str(told).startswith("policy pay\n  deadline: 10s\n")
    assert told.warnings == ()
    endless = tidegate.Policy("endless", retry={"max_attempts": 2}, engine=policy.engine).explain()
    assert endless.max_time is None
    assert any("neither attempt_timeout nor deadline" in warning for warning in endless.warnings)


@pytest.mark.parametrize("awaits", [False, True])
def test_an_exception_says_why_its_call_ended(awaits: bool, both_paths: None) -> None:
    import asyncio

    engine = journaled()
    policy = quick(engine, name="pay")

    async def abroken() -> None:
        broken()

    async def main() -> None:
        await policy.at(route="eu").acall(abroken)

    run = (lambda: asyncio.run(main())) if awaits else (lambda: policy.at(route="eu").call(broken))
    with pytest.raises(ConnectionError) as failed:
        run()
    told = engine.explain(failed.value)
    assert told is not None
    assert (told.policy, told.route, told.reason, told.attempts) == ("pay", "eu", "attempts", 3)
    assert [record.type for record in told.story][-2:] == ["gave_up", "call_done"]
    assert any("retry budget" in line for line in told.numbers)
    assert "All attempts are used up." in str(told)
    assert tidegate.Engine(seed=6).explain(failed.value) is None, "another engine's"


def test_a_refusal_explains_itself_with_the_numbers_of_then() -> None:
    engine = journaled()
    policy = tidegate.Policy("one", bulkhead={"max_concurrency": 1}, engine=engine)
    inside, go_on = threading.Event(), threading.Event()
    holder = threading.Thread(target=lambda: policy.call(lambda: (inside.set(), go_on.wait(10))))
    holder.start()
    inside.wait(10)
    with pytest.raises(tidegate.BulkheadFull) as refused:
        policy.call(int)
    go_on.set()
    holder.join()
    told = refused.value.explain()
    assert told is not None
    assert told.reason == "queue_full"
    assert told.numbers == ("bulkhead: 1 of 1 permits out, 0 of 0 places in the queue taken",)
    assert pickle.loads(pickle.dumps(refused.value)).explain() is not None, "it is found by numbers"


def test_a_call_that_goes_on_says_where_it_stands() -> None:
    engine = tidegate.Engine(seed=1, clock=FakeClock())
    calls: list[int] = []
    with engine.on_event(lambda record: calls.append(record.call or 0), types=["attempt_started"]):

        def work() -> None:
            told = engine.explain(calls[0])
            assert told is not None
            assert (told.standing, told.why, told.reason) == ("an attempt runs", "running", None)

        tidegate.Policy(deadline=3, engine=engine).call(work)
    assert engine.explain(calls[0]) is None, "without a journal nothing is known of a call that just worked"
    engine = tidegate.Engine(seed=1, clock=FakeClock(), history=0)
    with pytest.raises(ConnectionError) as failed:
        quick(engine).call(broken)
    assert engine.explain(failed.value) is None


def test_a_journal_replays_to_the_same_decisions() -> None:
    engine = journaled()
    policy = quick(engine, name="pay")
    for _ in range(5):
        with pytest.raises(ConnectionError):
            policy.call(broken)
    again = tidegate.Engine.replay(engine.journal())
    assert again.snapshot() == engine.snapshot()
    assert again.journal() == engine.journal()
    assert again.native.now() == engine.native.now()
    assert sum("verdict: Attempts" in answer for answer in again.answers) == 5
    other = engine.journal().replace(f"seed {engine.seed} ", "seed 99 ", 1)
    assert tidegate.Engine.replay(other).journal() != ""
    taken = engine.journal(take=True)
    with pytest.raises(ConnectionError):
        policy.call(broken)
    whole = taken + engine.journal(take=True)
    assert tidegate.Engine.replay(whole).snapshot() == engine.snapshot()


def test_a_journal_that_nobody_takes_is_bounded_and_says_what_it_lacks() -> None:
    engine = tidegate.Engine(seed=5, journal=True)
    policy = quick(engine)
    for _ in range(100_004):
        policy.force_open(on=False)
    lines = engine.journal(take=True).splitlines()
    assert len(lines) == 1 + 1 + 100_000, "the head, what is missing, and what is kept"
    assert lines[0].startswith("tidegate journal 1 seed 5 ")
    assert lines[1].startswith("dropped ")
    assert int(lines[1].split()[1]) >= 5, "the policy among them"
    with pytest.raises(
        ValueError, match=r"journal, line 1: dropped = \d+: so many inputs before this line are missing"
    ):
        tidegate.Engine.replay("\n".join(lines))
    assert engine.journal() == "", "and nothing is missing after what was taken"


def test_what_is_no_journal_is_refused_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"journal = False: make the engine with Engine\(journal=True\)"):
        tidegate.Engine().journal()
    with pytest.raises(ValueError, match=r"journal = 'hello': must begin with"):
        tidegate.Engine.replay("hello")
    text = journaled().journal() + "begin soon 1 2 - - 0\n"
    with pytest.raises(ValueError, match=r"journal, line 1: now = soon: must be a whole number"):
        tidegate.Engine.replay(text)


def test_a_journal_of_the_last_moments_replays_or_says_why_not() -> None:
    head = journaled().journal()
    latest = f'route {2**64 - 1} 0 "k"\n'
    assert tidegate.Engine.replay(head + latest).native.now() > 0
    # Each line goes on from the one before by as much as core believes in, up to what no clock can show.
    later = "".join(f'route {2**62 + n * 2**53} 0 "k"\n' for n in range(514))
    with pytest.raises(ValueError, match=r"journal, its end: now = \d+ us: must be at most \d+ us"):
        tidegate.Engine.replay(head + later)


def a_breaker(engine: tidegate.Engine) -> tidegate.Policy:
    return tidegate.Policy("p", breaker={"consecutive": 1, "break_duration": 60}, engine=engine)


def test_what_was_learned_goes_on_in_another_engine(fake: tidegate.Engine) -> None:
    with pytest.raises(ConnectionError):
        a_breaker(fake).call(broken)
    saved = fake.save()
    other = tidegate.Engine(seed=9, clock=FakeClock())
    policy = a_breaker(other)
    restored = other.restore(saved, elapsed=timedelta(seconds=20))
    assert (restored.routes, restored.left_out, restored.unknown, restored.dropped) == (1, 0, [], [])
    with pytest.raises(tidegate.BreakerOpen) as refused:
        policy.call(int)
    breaker = fake.snapshot()["routes"][0]["breaker"]
    assert breaker is not None
    assert breaker["retry_in"] is not None
    assert refused.value.retry_in == pytest.approx(breaker["retry_in"] - 20, abs=0.01)
    nobody = tidegate.Engine(seed=9, clock=FakeClock()).restore(saved)
    assert nobody.unknown == [("policy", "p")]


def test_a_state_that_cannot_be_restored_changes_nothing(fake: tidegate.Engine) -> None:
    policy = a_breaker(fake)
    before = fake.snapshot()
    with pytest.raises(tidegate.StateError, match="saved state, the whole: must be JSON"):
        fake.restore("{")
    with pytest.raises(tidegate.StateError, match="version 9; this engine reads versions 1 to 2"):
        fake.restore('{"tidegate": 9, "oldest": 0, "calls": 0}')
    with pytest.raises(ValueError, match=r"elapsed = -1: must be seconds or a timedelta, 0 or more"):
        fake.restore(fake.save(), elapsed=-1)
    with pytest.raises(ValueError, match="elapsed = 'soon'"):
        fake.restore(fake.save(), elapsed="soon")  # type: ignore[arg-type]
    assert fake.snapshot() == before
    policy.call(int)
    with pytest.raises(tidegate.StateError, match="before an engine's first call"):
        fake.restore(fake.save())


def test_an_engine_keeps_so_many_routes_and_no_more() -> None:
    small = tidegate.Engine(seed=1, clock=FakeClock(), max_routes=2)
    policy = tidegate.Policy(deadline=1, engine=small)
    for route in "abcd":
        policy.at(route=route).call(int)
    assert small.snapshot()["route_evictions"] + small.snapshot()["route_overflows"] > 0
    for wrong in (0, 524_289):
        with pytest.raises(
            ValueError, match=f"max_routes = {wrong}: must be a whole number from 1 to 524288"
        ):
            tidegate.Engine(max_routes=wrong)
