"""Hedges: a further attempt beside one that is slow, in threads and in event loops (semantics 8)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

import tidegate
from conftest import Client, Origin, quick
from tidegate.testing import FakeClock

BACKENDS = ["asyncio", "trio"]


def hedging(engine: tidegate.Engine, delay: float = 1.0, **rest: Any) -> tidegate.Policy:
    """A hedge after `delay`, as many as there are calls."""
    return tidegate.Policy(engine=engine, **{"hedge": {"delay": delay, "budget": {"kind": "none"}}, **rest})


@pytest.fixture
def jumping() -> FakeClock:
    return FakeClock(autojump=True)


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return lambda main, *args: anyio.run(main, *args, backend=request.param)


class Answers:
    """The n-th attempt takes so long on the clock, and brings that. It knows who was cancelled."""

    def __init__(self, clock: FakeClock, *plan: tuple[float, Any]) -> None:
        self.clock = clock
        self.plan = plan
        self.started: list[float] = []
        self.cancelled: list[int] = []
        self.ended: list[int] = []

    async def __call__(self) -> Any:
        self.started.append(self.clock.now())
        number = len(self.started)
        delay, answer = self.plan[number - 1]
        try:
            await self.clock.sleep(delay)
        except BaseException:
            await anyio.lowlevel.cancel_shielded_checkpoint()  # it takes its time
            self.cancelled.append(number)
            raise
        self.ended.append(number)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def on(clock: FakeClock, **rest: Any) -> tidegate.Policy:
    return hedging(tidegate.Engine(seed=1, clock=clock), **rest)


# In event loops.


def test_a_hedge_wins_and_the_slow_one_is_cancelled_and_awaited(jumping: FakeClock, run: Any) -> None:
    answers, policy = Answers(jumping, (10, "slow"), (1, "quick")), on(jumping)
    assert run(policy.acall, answers) == "quick"
    assert (answers.started, answers.cancelled, answers.ended) == ([0, 1], [1], [2])
    assert jumping.now() == 2
    assert policy.snapshot()["ends"] == {"ok": 1}


def test_the_first_one_wins_all_the_same(jumping: FakeClock, run: Any) -> None:
    answers, policy = Answers(jumping, (1.5, "first"), (9, "hedge")), on(jumping)
    assert run(policy.acall, answers) == "first"
    assert (answers.cancelled, jumping.now()) == ([2], 1.5)


def test_a_quick_answer_has_no_hedge(jumping: FakeClock, run: Any) -> None:
    answers, policy = Answers(jumping, (0.5, "first")), on(jumping)
    assert run(policy.acall, answers) == "first"
    assert policy.snapshot()["attempts"] == 1


@pytest.mark.parametrize("flags", [{"idempotent": False}, {"replayable": False}])
def test_what_cannot_be_repeated_has_no_hedge(jumping: FakeClock, run: Any, flags: Any) -> None:
    answers, policy = Answers(jumping, (10, "only")), on(jumping)
    assert run(policy.at(**flags).acall, answers) == "only"
    assert (policy.snapshot()["attempts"], jumping.now()) == (1, 10)


def test_loops_and_generators_have_no_hedge(jumping: FakeClock, run: Any) -> None:
    policy, seen = on(jumping), []

    @policy
    async def items() -> Any:
        seen.append("generator")
        await jumping.sleep(10)
        yield 1

    async def main() -> None:
        async for attempt in policy.attempts():
            with attempt:
                seen.append("loop")
                await jumping.sleep(10)
        assert [item async for item in items()] == [1]

    run(main)
    assert seen == ["loop", "generator"]


def test_a_failure_waits_for_the_other(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (3, "first"), (1, ConnectionError("hedge")))
    assert run(on(jumping, retry={"max_attempts": 2}).acall, answers) == "first"
    assert answers.ended == [2, 1]


def test_without_retries_a_failure_starts_the_next_one_at_once(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (0.5, ConnectionError("first")), (1, "second"))
    assert run(on(jumping).acall, answers) == "second"
    assert answers.started == [0, 0.5]


def test_a_failure_that_is_not_retried_ends_both(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (10, "slow"), (1, ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        run(on(jumping).acall, answers)
    assert (answers.cancelled, jumping.now()) == ([1], 2)


def test_when_all_fail_the_last_failure_is_the_callers(jumping: FakeClock, run: Any) -> None:
    last = ConnectionError("two")
    answers = Answers(jumping, (2, ConnectionError("one")), (4, last))
    with pytest.raises(ConnectionError) as caught:
        run(on(jumping).acall, answers)
    assert caught.value is last
    assert caught.value.__notes__ == ["tidegate: gave up after 2 attempts"]


def test_each_attempt_has_its_own_attempt_timeout(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (10, "a"), (10, "b"))
    with pytest.raises(tidegate.AttemptTimeout):
        run(on(jumping, attempt_timeout=3).acall, answers)
    assert (answers.started, answers.cancelled, jumping.now()) == ([0, 1], [1, 2], 4)


def test_after_a_race_that_all_lost_a_retry(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (1.5, ConnectionError("a")), (0.75, ConnectionError("b")), (0.5, "third"))
    retry = {"max_attempts": 3, "backoff": {"base": 5, "max": 5, "jitter": "none"}}
    assert run(on(jumping, retry=retry).acall, answers) == "third"
    assert answers.started == [0, 1, 6.75]


def test_the_deadline_ends_all(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (10, "a"), (10, "b"))
    with pytest.raises(tidegate.DeadlineExceeded):
        run(on(jumping, deadline=4).acall, answers)
    assert (sorted(answers.cancelled), jumping.now()) == ([1, 2], 4)


def test_pass_timeout_tells_the_attempts_time_and_not_the_next_hedges(jumping: FakeClock, run: Any) -> None:
    told: list[float] = []

    async def fetch(timeout: float) -> int:
        told.append(timeout)
        number = len(told)
        await jumping.sleep(3)
        return number

    policy = on(jumping, attempt_timeout=20, deadline=10)
    assert run(policy.at(pass_timeout="timeout").acall, fetch) == 1
    assert told == [10, 9]


def test_a_race_takes_a_slot_for_each_and_gives_all_back(jumping: FakeClock, run: Any) -> None:
    policy = on(jumping, bulkhead={"max_concurrency": 2, "max_queue": None, "acquire_timeout": None})
    answers = [Answers(jumping, (4, n), (4, n)) for n in range(3)]
    ends: list[int] = []

    async def call(one: Answers) -> None:
        ends.append(await policy.acall(one))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for one in answers:
                group.start_soon(call, one)

    run(main)
    assert sorted(ends) == [0, 1, 2]
    assert sorted(len(one.started) for one in answers) == [1, 1, 2]  # for the first two no slot was left


def test_a_loser_that_does_not_stop_is_waited_for(jumping: FakeClock, run: Any) -> None:
    log: list[str] = []

    async def stubborn() -> str:
        log.append("start")
        if len([entry for entry in log if entry == "start"]) == 2:
            return "hedge"
        try:
            await jumping.sleep(50)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await jumping.sleep(5)
            log.append("cleaned up")
            raise
        return "never"

    assert run(on(jumping).acall, stubborn) == "hedge"
    assert (log[-1], jumping.now()) == ("cleaned up", 6)


def test_cancelled_its_slots_are_free_once_its_attempts_have_unwound(jumping: FakeClock, run: Any) -> None:
    policy = on(jumping, bulkhead={"max_concurrency": 2, "max_queue": None, "acquire_timeout": None})
    admitted: list[float] = []

    async def stubborn() -> None:
        try:
            await jumping.sleep(50)
        finally:
            with anyio.CancelScope(shield=True):
                await jumping.sleep(5)

    async def other() -> None:
        admitted.append(jumping.now())

    async def main() -> None:
        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()

            async def cancelled() -> None:
                with scope:
                    await policy.acall(stubborn)

            group.start_soon(cancelled)
            await jumping.sleep(2)  # both of its attempts are out
            group.start_soon(policy.acall, other)
            await jumping.sleep(1)
            assert admitted == []
            scope.cancel()

    run(main)
    assert (admitted, jumping.now()) == ([8], 8)


def test_classify_and_results(jumping: FakeClock, run: Any) -> None:
    answers = Answers(jumping, (3, "good"), (1, "bad"))
    policy = on(jumping, classify=lambda it: "transient" if it == "bad" else None, retry={"max_attempts": 2})
    assert run(policy.acall, answers) == "good"


def test_an_end_of_the_program_is_no_failure(run: Any) -> None:
    policy, tries = hedging(tidegate.Engine(seed=1), delay=0.001), []

    class End(BaseException):
        pass

    async def ends() -> None:
        tries.append(1)
        if len(tries) == 2:
            raise End
        await anyio.sleep(30)

    with pytest.raises(End):
        run(policy.acall, ends)
    assert policy.snapshot()["ends"] == {"cancelled": 1}


def test_a_tasks_own_cancellation_inside_an_attempt_is_the_callers(run: Any) -> None:
    policy = hedging(tidegate.Engine(seed=1), delay=0.001)

    async def main() -> bool:
        with anyio.CancelScope() as scope:

            async def cancels() -> None:
                scope.cancel()
                await anyio.sleep(30)

            await policy.acall(cancels)
        return scope.cancelled_caught

    assert run(main)


def test_nested_calls_of_an_attempt_are_inside(jumping: FakeClock, run: Any) -> None:
    policy, tries = on(jumping, retry={"max_attempts": 3}), []

    async def fails() -> None:
        tries.append(1)
        raise ConnectionError

    async def outer() -> None:
        await policy.acall(fails)

    with pytest.raises(ConnectionError):
        run(policy.acall, outer)
    assert len(tries) == 3  # one for each attempt of the outer call


def test_many_races_at_once_leave_nothing(run: Any) -> None:
    slots = {"max_concurrency": 20, "max_queue": None, "acquire_timeout": None}
    policy = hedging(tidegate.Engine(seed=1), delay=0, bulkhead=slots)
    seen: list[int] = []

    async def work(number: int) -> None:
        await anyio.sleep(0.0005 * (number % 7))
        seen.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(policy.acall, work, number)

    run(main)
    assert set(seen) == set(range(200))
    assert policy.snapshot()["attempts"] > 200


# In threads.


class Gate:
    """Attempts of threads that end when they are told; the n-th brings the n-th answer."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.gates = [threading.Event() for _ in answers]
        self.started = [threading.Event() for _ in answers]
        self.ended = [threading.Event() for _ in answers]
        self.count = 0
        self.lock = threading.Lock()

    def __call__(self) -> Any:
        with self.lock:
            number = self.count
            self.count += 1
        self.started[number].set()
        self.gates[number].wait(20)
        self.ended[number].set()
        answer = self.answers[number]
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def gate() -> Iterator[Callable[..., Gate]]:
    made: list[Gate] = []

    def make(*answers: Any) -> Gate:
        made.append(Gate(*answers))
        return made[-1]

    yield make
    for one in made:
        for event in one.gates:
            event.set()
        until(
            lambda one=one: all(e.is_set() for e, s in zip(one.ended, one.started, strict=True) if s.is_set())
        )


def until(done: Callable[[], bool]) -> None:
    """Waits for another thread, which a test can do no otherwise."""
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end, "it did not happen in 20 s"
        time.sleep(0.001)


def test_sync_the_hedge_wins_and_the_loser_is_left_to_itself(engine: tidegate.Engine, gate: Any) -> None:
    policy, attempts = hedging(engine, delay=0.01, bulkhead={"max_concurrency": 2}), gate("slow", "quick")
    attempts.gates[1].set()
    assert policy.call(attempts) == "quick"
    assert not attempts.ended[0].is_set()
    assert policy.snapshot()["routes"]["default"]["pool"]["in_flight"] == 1  # the loser's
    attempts.gates[0].set()
    until(lambda: engine.snapshot()["lingering"] == 0)
    assert policy.snapshot()["ends"] == {"ok": 1}
    assert policy.snapshot()["routes"]["default"]["pool"]["in_flight"] == 0


def test_sync_a_quick_answer_has_no_hedge(engine: tidegate.Engine) -> None:
    policy = hedging(engine, delay=10)
    assert policy.call(lambda: "at once") == "at once"
    assert policy.snapshot()["attempts"] == 1


def test_sync_failures(engine: tidegate.Engine, gate: Any) -> None:
    policy, attempts = hedging(engine, delay=10), gate(ConnectionError("one"), "two")
    for event in attempts.gates:
        event.set()
    assert policy.call(attempts) == "two"
    with pytest.raises(ValueError, match="bug"):
        policy.call(lambda: exec("raise ValueError('bug')"))


def test_sync_the_deadline_does_not_wait_for_a_thread(engine: tidegate.Engine, gate: Any) -> None:
    policy, attempts = hedging(engine, delay=0.01, deadline=0.05), gate("a", "b")
    with pytest.raises(tidegate.DeadlineExceeded):
        policy.call(attempts)
    for event in attempts.gates:
        event.set()
    until(lambda: engine.snapshot()["lingering"] == 0)


def test_sync_an_attempt_timeout_that_its_function_takes(engine: tidegate.Engine, gate: Any) -> None:
    attempts, told = gate("a", "b"), []

    def fetch(timeout: float) -> Any:
        told.append(timeout)
        return attempts()

    policy = hedging(engine, delay=0.01, attempt_timeout=0.05)
    with pytest.raises(TypeError, match="cannot be interrupted"):
        policy.call(attempts)
    with pytest.raises(tidegate.AttemptTimeout):
        policy.at(pass_timeout="timeout").call(fetch)
    assert len(told) == 2
    assert all(0.04 < timeout <= 0.05 for timeout in told)
    for event in attempts.gates:
        event.set()
    until(lambda: engine.snapshot()["lingering"] == 0)


def test_sync_context_and_nesting_reach_the_threads(engine: tidegate.Engine) -> None:
    policy, tries = hedging(engine, delay=5, retry={"max_attempts": 3, "backoff": {"base": 0}}), []

    def fails() -> None:
        tries.append(1)
        raise ConnectionError

    with tidegate.deadline(5), pytest.raises(ConnectionError):
        policy.call(lambda: policy.call(fails))
    assert len(tries) == 3


def test_sync_an_async_function_is_a_type_error(engine: tidegate.Engine) -> None:
    async def work() -> None: ...

    with pytest.raises(TypeError, match=r"use policy\.acall"):
        hedging(engine).call(work)


def test_sync_an_interrupt_goes_on_and_leaves_nothing(
    engine: tidegate.Engine, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, attempts = hedging(engine, delay=0.01), gate("a", "b")
    park, parks = tidegate.Engine.park, []

    def interrupted(self: tidegate.Engine, lock: Any, us: int) -> None:
        parks.append(us)
        if us < 0:  # there is no further hedge to wait for
            attempts.started[1].wait(20)
            raise KeyboardInterrupt
        park(self, lock, us)

    monkeypatch.setattr(tidegate.Engine, "park", interrupted)
    with pytest.raises(KeyboardInterrupt):
        policy.call(attempts)
    monkeypatch.undo()
    for event in attempts.gates:
        event.set()
    until(lambda: engine.snapshot()["lingering"] == 0)
    assert policy.snapshot()["ends"] == {"cancelled": 1}


def test_sync_threads_are_used_again(engine: tidegate.Engine) -> None:
    policy, threads = hedging(engine, delay=10), set()
    for _ in range(50):
        policy.call(lambda: threads.add(threading.get_ident()))
    assert len(threads) < 10


# Through HTTP clients.


def slow_then_quick(origin: Origin) -> None:
    origin.sequence({"fault": "hang"}, 200)


def test_http_a_hedge_wins(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    slow_then_quick(origin)
    policy = hedging(engine, delay=0.05)
    client = http.open(policy, limits=http.module.Limits(max_connections=2))
    response = client.request("GET", origin.url + "/x")
    assert response.status_code == 200
    assert response.extensions["tidegate"]["attempts"] == 2
    assert (policy.snapshot()["attempts"], policy.snapshot()["retries"]) == (2, 0)
    if http.is_async:
        assert engine.snapshot()["lingering"] == 0
    origin.script()  # which lets the one that hangs go
    until(lambda: engine.snapshot()["lingering"] == 0)


def test_http_a_losing_answer_is_closed(http: Client, engine: tidegate.Engine) -> None:
    """Both answer at once: one is the caller's, the other is closed, and so are the connections of both."""
    module, closed, lock = http.module, [], threading.Lock()
    both = threading.Barrier(2, timeout=10)
    arrived: list[int] = []

    class Body(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc,name-defined]
        def __init__(self, number: int) -> None:
            self.number = number

        def __iter__(self) -> Iterator[bytes]:
            yield b"body"

        async def __aiter__(self) -> Any:
            yield b"body"

        def close(self) -> None:
            closed.append(self.number)

        async def aclose(self) -> None:
            closed.append(self.number)

    def answer(request: Any) -> Any:
        with lock:
            arrived.append(1)
            number = len(arrived)
        both.wait()
        return module.Response(200, stream=Body(number))

    async def aanswer(request: Any) -> Any:
        arrived.append(1)
        number = len(arrived)
        try:
            await anyio.sleep(30 if number == 1 else 0)
        except BaseException:  # it answers although it was stopped
            assert number == 1
        return module.Response(200, stream=Body(number))

    policy = hedging(engine, delay=0.01)
    client = http.open(policy, handler=aanswer if http.is_async else answer)
    response = client.request("GET", "http://origin.test/x")
    assert response.read() == b"body" if not http.is_async else response.content == b"body"
    until(lambda: sorted(closed) == [1, 2])
    until(lambda: engine.snapshot()["live"] + engine.snapshot()["lingering"] == 0)


def test_http_a_post_and_a_body_that_is_read_once_have_no_hedge(
    http: Client, origin: Origin, engine: tidegate.Engine
) -> None:
    policy = hedging(engine, delay=0.01)
    client = http.open(policy)
    origin.sequence({"delay": 50}, {"delay": 50})
    assert client.request("POST", origin.url + "/x", content=b"x").status_code == 200
    assert client.request("PUT", origin.url + "/x", content=http.body([b"x"])).status_code == 200
    assert policy.snapshot()["attempts"] == 2


def test_http_a_file_has_no_hedge_and_is_sent_again(
    origin: Origin, engine: tidegate.Engine, module: Any, tmp_path: Any
) -> None:
    """One file has one position. In an event loop it is read once, which is another reason."""
    origin.sequence({"delay": 50, "status": 503}, {"delay": 50})
    policy, path = quick(engine, hedge={"delay": 0.01}), tmp_path / "body"
    path.write_bytes(b"contents")
    transport = tidegate.httpx.Transport(module.HTTPTransport(), policy)
    with module.Client(transport=transport) as client, path.open("rb") as file:
        assert client.put(origin.url + "/x", content=file).status_code == 200
    assert [entry["body"] for entry in origin.log()] == ["contents", "contents"]
    assert (policy.snapshot()["attempts"], policy.snapshot()["retries"]) == (2, 1)


def test_http_a_streamed_winner_keeps_its_slot(http: Client, origin: Origin, engine: tidegate.Engine) -> None:
    slow_then_quick(origin)
    policy = hedging(engine, delay=0.05, bulkhead={"max_concurrency": 2})
    client = http.open(policy)
    response = client.open_stream("GET", origin.url + "/x")
    assert engine.snapshot()["live"] == 1
    client.read(response)
    origin.script()
    until(lambda: engine.snapshot()["live"] + engine.snapshot()["lingering"] == 0)
    assert policy.snapshot()["ends"] == {"ok": 1}
