"""`policy.attempts()`: a call as a loop over its attempts, in both colours."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tidegate
from conftest import quick
from tidegate.testing import FakeClock

pytestmark = pytest.mark.usefixtures("both_paths")

NOW = {"base": 0, "max": 0}


def counted(engine: tidegate.Engine, policy: tidegate.Policy) -> tuple[int, int, dict[str, int]]:
    """Attempts, retries and ends of a policy."""
    counts = engine.snapshot()["policies"][policy.name]
    return counts["attempts"], counts["retries"], counts["ends"]


def gated(engine: tidegate.Engine, **rest: Any) -> tidegate.Policy:
    """One permit, three attempts at once."""
    return tidegate.Policy(
        engine=engine, retry={"max_attempts": 3, "backoff": NOW}, bulkhead={"max_concurrency": 1}, **rest
    )


def free(policy: tidegate.Policy) -> bool:
    """Is the one permit to be had?"""
    return policy.at(pass_timeout="timeout").call(lambda timeout: True)


def looped(policy: tidegate.Caller, body: Callable[[Any], Any], colour: str) -> None:
    """The loop, in the colour asked for."""
    if colour == "sync":
        for attempt in policy.attempts():
            with attempt:
                body(attempt)
        return

    async def main() -> None:
        async for attempt in policy.attempts():
            with attempt:
                await asyncio.sleep(0)
                body(attempt)

    asyncio.run(main())


COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])


@COLOURS
def test_a_failed_attempt_is_swallowed_and_the_next_one_made(engine: tidegate.Engine, colour: str) -> None:
    policy, seen = quick(engine), []

    def body(attempt: Any) -> None:
        seen.append(attempt.num)
        if attempt.num < 3:
            raise ConnectionError

    looped(policy, body, colour)
    assert seen == [1, 2, 3]
    assert counted(engine, policy) == (3, 2, {"ok": 1})


@COLOURS
def test_the_last_exception_is_the_same_object_with_a_note_and_a_clean_traceback(
    engine: tidegate.Engine, colour: str
) -> None:
    policy, raised = quick(engine), []

    def body(attempt: Any) -> None:
        raised.append(ConnectionError(attempt.num))
        raise raised[-1]

    with pytest.raises(ConnectionError) as caught:
        looped(policy, body, colour)
    assert caught.value is raised[-1] and len(raised) == 3
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]  # type: ignore[attr-defined]
    names = [entry.name for entry in caught.traceback]
    assert not {"conclude", "__exit__", "settle"} & set(names)


@COLOURS
def test_what_is_permanent_is_raised_at_once(engine: tidegate.Engine, colour: str) -> None:
    policy, seen = quick(engine), []

    def body(attempt: Any) -> None:
        seen.append(attempt.num)
        raise LookupError

    with pytest.raises(LookupError):
        looped(policy, body, colour)
    assert seen == [1]


@COLOURS
def test_classify_judges_results_and_exceptions(engine: tidegate.Engine, colour: str) -> None:
    def judged(subject: Any) -> str | None:
        return "transient" if isinstance(subject, LookupError) or subject == "bad" else None

    policy, seen = quick(engine, classify=judged), []

    def body(attempt: Any) -> None:
        seen.append(attempt.num)
        if attempt.num == 1:
            raise LookupError
        attempt.result("bad" if attempt.num == 2 else "good")

    looped(policy, body, colour)
    assert seen == [1, 2, 3]
    # The last answer is the caller's, also a bad one: the loop just ends.
    policy = quick(engine, classify=judged)
    looped(policy, lambda attempt: attempt.result("bad"), colour)
    assert counted(engine, policy) == (3, 2, {"attempts": 1})


@COLOURS
def test_without_a_result_classify_is_not_asked_about_it(engine: tidegate.Engine, colour: str) -> None:
    policy = quick(engine, classify=lambda subject: subject.nothing_has_this)  # would warn: an error here
    looped(policy, lambda attempt: None, colour)
    assert counted(engine, policy) == (1, 0, {"ok": 1})


@COLOURS
def test_every_loop_is_a_call_of_its_own_and_at_has_them_too(engine: tidegate.Engine, colour: str) -> None:
    policy = quick(engine)
    attempts = policy.at(route="eu", idempotent=False).attempts()

    class Same:
        def attempts(self) -> Any:
            return attempts

    for _ in range(2):
        looped(Same(), lambda attempt: None, colour)  # type: ignore[arg-type]
    assert counted(engine, policy) == (2, 0, {"ok": 2})
    assert "eu" in [route["key"] for route in engine.snapshot()["routes"]]


@COLOURS
def test_refusals_raise_as_call_does(engine: tidegate.Engine, colour: str) -> None:
    policy = gated(engine)
    with policy_held(policy), pytest.raises(tidegate.BulkheadFull):
        looped(policy, lambda attempt: pytest.fail("no attempt"), colour)
    with tidegate.deadline(0), pytest.raises(tidegate.DeadlineExceeded):
        looped(policy, lambda attempt: pytest.fail("no attempt"), colour)


@COLOURS
def test_hooks_learn_of_a_loop_that_succeeds_at_once(engine: tidegate.Engine, colour: str) -> None:
    policy, seen = quick(engine), []
    with engine.on_event(lambda record: seen.append(record.type), types=["attempt_started", "call_done"]):
        looped(policy, lambda attempt: None, colour)
    assert seen == ["attempt_started", "call_done"]
    assert counted(engine, policy) == (1, 0, {"ok": 1})


@COLOURS
def test_a_loop_that_succeeds_wakes_the_call_that_waits_for_its_permit(
    engine: tidegate.Engine, colour: str
) -> None:
    queue = {"max_concurrency": 1, "max_queue": 1, "acquire_timeout": 10}
    policy = tidegate.Policy(engine=engine, bulkhead=queue)
    waiting = threading.Thread(target=policy.call, args=(lambda: None,))

    def body(attempt: Any) -> None:
        waiting.start()
        while engine.snapshot()["waiting"] == 0 and waiting.is_alive():
            pass

    looped(policy, body, colour)
    waiting.join(5)
    assert not waiting.is_alive()
    assert counted(engine, policy) == (2, 0, {"ok": 2})


class policy_held:  # noqa: N801 - it reads as a statement
    """Holds the one permit from a thread of its own, so that nothing nests."""

    def __init__(self, policy: tidegate.Policy) -> None:
        self.policy, self.inside, self.leave = policy, threading.Event(), threading.Event()

    def __enter__(self) -> None:
        self.thread = threading.Thread(
            target=self.policy.call, args=(lambda: self.inside.set() or self.leave.wait(10),)
        )
        self.thread.start()
        self.inside.wait(10)

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self.thread.join()


@COLOURS
def test_break_and_return_inside_with_end_the_call_well(engine: tidegate.Engine, colour: str) -> None:
    policy = gated(engine)

    def plain() -> str:
        for attempt in policy.attempts():
            with attempt:
                return "answer"
        return "none"

    async def awaited() -> str:
        async for attempt in policy.attempts():
            with attempt:
                await asyncio.sleep(0)
                break
        return "answer"

    assert (plain() if colour == "sync" else asyncio.run(awaited())) == "answer"
    assert counted(engine, policy) == (1, 0, {"ok": 1})


@pytest.mark.parametrize("how", ["break", "raise", "before the with", "close"])
@COLOURS
def test_leaving_the_loop_early_cancels_the_call_at_once(
    engine: tidegate.Engine, colour: str, how: str
) -> None:
    if sys.version_info >= (3, 14) and (colour, how) == ("sync", "close"):
        pytest.skip(
            "a generator closed outside `with` lives as long as the last error's traceback from 3.14 on"
        )
    policy = gated(engine)
    kept: list[Any] = []  # a loop variable that lives on does not keep the call

    def leave(attempt: Any) -> bool:
        kept.append(attempt)
        if how == "raise":
            raise KeyError(how)
        return how != "close"

    def body() -> Any:
        for attempt in policy.attempts():
            if how == "before the with" and leave(attempt):
                break
            with attempt:
                raise ConnectionError
            if leave(attempt):
                break
            yield attempt

    async def abody() -> Any:
        async for attempt in policy.attempts():
            if how == "before the with" and leave(attempt):
                break
            with attempt:
                raise ConnectionError
            if leave(attempt):
                break
            yield attempt

    def run() -> None:
        generator = body()
        for _ in generator:
            generator.close()
        assert free(policy)

    async def arun() -> None:
        generator = abody()
        async for _ in generator:
            await generator.aclose()
        assert free(policy)

    gc.disable()  # nothing here waits for a collection
    try:
        if how == "raise":
            with pytest.raises(KeyError):
                run() if colour == "sync" else asyncio.run(arun())
            assert free(policy)
        else:
            run() if colour == "sync" else asyncio.run(arun())
    finally:
        gc.enable()
    assert kept[0].num == 1
    assert counted(engine, policy)[2] == {"cancelled": 1, "ok": 1}


@COLOURS
def test_a_base_exception_in_the_body_goes_on_untouched(engine: tidegate.Engine, colour: str) -> None:
    policy, stop = gated(engine), SystemExit(3)

    def body(attempt: Any) -> None:
        raise stop

    with pytest.raises(SystemExit) as caught:
        looped(policy, body, colour)
    assert caught.value is stop and not hasattr(stop, "__notes__")
    assert free(policy)


@COLOURS
def test_misuse_is_told_and_leaves_nothing(engine: tidegate.Engine, colour: str) -> None:
    policy = gated(engine)

    async def never_enters() -> None:
        async for _ in policy.attempts():
            pass

    with pytest.raises(RuntimeError, match="`with attempt:` block"):
        list(policy.attempts()) if colour == "sync" else asyncio.run(never_enters())
    assert free(policy)

    def twice(attempt: Any) -> None:
        with attempt:
            pytest.fail("entered twice")

    with pytest.raises(RuntimeError, match="entered once"):
        looped(policy, twice, colour)
    assert free(policy)
    alone = next(iter(policy.attempts()))
    with pytest.raises(RuntimeError, match="in the loop that made it"), alone:
        pytest.fail("its loop is gone")
    assert free(policy)
    loop = iter(policy.attempts())
    with next(loop):
        with pytest.raises(RuntimeError, match="has to be made"):
            next(loop)
        del loop  # a body that runs keeps its call
    assert free(policy)
    loop = iter(policy.attempts())
    with next(loop):
        pass
    assert list(loop) == list(loop) == []


def test_a_thread_takes_its_time_from_remaining(clock: FakeClock, fake: tidegate.Engine) -> None:
    retry = {"max_attempts": 2, "backoff": NOW}
    policy = tidegate.Policy(engine=fake, attempt_timeout=5, deadline=8, retry=retry)
    with pytest.raises(TypeError, match=r'pass_timeout="remaining"'):
        next(iter(policy.attempts()))
    seen = []
    for attempt in policy.at(pass_timeout="remaining").attempts():
        with attempt:
            seen.append(attempt.remaining)
            clock.tick(4)
            seen.append(attempt.remaining)
            if attempt.num == 1:
                raise TimeoutError
            clock.tick(4)
            seen.append(attempt.remaining)
            assert "remaining 0.0" in repr(attempt)
    assert seen == [5, 1, 4, 0, 0]
    for attempt in tidegate.Policy(engine=fake, retry={}).attempts():
        with attempt:
            assert attempt.remaining is None


def test_a_deadline_in_the_backoff_raises_the_bodys_own_error(fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, deadline=1, retry={"backoff": {"base": 2, "max": 2}})
    with pytest.raises(ConnectionError) as caught:
        looped(policy, failing, "sync")
    assert "would outlive the deadline" in caught.value.__notes__[0]  # type: ignore[attr-defined]


def failing(attempt: Any) -> None:
    raise ConnectionError


def test_nested_calls_inside_an_attempt_do_not_multiply(engine: tidegate.Engine) -> None:
    outer, inner, made = quick(engine), quick(engine), []

    def once() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        looped(outer, lambda attempt: inner.call(once), "sync")
    assert len(made) == 3
    assert tidegate._call.deadline.current() is None  # type: ignore[attr-defined]


# Our own stop and the caller's cancellation.


@pytest.mark.parametrize("verdict", ["attempt_timeout", "deadline"])
@pytest.mark.parametrize("cancel", ["no", "before", "same tick", "same tick, first"])
def test_our_stop_is_told_from_the_callers_cancellation(
    clock: FakeClock, fake: tidegate.Engine, verdict: str, cancel: str
) -> None:
    policy = tidegate.Policy(engine=fake, bulkhead={"max_concurrency": 1}, **{verdict: 5})

    async def body() -> None:
        async for attempt in policy.attempts():
            with attempt:
                await asyncio.get_running_loop().create_future()

    async def main() -> None:
        task = asyncio.ensure_future(body())
        await clock.advance(4)
        if cancel in ("before", "same tick, first"):
            task.cancel()
        if cancel.startswith("same tick"):
            clock.move(5_000_000)
            clock._fire()
        if cancel == "same tick":
            task.cancel()
        await clock.advance(20)
        await asyncio.wait({task})
        if cancel == "no":
            kind = tidegate.AttemptTimeout if verdict == "attempt_timeout" else tidegate.DeadlineExceeded
            assert isinstance(task.exception(), kind)
        else:
            assert task.cancelled()
        if sys.version_info >= (3, 11):
            assert task.cancelling() == (0 if cancel == "no" else 1)
        assert free(policy)

    asyncio.run(main())


def test_a_stopped_attempt_is_followed_by_a_retry(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=5, retry={"max_attempts": 3, "backoff": NOW})
    seen = []

    async def body() -> str:
        async for attempt in policy.attempts():
            with attempt:
                seen.append((attempt.num, attempt.remaining, clock.now()))
                await clock.sleep(100 if attempt.num < 3 else 1)
        return "answer"

    async def main() -> None:
        task = asyncio.ensure_future(body())
        await clock.advance(30)
        assert await task == "answer"
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 0

    asyncio.run(main())
    assert seen == [(1, 5, 0), (2, 5, 5), (3, 5, 10)]


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_body_may_swallow_the_stop(clock: FakeClock, fake: tidegate.Engine, how: str) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=5, retry={"max_attempts": 2, "backoff": NOW})
    made = []

    async def body() -> None:
        async for attempt in policy.attempts():
            with attempt:
                made.append(attempt.num)
                try:
                    await clock.sleep(100)
                except asyncio.CancelledError:
                    if how == "raises":
                        raise OSError("unwinding") from None

    async def main() -> None:
        task = asyncio.ensure_future(body())
        await clock.advance(30)
        assert task.done()
        if how == "raises":
            assert isinstance(task.exception(), tidegate.AttemptTimeout) and made == [1, 2]
        else:
            assert task.exception() is None and made == [1]  # a good answer is not asked for twice

    asyncio.run(main())


def test_a_body_entered_late_has_what_is_left(clock: FakeClock, fake: tidegate.Engine) -> None:
    policy = tidegate.Policy(engine=fake, attempt_timeout=5)

    async def body() -> None:
        async for attempt in policy.attempts():
            await clock.sleep(3)
            with attempt:
                assert attempt.remaining == 2
                await clock.sleep(100)

    async def main() -> None:
        task = asyncio.ensure_future(body())
        await clock.advance(4.5)
        assert not task.done()
        await clock.advance(1)
        assert isinstance(task.exception(), tidegate.AttemptTimeout)

    asyncio.run(main())


@pytest.mark.parametrize("held", [False, True], ids=["free", "queued"])
def test_cancellation_at_every_point(held: bool) -> None:
    """After any number of turns of the loop: in the queue, in the body, between attempts, at the end."""
    reached = set()
    for turns in range(60):
        clock = FakeClock(autojump=True)
        engine = tidegate.Engine(seed=1, clock=clock)
        bulkhead = {"max_concurrency": 1, "max_queue": None, "acquire_timeout": None}
        retry = {"max_attempts": 3, "backoff": {"base": 1, "max": 1}}
        policy = tidegate.Policy(engine=engine, attempt_timeout=60, retry=retry, bulkhead=bulkhead)

        async def first(policy: tidegate.Policy = policy) -> None:
            async def some() -> None:
                for _ in range(5):
                    await asyncio.sleep(0)

            await policy.acall(some)

        async def body(policy: tidegate.Policy = policy) -> str:
            async for attempt in policy.attempts():
                with attempt:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                    if attempt.num < 3:
                        raise ConnectionError
                await asyncio.sleep(0)
            return "answer"

        async def main(turns: int, body: Callable[[], Awaitable[str]], policy: tidegate.Policy) -> str:
            others = [asyncio.ensure_future(first())] if held else []
            await asyncio.sleep(0)
            task = asyncio.ensure_future(body())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                end = await task
            except asyncio.CancelledError:
                end = "cancelled"
            await asyncio.gather(*others)
            # The permit has gone on: a newcomer gets it without a wait.
            assert await asyncio.wait_for(policy.acall(asyncio.sleep, 0, 1), 5) == 1
            return end

        end = asyncio.run(main(turns, body, policy))
        view = engine.snapshot()
        assert (view["live"], view["lingering"], view["lost"], view["waiting"]) == (0, 0, 0, 0)
        ends = view["policies"][policy.name]["ends"]
        ok = 1 + held + (end == "answer")
        assert ends.get("ok") in (ok, ok + (end == "cancelled")), (turns, ends)  # cancelled after its end
        assert set(ends) <= {"ok", "cancelled"}
        reached.add((end, view["policies"][policy.name]["attempts"] - 1 - held))
    assert {("cancelled", 0), ("cancelled", 1), ("cancelled", 2), ("cancelled", 3)} <= reached | {
        ("cancelled", 0)
    }
    assert ("answer", 3) in reached


def test_a_loop_thrown_away_with_its_event_loop_gives_its_slot_back(engine: tidegate.Engine) -> None:
    policy = gated(engine)

    async def body() -> None:
        async for attempt in policy.attempts():
            with attempt:
                await asyncio.get_running_loop().create_future()

    coroutine = body()
    loop = asyncio.new_event_loop()
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.wait({task}))
    loop.close()
    assert free(policy)


def test_calls_of_a_loop_that_was_closed_before_their_end_are_dropped(engine: tidegate.Engine) -> None:
    """The next loop that sets a timer notices: its engine kept their tasks for the timers."""
    slow = {"max_attempts": 2, "backoff": {"base": 50, "max": 50}}
    two = {"max_concurrency": 2, "max_queue": 2}
    policy = tidegate.Policy(engine=engine, bulkhead=two, retry=slow, deadline=60)

    async def hangs() -> None:
        await asyncio.get_running_loop().create_future()

    async def fails() -> None:
        raise ConnectionError

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it says that the tasks were destroyed
    tasks = [loop.create_task(policy.acall(work)) for work in (hangs, fails, hangs)]
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    assert engine.snapshot()["live"] == 3
    loop.close()
    del tasks, loop
    asyncio.run(tidegate.Policy(engine=engine, deadline=1).acall(asyncio.sleep, 0))
    gc.collect()
    assert engine.snapshot()["live"] == 0
    assert engine.waiters == {}


def test_what_failed_is_not_kept_alive_by_cycles(engine: tidegate.Engine) -> None:
    import weakref

    class Failure(ConnectionError):
        pass

    policy, seen = quick(engine), []

    def body(attempt: Any) -> None:
        error = Failure()
        seen.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(Failure):
            looped(policy, body, "sync")
        for attempt in policy.attempts():
            with attempt:
                body(attempt)
            break
        del attempt
        assert [ref() for ref in seen] == [None] * len(seen)
    finally:
        gc.enable()
