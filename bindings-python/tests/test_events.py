"""Hooks: what they are told, by whom, and that none of them can break a call."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate.events import TYPES, Record
from tidegate.testing import FakeClock


def failing(times: int) -> Any:
    """A function that fails so often, then answers."""
    left = [times]

    def fetch() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise ConnectionError("the secret")
        return "done"

    return fetch


def types_of(records: list[Record]) -> list[str]:
    return [record.type for record in records]


ONE_RETRY = [
    "attempt_started",
    "attempt_done",
    "retry_scheduled",
    "attempt_started",
    "attempt_done",
    "call_done",
]


def test_a_hook_is_told_all_that_a_call_does(fake: tidegate.Engine, both_paths: None) -> None:
    told: list[Record] = []
    policy = quick(fake, name="pay")
    with fake.on_event(told.append):
        assert policy.at(route="eu").call(failing(1)) == "done"
    assert policy.call(failing(1)) == "done"
    assert types_of(told) == ONE_RETRY
    assert [record.seq for record in told] == [1, 2, 3, 4, 5, 6]
    assert {(record.policy, record.route) for record in told} == {("pay", "eu")}
    assert len({record.call for record in told}) == 1
    retry = told[2]
    assert (retry.attempt, retry.kind, retry.error) == (2, "transient", "ConnectionError")
    assert retry.function is not None
    assert retry.function.endswith("failing.<locals>.fetch")
    assert retry.wait_s == pytest.approx(0.001, abs=0.001)
    assert (told[-1].reason, told[-1].attempt) == ("ok", 2)
    assert "the secret" not in repr(told)


def test_async_calls_tell_the_same(engine: tidegate.Engine, both_paths: None) -> None:
    told: list[Record] = []
    fetch = failing(1)

    async def again() -> str:
        return str(fetch())

    with engine.on_event(told.append):
        assert asyncio.run(_awaited(quick(engine), again)) == "done"
    assert types_of(told) == ONE_RETRY
    assert told[2].error == "ConnectionError"


async def _awaited(policy: tidegate.Policy, fn: Any) -> Any:
    return await policy.acall(fn)


def test_types_are_chosen_and_a_wrong_one_is_named(fake: tidegate.Engine) -> None:
    told: list[Record] = []
    with fake.on_event(told.append, types=["gave_up", "call_done"]), pytest.raises(ConnectionError):
        quick(fake).call(failing(9))
    assert types_of(told) == ["gave_up", "call_done"]
    with pytest.raises(ValueError, match=r"types = 'retried': must be among call_done, attempt_started"):
        fake.on_event(told.append, types=["retried"])
    with pytest.raises(ValueError, match=r"types = 'gave_up': must be a list"):
        fake.on_event(told.append, types="gave_up")


def test_a_policy_hears_of_itself_only(fake: tidegate.Engine) -> None:
    told: list[Record] = []
    mine, other = quick(fake, name="mine"), quick(fake, name="other")
    hook = mine.on_event(told.append, types=["call_done"])
    mine.call(int)
    other.call(int)
    hook.close()
    hook.close()
    mine.call(int)
    assert [record.policy for record in told] == ["mine"]


def test_the_record_comes_before_the_wait(fake: tidegate.Engine) -> None:
    seen: list[tuple[float, float | None]] = []
    assert isinstance(fake.clock, FakeClock)
    clock = fake.clock
    policy = tidegate.Policy(retry={"max_attempts": 2, "backoff": {"base": 5, "max": 5}}, engine=fake)
    with fake.on_event(lambda record: seen.append((clock.now(), record.wait_s)), types=["retry_scheduled"]):
        policy.call(failing(1))
    assert seen[0][0] == 0.0
    assert clock.now() == pytest.approx(seen[0][1])
    assert clock.now() > 0.1


def test_a_hook_that_raises_is_logged_once_and_breaks_no_call(
    fake: tidegate.Engine, caplog: pytest.LogCaptureFixture, both_paths: None
) -> None:
    def broken(record: Record) -> None:
        raise RuntimeError(f"a bug in the hook, at {record.type}")

    told: list[Record] = []
    with fake.on_event(broken), fake.on_event(told.append):
        assert quick(fake).call(failing(2)) == "done"
        assert quick(fake).call(int) == 0
    complaints = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert len(complaints) == 1
    assert "a bug in the hook, at attempt_started" in (complaints[0].exc_text or "")
    assert types_of(told)[-1] == "call_done", "the other hook goes on"


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, StopIteration])
def test_nothing_that_a_hook_raises_reaches_a_call(fake: tidegate.Engine, error: type[BaseException]) -> None:
    def broken(record: Record) -> None:
        raise error

    with fake.on_event(broken):
        assert quick(fake).call(failing(1)) == "done"


def test_an_interrupt_in_a_hook_is_the_programs_and_loses_nothing(fake: tidegate.Engine) -> None:
    def interrupted(record: Record) -> None:
        raise KeyboardInterrupt

    with fake.on_event(interrupted, types=["retry_scheduled"]), pytest.raises(KeyboardInterrupt):
        quick(fake, bulkhead={"max_concurrency": 1}).call(failing(1))
    assert fake.snapshot()["live"] == 0


def test_a_hook_may_make_calls_and_is_not_told_of_them(fake: tidegate.Engine, both_paths: None) -> None:
    told: list[str] = []
    policy = quick(fake)

    def calls(record: Record) -> None:
        told.append(record.type)
        assert policy.call(int) == 0

    with fake.on_event(calls):
        assert policy.call(failing(1)) == "done"
    assert told == ONE_RETRY
    assert fake.snapshot()["policies"][policy.name]["ends"]["ok"] == 7


def test_a_hook_may_go_while_it_is_told(fake: tidegate.Engine) -> None:
    told: list[str] = []

    def once(record: Record) -> None:
        told.append(record.type)
        hook.close()

    hook = fake.on_event(once, types=["call_done"])
    quick(fake).call(int)
    quick(fake).call(int)
    assert told == ["call_done"]


def test_threads_tell_their_own_records_and_none_is_lost(engine: tidegate.Engine) -> None:
    told: list[tuple[int, Record]] = []
    policy = tidegate.Policy(
        retry={"max_attempts": 2, "backoff": {"base": 0, "max": 0}, "budget": None},
        bulkhead={"max_concurrency": 2, "max_queue": 50, "acquire_timeout": 30},
        engine=engine,
    )
    owners: dict[str, int] = {}

    def work(name: str) -> None:
        owners[name] = threading.get_ident()
        for _ in range(25):
            policy.at(route="r").call(failing(1))

    with engine.on_event(lambda record: told.append((threading.get_ident(), record))):
        threads = [threading.Thread(target=work, args=(str(n),)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = sorted(record.seq for _, record in told)
    assert records == list(range(1, len(records) + 1)), "each was told once"
    done = [record for _, record in told if record.type == "call_done"]
    assert len(done) == 150
    assert sum(record.type == "attempt_done" for _, record in told) == 300


class _Held:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.log.append("enter")

    def __exit__(self, *error: object) -> None:
        self.log.append("exit")


@pytest.mark.parametrize("cancelled", [False, True])
def test_what_a_hook_answers_to_a_retry_is_held_until_the_attempt(cancelled: bool) -> None:
    log: list[str] = []
    clock = FakeClock()
    engine = tidegate.Engine(seed=1, clock=clock)
    policy = tidegate.Policy(retry={"max_attempts": 2, "backoff": {"base": 5, "max": 5}}, engine=engine)
    fetch = failing(1)

    def hook(record: Record) -> _Held | None:
        log.append(record.type)
        return _Held(log) if record.type == "retry_scheduled" else None

    async def attempt() -> str:
        return str(fetch())

    async def main() -> None:
        task = asyncio.ensure_future(_awaited(policy, attempt))
        await asyncio.sleep(0.01)
        assert log[-1] == "enter"
        if cancelled:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await clock.advance(5)
            assert await task == "done"

    with engine.on_event(hook, types=["retry_scheduled", "attempt_started", "call_done"]):
        asyncio.run(main())
    held = ["attempt_started", "retry_scheduled", "enter", "exit"]
    assert log == [*held, *(["call_done"] if cancelled else ["attempt_started", "call_done"])]


def test_a_hook_that_goes_ends_what_it_held(fake: tidegate.Engine) -> None:
    """Otherwise a span would stay open for ever: of the next attempt it hears nothing."""
    log, inside = list[str](), list[str]()
    policy = quick(fake, retry={"max_attempts": 2, "backoff": {"base": 5, "max": 5}})
    kept = fake.on_event(lambda record: _Held(inside) if record.type == "retry_scheduled" else None)

    def leaves(record: Record) -> _Held | None:
        if record.type == "retry_scheduled":
            leaver.close()
            return _Held(log)
        return None

    def closes(record: Record) -> None:
        gone.close()
        log.append("closed")

    gone = fake.on_event(lambda record: _Held(log) if record.type == "retry_scheduled" else None)
    leaver = fake.on_event(leaves)
    with fake.on_event(closes, types=["retry_scheduled"]):
        assert policy.call(failing(1)) == "done"
    assert log == ["enter", "exit", "closed"]
    assert inside == ["enter", "exit"]
    assert fake.hooks._held == {}
    kept.close()


def test_status_and_type_of_the_failure_are_told(fake: tidegate.Engine) -> None:
    class Answer:
        status_code = 503

    told: list[Record] = []
    policy = quick(fake, classify=lambda answer: "transient" if isinstance(answer, Answer) else None)
    with fake.on_event(told.append, types=["attempt_done"]):
        policy.call(Answer)
    assert [(record.status, record.error, record.kind) for record in told] == [(503, None, "transient")] * 3


def test_the_types_are_those_of_the_engine_and_each_says_what_it_is() -> None:
    assert list(TYPES)[:3] == ["call_done", "attempt_started", "attempt_done"]
    assert all(text.endswith(".") for text in TYPES.values())
    assert Record._fields[:6] == ("type", "seq", "at", "policy", "route", "call")


def test_retries_and_refusals_are_logged_without_being_asked(
    fake: tidegate.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    policy = quick(fake, name="pay", rate_limit={"permits": 2, "per": 60})
    policy.call(failing(1))
    policy.call(int)
    for _ in range(5):
        with pytest.raises(tidegate.RateLimited):
            policy.call(int)
    first, second = caplog.records
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    line = first.getMessage()
    assert line.startswith("retry 1 of ")
    assert "test_events.failing.<locals>.fetch (policy pay, route default) in 0.00" in line
    assert line.endswith(" s after transient: ConnectionError")
    assert "refused (policy pay, route default): rate_limited" in second.getMessage()
    assert getattr(first, "tidegate")["attempt"] == 2  # noqa: B009 - what `extra` has put there
    silent = tidegate.Engine(seed=1, clock=FakeClock(), logs=False)
    caplog.clear()
    quick(silent).call(failing(1))
    assert not caplog.records


def test_a_record_that_nobody_would_see_is_not_made(
    fake: tidegate.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """The level is asked for with each retry, so that a change of it counts at once."""
    made: list[Record] = []
    make = Record._make
    fake.hooks._make = lambda fields: made.append(make(fields)) or made[-1]
    policy = quick(fake, name="pay")
    for level, lines in ((logging.WARNING, 0), (logging.INFO, 1), (logging.ERROR, 1), (logging.DEBUG, 2)):
        caplog.set_level(level, "tidegate")
        assert policy.call(failing(1)) == "done"
        assert (types_of(made), len(caplog.records)) == (["retry_scheduled"] * lines, lines)
    caplog.set_level(logging.WARNING, "tidegate")
    told: list[Record] = []
    with fake.on_event(told.append, types=["retry_scheduled"]):  # who asks is told, whatever the log does
        assert policy.call(failing(1)) == "done"
    assert policy.call(failing(1)) == "done"
    assert types_of(told) == ["retry_scheduled"]
    assert (len(made), len(caplog.records)) == (3, 2)


def test_a_logger_that_fails_breaks_no_call(
    fake: tidegate.Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(level: int) -> bool:
        if level == logging.INFO:
            raise RuntimeError("no such level here")
        return True

    monkeypatch.setattr(logging.getLogger("tidegate"), "isEnabledFor", broken)
    assert quick(fake, name="pay").call(failing(1)) == "done"
    assert [line.levelname for line in caplog.records] == ["ERROR"]  # the hook has failed, and is told of


def test_lines_go_to_structlog_where_it_is_configured(
    fake: tidegate.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    import structlog

    caplog.set_level(logging.INFO, "tidegate")
    quick(fake).call(failing(1))
    assert len(caplog.records) == 1, "imported is not configured"
    written = structlog.testing.LogCapture()
    structlog.configure(processors=[written])
    try:
        quick(fake, name="pay").call(failing(1))
    finally:
        structlog.reset_defaults()
    (line,) = written.entries
    assert (line["event"], line["log_level"]) == ("tidegate.retry_scheduled", "info")
    assert (line["policy"], line["attempt"], line["error"]) == ("pay", 2, "ConnectionError")
    assert len(caplog.records) == 1
